"""Models for kernels without weights, as kernel_cases.py has them for those with some."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from builders import Net


def tables(seed: int) -> onnx.ModelProto:
    """Functions of one tensor of bytes, signed or not, alone and multiplied by it."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    for k, size in enumerate((1, 3, 4, 15, 16, 33, 1000)):
        for kind in (np.int8, np.uint8):
            x = net.dq(net.input(f"x{k}{kind.__name__}", kind, (size,)), 0.04, kind(100))
            sigmoid = net.q(net.node("Sigmoid", x), 1 / 256, np.int8(-128))
            swish = net.node("Mul", x, net.dq(sigmoid, 1 / 256, np.int8(-128)))
            outs.append(net.q(swish, 0.03, np.uint8(rng.integers(256))))
            outs.append(net.q(net.node("Tanh", x), 1 / 128, kind(64)))
    return net.model(*outs)


def means(seed: int) -> onnx.ModelProto:
    """Windows inside their images: whole ones, whole rows, parts, 255 and 256 elements; some with
    channels, a type or a padding that no vector takes."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    cases: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        (8, (5, 5), (5, 5), {}),
        (16, (6, 7), (2, 7), {"strides": [2, 1]}),
        (24, (6, 7), (3, 2), {"strides": [1, 2]}),
        (8, (15, 17), (15, 17), {}),
        (8, (16, 16), (16, 16), {}),
        (8, (12,), (4,), {"strides": [3]}),
        (8, (9, 9), (3, 3), {"dilations": [2, 3]}),
        (8, (2, 4, 3), (2, 2, 3), {}),
        (12, (4, 4), (4, 4), {}),
        (8, (4, 4), (3, 3), {"pads": [1, 1, 1, 1]}),
    ]
    for k, (channels, size, kernel, attrs) in enumerate(cases):
        kind = np.uint8 if k == len(cases) - 1 else np.int8
        x = net.input(f"x{k}", kind, (1 + k % 2, channels, *size))
        zero, scale = kind(rng.integers(0, 128)), rng.uniform(0.01, 0.2)
        y = net.node("AveragePool", net.dq(x, scale, zero), kernel_shape=list(kernel), **attrs)
        outs.append(net.q(y, scale * rng.uniform(0.1, 1), kind(rng.integers(0, 100))))
    return net.model(*outs)


def pairs(seed: int) -> onnx.ModelProto:
    """Sums and products of two tensors of bytes: of one shape, of a row or a pixel for all, and a
    product some of whose factors are rounded apart."""
    rng, net, outs = np.random.default_rng(seed), Net(), []
    shapes = ((1, 5, 3, 24), (1, 37), (2, 3, 3, 9), (1, 16, 4))
    gates = ((1, 1, 1, 24), (1, 37), (2, 1, 1, 9), (1, 16, 1))
    for k in range(12):
        scales = [np.float32(s) for s in rng.uniform(0.005, 0.05, 2)]
        zeros = [np.int8(z) for z in rng.integers(-128, 128, 3)]
        op, out = ("Mul", "Add")[k % 2], np.float32(rng.uniform(0.01, 0.05))
        if k == 0:  # as in tests/ops/test_pairs.py
            scales, out = [np.float32(0.02793813), np.float32(0.0026968282)], 0.010455706
            zeros = [np.int8(-128)] * 3
        pair = shapes[k % 4], (gates, shapes)[k // 4 % 2][k % 4]
        named = zip(pair, scales, zeros, strict=False)
        x, g = (net.dq(net.input(f"x{k}_{i}", np.int8, s), *q) for i, (s, *q) in enumerate(named))
        outs.append(net.q(net.node(op, *((x, g) if k % 3 else (g, x))), out, zeros[2]))
    return net.model(*outs)


def standardised(seed: int) -> onnx.ModelProto:
    """Rows of bytes less their mean over their deviation, of lengths that fill vectors or do not,
    signed and unsigned."""
    rng, net, outs = np.random.default_rng(seed), Net(), []
    for k, shape in enumerate(((3, 20), (2, 64), (1, 4), (2, 3, 33), (1, 1000), (2, 8))):
        row = shape[-1]
        kind = np.uint8 if k == 5 else np.int8
        x = net.dq(net.input(f"x{k}", kind, shape), rng.uniform(0.01, 0.2), kind(rng.integers(100)))
        scale, bias = (net.const(rng.normal(size=row), np.float32) for _ in range(2))
        y = net.node("LayerNormalization", x, scale, bias, axis=-1)
        outs.append(net.q(y, rng.uniform(0.01, 0.05), np.int8(rng.integers(-9, 9))))
    return net.model(*outs)


def maxima(seed: int) -> onnx.ModelProto:
    """Maxima of bytes and halfwords: windows of either axis and both, inside and around the image,
    apart, of all channel counts, and lines too long for the stack."""
    rng, net, outs = np.random.default_rng(seed), Net(), []
    around = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    cases: list[tuple[tuple[int, ...], dict[str, Any]]] = [
        ((1, 16, 7, 6), around),
        ((2, 5, 9, 8), {**around, "strides": [2, 2]}),
        ((1, 33, 4, 4), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ((1, 6, 9, 7), {"kernel_shape": [4, 3], "pads": [3, 0, 1, 2], "strides": [3, 1]}),
        ((1, 20, 11), {"kernel_shape": [3], "dilations": [2]}),
        ((2, 3, 12), {"kernel_shape": [3], "pads": [2, 1], "strides": [2]}),
        ((1, 7, 9, 9), {"kernel_shape": [3, 2], "dilations": [2, 3]}),
        ((1, 4, 5, 6), {"kernel_shape": [5, 1]}),
        ((1, 4, 5, 6), {"kernel_shape": [2, 3], "ceil_mode": 1, "strides": [2, 2]}),
        ((1, 4, 5, 6), {**around, "dilations": [2, 2]}),
        ((1, 40, 3, 30), around),
        (
            (1, 3, 6, 7),
            {"kernel_shape": [2, 2], "dilations": [3, 1], "ceil_mode": 1, "strides": [2, 2]},
        ),
    ]
    for k, (shape, attrs) in enumerate(cases):
        kind = (np.int8, np.uint8, np.int16)[k % 3]
        scale, zero = np.float32(rng.uniform(0.01, 0.2)), kind(0)
        x = net.dq(net.input(f"x{k}", kind, shape), scale, zero)
        outs.append(net.q(net.node("MaxPool", x, **attrs), scale, zero))
    return net.model(*outs)


def pools() -> onnx.ModelProto:
    """Maxima and means of windows, with padding, steps and what follows them."""
    net, outs = Net(), []
    around = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    cases: list[tuple[str, type, tuple[int, ...], dict[str, object], str]] = [
        ("MaxPool", np.float32, (1, 16, 7, 6), around, ""),
        ("MaxPool", np.float32, (2, 8, 9, 9), {**around, "strides": [2, 3]}, "Relu"),
        ("MaxPool", np.float32, (1, 24, 11), {"kernel_shape": [3], "dilations": [2]}, ""),
        ("MaxPool", np.float32, (1, 12, 5, 5), around, ""),
        ("MaxPool", np.int8, (1, 32, 6, 5), around, ""),
        ("MaxPool", np.uint8, (2, 16, 5, 4, 3), {"kernel_shape": [2, 2, 2]}, ""),
        ("AveragePool", np.float32, (1, 16, 6, 6), around, ""),
        ("AveragePool", np.float32, (1, 8, 6, 7), {**around, "count_include_pad": 1}, "Relu"),
        ("AveragePool", np.float32, (2, 40, 5, 3), {"kernel_shape": [5, 3]}, "Neg"),
    ]
    for k, (op, dtype, shape, attrs, after) in enumerate(cases):
        y = net.node(op, net.input(f"x{k}", dtype, shape), **attrs)
        outs.append(net.node(after, y) if after else y)
    return net.model(*outs)
