"""What a network may be grown with: a function for each group of operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from grow import Grower, Network, NotThisError, Value, is_large, session_of
from menu_control import choose, repeat
from menu_images import any_conv_transpose, any_resize, image_input
from menu_quantised import dynamic, quantised, quantised_layer
from menu_steps import STEPS, odd_input
from onnx import TensorProto
from windows import window

Step = Callable[[Grower], object]

UNARY = (  # those that networks have most, twice
    *("Relu", "Sigmoid", "Tanh", "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Sin", "Cos", "Erf"),
    *("Floor", "Ceil", "Round", "Sign", "Softplus", "Softsign", "Elu", "Selu", "LeakyRelu"),
    *("HardSigmoid", "HardSwish", "Gelu", "Mish", "ThresholdedRelu", "Celu", "Atan", "Asinh"),
    *("Identity", "Reciprocal", "Sqrt", "Log", "Exp", "Shrink"),
)
REDUCED = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")


def broadcast(g: Grower, x: Value) -> Value:
    """A constant that broadcasts with x, a scalar, a channel, or another value of its shape."""
    others = [v for v in g.values if v.array.dtype == x.array.dtype and v is not x]
    others = [v for v in others if _broadcasts(v, x)]
    if others and g.chance(0.6):
        return g.one(*others)
    shape = [n if g.chance(0.6) else 1 for n in x.shape]
    while shape and shape[0] == 1 and g.chance(0.5):
        shape.pop(0)
    if x.array.dtype == np.float32:
        return g.normal(*shape)
    info = np.iinfo(x.array.dtype)
    low = max(info.min, -9)
    return g.const(g.rng.integers(low, 10, size=shape), x.array.dtype)


def _broadcasts(v: Value, x: Value) -> bool:
    try:
        return math.prod(np.broadcast_shapes(v.shape, x.shape)) <= 600
    except ValueError:
        return False


def unary(g: Grower) -> None:
    g.add(g.one(*UNARY), g.floats())


def binary(g: Grower) -> None:
    x = g.floats()
    op = g.one("Add", "Sub", "Mul", "Div", "Add", "Mul", "PRelu")
    pair = [x, broadcast(g, x)]
    if op == "PRelu" and np.broadcast_shapes(x.shape, pair[1].shape) != x.shape:
        raise NotThisError
    if op != "PRelu" and g.chance(0.3):
        pair.reverse()
    g.add(op, *pair)


def power(g: Grower) -> None:
    g.add("Pow", g.floats(), g.const(g.one(1.0, 2.0, 3.0, 0.5, -1.0), np.float32))


def modulo(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype.kind in "fiu")
    floats = x.array.dtype.kind == "f"
    if floats:
        g.add("Mod", x, broadcast(g, x), fmod=1)
        return
    # onnxruntime refuses a divisor of zero, which a computed one may be in some sample.
    divisor = g.const(g.rng.integers(1, 10, size=x.shape[-1:]), x.array.dtype)
    g.add("Mod", x, divisor, fmod=g.whole(0, 1))


def variadic(g: Grower) -> None:
    op = g.one("Max", "Min", "Sum", "Mean")
    x = g.floats() if op in ("Sum", "Mean") or g.chance(0.7) else g.integers()
    g.add(op, *[x, *(broadcast(g, x) for _ in range(g.whole(0, 4)))])


def clip(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype.kind in "fiu")
    low, high = (g.const(n, x.array.dtype) for n in sorted((g.whole(0, 3), g.whole(0, 6))))
    g.add("Clip", x, low if g.chance(0.7) else None, high if g.chance(0.7) else None)


def compare(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype.kind in "fiu")
    op = g.one("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")
    g.add(op, x, broadcast(g, x))


def logic(g: Grower) -> None:
    a = g.value(lambda v: v.array.dtype.kind == "b")
    if g.chance(0.3):
        g.add("Not", a)
        return
    b = g.value(lambda v: v.array.dtype.kind == "b" and _broadcasts(v, a))
    g.add(g.one("And", "Or", "Xor"), a, b)


def where(g: Grower) -> None:
    c = g.value(lambda v: v.array.dtype.kind == "b")
    x = g.value(lambda v: v.array.dtype == np.float32 and _broadcasts(v, c))
    g.add("Where", c, x, broadcast(g, x))


def special(g: Grower) -> None:
    x = g.floats()
    if g.chance(0.5):
        g.add("IsNaN", x)
    else:
        g.add("IsInf", x, detect_negative=g.whole(0, 1), detect_positive=g.whole(0, 1))


def cast(g: Grower) -> None:
    x = g.value(lambda v: v.array.size > 0)
    kind = g.one(TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64)
    if x.array.dtype.kind == "b" or g.chance(0.1):
        kind = g.one(TensorProto.FLOAT, TensorProto.INT32, TensorProto.BOOL)
    g.add("Cast", x, to=kind)


def integer(g: Grower) -> None:
    x = g.integers(np.int32, np.int64, np.uint8, np.int8)
    op = g.one("Add", "Sub", "Mul", "Div", "BitwiseAnd", "BitwiseXor", "Abs", "Neg", "BitwiseNot")
    if op in ("Abs", "Neg", "BitwiseNot"):
        g.add(op, x)
        return
    other = broadcast(g, x)
    if op == "Div" and (not np.all(other.array) or not other.const):
        raise NotThisError
    g.add(op, x, other)


def matmul(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype == np.float32 and v.rank >= 2)
    others = [
        v
        for v in g.values
        if v.array.dtype == np.float32 and v.rank >= 2 and v.shape[-2] == x.shape[-1]
    ]
    if others and g.chance(0.5):
        g.add("MatMul", x, g.one(*others))
    else:
        n = x.shape[-1]
        g.add("MatMul", x, g.normal(n, g.whole(1, 9), scale=n**-0.5))


def gemm(g: Grower) -> None:
    x, out = g.floats(2), g.whole(1, 9)
    trans_a, trans_b = g.whole(0, 1), g.whole(0, 1)
    rows, n = x.shape[::-1] if trans_a else x.shape
    w = g.normal(*((out, n) if trans_b else (n, out)), scale=n**-0.5)
    shape = g.one((out,), (rows, out), (1, out), (rows, 1), ())
    bias = g.normal(*shape) if g.chance(0.7) else None
    attrs = {"alpha": g.one(1.0, 0.5), "beta": g.one(1.0, 2.0)} if g.chance(0.3) else {}
    g.add("Gemm", x, w, *([bias] if bias else []), transA=trans_a, transB=trans_b, **attrs)


def conv(g: Grower) -> Value:
    x = g.floats(3, 4, 4, 4, 5)
    attrs, channels = window(g, x), x.shape[1]
    if g.chance(0.25):
        attrs["dilations"] = [g.whole(1, 2) for _ in x.shape[2:]]
    group = g.one(1, 1, channels, *[d for d in range(1, channels + 1) if channels % d == 0])
    out = group * g.whole(1, 1 + 8 // group)
    fan = channels // group * math.prod(attrs["kernel_shape"])
    w = g.normal(out, channels // group, *attrs["kernel_shape"], scale=fan**-0.5)
    bias = [g.normal(out)] if g.chance(0.6) else []
    return g.add("Conv", x, w, *bias, group=group, **attrs)


def conv_transpose(g: Grower) -> None:
    x = g.floats(3, 4, 4, 5)
    attrs, channels = window(g, x), x.shape[1]
    attrs.pop("auto_pad", None)
    group = g.one(1, 1, *[d for d in range(1, channels + 1) if channels % d == 0])
    if g.chance(0.2):
        attrs["dilations"] = [g.whole(1, 2) for _ in x.shape[2:]]
    strides = attrs.get("strides", [1] * (x.rank - 2))
    if g.chance(0.3):
        attrs["output_padding"] = [g.whole(0, s - 1) for s in strides]
    w = g.normal(channels, g.whole(1, 4), *attrs["kernel_shape"], scale=channels**-0.5)
    bias = [g.normal(w.shape[1] * group)] if g.chance(0.5) else []
    g.add("ConvTranspose", x, w, *bias, group=group, **attrs)


def pool(g: Grower) -> None:
    x = g.floats(3, 4, 4, 4, 5)
    op = g.one("MaxPool", "AveragePool", "MaxPool", "AveragePool", "LpPool")
    attrs = window(g, x)
    if op != "LpPool" and g.chance(0.3):
        attrs["ceil_mode"] = 1
    if op == "AveragePool":
        attrs["count_include_pad"] = g.whole(0, 1)
    if op == "MaxPool" and g.chance(0.2):
        g.parts(op, x, outputs=2, **attrs)
    else:
        g.add(op, x, **attrs)


def global_pool(g: Grower) -> None:
    g.add(g.one("GlobalAveragePool", "GlobalMaxPool"), g.floats(3, 4, 5))


def normalise(g: Grower) -> None:
    op = g.one("Instance", "Layer", "Group", "Batch", "LRN", "Lp", "Instance")
    x = g.floats(3, 4, 5) if op not in ("Layer", "Lp") else g.floats()
    if op == "LRN":
        g.add("LRN", x, size=g.whole(1, 5), alpha=0.01, beta=g.one(0.5, 0.75))
        return
    axis = g.whole(0, max(0, x.rank - 1))
    if op == "Lp":
        g.add("LpNormalization", x, axis=axis, p=g.whole(1, 2))
        return
    if op == "Layer":
        extent = x.shape[axis:]
        bias = [g.normal(*extent)] if g.chance(0.6) else []
        g.add("LayerNormalization", x, g.normal(*extent), *bias, axis=axis)
        return
    n = x.shape[1]
    scale, bias = g.normal(n), [g.normal(n)]
    if op == "Group":
        groups = g.one(*[d for d in range(1, n + 1) if n % d == 0])
        g.add("GroupNormalization", x, scale, *bias, num_groups=groups)
    elif op == "Batch":
        variance = g.const(np.abs(g.rng.normal(size=n)) + 0.1, np.float32)
        g.add("BatchNormalization", x, scale, *bias, g.normal(n), variance)
    else:
        g.add("InstanceNormalization", x, scale, *bias, epsilon=g.one(1e-5, 1e-3))


def softmax(g: Grower) -> None:
    x = g.floats()
    axis = g.whole(-max(1, x.rank), max(0, x.rank - 1))
    g.add(g.one("Softmax", "Softmax", "LogSoftmax", "Hardmax"), x, axis=axis)


def reduce(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype == np.float32 and v.rank > 0)
    axes = sorted(g.rng.permutation(x.rank)[: g.whole(1, x.rank)].tolist())
    axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    given = [g.const(axes, np.int64)] if g.chance(0.9) else []
    g.add(f"Reduce{g.one(*REDUCED)}", x, *given, keepdims=g.whole(0, 1))


def best(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype == np.float32 and v.rank > 0)
    axis = g.whole(0, x.rank - 1)
    if g.chance(0.4):
        k = g.const([g.whole(1, x.shape[axis])], np.int64)
        g.parts("TopK", x, k, outputs=2, axis=axis, largest=g.whole(0, 1))
    else:
        g.add(g.one("ArgMax", "ArgMin"), x, axis=axis, keepdims=g.whole(0, 1))


def cumulative(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype in (np.float32, np.int32) and v.rank > 0)
    axis = g.const(g.whole(0, x.rank - 1), np.int64)
    g.add("CumSum", x, axis, exclusive=g.whole(0, 1), reverse=g.whole(0, 1))


def transpose(g: Grower) -> None:
    x = g.value(lambda v: v.rank > 1)
    g.add("Transpose", x, perm=g.rng.permutation(x.rank).tolist())


def reshape(g: Grower) -> None:
    x = g.value(lambda v: v.array.size > 0)
    left, shape = x.array.size, []
    for _ in range(g.whole(0, 3)):
        divisors = [d for d in range(1, 10) if left % d == 0]
        shape.append(g.one(*divisors))
        left //= shape[-1]
    shape.append(left)
    order = g.rng.permutation(len(shape))
    shape = [shape[k] for k in order]
    if g.chance(0.3):
        shape[g.whole(0, len(shape) - 1)] = -1
    g.add("Reshape", x, g.const(shape, np.int64))


def images(g: Grower) -> None:
    """Something to convolve: four axes out of whatever there is."""
    x = g.value(lambda v: v.array.dtype == np.float32 and v.array.size >= 8)
    size = x.array.size
    channels = g.one(*[d for d in range(1, 9) if size % d == 0])
    height = g.one(*[d for d in range(1, 16) if size // channels % d == 0])
    g.add("Reshape", x, g.const([1, channels, height, -1], np.int64))


def squeeze(g: Grower) -> None:
    if g.chance(0.5):
        x = g.value(lambda v: 1 in v.shape)
        axis = g.one(*[k for k, n in enumerate(x.shape) if n == 1])
        g.add("Squeeze", x, g.const([axis], np.int64))
    else:
        x = g.value(lambda v: v.rank < 5)
        g.add("Unsqueeze", x, g.const([g.whole(0, x.rank)], np.int64))


def flatten(g: Grower) -> None:
    x = g.value(lambda v: v.rank > 0)
    g.add("Flatten", x, axis=g.whole(0, x.rank))


def concat(g: Grower) -> None:
    x = g.value(lambda v: v.rank > 0)
    axis = g.whole(0, x.rank - 1)

    def fits(v: Value) -> bool:
        same = v.rank == x.rank and v.array.dtype == x.array.dtype
        return same and all(k == axis or n == x.shape[k] for k, n in enumerate(v.shape))

    g.add("Concat", *(g.value(fits) for _ in range(g.whole(1, 3))), axis=axis)


def split(g: Grower) -> None:
    x = g.value(lambda v: any(n > 1 for n in v.shape))
    axis = g.one(*[k for k, n in enumerate(x.shape) if n > 1])
    first = g.whole(1, x.shape[axis] - 1)
    sizes = g.const([first, x.shape[axis] - first], np.int64)
    g.parts("Split", x, sizes, outputs=2, axis=axis)


def slice_(g: Grower) -> None:
    x = g.value(lambda v: any(n > 1 for n in v.shape))
    axis = g.one(*[k for k, n in enumerate(x.shape) if n > 1])
    n = x.shape[axis]
    start, step = g.whole(0, n - 1), g.one(1, 1, 2, -1, -2)
    stop = g.whole(start + 1, n) if step > 0 else g.one(-n - 1, start - 1 - n)
    bounds = [g.const([v], np.int64) for v in (start, stop, axis, step)]
    g.add("Slice", x, *bounds)


def pad(g: Grower) -> None:
    x = g.value(lambda v: v.array.dtype == np.float32 and v.rank > 0)
    mode = g.one("constant", "constant", "reflect", "edge", "wrap")
    pads = [g.whole(0, 2) if g.chance(0.5) else 0 for _ in range(2 * x.rank)]
    if mode == "constant":
        least = -1 if min(x.shape) > 2 and g.chance(0.2) else 0
        pads = [max(p, least) if p else g.one(0, least) for p in pads]
        g.add("Pad", x, g.const(pads, np.int64), g.normal() if g.chance(0.5) else None)
    else:
        pads = [min(p, x.shape[k % x.rank] - 1) for k, p in enumerate(pads)]
        g.add("Pad", x, g.const(pads, np.int64), mode=mode)


def tile(g: Grower) -> None:
    x = g.value(lambda v: v.rank > 0 and v.array.size < 200)
    if g.chance(0.5):
        g.add("Tile", x, g.const([g.whole(1, 2) for _ in x.shape], np.int64))
    else:
        shape = [g.whole(1, 3) if n == 1 else n for n in x.shape]
        g.add("Expand", x, g.const(shape, np.int64))


def gather(g: Grower) -> None:
    x = g.value(lambda v: v.rank > 0)
    axis = g.whole(0, x.rank - 1)
    n = x.shape[axis]
    kind = g.one("Gather", "Gather", "GatherElements", "ScatterElements", "GatherND")
    if kind == "Gather":
        shape = g.one((), (1,), (2,), (2, 2))
        g.add("Gather", x, g.const(g.rng.integers(-n, n, size=shape), np.int64), axis=axis)
    elif kind == "GatherElements":
        indices = g.rng.integers(-n, n, size=x.shape)
        g.add("GatherElements", x, g.const(indices, np.int64), axis=axis)
    elif kind == "GatherND":
        indices = g.rng.integers(0, x.shape[0], size=(2, 1))
        g.add("GatherND", x, g.const(indices, np.int64))
    else:
        if x.array.dtype != np.float32:
            raise NotThisError
        shape = [1 if k == axis else m for k, m in enumerate(x.shape)]
        indices = g.const(g.rng.integers(0, n, size=shape), np.int64)
        reduction = g.one("none", "add", "mul", "max")
        updates = g.normal(*shape)
        g.add("ScatterElements", x, indices, updates, axis=axis, reduction=reduction)


def depth(g: Grower) -> None:
    x = g.floats(4)
    if x.shape[1] % 4 == 0 and g.chance(0.5):
        g.add("DepthToSpace", x, blocksize=2, mode=g.one("DCR", "CRD"))
    elif x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        g.add("SpaceToDepth", x, blocksize=2)
    else:
        raise NotThisError


def resize(g: Grower) -> None:
    x = g.floats(4, 4, 3, 5)
    mode = g.one("nearest", "linear", "cubic", "linear")
    if mode == "cubic" and x.rank != 4:
        mode = "nearest"
    transform = g.one("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attrs["nearest_mode"] = g.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    elif g.chance(0.2) and x.rank == 4:
        attrs["antialias"] = 1
    if mode == "cubic" and g.chance(0.3):
        attrs["exclude_outside"] = 1
    spatial = x.shape[2:]
    if g.chance(0.5):
        sizes = [*x.shape[:2], *(g.whole(1, 2 * n + 1) for n in spatial)]
        g.add("Resize", x, None, None, g.const(sizes, np.int64), **attrs)
    else:
        scales = [1.0, 1.0, *(g.one(0.5, 2.0, 1.5, 0.7, 3.0, 1.0) for _ in spatial)]
        g.add("Resize", x, None, g.const(scales, np.float32), **attrs)


def trilu(g: Grower) -> None:
    x = g.value(lambda v: v.rank >= 2 and v.array.dtype == np.float32)
    g.add("Trilu", x, g.const(g.whole(-1, 1), np.int64), upper=g.whole(0, 1))


def recurrent(g: Grower) -> None:
    x = g.floats(3)
    kind, units = g.one("LSTM", "GRU", "RNN"), g.whole(1, 5)
    way = g.one("forward", "reverse", "bidirectional")
    ways, gates = 1 + (way == "bidirectional"), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    w = g.normal(ways, gates * units, x.shape[2], scale=0.5)
    r = g.normal(ways, gates * units, units, scale=0.5)
    b = [g.normal(ways, 2 * gates * units, scale=0.5)] if g.chance(0.6) else []
    outputs = g.whole(1, 2)
    g.parts(kind, x, w, r, *b, outputs=outputs, hidden_size=units, direction=way)


MENU: tuple[tuple[float, Step], ...] = (
    (3, unary),
    (3, binary),
    (0.4, power),
    (0.7, modulo),
    (0.8, variadic),
    (0.5, clip),
    (0.6, compare),
    (0.3, logic),
    (0.6, where),
    (0.2, special),
    (0.6, cast),
    (0.6, integer),
    (1.0, matmul),
    (0.6, gemm),
    (2.0, conv),
    (0.7, conv_transpose),
    (1.2, pool),
    (0.4, global_pool),
    (1.2, normalise),
    (0.7, softmax),
    (1.0, reduce),
    (0.4, best),
    (0.4, cumulative),
    (0.8, transpose),
    (0.6, reshape),
    (0.6, images),
    (0.4, squeeze),
    (0.2, flatten),
    (0.7, concat),
    (0.4, split),
    (0.6, slice_),
    (0.6, pad),
    (0.3, tile),
    (0.6, gather),
    (0.3, depth),
    (0.9, resize),
    (0.2, trilu),
    (0.8, quantised),
    (1.6, quantised_layer),
    (0.2, dynamic),
    (0.3, recurrent),
    (0.4, choose),
    (0.3, repeat),
)


IMAGES: tuple[tuple[float, Step], ...] = (
    (3, any_resize),
    (3, any_conv_transpose),
    (2, unary),
    (2, binary),
    (0.4, variadic),
    (0.3, modulo),
    (0.4, transpose),
    (0.3, concat),
    (0.2, pad),
    (0.3, pool),
)
MENUS = {"all": MENU, "images": IMAGES, "steps": STEPS}
INPUTS = {"images": image_input, "steps": odd_input}


def grown(seed: int, index: int, menu: str = "all") -> Network:
    """Network `index` of a seed, the same whenever it is asked for."""
    attempt = 0
    while True:
        rng = np.random.default_rng([seed, index, attempt])
        network = _attempt(rng, f"r{seed}_{index}", menu, is_large(index))
        try:
            session_of(network.model)
        except Exception:  # onnx infers other shapes than onnxruntime's kernels give
            attempt += 1
        else:
            return network


def _attempt(rng: np.random.Generator, name: str, menu: str, large: bool) -> Network:
    g = Grower(rng)
    if menu in INPUTS:
        while not g.inputs:
            try:
                for _ in range(g.whole(1, 2)):
                    INPUTS[menu](g)
            except NotThisError:
                continue
    else:
        _any_inputs(g)
    steps = MENUS[menu]
    weights = np.array([w for w, _ in steps])
    wanted = g.whole(9, 20) if large and menu == "all" else g.whole(3, 8)
    for _ in range(20 * wanted):
        if len(g.nodes) >= wanted:
            break
        step = steps[int(rng.choice(len(steps), p=weights / weights.sum()))][1]
        try:
            step(g)
        except NotThisError:
            continue
    return replace(g.network(name), menu=menu)


def _any_inputs(g: Grower) -> None:
    for _ in range(g.whole(1, 3)):
        rank = g.one(4, 4, 4, 2, 3, 3, 1, 5)
        shape = [g.whole(1, 9) for _ in range(rank)]
        shape[0] = g.one(1, 1, shape[0]) if rank > 2 else shape[0]
        if math.prod(shape) > 700:
            shape = shape[:3]
        g.input(g.one(*[np.float32] * 6, np.int32, np.int64, np.uint8), tuple(shape))
    if all(v.array.dtype != np.float32 for v in g.inputs):
        g.input(np.float32, (1, g.whole(1, 5), g.whole(3, 9), g.whole(3, 9)))
