"""Constants of 16-bit floats are what kernels compute from the same numbers at run time: in
float32, rounded once. numpy and onnx's reference round each partial sum and each step."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from batch import Job, run_jobs
from builders import Array, Net
from onnx import helper

from mlftool.ops.reference import evaluate_proto

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
OPSET = 21
X = (np.random.default_rng(4).normal(size=(2, 3, 8, 10)) * 3).astype(np.float32)
# Operator, whether it has a second operand, attributes.
FORMS: tuple[tuple[str, bool, dict[str, Any]], ...] = (
    *((op, False, {}) for op in ("Sigmoid", "Gelu", "HardSwish", "Selu", "Mish", "Softsign")),
    *((op, False, {}) for op in ("LeakyRelu", "GlobalAveragePool")),
    *((op, False, {}) for op in ("ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp")),
    ("AveragePool", False, {"kernel_shape": [3, 3]}),
    ("LpNormalization", False, {"axis": -1}),
    *((op, True, {}) for op in ("Add", "Div", "Sum", "Mean")),
)


@pytest.fixture(scope="module")
def at_run_time(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Array]]:
    """What kernels give for each form, by the type."""
    jobs = []
    for half in HALVES:
        net = Net(OPSET)
        x = net.input("x", half, X.shape)
        jobs.append(
            Job(
                net.model(*(net.node(op, *[x] * (1 + two), **a) for op, two, a in FORMS)),
                [{"x": X.astype(half)}],
                name=half.name,
            )
        )
    run_jobs(jobs, tmp_path_factory.mktemp("halves"))
    assert not any(job.failure for job in jobs), [job.failure for job in jobs]
    return {job.name: list(job.results[0].values()) for job in jobs}


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("form", range(len(FORMS)), ids=lambda k: FORMS[k][0])
def test_constants_are_what_kernels_compute(
    form: int, half: np.dtype[Any], at_run_time: dict[str, list[Array]]
) -> None:
    op, two, attrs = FORMS[form]
    names = ["x"] * (1 + two)
    node = helper.make_node(op, names, ["y"], **attrs)
    (got,) = evaluate_proto(node, [X.astype(half)] * len(names), {"": OPSET})
    wanted = at_run_time[half.name][form]
    assert got.dtype == wanted.dtype == half
    np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))


def test_numbers_that_are_wider_stay_wide() -> None:
    """The mean of LayerNormalization has a type of its own."""
    x, scale = X.astype(np.float16), np.ones(10, np.float16)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean", "factor"])
    made = evaluate_proto(node, [x, scale], {"": OPSET})
    assert [m.dtype.name for m in made] == ["float16", "float32", "float32"]


def test_casts_read_the_number_itself() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype("d")))
    (got,) = evaluate_proto(node, [X.astype(np.float16)], {"": OPSET})
    np.testing.assert_array_equal(got, X.astype(np.float16).astype(np.float64))
