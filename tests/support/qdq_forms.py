"""Quantised forms in QDQ spelling that become integer arithmetic, as small models."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from builders import Net, random_array

Kind = Any
BYTES: tuple[Kind, ...] = (np.int8, np.uint8)
SHORTS: tuple[Kind, ...] = (np.int16, np.uint16)
ZERO = {np.int8: 3, np.uint8: 131, np.int16: -700, np.uint16: 15000}
FINE = {np.int8: 1.0, np.uint8: 1.0, np.int16: 1 / 256, np.uint16: 1 / 256}


@dataclass(frozen=True)
class Form:
    """`exact`: equal to onnxruntime's integer path; the others are what float gives, ties aside.
    With `no_kernel` onnxruntime lacks the mix of types; onnx's own evaluator says what is right."""

    name: str
    model: onnx.ModelProto
    exact: bool = False
    no_kernel: bool = False


class Quantised(Net):
    """A net of quantised tensors."""

    def __init__(self, seed: int = 3) -> None:
        super().__init__(21)
        self.random = np.random.default_rng(seed)

    def x(self, name: str, kind: Kind, shape: tuple[int, ...], scale: float = 0.05) -> str:
        zero = kind(ZERO[kind])
        return self.dq(self.input(name, kind, shape), scale * FINE[kind], zero)

    def y(self, value: str, kind: Kind, scale: float) -> onnx.ModelProto:
        return self.model(self.q(value, scale * FINE[kind], kind(ZERO[kind])))

    def weights(
        self, kind: Kind, shape: tuple[int, ...], axis: int | None = None, zero: bool = False
    ) -> tuple[str, Any]:
        """Constant weights after their DequantizeLinear, and their scale."""
        four = kind in (ml_dtypes.int4, ml_dtypes.uint4)
        low, high = (0, 15) if kind is ml_dtypes.uint4 else (-8, 7)
        if four:
            stored = self.random.integers(low, high + 1, shape).astype(kind)
        else:
            stored = random_array(self.random, kind, shape)
        middle = {np.uint8: 128, np.uint16: 32768, ml_dtypes.uint4: 8}.get(kind, 0)
        count = shape[axis] if axis is not None else 1
        points = middle + (self.random.integers(-5, 6, count) if zero else np.zeros(count, int))
        scale = self.random.uniform(0.01, 0.02, count).astype(np.float32)
        scale = scale * np.float32(8 if four else 1 / 256 if kind in SHORTS else 1)
        if axis is None:
            return self.dq(self.const(stored), scale[0], kind(points[0])), scale[0]
        return self.dq(self.const(stored), scale, points.astype(kind), axis), scale

    def bias(self, scale: Any, count: int) -> str:
        """int32, in units of the accumulator."""
        values = self.const(self.random.integers(-3000, 3000, count), np.int32)
        zero = np.zeros(np.shape(scale), np.int32)
        return self.dq(values, np.asarray(scale, np.float32), zero, 0)


def label(*parts: Any) -> str:
    return "_".join(
        p if isinstance(p, str) else np.dtype(p).name if isinstance(p, type) else str(p)
        for p in parts
    )


def convolution(
    kinds: tuple[Kind, Kind, Kind],
    *,
    axis: int | None = None,
    zero: bool = False,
    bias: str = "int32",
    group: int = 1,
    after: tuple[str, ...] = (),
) -> Form:
    """Conv; the last of `kinds` is None where its output stays float."""
    x, w, y = kinds
    n, oc = Quantised(), 4
    value = n.x("x", x, (1, 4, 6, 5))
    weights, scale = n.weights(w, (oc, 4 // group, 3, 3), axis, zero)
    b = ()
    if bias == "int32":
        b = (n.bias(np.float32(0.05 * FINE[x]) * scale, oc),)
    elif bias:
        b = (n.const(n.random.normal(size=oc), np.float32),)
    value = n.node("Conv", value, weights, *b, pads=[1, 1, 1, 1], group=group)
    for op in after:
        limits = (n.const(-1.5, np.float32), n.const(4, np.float32)) if op == "Clip" else ()
        value = n.node(op, value, *limits)
    model = n.y(value, y, 0.9) if y else n.model(value)
    exact = bias != "float" and x in BYTES and w in BYTES and y in BYTES and not zero
    exact = exact and not set(after) - {"Relu", "Clip"}
    name = label("conv", x, w, y or "float", axis, bias or "bare", f"g{group}", *after)
    return Form(name + ("_zero" if zero else ""), model, exact)


def lacks(kinds: tuple[Kind, Kind, Kind]) -> bool:
    """Whether onnxruntime has no operator for these input, weights and output."""
    x, w, y = kinds
    return x is not y or (x is np.int8 and w is np.uint8)


def operator_conv(
    kinds: tuple[Kind, Kind, Kind], group: int, axis: bool, zero: int | None = None
) -> Form:
    """QLinearConv as it is, whose weights have a zero point that their type has no room for, or the
    one given."""
    x, w, y = kinds
    n = Quantised()
    count = 6 if axis else 1
    stored = n.const(random_array(n.random, w, (6, 6 // group, 3, 3)))
    points = (n.random.integers(-9, 9, count) + (120 if w is np.uint8 else 0)).astype(w)
    points = points if zero is None else np.full(count, zero, w)
    scales = n.random.uniform(0.01, 0.02, count).astype(np.float32)
    parameters = (scales, points) if axis else (scales[0], points[0])
    ws = (n.const(value) for value in parameters)
    xs = n.const(0.05, np.float32), n.const(x(ZERO[x]))
    ys = n.const(0.9, np.float32), n.const(y(ZERO[y]))
    bias = n.const(n.random.integers(-3000, 3000, 6), np.int32)
    inputs = (n.input("x", x, (1, 6, 6, 5)), *xs, stored, *ws, *ys, bias)
    value = n.node("QLinearConv", *inputs, pads=[1, 1, 1, 1], group=group)
    name = label("operator_conv", x, w, y, f"g{group}", int(axis))
    name += "" if zero is None else f"_zero{zero}"
    return Form(name, n.model(value), True, lacks(kinds))


def operator_product(kinds: tuple[Kind, Kind, Kind], weights: bool) -> Form:
    a, b, y = kinds
    n = Quantised()
    shape = (7, 4)
    right = n.const(random_array(n.random, b, shape)) if weights else n.input("b", b, shape)
    scales = [n.const(s, np.float32) for s in (0.05, 0.04, 0.5)]
    zeros = [n.const(k(ZERO[k])) for k in kinds]
    pairs = list(zip(scales, zeros, strict=True))
    value = n.node(
        "QLinearMatMul", n.input("a", a, (2, 3, 7)), *pairs[0], right, *pairs[1], *pairs[2]
    )
    return Form(label("operator_matmul", a, b, y, int(weights)), n.model(value), True, lacks(kinds))


def transposed(kinds: tuple[Kind, Kind, Kind], *, axis: int | None, group: int, bias: str) -> Form:
    x, w, y = kinds
    n = Quantised()
    value = n.x("x", x, (1, 4, 4, 3))
    weights, scale = n.weights(w, (4, 6 // group, 3, 2), axis)
    if bias == "int32":
        spread = np.tile(np.atleast_1d(scale), group) if axis is not None else scale
        b = (n.bias(np.float32(0.05 * FINE[x]) * spread, 6),)
    else:
        b = (n.const(n.random.normal(size=6), np.float32),) if bias else ()
    attrs = {"strides": [2, 1], "pads": [1, 0, 1, 1], "group": group}
    value = n.node("Relu", n.node("ConvTranspose", value, weights, *b, **attrs))
    model = n.y(value, y, 0.6) if y else n.model(value)
    return Form(label("transposed", x, w, y or "float", axis, f"g{group}", bias), model)


def dense(kinds: tuple[Kind, Kind, Kind], *, axis: int | None, bias: str, turned: bool) -> Form:
    x, w, y = kinds
    n, shape = Quantised(), (5, 8) if turned else (8, 5)
    value = n.x("x", x, (3, 8))
    weights, scale = n.weights(w, shape, axis)
    b = ()
    if bias == "int32":
        b = (n.bias(np.float32(0.05 * FINE[x]) * scale, 5),)
    elif bias:
        b = (n.const(n.random.normal(size=5), np.float32),)
    value = n.node("Gemm", value, weights, *b, transB=int(turned))
    model = n.y(value, y, 0.7) if y else n.model(value)
    exact = bias != "float" and all(k in BYTES for k in kinds)
    return Form(label("gemm", x, w, y or "float", axis, bias, int(turned)), model, exact)


def product(kinds: tuple[Kind, Kind, Kind], *, batch: tuple[int, ...]) -> Form:
    """Of two activations, as in attention."""
    a, b, y = kinds
    n = Quantised()
    left, right = n.x("a", a, (*batch, 3, 7)), n.x("b", b, (*batch, 7, 4), 0.04)
    value = n.node("MatMul", left, right)
    model = n.y(value, y, 0.4) if y else n.model(value)
    exact = all(k in BYTES for k in kinds) and (a == y)
    return Form(label("matmul", a, b, y or "float", len(batch)), model, exact)


def unary(op: str, x: Kind, y: Kind, **attrs: Any) -> Form:
    n = Quantised()
    scale = 1 / 128 if op in ("Sigmoid", "Tanh", "Softmax", "HardSigmoid") else 0.03
    value = n.node(op, n.x("x", x, (2, 3, 8)), **attrs)
    return Form(label(op, x, y, *attrs.values()), n.y(value, y, scale))


def binary(op: str, x: Kind, shape: tuple[int, ...]) -> Form:
    n = Quantised()
    value = n.node(op, n.x("a", x, (2, 3, 4, 4)), n.x("b", x, shape, 0.07))
    return Form(label(op, x, len(shape)), n.y(value, x, 0.1))


def moved(
    name: str,
    build: Callable[[Quantised, str], str],
    x: Kind,
    y_scale: float = 0.05,
) -> Form:
    """`build` of a tensor [1, 4, 6, 6]; with the input's own scale the values are the same."""
    n = Quantised()
    value = build(n, n.x("x", x, (1, 4, 6, 6)))
    return Form(label(name, x, y_scale), n.y(value, x, y_scale))


def longs(n: Quantised, *values: Any) -> str:
    return n.const(values[0] if len(values) == 1 else values, np.int64)


def split(n: Quantised, x: str) -> str:
    first = n.node("Split", x, longs(n, 1, 3), axis=1)
    n._nodes[-1].output.append("rest")
    return n.node("Concat", "rest", first, axis=1)


MOVES: dict[str, Callable[[Quantised, str], str]] = {
    "pad": lambda n, x: n.node("Pad", x, longs(n, 0, 0, 1, 0, 0, 0, 0, 2)),
    "pad_value": lambda n, x: n.node(
        "Pad", x, longs(n, 0, 0, 1, 0, 0, 0, 0, 2), n.const(-0.33, np.float32)
    ),
    "pad_edge": lambda n, x: n.node("Pad", x, longs(n, 0, 0, 1, 0, 0, 0, 0, 2), mode="edge"),
    "split": split,
    "scatter": lambda n, x: n.node(
        "ScatterND", x, longs(n, [[0, 2]]), n.node("Gather", x, longs(n, 1), axis=1)
    ),
    "gather": lambda n, x: n.node("Gather", x, longs(n, 3, 0), axis=1),
    "slice": lambda n, x: n.node("Slice", x, longs(n, [1]), longs(n, [5]), longs(n, [2])),
    "transpose": lambda n, x: n.node("Transpose", x, perm=[0, 2, 3, 1]),
    "reshape": lambda n, x: n.node("Reshape", x, longs(n, 1, 2, 72)),
    "space": lambda n, x: n.node("SpaceToDepth", x, blocksize=2),
    "depth": lambda n, x: n.node("DepthToSpace", x, blocksize=2),
    "max_pool": lambda n, x: n.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]),
    "maximum": lambda n, x: n.node("ReduceMax", x, longs(n, [2]), keepdims=0),
    "minimum": lambda n, x: n.node("ReduceMin", x, longs(n, [2, 3])),
    "global_max": lambda n, x: n.node("GlobalMaxPool", x),
    "nearest": lambda n, x: n.node("Resize", x, "", n.const([1, 1, 2, 2], np.float32)),
}
POOLS: dict[str, Callable[[Quantised, str], str]] = {
    "average": lambda n, x: n.node("AveragePool", x, kernel_shape=[2, 2], pads=[1, 1, 1, 1]),
    "global": lambda n, x: n.node("GlobalAveragePool", x),
    "mean": lambda n, x: n.node("ReduceMean", x, longs(n, [2, 3]), keepdims=0),
    "mean_channels": lambda n, x: n.node("ReduceMean", x, longs(n, [1])),
    "sum": lambda n, x: n.node("ReduceSum", x, longs(n, [3])),
}


def linear(n: Quantised, x: str) -> str:
    return n.node("Resize", x, "", n.const([1, 1, 2, 2], np.float32), mode="linear")


def forms() -> Iterator[Form]:
    for x in BYTES:
        for w in BYTES:
            for y in (x, None):
                yield convolution((x, w, y), axis=0)
                yield dense((x, w, y), axis=None, bias="int32", turned=True)
                yield product((x, w, y), batch=(2,))
            yield convolution((x, w, x), zero=True)
            if w is np.uint8:  # up to 255, beyond what kernels of int8 weights take
                yield operator_conv((x, w, x), 1, False, zero=0)
                yield operator_conv((x, w, x), 6, True, zero=0)
            yield transposed((x, w, x), axis=None, group=1, bias="int32")
        other = np.uint8 if x is np.int8 else np.int8
        yield product((x, x, other), batch=())
        yield convolution((x, np.int8, other), axis=0)
        yield convolution((x, np.int8, x), axis=0, group=4, after=("Relu",))
        yield convolution((x, np.int8, x), axis=0, group=2, after=("Clip",))
        yield convolution((x, np.int8, x), bias="float", after=("Relu",))
        yield convolution((x, np.int8, x), bias="", after=("HardSwish",))
        yield convolution((x, np.int8, None), bias="float", group=4, axis=0)
        yield transposed((x, np.int8, x), axis=1, group=2, bias="int32")
        yield transposed((x, np.int8, None), axis=1, group=1, bias="float")
        yield dense((x, np.int8, x), axis=0, bias="float", turned=True)
        yield dense((x, np.int8, None), axis=1, bias="float", turned=False)
        for four in (ml_dtypes.int4, ml_dtypes.uint4):
            yield convolution((x, four, x), axis=0)
            yield dense((x, four, x), axis=1, bias="int32", turned=False)
    for x in SHORTS:
        yield convolution((x, np.int8, x), axis=0)
        yield convolution((x, np.uint8, x), bias="", group=4)
        yield convolution((x, np.int16, x), axis=0)
        yield convolution((x, np.int8, np.int8), axis=0, after=("Relu",))
        yield transposed((x, np.int8, x), axis=None, group=1, bias="int32")
        yield dense((x, np.int8, x), axis=1, bias="int32", turned=False)
        yield dense((x, np.int8, None), axis=1, bias="float", turned=False)
        yield dense((x, np.int8, np.int8), axis=0, bias="int32", turned=True)
        yield convolution((x, np.int8, np.uint8), axis=0, group=4)
        yield product((x, x, x), batch=(2,))
        yield product((x, np.int8, None), batch=())
    yield convolution((np.int8, np.int8, np.int16), axis=0)
    for kinds in itertools.product(BYTES, BYTES, BYTES):
        yield operator_product(kinds, False)
        yield operator_product(kinds, True)
        yield operator_conv(kinds, 1, False)
    for w in BYTES:
        yield operator_conv((np.uint8, w, np.uint8), 2, False)
        yield operator_conv((np.uint8, w, np.uint8), 6, False)
        yield operator_conv((np.uint8, w, np.uint8), 1, True)
        yield operator_conv((np.uint8, w, np.uint8), 6, True)
    yield from elementwise_forms()
    yield from moved_forms()


UNARY = ("HardSwish", "HardSigmoid", "Gelu", "Sigmoid", "Tanh", "Elu", "LeakyRelu", "Exp")


def elementwise_forms() -> Iterator[Form]:
    for x in BYTES:
        for op in UNARY:
            yield unary(op, x, x)
        yield unary("Sigmoid", x, np.int16)
        yield unary("Softmax", x, x, axis=-1)
        yield unary("Softmax", x, x, axis=1)
        for op in ("Add", "Sub", "Mul", "Div"):
            yield binary(op, x, (2, 3, 4, 4))
        yield binary("Add", x, (3, 1, 1))
    yield unary("Sigmoid", np.int16, np.int16)
    yield unary("Tanh", np.uint16, np.uint8)
    yield unary("Softmax", np.int16, np.int16, axis=-1)
    yield binary("Mul", np.int16, (2, 3, 4, 4))


def moved_forms() -> Iterator[Form]:
    for x in (*BYTES, np.int16):
        for name, build in MOVES.items():
            yield moved(name, build, x)
        for name in ("pad", "pad_value", "split", "maximum"):
            yield moved(name, MOVES[name], x, 0.06)
        for name, build in POOLS.items():
            yield moved(name, build, x, 0.02)
        yield moved("linear", linear, x)


FORMS = tuple(forms())
