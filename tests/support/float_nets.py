"""Small float networks with weights from a fixed seed, and samples for them, for quantisers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from builders import Array, Net
from onnx import helper

SHAPE = (1, 3, 12, 12)


def _normal(draw: np.random.Generator, *shape: int) -> Array:
    fan = max(1, int(np.prod(shape[1:])))
    return (draw.normal(size=shape) * np.sqrt(2 / fan)).astype(np.float32)


def mobile(seed: int = 0, spread: float = 0.0, apart: bool = False) -> onnx.ModelProto:
    """Depthwise and pointwise layers and a classifier of five classes. Channels between them differ
    by factors of up to 10 ** `spread`; `apart` has normalisations as Mul and Add."""
    draw = np.random.default_rng(seed)
    net = Net(opset=17)
    x = net.input("x", np.float32, SHAPE)
    before: Array = np.ones(3, np.float32)
    width = 3
    for out in (8, 12, 12):
        x, before = _block(net, draw, x, before, width, out, spread, apart)
        width = out
    x = net.node("GlobalAveragePool", x)
    x = net.node("Flatten", x)
    w = _normal(draw, 5, width) / before
    y = net.node("Gemm", x, net.const(w), net.const(_normal(draw, 5)), transB=1)
    return _typed(net.model(net.node("Softmax", y)))


def _block(
    net: Net,
    draw: np.random.Generator,
    x: str,
    before: Array,
    width: int,
    out: int,
    spread: float,
    apart: bool,
) -> tuple[str, Array]:
    """A depthwise and a pointwise convolution, and the factors of what they make."""
    between = (10 ** draw.uniform(-spread, spread, width)).astype(np.float32)
    taps = _normal(draw, width, 1, 3, 3) * (between / before)[:, None, None, None]
    x = net.node("Conv", x, net.const(taps), group=width, pads=[1, 1, 1, 1])
    shift = (draw.normal(size=width) * between).astype(np.float32)
    if apart:
        factor = draw.uniform(0.5, 2, (1, width, 1, 1)).astype(np.float32)
        x = net.node("Mul", x, net.const(factor))
        x = net.node("Add", x, net.const(shift.reshape(1, width, 1, 1)))
    else:
        ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
        parts = (net.const(p) for p in (ones, shift, zeros, ones))
        x = net.node("BatchNormalization", x, *parts)
    x = net.node("Relu", x)
    after = (10 ** draw.uniform(-spread, spread, out)).astype(np.float32)
    points = _normal(draw, out, width, 1, 1) / between[:, None, None] * after[:, None, None, None]
    x = net.node("Conv", x, net.const(points), strides=[1, 1])
    return net.node("Relu", x), after


def residual(seed: int = 0, opset: int = 17) -> onnx.ModelProto:
    """Two branches that are added, a Concat, a Sigmoid and a MatMul with a bias."""
    draw = np.random.default_rng(seed)
    net = Net(opset=opset)
    x = net.input("x", np.float32, SHAPE)
    stem = net.const(_normal(draw, 6, 3, 3, 3))
    a = net.node("Relu", net.node("Conv", x, stem, pads=[1, 1, 1, 1], strides=[2, 2]))
    b = net.node("Conv", a, net.const(_normal(draw, 6, 6, 3, 3)), pads=[1, 1, 1, 1])
    c = net.node("Add", a, b)
    d = net.node("Concat", c, net.node("Sigmoid", c), axis=1)
    d = net.node("MaxPool", d, kernel_shape=[2, 2], strides=[2, 2])
    flat = net.node("Reshape", d, net.const([1, 108], np.int64))
    y = net.node("MatMul", flat, net.const(_normal(draw, 4, 108).T.copy()))
    return _typed(net.model(net.node("Add", y, net.const(_normal(draw, 4)))))


def _typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """With the types that onnxruntime's quantiser wants."""
    for out in model.graph.output:
        out.CopyFrom(helper.make_tensor_value_info(out.name, onnx.TensorProto.FLOAT, None))
    return onnx.shape_inference.infer_shapes(model)


def samples(seed: int = 1, count: int = 24, shape: tuple[int, ...] = SHAPE) -> Array:
    """[count, *shape]: smooth patterns with some noise, in [-1, 1]."""
    draw = np.random.default_rng(seed)
    steps = np.linspace(0, 3, shape[-1], dtype=np.float32)
    waves = [np.sin(steps * f + p) for f, p in draw.uniform(0, 4, (count * shape[1], 2))]
    found: Any = np.array(waves, np.float32).reshape(count, shape[0], shape[1], 1, shape[-1])
    made = 0.7 * found * found.transpose(0, 1, 2, 4, 3)
    return np.clip(made + draw.normal(0, 0.2, (count, *shape)), -1, 1).astype(np.float32)
