"""The elementwise operators on a table of edge values, as onnx's reference has them: nan,
infinities, zeros of both signs, subnormals, the largest and smallest numbers, for every type.

One model holds all operators of a kind for one type, so that the table costs a handful of programs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from batch import Job, run_jobs
from builders import Net
from oracle import reference

from mlftool.ops import OPS, Trait, has

OPSET = 28
FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
INTEGERS = (*SIGNED, *UNSIGNED)

MATHS = "Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Sqrt Reciprocal"
ACTIVATIONS = (
    "Sigmoid HardSigmoid HardSwish Softplus Softsign Elu Selu Celu Mish Swish LeakyRelu "
    "ThresholdedRelu Gelu"
)
UNARY_FLOAT = f"{MATHS} {ACTIVATIONS} Ceil Floor Round IsNaN IsInf Neg Abs Sign Relu Shrink Clip"
UNARY_SIGNED = "Neg Abs Sign BitwiseNot Shrink Clip"
UNARY_UNSIGNED = "Abs Sign BitwiseNot Clip"
COMPARISONS = "Equal Less LessOrEqual Greater GreaterOrEqual"
ARITHMETIC = f"Add Sub Mul Div Pow Max Min {COMPARISONS} Mod Where"
BITS = "BitwiseAnd BitwiseOr BitwiseXor"
# The reference computes these in float32, or in the narrow type at every step.
IMPRECISE = {"Erf", "Gelu", "HardSwish"}
UNIT = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ULPS = 4
# Which zero is the larger depends on numpy's vector unit.
EITHER_ZERO = {"Max", "Min"}


def float_edges(dtype: Any) -> np.ndarray[Any, Any]:
    info = ml_dtypes.finfo(dtype)
    plain = [0, 0.5, 1, 1.5, 2, 2.5, 3.25, 8, 10, 88, 104, 1e-3, 1e-6, 700, 0.99, 1.01]
    limits = [float(info.max), float(info.tiny), float(info.smallest_subnormal), float(info.eps)]
    positive = np.array([*plain, *limits, np.inf])
    with np.errstate(over="ignore"):
        return np.concatenate([positive, -positive, [np.nan]]).astype(dtype)


def integer_edges(dtype: Any) -> np.ndarray[Any, Any]:
    info = np.iinfo(dtype)
    wanted = [0, 1, 2, 3, 5, 7, 63, 100, info.max, info.max - 1, info.min, info.min + 1, -1, -2, -7]
    return np.array([v for v in wanted if info.min <= v <= info.max], dtype)


def pairs(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    a, b = np.meshgrid(values, values)
    return a.reshape(-1).copy(), b.reshape(-1).copy()


def unary(operators: str, dtype: Any, x: np.ndarray[Any, Any]) -> Job:
    net = Net(OPSET)
    name = net.input("x", dtype, x.shape)
    bounds = [net.const(np.asarray(v, dtype)) for v in (1, 3)]
    extra = {"Clip": bounds}
    outs = [net.node(op, name, *extra.get(op, ())) for op in operators.split()]
    return Job(net.model(*outs), [{"x": x}])


def binary(operators: str, dtype: Any, values: np.ndarray[Any, Any]) -> Job:
    a, b = pairs(values)
    net = Net(OPSET)
    x, y = net.input("a", dtype, a.shape), net.input("b", dtype, b.shape)
    outs = []
    for op in operators.split():
        if op == "Where":
            outs.append(net.node(op, net.node("Less", x, y), x, y))
        elif op == "Mod":
            if np.dtype(dtype).kind in "iu":
                outs.append(net.node(op, x, y))
            outs.append(net.node(op, x, y, fmod=1))
        else:
            outs.append(net.node(op, x, y))
    return Job(net.model(*outs), [{"a": a, "b": b}])


def jobs() -> dict[str, Job]:
    made = {}
    for dtype in FLOATS:
        name, edges = np.dtype(dtype).name, float_edges(dtype)
        operators = UNARY_FLOAT.replace(" Shrink", "") if name == "bfloat16" else UNARY_FLOAT
        made[f"unary_{name}"] = unary(operators, dtype, edges)
        made[f"binary_{name}"] = binary(ARITHMETIC, dtype, edges)
    for dtype in INTEGERS:
        name, edges = np.dtype(dtype).name, integer_edges(dtype)
        operators = UNARY_SIGNED if dtype in SIGNED else UNARY_UNSIGNED
        made[f"unary_{name}"] = unary(operators, dtype, edges)
        made[f"binary_{name}"] = binary(f"{ARITHMETIC.replace(' Pow', '')} {BITS}", dtype, edges)
    return made


JOBS = jobs()


@pytest.fixture(scope="module")
def done(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[str, Job]:
    made = {name: job for name, job in JOBS.items() if selected(name)}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("edges"))
    return made


@pytest.fixture(scope="module")
def wanted(done: dict[str, Job]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {name: reference(job.model, job.feeds)[0] for name, job in done.items()}


NODES = [
    (name, node.op_type, node.output[0])
    for name, job in JOBS.items()
    for node in job.model.graph.node
    if node.output[0] in {o.name for o in job.model.graph.output}
]


@pytest.mark.parametrize(("name", "op", "output"), NODES)
def test_edge_values(
    name: str,
    op: str,
    output: str,
    done: dict[str, Job],
    wanted: dict[str, dict[str, np.ndarray[Any, Any]]],
) -> None:
    job = done[name]
    assert not job.failure, job.failure
    got, want = job.results[0][output], wanted[name][output]
    assert got.dtype == want.dtype
    bad = wrong(op, got, want)
    feeds = list(job.feeds[0].values())
    first = int(np.argmax(bad))
    at = ", ".join(str(feed[first]) for feed in feeds)
    assert not bad.any(), f"{op}({at}) is {want[first]}; got {got[first]}"


def wrong(
    op: str, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where results differ by more than rounding, or in kind."""
    if want.dtype.kind in "biu":
        return got != want
    name = want.dtype.name
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        unit = UNIT[name] * np.abs(w)
        if op in IMPRECISE and name != "float32":
            unit = np.maximum(np.abs(w), 1) * max(UNIT["float32"], UNIT[name])
        unit = np.maximum(unit, float(ml_dtypes.finfo(want.dtype).smallest_subnormal))
        close = (g == w) | (np.abs(g - w) <= ULPS * unit) | (np.isnan(g) & np.isnan(w))
    if name in ("float32", "float64") and op not in EITHER_ZERO:
        close &= np.isnan(w) | (np.signbit(g) == np.signbit(w))
    return ~close


def test_the_table_holds_the_whole_family() -> None:
    """An operator that is added to the family is added here, or to the list of those tested
    elsewhere."""
    elsewhere = {"Cast", "QuantizeLinear", "DequantizeLinear"}
    elsewhere |= {"Sum", "Mean", "PRelu", "BitShift", "And", "Or", "Xor", "Not"}  # onnx's own suite
    elsewhere |= {"StringConcat", "com.microsoft.MurmurHash3"}  # tests/ops/test_strings.py
    elsewhere |= {"mlf.QLinearAdd", "mlf.QLinearMul"}  # tests/ops/test_microsoft_ties.py
    elsewhere |= {"mlf.Rescale", "mlf.RescaleOnce", "mlf.MultiplyFixed"}  # tests/frontends/tflite
    family = {op for op in OPS if has(op, Trait.ELEMENTWISE)}
    assert {op for _, op, _ in NODES} | elsewhere == family
