"""The third generator's layers of quantised tensors, as operators between DequantizeLinear and
QuantizeLinear, and as operators of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from grow import NotThisError
from other import Maker
from shape_parts import (
    BYTES,
    MS,
    Layer,
    group_of,
    like,
    nibbles,
    quantise,
    range_of,
    there_and_back,
    weights,
    window,
)
from theirs import most_of_weights

KINDS = (np.int8, np.int8, np.int8, np.uint8, np.uint8, np.int16)


def _ended(m: Maker, y: str, kind: Any) -> str:
    """An activation, a residual, and the rounding to integers."""
    if m.odds(0.4):
        y = m.do("Relu", y) if m.odds(0.6) else m.do("Clip", y, m.const(-0.5), m.const(1.5))
    elif m.odds(0.3):
        other = m.input(m.shape(y))
        m.arrays[other] = m.rng.normal(size=m.shape(y)).astype(np.float32)
        y = m.do("Add", there_and_back(m, y, kind), there_and_back(m, other, kind))
    q, s, z = quantise(m, y, kind)
    return m.do("DequantizeLinear", q, s, z) if m.odds(0.5) else q


def _kind(m: Maker, opset_of_shorts: int = 21) -> Any:
    kind = m.pick(KINDS)
    return np.int8 if kind == np.int16 and m.opset < opset_of_shorts else kind


def conv(m: Maker, x: str) -> str:
    kind = _kind(m)
    c, *spatial = m.shape(x)[1:]
    attrs = window(m, tuple(spatial), m.pick((1, 3, 3, 5)))
    group = group_of(m, c)
    out = group * m.pick((1, 1, 2, 3) if group > 1 else (1, 2, 3, 4, 5, 8, 17))
    shape = (out, c // group, *attrs["kernel_shape"])
    w = weights(m, shape, 0, np.uint8 if kind == np.uint8 and m.odds(0.3) else np.int8)
    bias = [m.weights(out)] if m.odds(0.5) else []
    return _ended(m, m.do("Conv", there_and_back(m, x, kind), w, *bias, group=group, **attrs), kind)


def depthwise(m: Maker, x: str) -> str:
    kind = m.pick(BYTES)
    c, *spatial = m.shape(x)[1:]
    attrs = window(m, tuple(spatial), m.pick((3, 3, 5)))
    w = weights(m, (c * m.pick((1, 1, 1, 2)), 1, *attrs["kernel_shape"]), 0)
    return _ended(m, m.do("Conv", there_and_back(m, x, kind), w, group=c, **attrs), kind)


def _wide_input(m: Maker, channels: int) -> str:
    x = m.input((m.pick((1, 1, 2)), channels, m.pick((3, 5, 8)), m.pick((4, 5, 7, 9))))
    m.arrays[x] = m.rng.normal(size=m.shape(x)).astype(np.float32)
    return x


def wide(m: Maker, _: str) -> str:
    """Of many channels, as kernels for blocks of them take: windows, single pixels, depthwise;
    weights of eight or four bits."""
    c = m.pick((4, 8, 12, 16, 24, 32))
    size, stride = m.pick((1, 1, 3, 3, 5)), m.pick((1, 1, 2))
    group = c if size > 1 and m.odds(0.4) else 1
    out = c if group > 1 else m.pick((4, 8, 15, 16, 32))
    shape = (out, c // group, size, size)
    w = nibbles(m, shape, 0) if m.opset >= 21 and m.odds(0.3) else weights(m, shape, 0)
    pads = m.pick(([size // 2] * 4, [0] * 4, [0, 0, size // 2, size // 2]))
    x = there_and_back(m, _wide_input(m, c), np.int8)
    bias = [m.weights(out)] if m.odds(0.5) else []
    y = m.do("Conv", x, w, *bias, group=group, pads=pads, strides=[stride] * 2)
    return _ended(m, y, np.int8)


def long(m: Maker, _: str) -> str:
    """Dense layers with many inputs."""
    n, out = m.pick((32, 61, 64, 128, 256)), m.pick((4, 10, 16, 33))
    x = m.input((m.pick((1, 1, 1, 2, 3)), n))
    m.arrays[x] = m.rng.normal(size=m.shape(x)).astype(np.float32)
    w = nibbles(m, (out, n), 0) if m.opset >= 21 and m.odds(0.3) else weights(m, (out, n), 0)
    y = m.do("Gemm", there_and_back(m, x, np.int8), w, m.weights(out), transB=1)
    return _ended(m, y, np.int8)


def transposed(m: Maker, x: str) -> str:
    kind = m.pick(BYTES)
    c, *spatial = m.shape(x)[1:]
    attrs, group = window(m, tuple(spatial), 3), group_of(m, c)
    attrs.pop("auto_pad", None)
    w = weights(m, (c, m.upto(1, 5), *attrs["kernel_shape"]), 1)
    y = m.do("ConvTranspose", there_and_back(m, x, kind), w, group=group, **attrs)
    return _ended(m, y, kind)


def dense(m: Maker, x: str) -> str:
    kind = _kind(m)
    n, out = m.shape(x)[-1], m.pick((1, 2, 3, 4, 5, 8, 17, 33))
    x = there_and_back(m, x, kind)
    if len(m.shape(x)) == 2 and m.odds(0.5):
        y = m.do("Gemm", x, weights(m, (out, n), 0), m.weights(out), transB=1)
    else:
        y = m.do("MatMul", x, weights(m, (n, out), 1))
        y = m.do("Add", y, m.weights(out)) if m.odds(0.5) else y
    return _ended(m, y, kind)


def products(m: Maker, x: str) -> str:
    """Both operands are computed."""
    kind = m.pick(BYTES)
    shape = m.shape(x)
    own = [n if m.odds(0.6) else 1 for n in shape[:-2]]
    other = m.input([*own, shape[-1], m.pick((1, 2, 3, 5, 8))])
    m.arrays[other] = m.rng.normal(size=m.shape(other)).astype(np.float32)
    pair = there_and_back(m, x, kind), there_and_back(m, other, kind)
    return _ended(m, m.do("MatMul", *pair), kind)


def pool(m: Maker, x: str) -> str:
    kind = _kind(m)
    op = m.pick(("MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool"))
    x = there_and_back(m, x, kind)
    if op[0] == "G":
        return _ended(m, m.do(op, x), kind)
    attrs = window(m, m.shape(x)[2:], dilated=op[0] == "M")
    if op == "AveragePool":
        attrs["count_include_pad"] = m.upto(0, 1)
    return _ended(m, m.do(op, x, **attrs), kind)


def pair(m: Maker, x: str) -> str:
    kind = _kind(m)
    both = [there_and_back(m, x, kind), there_and_back(m, like(m, x), kind)]
    m.rng.shuffle(both)
    return _ended(m, m.do(m.pick(("Add", "Mul", "Sub", "Max", "Min")), *both), kind)


def table(m: Maker, x: str) -> str:
    kind = _kind(m)
    op = m.pick(("Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Softplus", "Exp", "Neg", "Abs"))
    return _ended(m, m.do(op, there_and_back(m, x, kind)), kind)


def line(m: Maker, x: str) -> str:
    kind = _kind(m)
    axis = m.upto(0, len(m.shape(x)) - 1)
    x = there_and_back(m, x, kind)
    op = m.pick(("Softmax", "Softmax", "LogSoftmax", "ReduceMean", "ReduceSum", "ReduceMax"))
    if op[0] != "R":
        return _ended(m, m.do(op, x, axis=axis), kind)
    keep = m.upto(0, 1)
    if m.opset >= 18 or op == "ReduceSum":
        return _ended(m, m.do(op, x, m.ints(axis), keepdims=keep), kind)
    return _ended(m, m.do(op, x, axes=[axis], keepdims=keep), kind)


def norm(m: Maker, x: str) -> str:
    kind = m.pick(BYTES)
    x = there_and_back(m, x, kind)
    c = m.shape(x)[1]
    if m.odds(0.5):
        return _ended(m, m.do("InstanceNormalization", x, m.weights(c), m.weights(c)), kind)
    own = m.shape(x)[-1]
    return _ended(m, m.do("LayerNormalization", x, m.weights(own), m.weights(own)), kind)


def resize(m: Maker, x: str) -> str:
    kind = m.pick(BYTES)
    shape = m.shape(x)
    x = there_and_back(m, x, kind)
    if m.odds(0.4) and shape[1]:
        rest = [1] * (len(shape) - 2)
        x = there_and_back(m, m.do("Conv", x, weights(m, (3, shape[1], *rest), 0)), kind)
        shape = m.shape(x)
    sizes = [n if k < 2 else m.upto(1, 2 * n + 1) for k, n in enumerate(shape)]
    mode, way = m.pick(("nearest", "linear")), m.pick(("half_pixel", "asymmetric"))
    more = {"coordinate_transformation_mode": way}
    return _ended(m, m.do("Resize", x, "", "", m.ints(*sizes), mode=mode, **more), kind)


def moved(m: Maker, x: str) -> str:
    """Movements of quantised tensors, one or two of which have other scales."""
    kind = _kind(m)
    q, s, z = quantise(m, x, kind)
    y = m.do("DequantizeLinear", q, s, z)
    rank = len(m.shape(y))
    op = m.pick(("Concat", "Concat", "Transpose", "Pad", "Slice", "Flatten"))
    axis = m.upto(0, rank - 1)
    if op == "Concat":
        other = there_and_back(m, m.do("Relu", x), kind)
        y = m.do(op, *m.pick(((y, other), (other, y), (y, y), (y, other, y))), axis=axis)
    elif op == "Transpose":
        y = m.do(op, y, perm=m.rng.permutation(rank).tolist())
    elif op == "Pad":
        y = m.do(op, y, m.ints(*(m.upto(0, 2) for _ in range(2 * rank))))
    elif op == "Slice":
        y = m.do(op, y, m.ints(m.upto(0, 1)), m.ints(9), m.ints(axis), m.ints(m.upto(1, 2)))
    else:
        y = m.do(op, y)
    if m.odds(0.6):
        return m.do("QuantizeLinear", y, s, z)
    return _ended(m, y, kind)


def operator_conv(m: Maker, x: str) -> str:
    """QLinearConv as it is; weights may have a zero point for each channel."""
    kind = m.pick(BYTES)
    q, s, z = quantise(m, x, kind)
    c, *spatial = m.shape(x)[1:]
    attrs, group = window(m, tuple(spatial), 3), group_of(m, c)
    out = group * m.upto(1, 4)
    count = out if m.odds(0.5) else 0
    own = np.int8 if kind == np.int8 or m.odds(0.5) else np.uint8
    info, most = np.iinfo(own), most_of_weights(kind)
    low, high = (-most, most) if (own, kind) == (np.int8, np.uint8) else (info.min, info.max)
    w = m.const(m.rng.integers(low, high + 1, (out, c // group, *attrs["kernel_shape"])), own)
    scales = m.rng.uniform(0.002, 0.02, count or 1)
    zero = np.full(count or 1, m.pick((0, 1, 128)) if own == np.uint8 else 0)
    ws, wz = m.const(scales if count else scales[0]), m.const(zero if count else zero[0], own)
    bias = [m.const(m.rng.integers(-2000, 2000, out), np.int32)] if m.odds(0.5) else []
    more = m.const(m.rng.uniform(0.02, 0.08)), m.const(m.upto(0, 100), kind)
    return m.do("QLinearConv", q, s, z, w, ws, wz, *more, *bias, group=group, **attrs)


def operator_product(m: Maker, x: str) -> str:
    kind = m.pick(BYTES)
    q, s, z = quantise(m, x, kind)
    shape = (m.shape(x)[-1], m.pick((1, 2, 3, 5, 8)))
    if m.odds(0.6):
        most = most_of_weights(kind)
        w = m.const(m.rng.integers(-most, most + 1, size=shape), np.int8)
        own = m.const(0.01), m.const(m.pick((0, 3)), np.int8)
    else:
        w = m.input([*([m.shape(x)[0]] * (len(m.shape(x)) == 3)), *shape], np.dtype(kind))
        own = m.const(0.01), m.const(7, kind)
    end = m.const(m.rng.uniform(0.01, 0.05)), m.const(m.upto(0, 100), kind)
    return m.do("QLinearMatMul", q, s, z, w, *own, *end)


def operator(m: Maker, x: str) -> str:
    """Those of onnxruntime's own domain."""
    kind = m.pick(BYTES)
    q, s, z = quantise(m, x, kind)
    end = m.const(m.rng.uniform(0.01, 0.05)), m.const(m.upto(0, 100), kind)
    rank = len(m.shape(x))
    op = m.pick(("Add", "Mul", "AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu"))
    if op in ("Add", "Mul"):
        other = like(m, x)
        scale, zero = range_of(m, other, kind)
        o = m.do("QuantizeLinear", other, m.const(scale), m.const(zero, kind))
        given = (o, m.const(scale), m.const(zero, kind))
        return m.do(f"QLinear{op}", q, s, z, *given, *end, domain=MS)
    if "Pool" in op:
        if rank < 3:
            raise NotThisError
        last = m.upto(0, 1)
        if op[0] == "G":
            return m.do(f"QLinear{op}", q, s, z, *end, domain=MS, channels_last=last)
        attrs = window(m, m.shape(x)[2:], dilated=False)
        return m.do(f"QLinear{op}", q, s, z, *end, domain=MS, **attrs)
    return m.do(f"QLinear{op}", q, s, z, *end, domain=MS)


ALL = (1, 2, 3, 4, 4, 5)
BYTE_LAYERS = (
    *(Layer(conv) for _ in range(3)),
    *(Layer(depthwise, (3, 4, 4, 4)) for _ in range(2)),
    *(Layer(dense, (2, 3, 4)) for _ in range(2)),
    *(Layer(wide) for _ in range(4)),
    *(Layer(long) for _ in range(2)),
    Layer(transposed, (3, 4, 4, 4, 5)),
    Layer(products, (2, 3, 4)),
    Layer(pool),
    Layer(pair, ALL, empty=True),
    Layer(table, ALL, empty=True),
    Layer(line, ALL),
    Layer(norm, (3, 4)),
    Layer(resize, (3, 4, 4, 5)),
    Layer(moved, (2, 3, 4, 5), empty=True),
    Layer(operator_conv, (3, 4, 4)),
    Layer(operator_product, (2, 3)),
    Layer(operator, ALL),
)
