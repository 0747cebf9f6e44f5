"""Quantised forms against onnxruntime, and that no float tensor is left between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from batch import Job, run_jobs
from builders import random_feeds
from oracle import is_tie, onnxruntime_float, onnxruntime_integer, reference, relative_error
from qdq_forms import FORMS, Form

SUMS = {"Conv", "Gemm", "MatMul", "ConvTranspose", "AveragePool", "ReduceMean", "ReduceSum"}


TARGETS = ("cortex-m4", "cortex-m55", "cortex-m0", "rv32imc")
CONTRACTIONS = ("conv", "gemm", "transposed", "matmul")
# Wide outputs, zero points of weights: what kernels of targets may get wrong. Beside these, every
# contraction of 16-bit values: kernels of targets are written for bytes.
ON_TARGETS = (
    "conv_int8_int8_float_0_int32_g1",
    "conv_int8_int8_float_0_float_g4",
    "conv_int8_int8_int8_None_float_g1_Relu",
    "conv_int8_int8_int8_None_int32_g1_zero",
    "operator_conv_uint8_uint8_uint8_g6_1",
    "operator_conv_uint8_uint8_uint8_g1_1",
    "gemm_int8_int8_float_1_float_0",
    "gemm_int8_uint4_int8_1_int32_0",
    "transposed_int8_int8_int8_1_g2_int32",
)


def on_targets(form: Form) -> bool:
    wide = form.name.startswith(CONTRACTIONS) and "int16" in form.name
    return wide or form.name.endswith("_zero0") or form.name in ON_TARGETS


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[str, Job]:
    assert len({form.name for form in FORMS}) == len(FORMS)
    forms = [form for form in FORMS if selected(form.name)]
    made = {form.name: Job(form.model, random_feeds(form.model, 5)) for form in forms}
    for form in forms:
        if on_targets(form):
            feeds = random_feeds(form.model, 5)
            made |= {f"{form.name} {t}": Job(form.model, feeds, t) for t in TARGETS}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("forms"))
    return made


@pytest.mark.sampled(6)
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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [form.name for form in FORMS if on_targets(form)])
def test_targets_give_the_same_bits(name: str, target: str, jobs: dict[str, Job]) -> None:
    """Also where an output's elements are wider than the input's and both share memory."""
    job = jobs[f"{name} {target}"]
    assert not job.failure, job.failure
    for got, want in zip(job.results, jobs[name].results, strict=True):
        for key, value in want.items():
            np.testing.assert_array_equal(got[key], value)
