"""Figures that several commands show are the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from looks import GESTURE, needs_board

from mlftool.cli import main

EXECUTORS = {
    "aot": [],
    "packed": ["--interface-api", "packed"],
    "graph": ["--executor", "graph"],
    "vm": ["--executor", "vm"],
}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@needs_board
@pytest.mark.sampled(2)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_profile_report_and_bench_have_one_total(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the layers with what is between them are that total."""
    options = EXECUTORS[executor] if executor != "packed" else []
    model = [str(GESTURE), *options]
    if executor == "packed":
        archive = str(tmp_path / "p.tar")
        words = ["compile", *model, "-o", archive, "--target", "cortex-m4", "-q"]
        assert main([*words, *EXECUTORS["packed"]]) == 0
        model = [archive]
    (whole,) = printed(capsys, "profile", *model)["profiles"]
    (bench,) = printed(capsys, "bench", *model, "--on", "cortex-m4")["benches"]
    page = str(tmp_path / "r.html")
    report = printed(capsys, "report", *model, "-o", page, "--no-curve")["figures"]
    totals = whole["totals"]
    assert totals["instructions"] == bench["instructions"] == report["instructions"]
    assert bench["cycles"] == report["cycles"]
    if executor == "packed":  # of an archive only the sum is known
        return
    assert totals["cycles"] == bench["cycles"]
    for unit in ("instructions", "cycles"):
        layers = sum(layer[unit] for layer in whole["layers"])
        assert layers + totals[f"between_{unit}"] == totals[unit]
    # The layers are the same whatever calls them; a graph's executor takes more than the readings
    # of the counter, of which each may be off by a tick.
    assert (totals["between_instructions"] > 64 * len(whole["layers"])) == (executor == "graph")
    assert f"more instructions, of {totals['instructions']:,}<" in Path(page).read_text()
    assert ("between layers" in Path(page).read_text()) == (totals["between_instructions"] != 0)
    assert main(["profile", *model, "--csv"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    counted = sum(int(row.split(",")[3]) for row in rows)
    assert counted + totals["between_instructions"] == totals["instructions"]


@needs_board
def test_code_is_all_of_the_model_that_size_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the helpers of the headers, which are the inner loops of kernels."""
    model = str(GESTURE.with_name("gesture_float32.onnx"))
    assert main(["diff", model, "--save", str(tmp_path / "f.json")]) == 0
    (found,) = json.loads((tmp_path / "f.json").read_text())["facts"]
    (size,) = printed(capsys, "size", model)["sizes"]
    (own,) = (p for p in size["flash"]["parts"] if p["name"].startswith("model "))
    parts = {p["name"]: p["bytes"] for p in own["parts"]}
    assert parts["helpers of the headers"] > 0
    assert found["figures"]["code"] == own["bytes"] - parts["weights"]
