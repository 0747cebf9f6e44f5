"""Networks as exporters write them, committed in small: each agrees with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from batch import Job, run_jobs
from builders import random_feeds
from oracle import assert_close, onnxruntime_float

MODELS = {p.stem: p for p in sorted((Path(__file__).parent / "exported").glob("*.onnx"))}


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[str, Job]:
    chosen = {name: path for name, path in MODELS.items() if selected(name)}
    made = {name: Job(path, random_feeds(onnx.load(path), 7)) for name, path in chosen.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("zoo"))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    wanted = onnxruntime_float(onnx.load(MODELS[name]), job.feeds)
    for got, want in zip(job.results, wanted, strict=True):
        assert_close(got, want)
