"""Models for kernels that take many channels or long lines, as kernel_cases.py has them for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from builders import Net

Case = tuple[int, int, tuple[int, int], tuple[int, int], dict[str, Any], bool]


def sixteens(seed: int) -> onnx.ModelProto:
    """Convolutions of multiples of sixteen channels whose windows overlap, or nearly so: rows that
    four divides and others, paddings, strides, batches, a single column, more channels than a load
    reaches, and residuals."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    ones = net.dq(net.const(np.eye(32, dtype=np.int8)[:, :, None, None]), 1.0, np.int8(0))
    cases: list[Case] = [
        # input channels, output channels, image, window, attributes, residual
        (32, 32, (5, 8), (3, 3), {"pads": [1, 1, 1, 1]}, True),
        (16, 6, (4, 7), (3, 3), {"pads": [1, 1, 1, 1]}, False),
        (32, 32, (3, 7), (3, 3), {"pads": [1, 1, 1, 1]}, True),
        (48, 8, (7, 14), (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}, False),
        (16, 40, (3, 15), (3, 3), {"pads": [0, 0, 1, 1]}, False),
        (16, 10, (4, 15), (2, 2), {"strides": [2, 2]}, False),
        (16, 4, (3, 17), (1, 5), {"pads": [0, 2, 0, 2]}, False),
        (16, 4, (1, 30), (1, 7), {"strides": [1, 3]}, False),
        (32, 12, (29, 1), (4, 1), {"pads": [2, 0, 1, 0]}, False),
        (144, 2, (2, 6), (3, 3), {"pads": [1, 1, 1, 1]}, False),
        (16, 16, (9, 2), (3, 3), {"pads": [2, 3, 2, 3]}, False),
    ]
    for k, (ic, oc, size, window, attrs, residual) in enumerate(cases):
        zero = np.int8(rng.integers(-128, 128))
        x = net.dq(net.input(f"x{k}", np.int8, (1 + k % 2, ic, *size)), 0.05, zero)
        x = net.dq(net.q(net.node("Conv", x, ones), 0.05, zero), 0.05, zero) if residual else x
        w = rng.integers(-127, 128, size=(oc, ic, *window)).astype(np.int8)
        scale = rng.uniform(0.0005, 0.005, size=oc).astype(np.float32)
        scale = np.exp2(np.floor(np.log2(scale))) if k % 3 == 0 else scale  # exact in integers
        bias = rng.integers(-9000, 9000, size=oc).astype(np.int32)
        y = net.node(
            "Conv",
            x,
            net.dq(net.const(w), scale, np.zeros(oc, np.int8), 0),
            net.dq(net.const(bias), scale * np.float32(0.05), np.zeros(oc, np.int32), 0),
            **attrs,
        )
        y_scale, y_zero = np.float32(rng.uniform(0.05, 0.3)), np.int8(rng.integers(-128, 128))
        if residual:
            y = net.node("Add", net.dq(net.q(y, y_scale, y_zero), y_scale, y_zero), x)
        y = net.node("Relu", y) if k % 2 else y
        outs.append(net.q(y, y_scale, np.int8(-128 if k % 2 else y_zero)))
    return net.model(*outs)


def along_one_axis(seed: int) -> onnx.ModelProto:
    """Depthwise convolutions of lines: few taps and as many as a vector holds, one output and many,
    a column, batches, outputs of the unsigned type; more taps, strides and odd channels for
    others."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    cases: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        (8, (24,), (5,), {}),
        (16, (1, 20), (1, 10), {}),
        (4, (40, 1), (13, 1), {}),
        (12, (13, 1), (13, 1), {}),
        (4, (9,), (2,), {}),
        (8, (140,), (7,), {}),
        (8, (20,), (14,), {}),
        (8, (30,), (4,), {"strides": [2]}),
        (6, (30,), (4,), {}),
        (8, (30,), (9,), {"pads": [4, 4]}),
    ]
    for k, (channels, size, window, attrs) in enumerate(cases):
        x = net.dq(net.input(f"x{k}", np.int8, (1 + k % 2, channels, *size)), 0.05, np.int8(9 * k))
        w = rng.integers(-128, 128, size=(channels, 1, *window)).astype(np.int8)
        scale = rng.uniform(0.0005, 0.01, size=channels).astype(np.float32)
        scale = np.exp2(np.floor(np.log2(scale))) if k % 3 == 0 else scale  # exact in integers
        bias = rng.integers(-9000, 9000, size=channels).astype(np.int32)
        y = net.node(
            "Conv",
            x,
            net.dq(net.const(w), scale, np.zeros(channels, np.int8), 0),
            net.dq(net.const(bias), scale * np.float32(0.05), np.zeros(channels, np.int32), 0),
            group=channels,
            **attrs,
        )
        kind = np.uint8 if k == 4 else np.int8
        outs.append(net.q(y, np.float32(rng.uniform(0.03, 0.2)), kind(rng.integers(0, 128))))
    return net.model(*outs)


def coinciding(seed: int) -> onnx.ModelProto:
    """Depthwise layers in which numbers that a loop counts down are others that it keeps: columns
    and the bytes of four columns, turns of a line and its channels. A compiler may hold both in one
    register."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    zero, scale = np.int8(-3), np.float32(0.05)
    for k, (channels, size, window) in enumerate(
        [(8, (4, 32), (3, 3)), (4, (3, 16), (3, 3)), (4, (60,), (5,)), (8, (120,), (5,))]
    ):
        ones = np.eye(channels, dtype=np.int8).reshape(channels, channels, *(1 for _ in size))
        x = net.dq(net.input(f"x{k}", np.int8, (1, channels, *size)), scale, zero)
        if len(size) > 1:  # patches are of what the planner places
            x = net.node("Conv", x, net.dq(net.const(ones), 1.0, np.int8(0)))
            x = net.dq(net.q(x, scale, zero), scale, zero)
        w = rng.integers(-127, 128, size=(channels, 1, *window)).astype(np.int8)
        weights = net.dq(net.const(w), np.float32(0.003), np.int8(0))
        pads = [n // 2 for n in window] * 2 if len(size) > 1 else [0, 0]
        y = net.node("Conv", x, weights, group=channels, pads=pads)
        outs.append(net.q(y, np.float32(0.1), np.int8(7)))
    return net.model(*outs)


def shares(seed: int) -> onnx.ModelProto:
    """Softmax over lines that four and sixteen divide and others, near and far distances, limits of
    signed and unsigned bytes; other types and axes."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    for k, (shape, axis, kind, scale, step) in enumerate(
        [
            ((64, 32), -1, np.int8, 0.16, 1 / 256),
            ((41, 37), -1, np.int8, 0.3, 1 / 256),
            ((3, 401), -1, np.uint8, 0.01, 0.001),
            ((700, 1), -1, np.int8, 0.1, 1 / 200),
            ((300, 3), -1, np.int8, 40.0, 0.9),
            ((12, 30, 2), 1, np.int8, 0.5, 1 / 256),
            ((40, 30), -1, np.int16, 0.5, 1 / 32768),
        ]
    ):
        x = net.dq(net.input(f"x{k}", np.int8, shape), scale, np.int8(rng.integers(-128, 128)))
        y = net.node("Softmax", x, axis=axis)
        outs.append(net.q(y, step, kind(rng.integers(3) + np.iinfo(kind).min)))
    return net.model(*outs)
