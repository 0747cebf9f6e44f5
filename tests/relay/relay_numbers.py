"""What Relay's operators compute, in numpy: enough to run our texts and compare the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from relay_parser import Block, Call, Function, If, Item, Literal, TupleOf, Var

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]


def _same_type(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, **_: np.asarray(f(x)).astype(x.dtype)


ERF = np.vectorize(math.erf, otypes=[np.float64])
UNARY = {
    **{n: _same_type(getattr(np, n)) for n in ("abs", "ceil", "cos", "cosh", "exp", "floor")},
    **{n: _same_type(getattr(np, n)) for n in ("log", "negative", "sign", "sin", "sinh", "sqrt")},
    **{n: _same_type(getattr(np, n)) for n in ("tan", "tanh", "copy", "zeros_like")},
    **{f"a{n}": _same_type(getattr(np, f"arc{n[:3]}{n[3:]}")) for n in ("cos", "sin", "tan")},
    **{f"a{n}": _same_type(getattr(np, f"arc{n}")) for n in ("cosh", "sinh", "tanh")},
    "erf": _same_type(ERF),
    "sigmoid": _same_type(lambda x: 1 / (1 + np.exp(-x))),
    "logical_not": lambda x: ~x,
    "bitwise_not": lambda x: ~x,
    "nn.relu": lambda x: np.maximum(x, 0),
    "isnan": np.isnan,
    "isinf": np.isinf,
}


def divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    return np.asarray(np.trunc(a.astype(np.longdouble) / b)).astype(a.dtype)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.fmod,
    "floor_mod": np.mod,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def windows(x: Array, size: Sequence[int], a: Attrs, fill: float) -> Array:
    """[..., output extents, window] of padded data; windows past the end reach into `fill`."""
    n = len(size)
    widths = [(0, 0), (0, 0)]
    for k in range(n):
        before, after = a["padding"][k], a["padding"][k + n]
        reach = a["dilation"][k] * (size[k] - 1) + 1
        rest = x.shape[k + 2] + before + after - reach
        more = -rest % a["strides"][k] if a.get("ceil_mode") else 0
        widths.append((before, after + more))
    x = np.pad(x, widths, constant_values=fill)
    reaches = [d * (m - 1) + 1 for m, d in zip(size, a["dilation"], strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, reaches, axis=tuple(range(2, n + 2)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in a["strides"]))
    return view[(*steps, *(slice(None, None, d) for d in a["dilation"]))]


def conv(x: Array, w: Array, a: Attrs) -> Array:
    n, groups = x.ndim - 2, a["groups"]
    seen = windows(x, a["kernel_size"], a, 0)
    inner, results = tuple(range(-n, 0)), []
    for data, filters in zip(np.split(seen, groups, 1), np.split(w, groups, 0), strict=True):
        axes = ((1, *inner), tuple(range(1, n + 2)))
        results.append(np.moveaxis(np.tensordot(data, filters, axes), -1, 1))
    return np.concatenate(results, 1).astype(x.dtype)


def pool(op: str, x: Array, a: Attrs) -> Array:
    axes, size = tuple(range(-len(a["pool_size"]), 0)), a["pool_size"]
    if op == "MaxPool":
        low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return np.asarray(windows(x, size, a, low).max(axes)).astype(x.dtype)
    sums = windows(x.astype(np.float64), size, a, 0).sum(axes)
    inside = np.ones(x.shape)
    if a["count_include_pad"]:  # what is declared counts, what ceil_mode adds does not
        n = len(size)
        widths = [(0, 0), (0, 0), *((a["padding"][k], a["padding"][k + n]) for k in range(n))]
        counts = windows(np.pad(inside, widths, constant_values=1), size,
                         {**a, "padding": [0] * 2 * n}, 0).sum(axes)  # fmt: skip
    else:
        counts = windows(inside, size, a, 0).sum(axes)
    return np.asarray(sums / counts).astype(x.dtype)


def along(value: Array, axis: int, like: Array) -> Array:
    """A scalar, or a vector laid along one axis."""
    if value.ndim == 0:
        return value
    shape = [1] * like.ndim
    shape[axis] = value.size
    return value.reshape(shape)


def clipped(x: Array, dtype: str) -> Array:
    info = np.iinfo(dtype)
    return np.clip(np.rint(x), info.min, info.max).astype(dtype)


def quantize(x: Array, s: Array, z: Array, axis: int, out_dtype: str) -> Array:
    scaled = (x / along(s, axis, x)).astype(np.float32)
    return clipped(np.rint(scaled) + along(z, axis, x), out_dtype)


def dequantize(x: Array, s: Array, z: Array, axis: int) -> Array:
    centred = x.astype(np.int64) - along(z, axis, x)
    return np.asarray(centred * along(s, axis, x), np.float32)


def requantize(
    x: Array, s: Array, z: Array, t: Array, o: Array, axis: int, out_dtype: str
) -> Array:
    factor = along(np.asarray(s / t), axis, x)
    return clipped(np.rint((x - z) * factor) + o, out_dtype)


def strided_slice(x: Array, a: Attrs) -> Array:
    index = []
    for n, low, high, step in zip(x.shape, a["begin"], a["end"], a["strides"], strict=True):
        low, high = (v + n if v < 0 else v for v in (low, high))
        index.append(slice(low, high if high >= 0 else None, step))
    return x[tuple(index)]


def blocks(x: Array, size: int, mode: str) -> Array:
    n, c, h, w = x.shape
    if mode == "DCR":
        y = x.reshape(n, size, size, c // size**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c // size**2, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // size**2, h * size, w * size)


def unblocks(x: Array, size: int) -> Array:
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // size, size, w // size, size).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * size**2, h // size, w // size)


def normalised(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(var + epsilon))


def layer_norm(x: Array, gamma: Array, beta: Array, a: Mapping[str, Any]) -> Array:
    scaled = normalised(x, (a["axis"],), a["epsilon"]) * gamma
    return scaled + beta if a.get("center", True) else scaled


def batch_norm(
    x: Array, g: Array, b: Array, m: Array, v: Array, epsilon: float
) -> tuple[Array, ...]:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scale = g.reshape(shape) / np.sqrt(v.reshape(shape) + epsilon)
    return ((x - m.reshape(shape)) * scale + b.reshape(shape)).astype(x.dtype), m, v


def lrn(x: Array, a: Attrs) -> Array:
    half = (a["size"] - 1) // 2
    ends = a["size"] - 1 - half
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        window = x[:, max(0, c - half) : c + ends + 1]
        total[:, c] = (window**2).sum(axis=1)
    return np.asarray(x / (a["bias"] + a["alpha"] / a["size"] * total) ** a["beta"])


def reduced(f: Callable[..., Any]) -> Callable[..., Array]:
    def run(x: Array, a: Attrs) -> Array:
        return np.asarray(f(x, axis=tuple(a["axis"]), keepdims=a["keepdims"])).astype(x.dtype)

    return run


def argument(f: Callable[..., Any]) -> Callable[..., Array]:
    def run(x: Array, a: Attrs) -> Array:
        (axis,) = a["axis"]
        found = f(np.flip(x, axis) if a["select_last_index"] else x, axis=axis)
        if a["select_last_index"]:
            found = x.shape[axis] - 1 - found
        found = np.asarray(found, np.int32)
        return np.expand_dims(found, axis) if a["keepdims"] else found

    return run


OTHERS: dict[str, Callable[[list[Any], Attrs], Any]] = {
    "where": lambda x, a: np.where(*x),
    "clip": lambda x, a: np.clip(x[0], a["a_min"], a["a_max"]).astype(x[0].dtype),
    "cast": lambda x, a: x[0].astype(a["dtype"]),
    "nn.leaky_relu": lambda x, a: np.where(x[0] < 0, x[0] * np.float32(a["alpha"]), x[0]),
    "nn.softmax": lambda x, a: softmax(x[0], a["axis"]),
    "nn.log_softmax": lambda x, a: np.log(softmax(x[0], a["axis"])),
    "reshape": lambda x, a: x[0].reshape(a["newshape"]),
    "squeeze": lambda x, a: x[0].squeeze(tuple(a["axis"])),
    "broadcast_to": lambda x, a: np.broadcast_to(x[0], a["shape"]),
    "transpose": lambda x, a: x[0].transpose(a["axes"]),
    "concatenate": lambda x, a: np.concatenate(x[0], a["axis"]),
    "split": lambda x, a: tuple(np.split(x[0], a["indices_or_sections"], a["axis"])),
    "strided_slice": lambda x, a: strided_slice(x[0], a),
    "take": lambda x, a: np.take(x[0], x[1], a["axis"]),
    "gather": lambda x, a: np.take_along_axis(x[0], x[1], a["axis"]),
    "nn.pad": lambda x, a: np.pad(
        x[0],
        a["pad_width"],
        a["pad_mode"],
        **({"constant_values": x[1]} if a["pad_mode"] == "constant" else {}),
    ),
    "tile": lambda x, a: np.tile(x[0], a["reps"]),
    **{n: (lambda x, a, f=f: reduced(f)(x[0], a)) for n, f in (
        ("mean", np.mean), ("sum", np.sum), ("max", np.max), ("min", np.min), ("prod", np.prod))},
    "argmax": lambda x, a: argument(np.argmax)(x[0], a),
    "argmin": lambda x, a: argument(np.argmin)(x[0], a),
    **{f"nn.conv{n}d": (lambda x, a: conv(x[0], x[1], a)) for n in (1, 2, 3)},
    **{f"nn.max_pool{n}d": (lambda x, a: pool("MaxPool", x[0], a)) for n in (1, 2, 3)},
    **{f"nn.avg_pool{n}d": (lambda x, a: pool("AveragePool", x[0], a)) for n in (1, 2, 3)},
    "nn.global_max_pool2d": lambda x, a: x[0].max((2, 3), keepdims=True),
    "nn.global_avg_pool2d": lambda x, a: x[0].mean((2, 3), keepdims=True),
    "nn.bias_add": lambda x, a: x[0] + along(x[1], 1, x[0]),
    "nn.dense": lambda x, a: x[0] @ x[1].T,
    "nn.batch_matmul": lambda x, a: x[0] @ x[1],
    "nn.batch_norm": lambda x, a: batch_norm(*x, a["epsilon"]),
    "nn.instance_norm": lambda x, a: (
        normalised(x[0], tuple(range(2, x[0].ndim)), a["epsilon"]) * along(x[1], 1, x[0])
        + along(x[2], 1, x[0])
    ),
    "nn.layer_norm": lambda x, a: layer_norm(*x, a),
    "nn.lrn": lambda x, a: lrn(x[0], a),
    "nn.depth_to_space": lambda x, a: blocks(x[0], a["block_size"], a["mode"]),
    "nn.space_to_depth": lambda x, a: unblocks(x[0], a["block_size"]),
    "qnn.quantize": lambda x, a: quantize(*x, a["axis"], a["out_dtype"]),
    "qnn.dequantize": lambda x, a: dequantize(*x, a["axis"]),
    "qnn.requantize": lambda x, a: requantize(*x, a["axis"], a["out_dtype"]),
    "qnn.conv2d": lambda x, a: conv(
        (x[0].astype(np.float64) - x[2]), x[1].astype(np.float64) - along(x[3], 0, x[1]), a
    ).astype(np.int64),
    "qnn.dense": lambda x, a: (
        (x[0].astype(np.int64) - x[2]) @ (x[1].astype(np.int64) - along(x[3], 0, x[1])).T
    ),
}  # fmt: skip


def evaluate(e: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(e, Var):
        return values[e.name]
    if isinstance(e, Literal):
        return np.asarray(e.value, e.type.dtype)
    if isinstance(e, TupleOf):
        return tuple(evaluate(p, values) for p in e.parts)
    if isinstance(e, Item):
        return evaluate(e.value, values)[e.index]
    if isinstance(e, If):
        return block(e.then if evaluate(e.condition, values) else e.other, values)
    assert isinstance(e, Call)
    args = [evaluate(a, values) for a in e.args]
    if e.op in UNARY:
        return UNARY[e.op](*args)
    if e.op in BINARY:
        return BINARY[e.op](*args)
    return OTHERS[e.op](args, e.attrs)


def block(b: Block, values: Mapping[str, Any]) -> Any:
    known = dict(values)
    for name, _, expression in b.bindings:
        known[name] = evaluate(expression, known)
    return evaluate(b.result, known)


def run(function: Function, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a function without dialect calls."""
    names = [name for name, _ in function.params]
    with np.errstate(all="ignore"):
        result = block(function.body, dict(zip(names, arguments, strict=True)))
    return result if isinstance(result, tuple) else (result,)
