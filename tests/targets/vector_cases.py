"""Models for kernels of vectors and of recurrent layers, as kernel_cases.py has them for all."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
from builders import Net


def float_layers(seed: int) -> onnx.ModelProto:
    """Float convolutions for vectors: sums in blocks, bands of rows, batches, residuals."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    cases = [  # batch, channels in and out, extents, kernel, strides, dilations, pads, groups
        (1, 3, 16, (17, 9), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
        (2, 5, 24, (9, 7), (3, 2), (2, 1), (1, 2), (0, 1, 2, 0), 1),
        (1, 40, 8, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
        (1, 33, 9, (5, 6), (3, 3), (2, 2), (2, 2), (2, 2, 2, 2), 1),
        (1, 20, 16, (40, 41), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
        (3, 16, 40, (7, 8), (1, 1), (2, 3), (1, 1), (0, 0, 0, 0), 1),
        (1, 300, 17, (5, 1), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
        (1, 4, 4, (50, 50), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 4),
        (2, 12, 12, (9, 7), (5, 3), (2, 1), (1, 1), (2, 1, 2, 1), 12),
        (1, 64, 64, (25, 5), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 64),
        (1, 19, 19, (7, 11), (3, 3), (1, 2), (2, 1), (1, 1, 1, 1), 19),
    ]
    for k, (n, ic, oc, size, kernel, strides, dilations, pads, group) in enumerate(cases):
        x = net.input(f"x{k}", np.float32, (n, ic, *size))
        w = net.const(rng.normal(size=(oc, ic // group, *kernel)), np.float32)
        b = net.const(rng.normal(size=oc), np.float32)
        a = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
        y = net.node("Conv", x, w, b, **a)
        if strides == (1, 1) and ic == oc:
            y = net.node("Add", x, y)
        outs.append(net.node("Relu", y) if k % 2 == 0 else y)
    return net.model(*outs)


def vector_layers(seed: int) -> onnx.ModelProto:
    """int8 layers as large as vectors want them, with large and with small weights."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    cases = [  # batch, channels in and out, extents, kernel, strides, pads, groups, largest weight
        (1, 16, 16, (11, 13), (3, 3), (1, 1), (1, 1, 1, 1), 1, 127),
        (1, 16, 32, (40, 40), (3, 3), (1, 1), (1, 1, 1, 1), 1, 127),
        (2, 6, 24, (7, 8), (3, 3), (1, 1), (0, 1, 2, 0), 1, 127),
        (1, 33, 10, (5, 5), (3, 3), (1, 1), (0, 0, 0, 0), 1, 128),
        (1, 64, 64, (8, 8), (3, 3), (1, 1), (1, 1, 1, 1), 1, 20),
        (1, 32, 24, (6, 6), (3, 3), (1, 1), (1, 1, 1, 1), 1, 60),
        (1, 64, 16, (8, 12), (3, 3), (1, 1), (1, 1, 1, 1), 1, 127),
        (2, 16, 20, (10, 13), (3, 3), (1, 1), (2, 1, 1, 1), 1, 90),
        (1, 64, 48, (9, 6), (1, 1), (1, 1), (0, 0, 0, 0), 1, 6),
        (1, 64, 48, (9, 6), (1, 1), (2, 1), (0, 0, 0, 0), 1, 60),
        (1, 64, 40, (25, 5), (1, 1), (1, 1), (0, 0, 0, 0), 1, 128),
        (2, 24, 37, (30, 31), (1, 1), (1, 1), (0, 0, 0, 0), 1, 127),
        (1, 30, 20, (9, 6), (2, 2), (2, 1), (1, 0, 0, 1), 1, 9),
        (1, 400, 24, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1, 5),
        (1, 8, 8, (48, 48), (3, 3), (1, 1), (1, 1, 1, 1), 8, 128),
        (1, 40, 40, (30, 30), (3, 3), (2, 2), (1, 1, 1, 1), 40, 127),
    ]
    for k, (n, ic, oc, size, kernel, strides, pads, group, largest) in enumerate(cases):
        zero = np.uint8(17) if k % 4 == 3 else np.int8((-128, 127, 5)[k % 3])
        x = net.input(f"x{k}", zero.dtype.type, (n, ic, *size))
        shape = (oc, ic // group, *kernel)
        w = np.clip(rng.normal(size=shape) * largest / 3, -largest, min(largest, 127))
        if largest > 100:
            w = np.where(rng.random(shape) < 0.5, np.sign(w) * min(largest, 127), w)
        w.flat[0] = -largest
        scale = rng.uniform(0.5, 2, size=oc) / (np.abs(w).sum() / oc)
        weights = net.dq(
            net.const(w.astype(np.int8)), scale.astype(np.float32), np.zeros(oc, np.int8), 0
        )
        y = net.node(
            "Conv", net.dq(x, 0.05, zero), weights, strides=strides, pads=pads, group=group
        )
        out = np.uint8(9) if k % 4 == 3 else np.int8(-11)
        y = net.q(net.node("Relu", y) if k % 2 else y, np.float32(0.02), out)
        if k == 1:  # means of windows
            means = net.node(
                "AveragePool", net.dq(y, 0.02, out), kernel_shape=[5, 4], strides=[3, 4]
            )
            y = net.q(means, np.float32(0.02), out)
        if k in (0, 4):  # a residual after it
            both = net.node("Add", net.dq(y, 0.02, out), net.dq(x, 0.05, zero))
            y = net.q(both, np.float32(0.06), np.int8(3))
        outs.append(y)
    return net.model(*outs)


RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent_layers(seed: int) -> onnx.ModelProto:
    """Recurrent layers with constant weights: few and many units, long sums, both directions."""
    rng = np.random.default_rng(seed)
    net, outs = Net(), []
    short = (5, 7, "forward"), (24, 3, "bidirectional"), (6, 2, "reverse")
    layers = [
        *product(RECURRENT, short),
        ("RNN", (9, 300, "reverse")),
        ("RNN", (270, 2, "forward")),
    ]
    for k, (kind, (units, inputs, way)) in enumerate(layers):
        rows, ways = RECURRENT[kind] * units, 1 + (way == "bidirectional")
        x = net.input(f"x{k}", np.float32, (2, 1, inputs))
        shapes = (ways, rows, inputs), (ways, rows, units), (ways, 2 * rows)
        args = [net.const(rng.normal(size=s) / 8, np.float32) for s in shapes]
        attrs = {"linear_before_reset": units % 2} if kind == "GRU" else {}
        given = args if k % 4 else args[:2]
        outs.append(net.node(kind, x, *given, hidden_size=units, direction=way, **attrs))
    return net.model(*outs)
