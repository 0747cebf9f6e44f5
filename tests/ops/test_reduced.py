"""Reductions, operators along an axis, products of computed matrices: random shapes, opset by
opset, against onnx's reference implementation and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net, random_array
from cases import Case, Results

REDUCTIONS = ("Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
KINDS = (np.float32, np.int32, np.float64, np.int64)


def _small(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Values whose sums and products fit every type and stay away from the logarithm's zero."""
    if np.dtype(dtype).kind == "f":
        return rng.uniform(0.25, 1.75, shape).astype(dtype)
    return rng.integers(1, 4, shape).astype(dtype)


def reduce(op: str, seed: int, opset: int, at_run_time: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
    axes = sorted(int(a) for a in rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)])
    keep = seed % 2
    out = [1 if k in axes else n for k, n in enumerate(shape) if keep or k not in axes]
    dtype = KINDS[seed % len(KINDS)] if not op.startswith("Log") else np.float32
    if op in ("L2", "SumSquare") and np.dtype(dtype).kind != "f":
        dtype = np.float32  # onnx's reference gives floats here
    feed = {"x": _small(rng, dtype, shape)}
    net = Net(opset)
    x = net.input("x", dtype, shape)
    signed = [a - len(shape) if rng.integers(2) else a for a in axes]
    attribute = opset < 13 or (opset < 18 and op != "Sum")
    if attribute:
        y = net.node(f"Reduce{op}", x, axes=signed, keepdims=keep)
    elif at_run_time:
        feed["axes"] = np.array(signed, np.int64)
        given = net.input("axes", np.int64, (len(axes),))
        y = net.node(f"Reduce{op}", x, given, keepdims=keep)
    else:
        y = net.node(f"Reduce{op}", x, net.const(signed, np.int64), keepdims=keep)
    model = net.model(y)
    if at_run_time:
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info(y, kind, out))
    return Case(f"{op}_{opset}_{seed}_{at_run_time}".lower(), model, "reference", feeds=[feed])


def scalar() -> Case:
    """Along axes given at run time, of which a scalar has none; onnxruntime allows 0."""
    net = Net()
    feed = {"x": np.array(-2.5, np.float32), "axes": np.array([0], np.int64)}
    given = [net.input(name, value.dtype, value.shape) for name, value in feed.items()]
    y = net.node("ReduceL1", *given)
    model = net.model(y)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info(y, 1, ()))
    return Case("scalar", model, feeds=[feed])


def long_sum(op: str) -> Case:
    """More than a block along the innermost axis, and a last block that is not full."""
    net = Net()
    y = net.node(f"Reduce{op}", net.input("x", np.float32, (3, 700)), net.const([1], np.int64))
    return Case(f"long_{op}".lower(), net.model(y))


def known_or_not(op: str, dtype: Any, rows: int) -> Case:
    """Integers whose sums and squares leave 32 bits, or no integers: as input and as constant,
    of extents and along axes known only at run time."""
    x = np.arange(rows * 3).reshape(rows, 3).astype(dtype) * 100_000_001
    net = Net()
    made = [net.input("x", dtype, x.shape), net.node("Identity", net.const(x, dtype))]
    feed = {"x": x, "kept": np.arange(rows) % 4 != 1, "axes": np.array([0])}
    kept, axes = (net.input(n, feed[n].dtype, feed[n].shape) for n in ("kept", "axes"))
    made.append(net.node("Compress", made[0], kept, axis=0))
    y = [net.node(f"Reduce{op}", n, net.const([0], np.int64), keepdims=0) for n in made]
    model = net.model(*y, net.node(f"Reduce{op}", made[0], axes, keepdims=0))
    type_ = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    late = model.graph.output[-1]
    late.CopyFrom(onnx.helper.make_tensor_value_info(late.name, type_, (3,)))
    return Case(f"{op}_known_{np.dtype(dtype)}_{rows}".lower(), model, feeds=[feed])


def best(op: str, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    net = Net()
    x = rng.integers(0, 4, (3, 4, 5)).astype(np.float32)  # many equal ones
    if seed % 4 == 3:
        x[rng.integers(0, 2, x.shape) > 0] = np.nan
    y = net.node(op, net.input("x", np.float32, x.shape), axis=seed % 3 - 1, keepdims=seed % 2,
                 select_last_index=int(seed % 4 == 1))  # fmt: skip
    return Case(f"{op}_{seed}".lower(), net.model(y), "reference", feeds=[{"x": x}])


def cumulative(op: str, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    net = Net(26)
    feed = {"x": _small(rng, KINDS[seed % 4], (3, 4, 2))}
    axis = np.array(seed % 3 - 1)
    given = net.const(axis)
    if seed % 2:
        given, feed["axis"] = net.input("axis", np.int64, ()), axis
    x = net.input("x", KINDS[seed % 4], (3, 4, 2))
    y = net.node(op, x, given, exclusive=seed // 2 % 2, reverse=seed // 4 % 2)
    return Case(f"{op}_{seed}".lower(), net.model(y), "reference", feeds=[feed])


def top(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    net = Net()
    dtype = KINDS[seed % 4]
    x = rng.integers(-5, 6, (3, 7, 2)).astype(dtype)
    axis = seed % 3
    k = int(rng.integers(1, x.shape[axis] + 1))
    y = net.node("TopK", net.input("x", dtype, x.shape), net.const([k]), axis=axis,
                 largest=seed % 2)  # fmt: skip
    net._nodes[-1].output.append("indices")
    return Case(f"top_{seed}", net.model(y, "indices"), "reference", feeds=[{"x": x}])


def old_top() -> Case:
    net = Net(9)
    y = net.node("TopK", net.input("x", np.float32, (2, 5)), k=3)
    net._nodes[-1].output.append("indices")
    return Case("top_9", net.model(y, "indices"))


def lines(op: str, opset: int, axis: int, **attrs: Any) -> Case:
    net = Net(opset)
    y = net.node(op, net.input("x", np.float32, (2, 3, 4)), axis=axis, **attrs)
    named = "_".join(map(str, attrs.values()))
    return Case(f"{op}_{opset}_{axis}_{named}".lower(), net.model(y))


def softmax_double(op: str) -> Case:
    net = Net()
    return Case(f"{op}_double", net.model(net.node(op, net.input("x", np.float64, (3, 4)))))


def matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: Any) -> Case:
    rng = np.random.default_rng(len(shapes[0]))
    net = Net()
    feed = {n: _small(rng, dtype, s) for n, s in zip("ab", shapes, strict=True)}
    y = net.node("MatMul", *(net.input(n, dtype, s) for n, s in zip("ab", shapes, strict=True)))
    text = "_".join("x".join(map(str, s)) for s in shapes)
    name = f"matmul_{text}_{np.dtype(dtype).name}"
    return Case(name, net.model(y), "reference", feeds=[feed])


def gemm(seed: int) -> Case:
    """Every form of C, transposed operands, factors; weights computed, or constant doubles."""
    rng = np.random.default_rng(seed)
    net = Net()
    dtype = (np.float32, np.float64)[seed % 2]
    a, b = ((4, 3), (3, 4))[seed // 2 % 2], ((3, 5), (5, 3))[seed // 4 % 2]
    x = net.input("x", dtype, a)
    w = net.const(rng.normal(size=b), dtype) if seed % 3 == 1 else net.input("w", dtype, b)
    forms: tuple[tuple[int, ...], ...] = ((), (5,), (1, 5), (4, 1), (4, 5), (1,))
    c = net.input("c", dtype, forms[seed % 6]) if seed % 7 else ""
    y = net.node("Gemm", x, w, *([c] if c else []), transA=seed // 2 % 2, transB=seed // 4 % 2,
                 alpha=0.5 if seed % 5 else 1.0, beta=0.25 if seed % 2 else 1.0)  # fmt: skip
    return Case(f"gemm_{seed}", net.model(y), "reference")


def gemm_then_relu() -> Case:
    """Elementwise operators are fused after a product of computed matrices."""
    net = Net()
    y = net.node("MatMul", net.input("a", np.float32, (3, 4)), net.input("b", np.float32, (4, 5)))
    y = net.node("Relu", net.node("Add", y, net.const(np.arange(5) / 4, np.float32)))
    return Case("matmul_then_relu", net.model(y))


def integers(op: str, seed: int) -> Case:
    """Zero points: none, one, one for each row or column; constant or computed."""
    rng = np.random.default_rng(seed)
    types = ((np.uint8, np.uint8), (np.int8, np.int8), (np.uint8, np.int8))[seed % 3]
    net = Net()
    shapes = ((2, 3, 4), (4, 5)) if op == "MatMulInteger" else ((2, 3, 5, 4), (4, 3, 2, 3))
    feed = {n: random_array(rng, t, s) for n, t, s in zip("xw", types, shapes, strict=True)}
    names = [net.input(n, t, s) for n, t, s in zip("xw", types, shapes, strict=True)]
    if seed % 4:
        zeros = [np.array(9, types[0]), np.array(7, types[1])]
        if op == "MatMulInteger" and seed % 4 == 2:
            zeros[1] = random_array(rng, types[1], (5,))
        names += [net.const(z) for z in zeros]
    attrs = {"pads": [1, 0, 1, 2], "strides": [1, 2]} if op == "ConvInteger" else {}
    oracle = "reference" if op == "MatMulInteger" or types[0] == np.int8 else "float"
    return Case(f"{op}_{seed}".lower(), net.model(net.node(op, *names, **attrs)), oracle,
                feeds=[feed])  # fmt: skip


def quantised_matmul(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    dtype = (np.uint8, np.int8)[seed % 2]
    net = Net()
    shapes = ((2, 3, 4), (2, 4, 5))
    feed = {n: random_array(rng, dtype, s) for n, s in zip("ab", shapes, strict=True)}
    scales = {"as": 0.031, "bs": 0.017, "ys": 0.043}
    names = []
    for n, s in (("a", "as"), ("b", "bs"), ("", "ys")):
        if n:
            names.append(net.input(n, dtype, feed[n].shape))
        feed[s] = np.array(scales[s], np.float32)
        names += [net.input(s, np.float32, ()), net.const(np.array(5, dtype))]
    y = net.node("QLinearMatMul", *names)
    return Case(f"qlinearmatmul_{seed}", net.model(y), "float", feeds=[feed])


def conv(seed: int) -> Case:
    """Weights and bias that are computed; one to three spatial axes; groups; doubles."""
    rng = np.random.default_rng(seed)
    rank, group = int(rng.integers(1, 4)), (1, 2, 4)[seed % 3]
    dtype = (np.float32, np.float64)[seed % 2]
    net = Net()
    x = net.input("x", dtype, (2, 4, *rng.integers(4, 7, rank).tolist()))
    w = net.input("w", dtype, (8, 4 // group, *rng.integers(1, 4, rank).tolist()))
    b = [net.input("b", dtype, (8,))] if seed % 4 else []
    y = net.node(
        "Conv", x, w, *b, group=group, pads=[1] * (2 * rank), strides=[1 + seed % 2] * rank
    )
    return Case(f"conv_{seed}", net.model(net.node("Relu", y)), "reference")


EQUATIONS = {
    "ij,jk": ((3, 4), (4, 5)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (1, 3, 4, 5)),
    "ii->i": ((4, 4),),
    "ij->ji": ((3, 4),),
    "ij->": ((3, 4),),
    "i,i->": ((600,), (600,)),
    "a,b,c->cab": ((2,), (3,), (4,)),
    "Aa,aB->BA": ((2, 3), (3, 4)),
    # Every letter names a loop's variable.
    "Aabcdefghijklmnopqrstuvwxyz,zyxB->BA": ((2, *[1] * 23, 2, 2, 2), (2, 2, 2, 3)),
    "...cdefgh->fghdec...": ((2, 2, 1, 2, 2, 3, 2),),
}


def einsum(equation: str) -> Case:
    net = Net()
    shapes = EQUATIONS[equation]
    y = net.node("Einsum", *(net.input(f"x{k}", np.float32, s) for k, s in enumerate(shapes)),
                 equation=equation)  # fmt: skip
    return Case(f"einsum_{equation}", net.model(y), "reference")


PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (4, 5)),
    ((3, 4), (4,)), ((4,), (4,)), ((2, 600), (600, 2)), ((5, 4), (2, 3, 4, 2)),
)  # fmt: skip


def cases() -> Iterator[Case]:
    for op in REDUCTIONS:
        yield from (reduce(op, seed, 21) for seed in range(8))
        yield from (reduce(op, seed, 21, at_run_time=True) for seed in range(6))
        yield from (reduce(op, seed, opset) for seed in range(2) for opset in (11, 13))
    yield scalar()
    for op, rows in (("L2", 4), ("L2", 0), ("L2", 40), ("Mean", 4), ("Mean", 0), ("LogSum", 4)):
        yield from (known_or_not(op, dtype, rows) for dtype in (np.int32, np.int64))
    yield from map(long_sum, ("Sum", "Mean", "L2", "Max"))
    makers: tuple[Callable[[str, int], Case], ...] = (best, cumulative)
    for maker, ops in zip(makers, (("ArgMax", "ArgMin"), ("CumSum", "CumProd")), strict=True):
        yield from (maker(op, seed) for op in ops for seed in range(8))
    yield from (top(seed) for seed in range(8))
    yield old_top()
    for axis in (0, 1, 2):
        yield from (
            lines(op, opset, axis) for op in ("LogSoftmax", "Hardmax") for opset in (11, 21)
        )
        yield from (lines("LpNormalization", 21, axis, p=p) for p in (1, 2))
    yield from map(softmax_double, ("Softmax", "LogSoftmax"))
    for pair in PAIRS:
        yield from (matmul(pair, dtype) for dtype in (np.float32, np.int32, np.float64))
    yield from (gemm(seed) for seed in range(16))
    yield gemm_then_relu()
    yield from (integers(op, s) for op in ("MatMulInteger", "ConvInteger") for s in range(6))
    yield from (quantised_matmul(seed) for seed in range(2))
    yield from (conv(seed) for seed in range(8))
    yield from map(einsum, EQUATIONS)


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("reduced"), selected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_oracle(case: Case, results: Results) -> None:
    results.check(case)
