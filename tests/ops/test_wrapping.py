"""Integer arithmetic wraps around, as ONNX's does, and is never undefined in C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import helper, numpy_helper, parser
from oracle import onnxruntime_float

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.runner import run_on_host

OPERATORS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "PRelu": lambda x, slope: np.where(x < 0, slope * x, x),
}
REDUCTIONS: dict[str, Callable[[Any], Any] | None] = {
    "ReduceL1": lambda x: np.abs(x).sum(1, dtype=x.dtype),
    "ReduceSum": lambda x: x.sum(1, dtype=x.dtype),
    "ReduceSumSquare": lambda x: (x * x).sum(1, dtype=x.dtype),
    "ReduceProd": lambda x: x.prod(1, dtype=x.dtype),
    "ReduceMax": lambda x: x.max(1),
    "ReduceMin": lambda x: x.min(1),
    "ReduceL2": None,  # the root of a square that wraps around: of no use, but defined
    "ReduceLogSum": None,
}
EINSUMS: dict[str, Callable[[Any], Any]] = {
    "ij->i": lambda x: x.sum(1, dtype=x.dtype),
    "ij,ij->i": lambda x: (x * x).sum(1, dtype=x.dtype),
}
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "int64")


def model(op: str, dtype: str) -> onnx.ModelProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    a, b, y = (helper.make_tensor_value_info(n, code, [64]) for n in "aby")
    graph = helper.make_graph([helper.make_node(op, ["a", "b"], ["y"])], "g", [a, b], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_wrap_around(dtype: str, tmp_path: Path) -> None:
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    a, b = random.integers(limits.min, limits.max, (2, 64), dtype=dtype, endpoint=True)
    a[:2] = b[:2] = limits.max, limits.min
    for op, oracle in OPERATORS.items():
        if op == "PRelu" and dtype not in ("int32", "int64"):
            continue  # which has no other integers
        onnx.save(model(op, dtype), tmp_path / "m.onnx")
        bundle = compile_modules([ModuleSpec(tmp_path / "m.onnx", "m")])
        interface = read_interface(bundle)
        program = build_runner(bundle, interface, sanitize=True)
        result = run_on_host(program, interface, [{"a": a, "b": b}])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(result.outputs[0]["y"], oracle(a, b))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_reductions_wrap_around(dtype: str, tmp_path: Path) -> None:
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    x = random.integers(limits.min, limits.max, (16, 5), dtype=dtype, endpoint=True)
    x[0], x[1], x[2, :2] = limits.min, limits.max, (limits.min, 0)
    jobs = [
        Job(
            parser.parse_model(
                f'<ir_version: 8, opset_import: ["": 13]> g ({dtype}[16,5] x) => ({dtype}[16] y) '
                f"{{ y = {op} <{axes}keepdims = 0> (x{by}) }}"
            ),
            [{"x": x}],
        )
        for op in REDUCTIONS
        for axes, by in [("", ", a") if op == "ReduceSum" else ("axes = [1], ", "")]
    ]
    for job in jobs:
        for node in job.model.graph.node:
            if node.op_type == "ReduceSum":
                axis = numpy_helper.from_array(np.array([1], np.int64), "a")
                job.model.graph.initializer.append(axis)
    for equation in EINSUMS:
        text = (
            f'<ir_version: 8, opset_import: ["": 13]> g ({dtype}[16,5] x) => ({dtype}[16] y) '
            f'{{ y = Einsum <equation = "{equation}"> ({", ".join("x" * equation.count("ij"))}) }}'
        )
        jobs.append(Job(parser.parse_model(text), [{"x": x}]))
    run_jobs(jobs, tmp_path)
    for job, oracle in zip(jobs, (*REDUCTIONS.values(), *EINSUMS.values()), strict=True):
        assert not job.failure
        if oracle is not None:
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(job.results[0]["y"], oracle(x))


def test_what_floats_give_that_does_not_fit(tmp_path: Path) -> None:
    """Operators on integers that compute in floats give the least integer then, as Cast does."""
    x = np.array([100, 3, 2, 0], np.int32)
    texts = [
        "z = Shrink <bias=-1e10, lambd=0.5> (x)",
        "e = Cast <to=1> (x) z = Pow (x, e)",
        "z = ReduceLogSum <axes=[1], keepdims=0> (x)",
        "u = Cast <to=7> (x) z = ReduceLogSum <axes=[1], keepdims=0> (u)",
    ]
    jobs = [
        Job(
            parser.parse_model(
                f'<ir_version: 8, opset_import: ["": 17]> g (int32[4,1] x) => (int32[n,m] y) '
                f"<int64[2] s = {{4, 1}}> {{ {text} w = Reshape (z, s) y = Cast <to=6> (w) }}"
            ),
            [{"x": x.reshape(4, 1)}],
        )
        for text in texts
    ]
    run_jobs(jobs, tmp_path)
    for job in jobs:
        assert not job.failure
        (expected,) = onnxruntime_float(job.model, job.feeds)
        np.testing.assert_array_equal(job.results[0]["y"], expected["y"])
