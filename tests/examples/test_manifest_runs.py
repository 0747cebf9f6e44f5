"""Every model of examples/models.yaml and every target through the command line; Bazel runs each
model on all targets that it names."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mlftool import manifest
from mlftool.cli import main
from mlftool.manifest.bazel import packages

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFEST = manifest.load(EXAMPLES / "models.yaml")
ALL = [(model.name, target) for model in MANIFEST.models.values() for target in model.targets]


def each_model_and_each_target() -> list[tuple[str, str]]:
    """Every model here and on one of its boards, that of which fewest others took."""
    runs: list[tuple[str, str]] = []
    for model in MANIFEST.models.values():
        taken = Counter(target for _, target in runs)
        boards = [t for t in model.targets if t != "host"]
        runs += [(model.name, "host"), (model.name, min(boards, key=taken.__getitem__))]
    return runs


RUNS = each_model_and_each_target()


def test_every_committed_model_is_in_the_manifest() -> None:
    committed = {f"models/{path.name}" for path in (EXAMPLES / "models").glob("*.onnx")}
    assert {model.model for model in MANIFEST.models.values()} == committed
    assert {"host", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m55"} == {t for _, t in ALL}
    assert {t for _, t in RUNS} == {t for _, t in ALL}


def test_bazel_checks_budgets_on_boards_and_vectors_everywhere() -> None:
    files = packages(MANIFEST, "//examples:models.yaml", "")
    for name, model in MANIFEST.models.items():
        text, summary = files[f"{name}/BUILD.bazel"].split("\nmlf_summary(")
        assert [f'":{t}_report"' in summary for t in model.targets] == [True] * len(model.targets)
        calls = text.split("\nmlf_model(")[1:]
        assert len(calls) == len(model.targets)
        for call in calls:
            on_host = 'target = "host"' in call
            assert ("flash_bytes" in call, "ram_bytes" in call) == (not on_host, not on_host)
            assert "vectors = " in call


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "target"), RUNS)
def test_run_agrees_with_the_vectors_and_keeps_the_budget(
    name: str, target: str, tmp_path: Path
) -> None:
    model = MANIFEST.models[name]
    assert model.test
    assert model.budget
    for program in ("gcc",) if target == "host" else ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    vectors, report = EXAMPLES / model.test.vectors, tmp_path / "report.json"
    files = ["--inputs", str(vectors), "--expect", str(vectors), "--report", str(report)]
    given = {"absolute": model.test.absolute, "relative": model.test.relative}
    bars = [f"--{name}={value}" for name, value in given.items() if value is not None]
    assert main(["run", str(EXAMPLES / model.model), *files, *bars, "--on", target]) == 0

    measured = json.loads(report.read_text())
    with np.load(vectors) as arrays:
        labelled = "labels" in arrays
        assert measured["samples"] == len(arrays["labels" if labelled else "faulty"])
    assert measured["passed"] is True
    assert (measured["max_abs_error"] == 0) or "float32" in name
    if labelled:
        assert measured["accuracy"] > 0.97
    if target != "host":
        assert measured["flash_bytes"] <= model.budget.flash
        assert measured["ram_bytes"] <= model.budget.ram
