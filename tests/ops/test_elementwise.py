"""Elementwise operators on every element type they take: broadcasting, chains, tables, Q and DQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import Net, random_array
from cases import Case, Results

SHAPES = (
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (3, 1)),
    ((1, 3, 1), (2, 1, 4)),
    ((5,), (2, 5)),
    ((), (3, 2)),
    ((3, 2), ()),
    ((), ()),
    ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)),
)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64)
BINARY = ("Add", "Sub", "Mul", "Div", "Min", "Max")
SIGNED = ("Neg", "Abs", "Relu")


def binary(op: str, dtype: Any, seed: int) -> Case:
    """Divisors are never zero; products of 32-bit values stay inside their type."""
    a_shape, b_shape = SHAPES[seed % len(SHAPES)]
    net = Net()
    y = net.node(op, net.input("a", dtype, a_shape), net.input("b", dtype, b_shape))
    model = net.model(y)
    rng = np.random.default_rng(seed)
    a, b = random_array(rng, dtype, a_shape), random_array(rng, dtype, b_shape)
    if op == "Div":
        b = np.asarray(np.where(b == 0, np.ones_like(b), b)).astype(dtype)
        if np.issubdtype(dtype, np.signedinteger):
            a = np.asarray(np.maximum(a, np.iinfo(dtype).min + 1), dtype)
    name = f"{op}_{np.dtype(dtype).name}_{seed}".lower()
    oracle = "float" if dtype in (np.float32, np.int32, np.int64) else "reference"
    # The reference divides integers towards minus infinity, onnxruntime and C towards zero.
    if op == "Div" and oracle == "reference":
        a, b = np.abs(a), np.abs(b)
        a, b = np.asarray(a, dtype), np.asarray(np.maximum(b, 1), dtype)
    return Case(name, model, oracle, feeds=[{"a": np.asarray(a), "b": np.asarray(b)}])


def unary(op: str, dtype: Any, **attrs: Any) -> Case:
    net = Net()
    y = net.node(op, net.input("x", dtype, (3, 5, 7)), **attrs)
    oracle = "float" if dtype == np.float32 else "reference"
    tail = "_".join(str(v) for v in attrs.values())
    feeds = None
    if np.dtype(dtype).kind == "i":  # the least value has no negative
        rng = np.random.default_rng(7)
        x = np.maximum(random_array(rng, dtype, (3, 5, 7)), np.iinfo(dtype).min + 1)
        feeds = [{"x": x.astype(dtype)}]
    return Case(f"{op}_{np.dtype(dtype).name}_{tail}".lower(), net.model(y), oracle, feeds=feeds)


def clip(dtype: Any, low: float | None, high: float | None, opset: int = 21) -> Case:
    net = Net(opset)
    x = net.input("x", dtype, (4, 9))
    if opset < 11:
        attrs = {k: float(v) for k, v in (("min", low), ("max", high)) if v is not None}
        y = net.node("Clip", x, **attrs)
    else:
        bounds = ["" if v is None else net.const(v, dtype) for v in (low, high)]
        y = net.node("Clip", x, *bounds)
    return Case(f"clip_{np.dtype(dtype).name}_{low}_{high}_{opset}", net.model(y))


def variadic(op: str, count: int) -> Case:
    net = Net()
    names = [net.input(f"x{k}", np.float32, (3, 4) if k % 2 else (4,)) for k in range(count)]
    return Case(f"{op}_of_{count}".lower(), net.model(net.node(op, *names)))


def with_nan(op: str, first: bool) -> Case:
    net = Net()
    a, b = net.input("a", np.float32, (4,)), net.input("b", np.float32, (4,))
    values = np.array([1, np.nan, -1, np.nan], np.float32), np.arange(4, dtype=np.float32)
    feeds = [dict(zip("ab", values if first else values[::-1], strict=True))]
    return Case(f"{op}_nan_{first}".lower(), net.model(net.node(op, a, b)), feeds=feeds)


def cast(source: Any, to: Any) -> Case:
    net = Net()
    code = {np.float32: 1, np.uint8: 2, np.int8: 3, np.int16: 5, np.int32: 6, np.int64: 7}[to]
    y = net.node("Cast", net.input("x", source, (40,)), to=code)
    low, high = (0, 120) if np.uint8 in (source, to) else (-120, 120)
    x = np.random.default_rng(3).uniform(low, high, 40).astype(source)
    name = f"cast_{np.dtype(source).name}_{np.dtype(to).name}"
    return Case(name, net.model(y), feeds=[{"x": x}])


def quantise(dtype: Any, form: str, opset: int = 21) -> Case:
    """QuantizeLinear: per tensor, per channel along each axis, no zero point; ties too."""
    net = Net(opset)
    x = net.input("x", np.float32, (3, 4, 5))
    zero = np.asarray({np.int8: -3, np.uint8: 130, np.int16: 7, np.uint16: 9}.get(dtype, 0), dtype)
    if form == "tensor":
        y = net.q(x, np.float32(0.25), zero)
    elif form == "scalar":
        y = net.node("QuantizeLinear", x, net.const(np.float32(0.25)))
    elif form == "one":
        y = net.node("QuantizeLinear", x, net.const([0.25], np.float32), net.const(zero.reshape(1)))
    elif form == "runtime":
        y = net.node("QuantizeLinear", x, net.input("s", np.float32, (4,)), axis=1)
    else:
        axis = int(form)
        n = (3, 4, 5)[axis]
        y = net.q(x, np.linspace(0.1, 0.5, n), np.full(n, zero, dtype), axis)
    rng = np.random.default_rng(11)
    feed = {"x": (rng.integers(-400, 400, (3, 4, 5)) / 8).astype(np.float32)}
    if form == "runtime":
        feed["s"] = np.array([0.25, 0.5, 1, 0.125], np.float32)
    name = f"quantize_{np.dtype(dtype).name}_{form}_{opset}"
    return Case(name, net.model(y), feeds=[feed])


def dequantise(dtype: Any, form: str) -> Case:
    net = Net()
    x = net.input("x", dtype, (3, 4, 5))
    zero = np.asarray(0 if dtype == np.int32 else 5, dtype)
    if form == "tensor":
        y = net.dq(x, np.float32(0.25), zero)
    elif form == "scalar":
        y = net.node("DequantizeLinear", x, net.const(np.float32(0.25)))
    else:
        axis = int(form)
        n = (3, 4, 5)[axis]
        y = net.dq(x, np.linspace(0.1, 0.5, n), np.full(n, zero, dtype), axis)
    return Case(f"dequantize_{np.dtype(dtype).name}_{form}", net.model(y))


def table(dtype: Any, op: str, **attrs: Any) -> Case:
    """Q(f(DQ(x))) of one 8-bit value: a table of 256 results. Every value is tried."""
    net = Net()
    zero = np.asarray(128 if dtype == np.uint8 else 0, dtype)
    x = net.input("x", dtype, (16, 16))
    y = net.node(op, net.dq(x, 0.05, zero), **attrs)
    y = net.q(y, 0.03, zero)
    feeds = [{"x": np.arange(256, dtype=np.uint8).view(dtype).reshape(16, 16)}]
    return Case(f"table_{op}_{np.dtype(dtype).name}".lower(), net.model(y), feeds=feeds)


def quantised_add(seed: int) -> Case:
    """Q(Relu(DQ(a) + DQ(b))) with broadcasting: one loop, no float tensor."""
    rng = np.random.default_rng(seed)
    a_shape, b_shape = SHAPES[seed % len(SHAPES)]
    dtype = (np.int8, np.uint8)[seed % 2]
    net = Net()
    zeros = [np.asarray(z, dtype) for z in rng.integers(3, 100, 3)]
    a = net.dq(net.input("a", dtype, a_shape), 0.03, zeros[0])
    b = net.dq(net.input("b", dtype, b_shape), 0.07, zeros[1])
    y = net.node(("Add", "Mul", "Sub")[seed % 3], a, b)
    y = net.q(net.node("Relu", y), 0.08, zeros[2])
    return Case(f"quantised_add_{seed}", net.model(y), "float", seed=seed)


def long_chain() -> Case:
    """Values read twice inside a fused chain, a constant per channel, and a scalar at run time."""
    net = Net()
    x, s = net.input("x", np.float32, (2, 3, 4)), net.input("s", np.float32, ())
    a = net.node("Mul", x, net.const([[0.5], [2.0], [-1.0]], np.float32))
    b = net.node("Sigmoid", net.node("Add", a, s))
    c = net.node("Mul", b, net.node("Sub", a, b))
    return Case("long_chain", net.model(net.node("Max", c, net.const(np.float32(-0.1)))))


def single_of_higher_rank(op: str) -> Case:
    """One element with more axes than the tensor, from which a Reshape is moved away."""
    net = Net()
    x = net.node("Reshape", net.input("x", np.float32, (3, 5)), net.const([-1, 1, 3], np.int64))
    attrs = {"fmod": 1} if op == "Mod" else {}
    y = net.node(op, x, net.const([[[[-0.4]]]], np.float32), **attrs)
    return Case(f"single_{op}", net.model(y))


def cases() -> Iterator[Case]:
    for k, op in enumerate(BINARY):
        for shape in range(len(SHAPES)):
            yield binary(op, np.float32, shape)
        for j, dtype in enumerate(INTEGERS):
            yield binary(op, dtype, k + j)
    for op in SIGNED:
        for dtype in (np.float32, np.int8, np.int16, np.int32, np.int64):
            yield unary(op, dtype)
    for dtype in (np.uint8, np.uint16):
        yield unary("Abs", dtype)
    for op in ("Exp", "Sigmoid", "HardSigmoid", "HardSwish", "LeakyRelu"):
        yield unary(op, np.float32)
    yield unary("LeakyRelu", np.float32, alpha=-0.3)
    yield unary("Celu", np.float32, alpha=0.0)
    yield unary("HardSigmoid", np.float32, alpha=0.3, beta=0.4)
    for dtype, low, high in (
        (np.float32, -0.5, 1.5),
        (np.float32, None, 1.5),
        (np.float32, -0.5, None),
        (np.float32, None, None),
        (np.int8, -100, 99),
        (np.uint8, 0, 99),
        (np.int32, -5, 5),
        (np.int64, -5, 5),
    ):
        yield clip(dtype, low, high)
    yield clip(np.float32, -0.5, 1.5, 9)
    yield clip(np.float32, None, 1.5, 9)
    for op in ("Min", "Max"):
        yield from (variadic(op, count) for count in (1, 2, 3, 5))
        yield from (with_nan(op, first) for first in (True, False))
    types = (np.float32, np.int8, np.uint8, np.int16, np.int32, np.int64)
    yield from (cast(a, b) for a in types for b in types)
    for dtype in (np.int8, np.uint8):
        for form in ("tensor", "one", "0", "1", "2"):
            yield quantise(dtype, form)
        yield quantise(dtype, "tensor", 13)
    yield quantise(np.uint8, "scalar")
    yield quantise(np.uint8, "runtime")
    yield quantise(np.int16, "tensor")
    yield quantise(np.uint16, "1")
    for dtype in (np.int8, np.uint8, np.int32, np.int16, np.uint16):
        for form in ("tensor", "scalar", "0", "1", "2"):
            yield dequantise(dtype, form)
    for dtype in (np.int8, np.uint8):
        for op in ("Relu", "Sigmoid", "HardSwish", "HardSigmoid", "LeakyRelu", "Neg", "Abs", "Exp"):
            yield table(dtype, op)
    yield from map(quantised_add, range(18))
    yield long_chain()
    yield from map(single_of_higher_rank, ("Add", "Mul", "Div", "Mod", "Max", "Less"))


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("elementwise"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_oracle(case: Case, results: Results) -> None:
    results.check(case)
