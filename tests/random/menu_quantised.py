"""What a network may be grown with on quantised tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from grow import Grower, Value
from onnx import TensorProto
from theirs import most_of_weights
from windows import window


def quantised(g: Grower) -> None:
    """A value rounded to eight bits and back."""
    x = g.value(lambda v: v.array.dtype == np.float32 and v.array.size > 1)
    g.add("DequantizeLinear", *_quantise(g, x))


def _quantise(g: Grower, x: Value) -> tuple[Value, Value, Value]:
    """The quantised value, its scale and zero point, which fit its range."""
    kind = g.one(np.int8, np.uint8)
    low, high = min(float(x.array.min()), 0.0), max(float(x.array.max()), 0.01)
    scale = np.float32((high - low) / 255 * g.rng.uniform(0.9, 1.3))
    zero = np.clip(round(np.iinfo(kind).min - low / scale), *_range(kind))
    if kind == np.int8 and g.chance(0.3):
        scale, zero = np.float32(max(-low, high) / 127), 0
    s, z = g.const(scale), g.const(zero, kind)
    return g.add("QuantizeLinear", x, s, z), s, z


def _range(kind: Any) -> tuple[int, int]:
    return np.iinfo(kind).min, np.iinfo(kind).max


def _weights(g: Grower, *shape: int, axis: int = 0) -> Value:
    """Eight-bit weights, dequantised."""
    per = g.chance(0.5)
    w = g.const(g.rng.integers(-127, 128, size=shape), np.int8)
    count = shape[axis] if per else 1
    scale = g.rng.uniform(0.5, 1.5, count) / 64 / max(1, math.prod(shape) / shape[axis]) ** 0.5
    s = g.const(scale if per else scale[0], np.float32)
    z = g.const(np.zeros(s.shape, np.int8))
    return g.add("DequantizeLinear", w, s, z, **({"axis": axis} if per else {}))


def quantised_layer(g: Grower) -> None:
    """Between two quantised tensors: Conv, MatMul, Gemm, a pool or arithmetic."""
    kind = g.one("conv", "conv", "matmul", "add", "pool", "concat", "softmax", "transposed", "mean")
    if kind in ("conv", "transposed"):
        x = g.floats(3, 4)
        x = g.add("DequantizeLinear", *_quantise(g, x))
        attrs, channels = window(g, x), x.shape[1]
        if kind == "transposed":
            attrs.pop("auto_pad", None)
            w = _weights(g, channels, g.whole(1, 5), *attrs["kernel_shape"], axis=1)
            y = g.add("ConvTranspose", x, w, **attrs)
        else:
            group = g.one(1, 1, channels)
            out = group * g.whole(1, 1 + 8 // group)
            w = _weights(g, out, channels // group, *attrs["kernel_shape"])
            y = g.add(
                "Conv", x, w, *([g.normal(out)] if g.chance(0.4) else []), group=group, **attrs
            )
    elif kind == "matmul":
        x = g.value(lambda v: v.array.dtype == np.float32 and v.rank >= 2)
        x = g.add("DequantizeLinear", *_quantise(g, x))
        y = g.add("MatMul", x, _weights(g, x.shape[-1], g.whole(1, 9), axis=1))
    elif kind in ("add", "concat"):
        x = g.floats()
        other = g.value(lambda v: v.array.dtype == np.float32 and v.shape == x.shape)
        x, other = (g.add("DequantizeLinear", *_quantise(g, v)) for v in (x, other))
        if kind == "add" or not x.rank:
            y = g.add(g.one("Add", "Mul", "Sub"), x, other)
        else:
            y = g.add("Concat", x, other, axis=g.whole(0, x.rank - 1))
    else:
        x = g.floats(3, 4)
        x = g.add("DequantizeLinear", *_quantise(g, x))
        if kind == "pool":
            op = g.one("AveragePool", "MaxPool")
            y = g.add(op, x, **window(g, x))
        elif kind == "softmax":
            y = g.add("Softmax", x, axis=-1)
        else:
            y = g.add(g.one("GlobalAveragePool", "Relu", "Sigmoid", "HardSwish"), x)
    if g.chance(0.3):
        y = g.add("Relu", y)
    q = _quantise(g, y)
    if g.chance(0.8):
        g.add("DequantizeLinear", *q)


def dynamic(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype == np.float32 and v.rank == 2)
    y, scale, zero = g.parts("DynamicQuantizeLinear", x, outputs=3)
    most = most_of_weights(y.array.dtype)
    w = g.const(g.rng.integers(-most, most + 1, size=(x.shape[1], g.whole(1, 6))), np.int8)
    product = g.add("MatMulInteger", y, w, zero)
    g.add("Mul", g.add("Cast", product, to=TensorProto.FLOAT), scale)
