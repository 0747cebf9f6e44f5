"""The types of Relay's operators as TVM's relations state them, for those that our texts call.

`OPERATORS`: name -> (number of arguments, attributes it knows and their kinds, those it must be
given, type of the result). Attributes are those of TVM 0.9 to 0.18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from relay_parser import RelayError, Tensor

Attrs = Mapping[str, Any]
Infer = Callable[[list[Any], Attrs], Any]
KINDS = {
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "bool": lambda v: isinstance(v, bool),
    "float": lambda v: isinstance(v, float),
    "str": lambda v: isinstance(v, str),
    "ints": lambda v: isinstance(v, list) and all(KINDS["int"](x) for x in v),
    "pairs": lambda v: isinstance(v, list) and all(KINDS["ints"](x) and len(x) == 2 for x in v),
}
OPERATORS: dict[str, tuple[int, dict[str, str], set[str], Infer]] = {}


def want(holds: object, text: str) -> None:
    if not holds:
        raise RelayError(text)


def operator(names: str, count: int, known: str = "", required: str = "") -> Any:
    """Registers the decorated function as the relation of `names`; known: "axis:int ..."."""

    def register(infer: Infer) -> Infer:
        attrs = dict(a.split(":") for a in known.split())
        for name in names.split():
            OPERATORS[name] = (count, attrs, set(required.split()), infer)
        return infer

    return register


def broadcast(a: Tensor, b: Tensor) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise RelayError(f"{a} and {b} do not broadcast") from None


@operator(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log round sigmoid sign sin "
    "sinh sqrt tan tanh negative logical_not bitwise_not nn.relu copy zeros_like",
    1,
)
def same(t: list[Tensor], a: Attrs) -> Tensor:
    return t[0]


@operator("isnan isinf", 1)
def predicate(t: list[Tensor], a: Attrs) -> Tensor:
    return Tensor("bool", t[0].shape)


@operator(
    "add subtract multiply divide power maximum minimum mod floor_mod left_shift right_shift "
    "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor",
    2,
)
def arithmetic(t: list[Tensor], a: Attrs) -> Tensor:
    want(t[0].dtype == t[1].dtype, f"operands of two types: {t}")
    return Tensor(t[0].dtype, broadcast(*t))


@operator("equal less less_equal greater greater_equal", 2)
def comparison(t: list[Tensor], a: Attrs) -> Tensor:
    return Tensor("bool", arithmetic(t, a).shape)


@operator("where", 3)
def where(t: list[Tensor], a: Attrs) -> Tensor:
    want(t[0].dtype == "bool" and t[1].dtype == t[2].dtype, f"where of {t}")
    return Tensor(t[1].dtype, broadcast(t[0], Tensor("", broadcast(t[1], t[2]))))


@operator("clip", 1, "a_min:float a_max:float", "a_min a_max")
def clip(t: list[Tensor], a: Attrs) -> Tensor:
    return t[0]


@operator("cast", 1, "dtype:str", "dtype")
def cast(t: list[Tensor], a: Attrs) -> Tensor:
    return Tensor(a["dtype"], t[0].shape)


@operator("nn.leaky_relu", 1, "alpha:float")
def leaky(t: list[Tensor], a: Attrs) -> Tensor:
    return t[0]


@operator("nn.softmax nn.log_softmax", 1, "axis:int")
def softmax(t: list[Tensor], a: Attrs) -> Tensor:
    axis_in(t[0], a["axis"])
    return t[0]


def axis_in(t: Tensor, axis: int) -> int:
    want(-len(t.shape) <= axis < len(t.shape), f"axis {axis} of {t}")
    return axis % len(t.shape)


@operator("reshape", 1, "newshape:ints allowzero:bool", "newshape")
def reshape(t: list[Tensor], a: Attrs) -> Tensor:
    want(math.prod(a["newshape"]) == math.prod(t[0].shape), f"reshape {t[0]} to {a['newshape']}")
    return Tensor(t[0].dtype, tuple(a["newshape"]))


@operator("squeeze", 1, "axis:ints")
def squeeze(t: list[Tensor], a: Attrs) -> Tensor:
    gone = {axis_in(t[0], k) for k in a["axis"]}
    want(all(t[0].shape[k] == 1 for k in gone), f"squeeze {a} of {t[0]}")
    return Tensor(t[0].dtype, tuple(n for k, n in enumerate(t[0].shape) if k not in gone))


@operator("broadcast_to", 1, "shape:ints dtype:str", "shape")
def broadcast_to(t: list[Tensor], a: Attrs) -> Tensor:
    shape = tuple(a["shape"])
    want(broadcast(t[0], Tensor("", shape)) == shape, f"{t[0]} is not broadcast to {shape}")
    return Tensor(t[0].dtype, shape)


@operator("transpose", 1, "axes:ints", "axes")
def transpose(t: list[Tensor], a: Attrs) -> Tensor:
    want(sorted(a["axes"]) == list(range(len(t[0].shape))), f"transpose {a} of {t[0]}")
    return Tensor(t[0].dtype, tuple(t[0].shape[k] for k in a["axes"]))


@operator("concatenate", 1, "axis:int")
def concatenate(t: list[Any], a: Attrs) -> Tensor:
    want(isinstance(t[0], tuple) and t[0], "concatenate takes a tuple")
    axis = axis_in(t[0][0], a["axis"])
    rest = {(p.dtype, p.shape[:axis], p.shape[axis + 1 :]) for p in t[0]}
    want(len(rest) == 1, f"concatenate {t[0]} at {axis}")
    first = t[0][0].shape
    total = sum(p.shape[axis] for p in t[0])
    return Tensor(t[0][0].dtype, (*first[:axis], total, *first[axis + 1 :]))


@operator("split", 1, "indices_or_sections:ints axis:int", "indices_or_sections")
def split(t: list[Tensor], a: Attrs) -> tuple[Tensor, ...]:
    axis = axis_in(t[0], a["axis"])
    ends = [0, *a["indices_or_sections"], t[0].shape[axis]]
    want(ends == sorted(ends), f"split at {ends}")
    shape = t[0].shape
    sizes = [high - low for low, high in pairwise(ends)]
    return tuple(Tensor(t[0].dtype, (*shape[:axis], n, *shape[axis + 1 :])) for n in sizes)


@operator("strided_slice", 1, "begin:ints end:ints strides:ints", "begin end strides")
def strided_slice(t: list[Tensor], a: Attrs) -> Tensor:
    shape = []
    for n, low, high, step in zip(t[0].shape, a["begin"], a["end"], a["strides"], strict=True):
        # TVM adds the extent once to what is negative, then keeps it in range.
        low, high = (v + n if v < 0 else v for v in (low, high))
        least, most = (-1, n - 1) if step < 0 else (0, n)
        low, high = (min(max(v, least), most) for v in (low, high))
        shape.append(max(0, -(-(high - low) // step)))
    return Tensor(t[0].dtype, tuple(shape))


@operator("take", 2, "axis:int", "axis")
def take(t: list[Tensor], a: Attrs) -> Tensor:
    axis = axis_in(t[0], a["axis"])
    want(t[1].dtype.startswith(("int", "uint")), f"take by {t[1]}")
    return Tensor(t[0].dtype, (*t[0].shape[:axis], *t[1].shape, *t[0].shape[axis + 1 :]))


@operator("gather", 2, "axis:int", "axis")
def gather(t: list[Tensor], a: Attrs) -> Tensor:
    want(len(t[0].shape) == len(t[1].shape), f"gather {t}")
    return Tensor(t[0].dtype, t[1].shape)


@operator("nn.pad", 2, "pad_width:pairs pad_mode:str", "pad_width")
def pad(t: list[Tensor], a: Attrs) -> Tensor:
    want(t[1] == Tensor(t[0].dtype, ()) and a["pad_mode"] in ("constant", "edge", "reflect"), "pad")
    widths = zip(t[0].shape, a["pad_width"], strict=True)
    return Tensor(t[0].dtype, tuple(n + low + high for n, (low, high) in widths))


@operator("tile", 1, "reps:ints", "reps")
def tile(t: list[Tensor], a: Attrs) -> Tensor:
    return Tensor(t[0].dtype, tuple(np.tile(np.empty(t[0].shape, np.int8), a["reps"]).shape))


def reduced(t: Tensor, a: Attrs) -> tuple[int, ...]:
    gone = {axis_in(t, k) for k in a["axis"]}
    if a["keepdims"]:
        return tuple(1 if k in gone else n for k, n in enumerate(t.shape))
    return tuple(n for k, n in enumerate(t.shape) if k not in gone)


@operator("mean sum max min prod", 1, "axis:ints keepdims:bool exclude:bool")
def reduction(t: list[Tensor], a: Attrs) -> Tensor:
    return Tensor(t[0].dtype, reduced(t[0], a))


@operator("argmax argmin", 1, "axis:ints keepdims:bool select_last_index:bool")
def arg_reduction(t: list[Tensor], a: Attrs) -> Tensor:
    return Tensor("int32", reduced(t[0], a))


def window(n: int, a: Attrs, size: list[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    want(
        len(a["strides"]) == n and len(a["dilation"]) == n and len(a["padding"]) == 2 * n, "window"
    )
    extents = []
    for k, extent in enumerate(shape):
        total = extent + a["padding"][k] + a["padding"][k + n]
        rest = total - a["dilation"][k] * (size[k] - 1) - 1
        stride = a["strides"][k]
        extents.append((-(-rest // stride) if a.get("ceil_mode") else rest // stride) + 1)
    return tuple(extents)


WINDOW = "strides:ints padding:ints dilation:ints "
CONV = WINDOW + "groups:int channels:int kernel_size:ints data_layout:str kernel_layout:str "


@operator("nn.conv1d nn.conv2d nn.conv3d", 2, CONV + "out_dtype:str")
def conv(t: list[Tensor], a: Attrs) -> Tensor:
    x, w = t[0].shape, t[1].shape
    n = len(x) - 2
    layouts = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}
    want((a["data_layout"], a["kernel_layout"]) == layouts[n], f"layout of {a}")
    want(t[0].dtype == t[1].dtype or "out_dtype" in a, f"conv of {t}")
    want(list(w[2:]) == a["kernel_size"] and w[0] == a["channels"], f"kernel {w} of {a}")
    want(x[1] == w[1] * a["groups"] and w[0] % a["groups"] == 0, f"channels of {t}")
    dtype = a.get("out_dtype", t[0].dtype)
    return Tensor(dtype, (x[0], w[0], *window(n, a, a["kernel_size"], x[2:])))


def of_rank(n: int) -> Callable[[list[Tensor]], None]:
    return lambda t: want(len(t[0].shape) == n + 2, f"{n} spatial axes of {t[0]}")


POOL = WINDOW + "pool_size:ints layout:str out_layout:str ceil_mode:bool "


@operator("nn.max_pool1d nn.max_pool2d nn.max_pool3d", 1, POOL, "pool_size")
@operator(
    "nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d", 1, POOL + "count_include_pad:bool", "pool_size"
)
def pool(t: list[Tensor], a: Attrs) -> Tensor:
    n = len(t[0].shape) - 2
    want(a["layout"] == {1: "NCW", 2: "NCHW", 3: "NCDHW"}[n], f"layout of {a}")
    return Tensor(t[0].dtype, (*t[0].shape[:2], *window(n, a, a["pool_size"], t[0].shape[2:])))


@operator("nn.global_max_pool2d nn.global_avg_pool2d", 1, "layout:str")
def global_pool(t: list[Tensor], a: Attrs) -> Tensor:
    of_rank(2)(t)
    return Tensor(t[0].dtype, (*t[0].shape[:2], 1, 1))


@operator("nn.bias_add", 2, "axis:int")
def bias_add(t: list[Tensor], a: Attrs) -> Tensor:
    want(t[0].dtype == t[1].dtype and t[1].shape == (t[0].shape[1],), f"bias {t}")
    return t[0]


@operator("nn.dense", 2, "units:int out_dtype:str", "units")
def dense(t: list[Tensor], a: Attrs) -> Tensor:
    want(t[1].shape == (a["units"], t[0].shape[-1]) and t[0].dtype == t[1].dtype, f"dense {t}")
    return Tensor(t[0].dtype, (*t[0].shape[:-1], a["units"]))


@operator("nn.batch_matmul", 2, "transpose_a:bool transpose_b:bool", "transpose_a transpose_b")
def batch_matmul(t: list[Tensor], a: Attrs) -> Tensor:
    want(not a["transpose_a"] and not a["transpose_b"] and len(t[0].shape) == 3, f"{t} {a}")
    x, y = t[0].shape, t[1].shape
    want(x[0] == y[0] and x[2] == y[1] and t[0].dtype == t[1].dtype, f"batch_matmul {t}")
    return Tensor(t[0].dtype, (x[0], x[1], y[2]))


def per_channel(t: list[Tensor], parts: list[Tensor]) -> None:
    want(all(p.shape == (t[0].shape[1],) for p in parts), f"normalisation of {t}")


@operator("nn.batch_norm", 5, "epsilon:float axis:int center:bool scale:bool")
def batch_norm(t: list[Tensor], a: Attrs) -> tuple[Tensor, ...]:
    per_channel(t, t[1:])
    return t[0], t[3], t[4]


@operator("nn.instance_norm", 3, "epsilon:float axis:int")
def instance_norm(t: list[Tensor], a: Attrs) -> Tensor:
    per_channel(t, t[1:])
    return t[0]


@operator("nn.layer_norm", 3, "axis:int epsilon:float center:bool")
def layer_norm(t: list[Tensor], a: Attrs) -> Tensor:
    last = t[0].shape[axis_in(t[0], a["axis"])]
    want(t[1].shape == (last,) == t[2].shape, f"layer_norm {t}")
    return t[0]


@operator("nn.lrn", 1, "size:int axis:int bias:float alpha:float beta:float")
def lrn(t: list[Tensor], a: Attrs) -> Tensor:
    return t[0]


@operator("nn.depth_to_space", 1, "block_size:int layout:str mode:str", "block_size")
def depth_to_space(t: list[Tensor], a: Attrs) -> Tensor:
    n, c, h, w = t[0].shape
    size = a["block_size"]
    return Tensor(t[0].dtype, (n, c // size**2, h * size, w * size))


@operator("nn.space_to_depth", 1, "block_size:int layout:str", "block_size")
def space_to_depth(t: list[Tensor], a: Attrs) -> Tensor:
    n, c, h, w = t[0].shape
    size = a["block_size"]
    return Tensor(t[0].dtype, (n, c * size**2, h // size, w // size))


def quantisation(t: list[Tensor], axis: int, data: Tensor) -> None:
    """A scale and a zero point: scalars, or one for each slice along `axis`."""
    extent = data.shape[axis] if data.shape else 1
    want(t[0].dtype == "float32" and t[0].shape in ((), (extent,)), f"scale {t[0]} for {data}")
    want(t[1].dtype == "int32" and t[1].shape in ((), (extent,)), f"zero point {t[1]} for {data}")


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


@operator("qnn.quantize", 3, "axis:int out_dtype:str", "out_dtype")
def quantize(t: list[Tensor], a: Attrs) -> Tensor:
    quantisation(t[1:], a["axis"], t[0])
    want(t[0].dtype == "float32" and a["out_dtype"] in INTEGERS, f"quantize {t} {a}")
    return Tensor(a["out_dtype"], t[0].shape)


@operator("qnn.dequantize", 3, "axis:int")
def dequantize(t: list[Tensor], a: Attrs) -> Tensor:
    quantisation(t[1:], a["axis"], t[0])
    want(t[0].dtype in INTEGERS, f"dequantize {t}")
    return Tensor("float32", t[0].shape)


@operator("qnn.requantize", 5, "axis:int out_dtype:str", "out_dtype")
def requantize(t: list[Tensor], a: Attrs) -> Tensor:
    quantisation(t[1:3], a["axis"], t[0])
    quantisation(t[3:], a["axis"], Tensor("", ()))
    want(t[0].dtype in INTEGERS and a["out_dtype"] in INTEGERS, f"requantize {t} {a}")
    return Tensor(a["out_dtype"], t[0].shape)


@operator("qnn.conv2d", 6, CONV + "out_dtype:str", "out_dtype kernel_size channels")
def qnn_conv2d(t: list[Tensor], a: Attrs) -> Tensor:
    of_rank(2)(t)
    quantisation([t[4], t[2]], 1, Tensor("", ()))
    quantisation([t[5], t[3]], 0, t[1])
    want(a["out_dtype"] == "int32", "sums are int32")
    return conv(t[:2], a)


@operator("qnn.dense", 6, "units:int out_dtype:str", "units out_dtype")
def qnn_dense(t: list[Tensor], a: Attrs) -> Tensor:
    quantisation([t[4], t[2]], 1, Tensor("", ()))
    quantisation([t[5], t[3]], 0, t[1])
    want(t[1].shape == (a["units"], t[0].shape[1]) and a["out_dtype"] == "int32", f"dense {t}")
    return Tensor("int32", (t[0].shape[0], a["units"]))
