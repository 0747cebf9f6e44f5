"""Quantised forms against onnxruntime, and that no float tensor is left between them."""

from __future__ import annotations

import numpy as np
import pytest
from batch import Job, run_jobs
from builders import random_feeds
from oracle import is_tie, onnxruntime_float, onnxruntime_integer, reference, relative_error
from qdq_forms import FORMS, Form

SUMS = {"Conv", "Gemm", "MatMul", "ConvTranspose", "AveragePool", "ReduceMean", "ReduceSum"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made = {form.name: Job(form.model, random_feeds(form.model, 5)) for form in FORMS}
    assert len(made) == len(FORMS)
    run_jobs(list(made.values()), tmp_path_factory.mktemp("forms"))
    return made


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_numbers(form: Form, jobs: dict[str, Job]) -> None:
    job = jobs[form.name]
    assert not job.failure, job.failure
    oracle = onnxruntime_integer if form.exact else onnxruntime_float
    wanted = (reference if form.no_kernel else oracle)(form.model, job.feeds)
    for feed, got, want in zip(job.feeds, job.results, wanted, strict=True):
        for key, value in want.items():
            assert got[key].dtype == value.dtype
            if value.dtype.kind == "f":
                assert relative_error(got[key], value) <= 1e-5
                continue
            assert np.unique(value).size > 1, "the case says nothing"
            different = got[key] != value
            if form.exact or not different.any():
                np.testing.assert_array_equal(got[key], value)
            else:
                assert np.abs(got[key].astype(int) - value.astype(int)).max() == 1
                assert is_tie(form.model, feed, different)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_no_float_tensor(form: Form, jobs: dict[str, Job]) -> None:
    """Nothing in memory is float but the model's own output, and no float sum is left."""
    module = jobs[form.name].module
    assert module is not None
    graph = module.program.graph
    for call in module.program.calls:
        cores = {n.op for n in call.node.body or (call.node,)}
        assert not cores & SUMS, call.node.label
        to_output = call.node.op == "Transpose" and call.node.outputs[0] in graph.outputs
        for name in call.node.inputs if not to_output else ():
            if name and name not in graph.consts:
                assert not graph.types[name].dtype.is_float, name
