"""`mlftool bench`: the figures are those of `run`, and each place is told before it is measured."""

from __future__ import annotations

import csv
import io
import json
import statistics
from pathlib import Path

import pytest
from looks import GESTURE, data_of, needs_board, refused, said

VECTORS = GESTURE.with_suffix(".npz")


def test_on_this_computer_runs_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("bench", GESTURE, "--on", "host", "--runs", 3, "--repetitions", 20)
    (one,) = data_of(capsys, *words)["benches"]
    assert (one["target"], one["repetitions"]) == ("host", 20)
    assert len(one["runs_microseconds"]) == 3
    assert one["microseconds"] == statistics.median(one["runs_microseconds"]) > 0
    assert one["instructions"] is one["cycles"] is one["flash_bytes"] is None
    assert "of 3 runs of 20 inferences" in said(capsys, *words)


@needs_board
def test_boards_say_what_run_says(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("bench", GESTURE, "--inputs", VECTORS, "--on", "cortex-m0", "--on", "mps2_an386")
    small, large = data_of(capsys, *words)["benches"]
    assert [small["target"], large["target"]] == ["cortex-m0", "cortex-m4"]
    assert small["cycles"] is None or small["cycles"] >= small["instructions"]
    assert 1 < large["cycles"] / large["instructions"] < 2
    out = said(capsys, "run", GESTURE, "--inputs", VECTORS, "--on", "cortex-m4", "--json")
    run = json.loads(out)
    assert [large["flash_bytes"], large["ram_bytes"]] == [run["flash_bytes"], run["ram_bytes"]]
    assert abs(large["instructions"] - run["instructions"]) <= 40  # its mean is over all samples
    table = said(capsys, *words, "--markdown").splitlines()
    assert {line.count("|") for line in table} == {11}
    rows = list(csv.DictReader(io.StringIO(said(capsys, *words, "--csv"))))
    assert [row["instructions"] for row in rows] == [
        str(one["instructions"]) for one in (small, large)
    ]


@needs_board
def test_an_archive_runs_where_it_was_compiled_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tmp_path / "g.tar")
    (one,) = data_of(capsys, "bench", tmp_path / "g.tar")["benches"]
    assert one["place"] == "Arm MPS2+ AN386, Cortex-M4F"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--on", "host", "--on", "cortex-m44"], "no simulated board for target 'cortex-m44'"),
        (["--on", "host", "--on", "powerpc"], "simulated boards without an operating system"),
        (["--on", "host", "--target", "cortex-m4"], "--target and --on"),
        (["--runs", "0"], "argument --runs"),
        (["--inputs", "nowhere.npz", "--on", "host"], "nowhere.npz"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert what in refused(capsys, "bench", GESTURE, *words)
