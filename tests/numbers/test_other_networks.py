"""The networks that benchmarks/ measures beside MLPerf's, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from batch import Job, run_jobs
from oracle import assert_close, onnxruntime_float, onnxruntime_integer
from other_networks import feeds_of, other_networks

NAMES = tuple(other_networks())


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[str, Job]:
    models = {name: model for name, model in other_networks().items() if selected(name)}
    made = {name: Job(model, feeds_of(model), name=name) for name, model in models.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("others"))
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("fp32")])
def test_floats(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    for want, got in zip(onnxruntime_float(job.model, job.feeds), job.results, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("int8")])
def test_integers(name: str, jobs: dict[str, Job]) -> None:
    """The bits of onnxruntime: where its two ways of computing differ, those of one of them."""
    job = jobs[name]
    assert not job.failure, job.failure
    ways = [way(job.model, job.feeds) for way in (onnxruntime_integer, onnxruntime_float)]
    for got, *wanted in zip(job.results, *ways, strict=True):
        (key,) = got
        assert got[key].tobytes() in [want[key].tobytes() for want in wanted]
