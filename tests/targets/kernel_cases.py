"""Models full of one operator, for comparing specialised kernels with the portable one.

Each model has many independent layers, so one compilation and one run covers all their shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from builders import Net

Rng = np.random.Generator


def _layer(
    net: Net,
    rng: Rng,
    k: int,
    g: dict[str, Any],
    bits: int = 8,
    wide: bool = False,
    signed: bool = False,
    zeros: Callable[[Rng, Any], Any] | None = None,
    uncentred: bool = False,
) -> str:
    """One quantised convolution: random quantisation, weights to the extremes now and then. `wide`:
    of int16, with biases that leave sums no room in int32 now and then. Every fifth output is of
    uint8, if they are not all `signed`. `zeros` takes weights away. `uncentred`: weights of uint8
    that are no int8 without their zero point."""
    pick = rng.integers
    x_scale = np.float32(rng.uniform(0.01, 0.1))
    zero = np.uint8(pick(256)) if k % 10 == 7 else np.int8(pick(-128, 128))
    zero = np.int16(0 if k % 2 else pick(-(2**15), 2**15)) if wide else zero
    x = net.dq(net.input(f"x{k}", zero.dtype.type, g["x"]), x_scale, zero)
    oc = g["w"][0]
    extreme = k % 3 == 0
    w = rng.choice([-127, 127], size=g["w"]) if extreme else pick(-127, 128, size=g["w"])
    if k % 7 == 1:
        w.flat[0] = -128  # beyond what two channels in a halfword can hold
        w.flat[-1] = -128
    w = np.where(rng.random(g["w"]) < 0.2, 0, w).astype(np.int8)
    w = zeros(rng, w) if zeros else w
    zero = np.zeros(oc, np.int8)
    if bits == 4:
        w, zero = _four_bits(w, zero, k)
    if uncentred:
        w = w.view(np.uint8) ^ np.uint8(128)
        w.flat[:2] = 0, 255
        zero = np.full(oc, (119, 140, 60, 255)[k % 4], np.uint8)
    w_scale = rng.uniform(0.0005, 0.03, size=oc).astype(np.float32)
    most = 9000 if not wide else 2**20 if k % 5 else 2**31
    bias = pick(-most, most, size=oc).astype(np.int32)
    args = (
        x,
        net.dq(net.const(w), w_scale, zero, 0),
        net.dq(net.const(bias), w_scale * x_scale, np.zeros(oc, np.int32), 0),
    )
    y = net.node("Conv", *args, group=g["group"], **g["attrs"])
    if k % 4 == 1:
        y = net.node("Clip", y, net.const(np.float32(0)), net.const(np.float32(2)))
    elif k % 4:
        y = net.node("Relu", y)
    depth = float(np.prod(g["w"][1:]))
    scale = np.float32(w_scale.mean() * x_scale * 75 * 75 * np.sqrt(depth) / 50)
    scale = scale / np.float32(16) if bits == 4 else scale
    if wide:
        end = (0, -(2**15))[k % 4 // 2]
        return net.q(y, scale, np.int16(pick(-(2**15), 2**15) if k % 2 else end))
    zero = np.int8(pick(-128, 128) if k % 2 else -128)
    return net.q(y, scale, np.uint8(int(zero) + 128) if k % 5 == 2 and not signed else zero)


def _four_bits(w: Any, zero: Any, k: int) -> tuple[Any, Any]:
    """The upper four bits of weights as int4, as uint4 around 8, or as int8 of small values."""
    small = w >> 4
    if k % 3 == 0:
        return small.astype(ml_dtypes.int4), zero.astype(ml_dtypes.int4)
    if k % 3 == 1:
        return (small + 8).astype(ml_dtypes.uint4), (zero + 8).astype(ml_dtypes.uint4)
    return small, zero


def _geometry(rng: Rng, depthwise: bool, k: int) -> dict[str, Any]:
    """Odd sizes, strides, dilations, padding that differs on every side."""
    pick = rng.integers
    kernel = [int(n) for n in pick(1, 6 if depthwise else 4, size=2)]
    if not depthwise and k % 3 == 0:
        kernel = [1, 1]
    strides = [1, 1] if depthwise and k % 3 == 0 else [int(n) for n in pick(1, 4, size=2)]
    dilations = [int(pick(2, 4)) if pick(6) == 0 else 1 for _ in kernel]
    reach = [(n - 1) * d + 1 for n, d in zip(kernel, dilations, strict=True)]
    size = [int(pick(r, r + 14)) for r in reach]
    pads = [int(pick(0, n)) for n in (*kernel, *kernel)]
    if depthwise:
        group = oc = ic = int(pick(2, 9) if k % 4 else 8 * pick(1, 4))
    else:
        group, ic, oc = 1, int(pick(1, 12) if k % 2 else 4 * pick(1, 9)), int(pick(1, 11))
    return {
        "x": (1 + (k % 11 == 5), ic, *size),
        "w": (oc, ic // group, *kernel),
        "group": group,
        "attrs": {
            "strides": strides,
            "dilations": dilations,
            "pads": pads,
            "kernel_shape": kernel,
        },
    }


def many_layers(
    seed: int, depthwise: bool, count: int, bits: int = 8, signed: bool = False
) -> onnx.ModelProto:
    """`count` convolutions side by side, with weights of 8 or 4 bits."""
    rng = np.random.default_rng(seed)
    net = Net()
    shapes = (_geometry(rng, depthwise, k) for k in range(count))
    layers = (_layer(net, rng, k, g, bits, signed=signed) for k, g in enumerate(shapes))
    return net.model(*layers)


def dilated(seed: int) -> onnx.ModelProto:
    """Depthwise windows apart, along one axis and both, in bands and whole, with rows longer than
    they are high and not, and such as have no phases alike."""
    rng, net, outs = np.random.default_rng(seed), Net(), []
    for k in range(12):
        d = [(2, 2), (1, 3), (4, 2), (2, 1), (1, 2)][k % 5]
        size = [int(n * rng.integers(2, 9 if k % 2 else 4)) + 8 * n for n in d]
        size[1] += k == 7
        kernel = [int(n) for n in rng.integers(1, 4, 2)]
        pads = [n * int(rng.integers(0, m)) for n, m in zip(d * 2, kernel * 2, strict=True)]
        attrs = {"kernel_shape": kernel, "pads": pads, "dilations": list(d)}
        channels = int(rng.integers(2, 10))
        g = {"x": (1 + (k == 3), channels, *size), "w": (channels, 1, *kernel), "group": channels}
        outs.append(_layer(net, rng, k, {**g, "attrs": attrs}))
    return net.model(*outs)


def grouped(seed: int, count: int) -> onnx.ModelProto:
    """Convolutions in groups of one to six channels, to one to eight: a few pixels, and many."""
    rng, net, outs = np.random.default_rng(seed), Net(), []
    for k in range(count):
        groups, each = int(rng.integers(2, 6)), (8, 4, 2, 1, 4, 3)[k % 6]
        g = _geometry(rng, False, k)
        ic, oc = groups * int(rng.integers(1, 7)), groups * each
        x, w = (g["x"][0], ic, *g["x"][2:]), (oc, ic // groups, *g["w"][2:])
        outs.append(_layer(net, rng, k, {**g, "x": x, "w": w, "group": groups}))
    return net.model(*outs)


def uncentred(seed: int) -> onnx.ModelProto:
    """Weights of uint8 with a zero point that is not their middle."""
    rng = np.random.default_rng(seed)
    net = Net()
    wide = {"group": 1, "attrs": {"kernel_shape": [3, 3], "pads": [1] * 4}}
    shapes = [_geometry(rng, k % 3 == 2, k) for k in range(18)]
    shapes += [{"x": (1, 8, 9, 7), "w": (6, 8, 3, 3), **wide}]
    shapes += [{"x": (1, 20, 1, 1), "w": (oc, 20, 1, 1), "group": 1, "attrs": {}} for oc in (9, 3)]
    layers = (_layer(net, rng, k, g, uncentred=True) for k, g in enumerate(shapes))
    return net.model(*layers)


def few_channels(seed: int) -> onnx.ModelProto:
    """Pointwise layers of few pixels, of so few channels that a loop over these has one turn, with
    whose operands the next pixels begin, too: of bytes, four bits, int16, and pruned."""
    rng = np.random.default_rng(seed)
    net = Net()
    attrs = {"group": 1, "attrs": {"kernel_shape": [1, 1]}}
    forms: list[dict[str, Any]] = [{}, {"bits": 4}, {"wide": True}]
    forms.append({"zeros": lambda r, w: pruned(r, w, 0.1)})
    shapes = product(((1, 16), (2, 36)), (2, 3, 9))
    return net.model(
        *(
            _layer(net, rng, k, {"x": (1, ic, n, 1), "w": (oc, ic, 1, 1), **attrs}, **form)
            for k, (((oc, ic), n), form) in enumerate(product(shapes, forms))
        )
    )


def pruned(rng: Rng, w: Any, kept: float) -> Any:
    """Weights [OC, IC, ...] of which a part is kept; or, if `kept` is 4, 8 or 16, one of so many
    neighbours in the order of products, channels innermost."""
    if kept < 1:
        return np.where(rng.random(w.shape) < kept, w, 0).astype(w.dtype)
    rows = np.moveaxis(w, 1, -1)
    flat = rows.reshape(len(w), -1)
    groups = -(-flat.shape[1] // int(kept))
    places = np.arange(groups) * int(kept) + rng.integers(0, kept, (len(w), groups))
    keep = np.zeros((len(w), groups * int(kept)), bool)
    np.put_along_axis(keep, places, True, axis=1)
    sparse = np.where(keep[:, : flat.shape[1]], flat, 0).reshape(rows.shape)
    return np.ascontiguousarray(np.moveaxis(sparse, -1, 1)).astype(w.dtype)


KEPT = (4, 8, 16, 0.2, 0.1, 0.05, 0.004, 0.45)


def sparse_layers(seed: int, count: int) -> onnx.ModelProto:
    """The convolutions of `many_layers`, wider ones and dense layers of one row, most of whose
    weights are zero."""
    rng = np.random.default_rng(seed)
    net = Net()
    shapes = [_geometry(rng, False, k) for k in range(count)]
    pointwise = [((1, ic, h, w), (oc, ic, 1, 1)) for ic, oc, h, w in ((64, 9, 5, 5), (32, 8, 1, 7))]
    rows = [((1, ic, 1, 1), (oc, ic, 1, 1)) for ic, oc in ((256, 13), (61, 9), (640, 8), (7, 3))]
    same = {"attrs": {"kernel_shape": [1, 1]}}
    shapes += [{"x": x, "w": w, "group": 1, **same} for x, w in (pointwise + rows) * 2]
    outs = []
    for k, g in enumerate(shapes):
        kept = KEPT[k * 3 % len(KEPT)]
        outs.append(_layer(net, rng, k, g, zeros=lambda r, w, kept=kept: pruned(r, w, kept)))
    return net.model(*outs)


def wide_layers(seed: int, count: int) -> onnx.ModelProto:
    """Convolutions of int16 side by side, every third one depthwise, and dense layers."""
    rng = np.random.default_rng(seed)
    net = Net()
    shapes = [_geometry(rng, k % 3 == 1, k) for k in range(count)]
    rows = [((1, ic, 1, 1), (oc, ic, 1, 1)) for ic, oc in ((256, 13), (61, 9), (7, 3), (64, 8))]
    attrs = {"attrs": {"kernel_shape": [1, 1]}}
    shapes += [{"x": x, "w": w, "group": 1, **attrs} for x, w in rows]
    return net.model(*(_layer(net, rng, k, g, wide=True) for k, g in enumerate(shapes)))


def long_dense(seed: int) -> onnx.ModelProto:
    """Dense layers of one row, short and long, with weights of four bits."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    for k, (ic, oc) in enumerate([(640, 13), (600, 8), (61, 30), (7, 3), (24, 100)]):
        g: dict[str, Any] = {"x": (1, ic, 1, 1), "w": (oc, ic, 1, 1), "group": 1}
        outs.append(_layer(net, rng, k, g | {"attrs": {"kernel_shape": [1, 1]}}, 4))
    return net.model(*outs)


def deep(seed: int) -> onnx.ModelProto:
    """Layers of so many large weights of four bits that sums have few bits to spare."""
    rng = np.random.default_rng(seed)
    net = Net()
    window = {"x": (1, 120, 3, 3), "w": (6, 120, 3, 3), "attrs": {"pads": [1, 0, 0, 1]}}
    row = {"x": (1, 1001, 1, 1), "w": (7, 1001, 1, 1), "attrs": {}}
    outs = (_layer(net, rng, 3 * k, g | {"group": 1}, 4) for k, g in enumerate((window, row)))
    return net.model(*outs)


Steps = Iterator[tuple[int, int, int, int]]


def chains(seed: int, steps: Callable[[int], Steps] | None = None) -> onnx.ModelProto:
    """Layers whose output may take over their input's memory, one after the other."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    for k, (c, h, w) in enumerate([(6, 13, 9), (4, 40, 40), (8, 6, 25)]):
        x = net.input(f"x{k}", np.int8, (1, c, h, w))
        for step, (group, size, stride, oc) in enumerate((steps or _steps)(c)):
            wide = rng.integers(-127, 128, size=(oc, c // group, size, size)).astype(np.int8)
            scale = rng.uniform(0.002, 0.01, size=oc).astype(np.float32)
            args = (
                net.dq(x, 0.05, np.int8(step - 3)),
                net.dq(net.const(wide), scale, np.zeros(oc, np.int8), 0),
            )
            y = net.node("Conv", *args, group=group, strides=[stride] * 2, pads=[size // 2] * 4)
            x, c = net.q(y, 0.05, np.int8(step - 2)), oc
        outs.append(x)
    return net.model(*outs)


def _steps(c: int) -> Steps:
    """(groups, kernel, stride, output channels)."""
    yield 1, 1, 1, c
    yield c, 3, 1, c
    yield 1, 1, 1, 2 * c
    yield 2 * c, 3, 2, 2 * c
    yield 1, 3, 2, c
    yield c, 5, 1, c


def wide_windows(c: int) -> Steps:
    """The same: windows of all channels, whose outputs may take over their inputs' memory."""
    yield 1, 3, 1, c
    yield 1, 3, 1, 2 * c
    yield 1, 3, 1, c


def products(seed: int) -> onnx.ModelProto:
    """Two computed matrices of bytes, in batches that broadcast, of odd and even sizes."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    shapes = [((5, 7), (7, 3)), ((2, 3, 4, 16), (2, 3, 16, 5)), ((1, 9), (9, 2)), ((6, 1), (1, 6))]
    shapes += [((3, 2, 8), (8, 7)), ((4, 3), (2, 3, 1)), ((8, 64), (64, 8)), ((7, 2), (2, 2))]
    shapes += [((3, 130), (130, 21))]
    for k, (left, right) in enumerate(shapes):
        for a, b, y in ((np.int8, np.int8, np.int8), (np.uint8, np.uint8, np.uint8)):
            zeros = [t(rng.choice([np.iinfo(t).min, np.iinfo(t).max, 3])) for t in (a, b, y)]
            x = net.dq(net.input(f"a{k}{a.__name__}", a, left), 0.02, zeros[0])
            w = net.dq(net.input(f"b{k}{b.__name__}", b, right), 0.03, zeros[1])
            scale = np.float32(0.02 * 0.03 * 75 * np.sqrt(left[-1]))
            outs.append(net.q(net.node("MatMul", x, w), scale, zeros[2]))
    return net.model(*outs)


def integer_products(seed: int) -> onnx.ModelProto:
    """Computed bytes whose zero points are computed, times constant matrices of bytes: one product
    and many, columns that fill no tile, zero points of the matrix, of its columns, at the ends."""
    rng = np.random.default_rng(seed)
    net = Net()
    shapes = [(1, 1, 1), (1, 5, 3), (3, 7, 1), (2, 16, 8), (1, 64, 33), (5, 130, 6), (4, 3, 21)]
    shapes += [(1, 300, 12), (2, 4, 4), (1, 32, 40)]
    types = np.uint8, np.int8
    zero_of = {a: net.input(f"z{a.__name__}", a, ()) for a in types}
    flat = net.const(np.array([-1], np.int64))
    outs: list[list[str]] = [[], []]  # int32, float
    for shape, a in product(shapes, types):
        rows, depth, columns = shape
        x = net.input(f"x{a.__name__}{'_'.join(map(str, shape))}", a, (rows, depth))
        for k, (b, zeros) in enumerate(product(types, ("", "one", "columns", "columns"))):
            lowest, highest = np.iinfo(b).min, np.iinfo(b).max
            w = rng.integers(lowest, highest + 1, size=(depth, columns))
            w = rng.choice([lowest, highest], size=w.shape) if rng.random() < 0.3 else w
            middle = rng.random() < 0.4  # weights less their zero points are bytes
            w = np.clip(w, lowest + 100, highest - 100) if middle else w
            args = [x, net.const(w.astype(b)), zero_of[a] if rng.random() < 0.7 else ""]
            if zeros:
                ends = [(lowest + highest) // 2] if middle else [lowest, highest, 3]
                zero = rng.choice(ends, size=columns if zeros == "columns" else ())
                args.append(net.const(np.asarray(zero).astype(b)))
            y = net.node("MatMulInteger", *args)
            if k % 2:  # as the quantiser writes it
                wide = net.node("Cast", y, to=onnx.TensorProto.FLOAT)
                y = net.node("Mul", wide, net.const(rng.uniform(0.1, 1, columns), np.float32))
            outs[k % 2].append(net.node("Reshape", y, flat))
    return net.model(*(net.node("Concat", *some, axis=0) for some in outs))


def integer_windows(seed: int) -> onnx.ModelProto:
    """ConvInteger with constant weights: one window and many, padded, with strides and dilations,
    one and two spatial axes, zero points that are computed and of channels; in groups, too."""
    rng = np.random.default_rng(seed)
    net = Net()
    # input, output channels and kernel, attributes
    shapes: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((1, 5, 3, 4), (7, 1, 1), {}),
        ((1, 3, 6, 5), (8, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 4, 5, 5), (3, 2, 3), {"strides": [2, 1]}),
        ((1, 2, 7, 6), (9, 3, 2), {"dilations": [2, 2], "pads": [2, 1, 0, 1]}),
        ((1, 16, 4, 3), (12, 3, 3), {"pads": [0, 1, 1, 0], "strides": [1, 2]}),
        ((1, 3, 9), (5, 4), {"pads": [2, 1]}),
        ((1, 4, 4, 4), (6, 3, 3), {"group": 2}),
        ((2, 5, 4, 6), (5, 3, 2), {"group": 5, "pads": [1, 1, 2, 0], "dilations": [1, 2]}),
        ((1, 3, 9), (6, 2), {"group": 3, "strides": [2]}),
    ]
    types = np.uint8, np.int8
    zero_of = {a: net.input(f"z{a.__name__}", a, ()) for a in types}
    flat = net.const(np.array([-1], np.int64))
    outs: list[list[str]] = [[], []]  # int32, float
    for i, ((shape, (channels, *kernel), attrs), a) in enumerate(product(shapes, types)):
        x = net.input(f"x{i}", a, shape)
        for k, (b, zeros) in enumerate(product(types, ("", "one", "channels"))):
            low, high = np.iinfo(b).min, np.iinfo(b).max
            depth = shape[1] // attrs.get("group", 1)
            w = rng.integers(low, high + 1, size=(channels, depth, *kernel))
            args = [x, net.const(w.astype(b)), zero_of[a] if k % 3 or i % 2 else ""]
            if zeros:
                zero = rng.choice([low, high, 3], size=channels if zeros == "channels" else ())
                args.append(net.const(np.asarray(zero).astype(b)))
            y = net.node("ConvInteger", *args, **attrs)
            if k % 2:  # as the quantiser writes it
                wide = net.node("Cast", y, to=onnx.TensorProto.FLOAT)
                y = net.node("Mul", wide, net.const(0.37, np.float32))
            outs[k % 2].append(net.node("Reshape", y, flat))
    return net.model(*(net.node("Concat", *some, axis=0) for some in outs))


def tabled(seed: int) -> onnx.ModelProto:
    """Convolutions whose stored results a function of one byte follows, moved in between or not."""
    rng = np.random.default_rng(seed)
    net = Net()
    pixel: dict[str, Any] = {"x": (1, 9, 1, 1), "w": (6, 9, 1, 1), "group": 1, "attrs": {}}
    shapes = [_geometry(rng, k % 3 == 2, k) for k in range(11)]
    outs = []
    for k, g in enumerate((*shapes, pixel)):
        kind, unit = np.uint8 if k % 5 == 2 else np.int8, rng.uniform(0.01, 0.1)
        stored = net.dq(_layer(net, rng, k, g), unit, kind(rng.integers(0, 128)))
        if k % 4 == 1:
            stored = net.node("Reshape", stored, net.const(np.array([-1], np.int64)))
        y = net.node(("HardSwish", "Sigmoid", "LeakyRelu")[k % 3], stored)
        outs.append(net.q(y, unit * rng.uniform(0.3, 2), np.int8(rng.integers(-128, 128))))
    return net.model(*outs)


def lines(seed: int) -> onnx.ModelProto:
    """Depthwise layers on a single row or column, and kernels that are one."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    for k, (size, kernel, pads) in enumerate(
        [
            ((9, 1), (3, 3), [1, 1, 1, 1]),
            ((1, 9), (3, 3), [1, 1, 1, 1]),
            ((12, 1), (2, 3), [0, 1, 1, 1]),
            ((30, 1), (9, 1), [4, 0, 4, 0]),
            ((5, 20), (1, 11), [0, 3, 0, 5]),
            ((20, 3), (12, 1), [0, 0, 0, 0]),
        ]
    ):
        attrs = {"strides": [1, 1], "dilations": [1, 1], "pads": pads, "kernel_shape": kernel}
        g = {"x": (1, 4, *size), "w": (4, 1, *kernel), "group": 4, "attrs": attrs}
        outs.append(_layer(net, rng, 2 * k, g))
    return net.model(*outs)


def residuals(seed: int) -> onnx.ModelProto:
    """Convolutions with a quantised addition after them, and what else may be fused there."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    for k, (c, h, w, group) in enumerate(
        [(4, 5, 5, 1), (6, 3, 7, 1), (16, 4, 4, 16), (5, 3, 3, 5)]
    ):
        x = net.dq(net.input(f"x{k}", np.int8, (1, c, h, w)), 0.05, np.int8(3 * k))
        first = _conv(net, rng, x, c, (1, 1), 1)
        second = _conv(net, rng, first, c, (3, 3), group)
        y = net.node("Add", first, second)
        y = net.node("Relu", y) if k % 2 == 0 else y
        outs.append(net.q(y, np.float32(0.0833), np.int8(-128 if k % 2 == 0 else 9)))
    outs += [_head(net, rng, m, k, n) for m, k, n in [(1, 70, 16), (1, 32, 5), (4, 9, 8)]]
    return net.model(*outs)


def biases(seed: int) -> onnx.ModelProto:
    """Layers whose bias is quantised as an addition of its own, as a MatMul and an Add are; the
    last ones have slopes below zero in its place."""
    rng = np.random.default_rng(seed)
    net = Net()
    outs = []
    shapes = [(4, 6, 5, 5, 1), (16, 8, 1, 7, 1), (12, 12, 4, 3, 12), (5, 5, 3, 3, 5)]
    shapes += [(4, 6, 5, 5, 1), (16, 8, 4, 6, 1), (12, 12, 4, 3, 12)]
    for k, (c, oc, h, w, group) in enumerate(shapes):
        x = net.dq(net.input(f"x{k}", np.int8, (1, c, h, w)), 0.05, np.int8(3 * k))
        weights = rng.integers(-127, 128, size=(oc, c // group, 3, 3)).astype(np.int8)
        scale = rng.uniform(0.0005, 0.01, size=oc).astype(np.float32)
        weights = net.dq(net.const(weights), scale, np.zeros(oc, np.int8), 0)
        y = net.node("Conv", x, weights, group=group, pads=[1] * 4)
        y = net.dq(net.q(y, np.float32(0.07), np.int8(k)), np.float32(0.07), np.int8(k))
        bias = rng.normal(size=(1, oc, 1, 1)).astype(np.float32)
        y = net.node("Add" if k < 4 else "PRelu", y, net.const(bias))
        y = net.node("Relu", y) if k % 2 and k < 4 else y
        outs.append(net.q(y, np.float32(0.0833), np.int8(-128 if k % 2 else 9)))
    return net.model(*outs)


def strips(seed: int) -> onnx.ModelProto:
    """Windows of all channels between residuals, where a kernel's own memory raises the peak."""
    rng = np.random.default_rng(seed)
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 8, 4, 40)), 0.05, np.int8(-7))
    x = _conv(net, rng, x, 8, (1, 1), 1)
    for size in [(3, 3), (1, 5), (5, 3)]:
        y = _conv(net, rng, _conv(net, rng, x, 8, size, 1), 8, size, 1)
        x = net.dq(net.q(net.node("Add", y, x), 0.09, np.int8(5)), 0.09, np.int8(5))
    return net.model(net.q(net.node("GlobalMaxPool", x), 0.09, np.int8(5)))


def _head(net: Net, rng: Rng, m: int, k: int, n: int) -> str:
    """A dense layer whose result stays a float."""
    x = net.dq(net.input(f"head{k}", np.int8, (m, k)), 0.05, np.int8(k % 50))
    w = net.dq(net.const(rng.integers(-127, 128, size=(n, k)).astype(np.int8)), 0.02, np.int8(0))
    bias = rng.integers(-9000, 9000, size=n).astype(np.int32)
    return net.node("Gemm", x, w, net.dq(net.const(bias), 0.001, np.int32(0)), transB=1)


def _conv(net: Net, rng: Rng, x: str, c: int, size: tuple[int, int], group: int) -> str:
    """Quantised and dequantised again."""
    w = rng.integers(-127, 128, size=(c, c // group, *size)).astype(np.int8)
    scale = rng.uniform(0.0005, 0.01, size=c).astype(np.float32)
    weights = net.dq(net.const(w), scale, np.zeros(c, np.int8), 0)
    y = net.node("Conv", x, weights, group=group, pads=[n // 2 for n in size] * 2)
    y_scale, zero = np.float32(rng.uniform(0.02, 0.1)), np.int8(rng.integers(-128, 128))
    return net.dq(net.q(y, y_scale, zero), y_scale, zero)
