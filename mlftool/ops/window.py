"""Pooling: a window slides over [N, H, W, C] and is reduced, channel by channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from mlftool.ir.graph import TensorType, View
from mlftool.ir.operations import Operations, of_text, times
from mlftool.ir.relay import LAYOUTS, Rule, Site, window
from mlftool.onnx_rules.boxes import OF_BATCHES, as_it_is
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Scope
from mlftool.onnx_rules.windows import placed, spelt_window
from mlftool.ops.base import (
    Attributes,
    Facts,
    Kernel,
    Known,
    Moved,
    Operand,
    Signature,
    Trait,
    UnsupportedError,
    old,
    op,
    shown,
)
from mlftool.ops.contraction import auto_pad
from mlftool.ops.elementwise import Maths
from mlftool.ops.microsoft import KINDS, WINDOW
from mlftool.ops.microsoft_quantised import quantised_pool
from mlftool.ops.plain import float_of, plain_kernel
from mlftool.ops.scalar import Load, Store, around, literal


def _channels_last(v: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of input and output as kernels walk them. With indices the layout pass leaves
    the input as it is: each channel is an image of its own."""
    shape, out = v.x(0).shape, v.y.shape
    if len(v.core.outputs) == 1:
        return shape, out
    images = shape[0] * shape[1]
    return (images, *shape[2:], 1), (images, *out[2:], 1)


def _axes(v: View) -> list[dict[str, int]]:
    """Geometry of each spatial axis, by the names the template uses."""
    shape, out = _channels_last(v)
    rank = len(shape) - 2
    strides, dilations, pads = placed(v.core.attrs, rank)
    ends = [n + pad for n, pad in zip(shape[1:-1], pads[rank:], strict=True)]
    names = ("k", "n", "o", "kernel", "stride", "dilation", "pad", "end")
    sizes = (shape[1:-1], out[1:-1], v.attr("kernel_shape"), strides, dilations, pads[:rank], ends)
    return [dict(zip(names, axis, strict=True)) for axis in zip(range(rank), *sizes, strict=True)]


def _reaches_outside(v: View) -> bool:
    """Whether some window reaches outside the input, through padding or rounding up."""
    return any(
        a["pad"] or (a["o"] - 1) * a["stride"] + (a["kernel"] - 1) * a["dilation"] >= a["n"]
        for a in _axes(v)
    )


def _of_window(v: View) -> Operations:
    """Of an element of a window: its axes are short loops, which vanish where they are shortest."""
    kernel = v.attr("kernel_shape")
    if math.prod(kernel) <= UNROLLED and not _reaches_outside(v):
        return times(load=1, whole=1)
    return times(load=1, loop=1, whole=1 + 12 / max(1, kernel[-1]))


UNROLLED = 4  # elements


def pool(
    v: View,
    name: str,
    init: str,
    step: str,
    finish: str,
    acc_type: str,
    place: str = "",
    includes: tuple[str, ...] = (),
    counts: Sequence[int | str] = (),
    wins: str = "",
) -> Kernel:
    """`place` is the index of an element, where that of the one that `wins` is an output, too;
    `counts` are the divisors that `finish` has."""
    load = Load(v)
    shape, out = _channels_last(v)
    store = Store(v, "result", f"p * {out[-1]} + c", "c")
    steps = math.prod(out) * math.prod(v.attr("kernel_shape"))
    return Kernel(
        name,
        "window.c.j2",
        {
            "axes": _axes(v),
            "batch": shape[0],
            "channels": out[-1],
            "load": load.expr("*at"),
            "init": init,
            "step": step,
            "finish": finish,
            "acc_type": acc_type,
            "padded": _reaches_outside(v),
            "store": store,
            "inside": "inside" in counts,
            "count": "count" in counts,
            "result_type": v.y.dtype.c,
            "place": place,
            "wins": wins,
        },
        (
            *around(v, *store.operands, x=load.tensor),
            *([Operand("places", "int64_t", "out", v.node.outputs[1])] if place else []),
        ),
        operations=steps * (_of_window(v) + of_text(step, v.y.dtype))
        + max(0, steps - v.x(0).elements) * load.operations
        + math.prod(out) * (of_text(finish, v.y.dtype) + times(loop=1, store=1, whole=1))
        + math.prod(out[:-1]) * times(loop=1, whole=8),
        includes=("mlf/kernel.h", *includes, *load.includes, *store.includes),
        inplace=store.inplace,
        overlap=_overlap(v, load.tensor, store.operands),
        vectors=True,
    )


def _overlap(v: View, read: str, others: Sequence[Operand]) -> dict[str, tuple[int, int]]:
    """A Kernel's `overlap`: an element is written when its window is read, and what later ones
    read is further on, of the same pixel the channels that follow."""
    x, y = v.type(read).dtype, v.out.dtype
    shape, out = _channels_last(v)
    if y.bytes > x.bytes or x.packed or y.packed or any(o.value == read for o in others):
        return {}
    first = np.zeros((), np.int64)
    for a in _axes(v):
        at = np.maximum(np.arange(a["o"]) * a["stride"] - a["pad"], 0)
        first = first[..., None] * a["n"] + at
    pixels = math.prod(shape[1:-1])
    places = (np.arange(shape[0])[:, None] * pixels + first.reshape(-1)).reshape(-1)
    read_from = np.minimum.accumulate(places[::-1])[::-1] * x.bytes
    ahead = (np.arange(places.size) * y.bytes - read_from).max(initial=0) * out[-1]
    far = 2 * (math.prod(shape) * x.bytes + math.prod(out) * y.bytes)
    return {read: (int(ahead), far)}


def divisor_of(v: View) -> int | str:
    """What a mean divides by, in C: a number, or a variable of the template where windows differ.

    `inside` counts a window's elements in the input, `count` those in the input and its padding;
    rounding up (ceil_mode) may reach beyond both.
    """
    if not v.attr("count_include_pad", 0):
        return "inside" if _reaches_outside(v) else math.prod(v.attr("kernel_shape"))
    beyond = any(
        (a["o"] - 1) * a["stride"] - a["pad"] + (a["kernel"] - 1) * a["dilation"] >= a["end"]
        for a in _axes(v)
    )
    return "count" if beyond else math.prod(v.attr("kernel_shape"))


def _relay_pool(kind: str) -> Rule:
    def rule(s: Site) -> str | None:
        n, size, place = s.rank - 2, list(s.attr("kernel_shape", ())), window(s)
        if n not in LAYOUTS or len(s.node.outputs) > 1:
            return None
        whole = size == list(s.type().shape[2:]) and not any(place["padding"])
        if n == 2 and whole and place["dilation"] == [1, 1]:
            return s.call(f"nn.global_{kind}_pool2d", s.arg())
        ceil = next(
            (c for c in (False, True) if _relay_extents(s, size, c) == s.out.shape[2:]), None
        )
        if ceil is None:
            return None
        include = bool(s.attr("count_include_pad", 0)) if kind == "avg" else None
        layout = LAYOUTS[n][0]
        return s.call(
            f"nn.{kind}_pool{n}d",
            s.arg(),
            pool_size=size,
            **place,
            layout=layout,
            ceil_mode=ceil,
            count_include_pad=include,
        )

    return rule


def _relay_extents(s: Site, size: Sequence[int], ceil: bool) -> tuple[int, ...]:
    place, n = window(s), len(size)
    result = []
    for k, extent in enumerate(s.type().shape[2:]):
        stride, pads = place["strides"][k], place["padding"]
        rest = extent + pads[k] + pads[k + n] - place["dilation"][k] * (size[k] - 1) - 1
        result.append((-(-rest // stride) if ceil else rest // stride) + 1)
    return tuple(result)


def _pool_auto_pad(f: Facts) -> str:
    """The standard's output is as large as without dilations; onnxruntime's is not."""
    mode, dilations = f.attrs.get("auto_pad", ""), f.attrs.get("dilations") or []
    apart = any(k > 1 and d > 1 for k, d in zip(f.attrs["kernel_shape"], dilations, strict=False))
    if mode.startswith("SAME") and apart:
        return f"auto_pad {mode} with dilations, of which implementations differ; give pads instead"
    return auto_pad(f)


def _pool_pads(f: Facts) -> str:
    kernel = f.attrs["kernel_shape"]
    pads = f.attrs.get("pads") or [0] * (2 * len(kernel))
    if any(p >= k for p, k in zip(pads, [*kernel, *kernel], strict=True)):
        return f"pads {shown(pads)}; expected less than the kernel {shown(kernel)}"
    return ""


@op(
    "MaxPool",
    *(Trait.KEPT, Trait.SPATIAL, Trait.EPILOGUE, Trait.ORDER_PRESERVING),
    moved=Moved(None, (0,)),
    checks=(_pool_auto_pad, _pool_pads),
    resolve=spelt_window,
    extents=OF_BATCHES,
    relay=_relay_pool("max"),
)
def max_pool(v: View) -> Kernel:
    """Largest element of each window; padding never wins.

    A NaN wins wherever it is, as in Max and ReduceMax; of `drops_nan`, TensorFlow Lite's, it never
    wins."""
    dtype = v.y.dtype
    if dtype.codec or dtype.packed:
        raise UnsupportedError(f"MaxPool on {dtype}; supported: types that C has, 16-bit floats")
    if v.attr("drops_nan", 0) and dtype.is_float:
        lowest, wins = literal(-float(np.finfo(np.float32).max), dtype), "value > acc"
    else:
        lowest = literal(float("-inf") if dtype.is_float else dtype.range[0], dtype)
        wins = "value > acc || value != value" if dtype.is_float else "value > acc"
    step = f"{wins} ? value : acc"
    return pool(v, "portable.max_pool", lowest, step, "acc", dtype.c, _place(v), wins=wins)


def _place(v: View) -> str:
    """C text of an element's index in the input, which may count columns first."""
    if len(v.core.outputs) < 2:
        return ""
    axes = _axes(v)
    if v.attr("storage_order", 0):
        axes.reverse()
    text = "0"
    for a in axes:
        position = f"s{a['k']} + k{a['k']} * {a['dilation']}"
        text = f"({text}) * {a['n']} + {position}" if text != "0" else position
    only = _channels_last(v)[0][0] == 1
    return text if only else f"(int64_t)image * {math.prod(a['n'] for a in axes)} + {text}"


def _norm(f: Facts) -> str:
    p = f.attrs.get("p", 2)
    return "" if p > 0 else f"p is {p}, for which there is no norm; expected 1 or more"


def _of_images(f: Facts) -> str:
    return f.has_axes(3)


for _name, _checks in (
    ("GlobalAveragePool", (_of_images,)),
    ("GlobalMaxPool", (_of_images,)),
    ("GlobalLpPool", (_of_images, _norm)),
):
    old(_name, Trait.KEPT, checks=_checks, resolve=spelt_window, extents=OF_BATCHES)


@op(
    "LpPool",
    *(Trait.KEPT, Trait.SPATIAL, Trait.EPILOGUE, Trait.PROLOGUE),
    checks=(_pool_auto_pad, _norm),
    resolve=spelt_window,
    extents=OF_BATCHES,
)
def lp_pool(v: View) -> Kernel:
    """The p-norm of each window."""
    row, p = float_of(v, v.y.dtype), v.attr("p", 2)
    m = Maths(row, row)
    power = {1: m.size("value"), 2: "value * value"}.get(p)
    power = power or m.call("pow", m.size("value"), m.lit(p))
    root = {1: "acc", 2: f"sqrt{'' if row.bits == 64 else 'f'}(acc)"}.get(p)
    root = root or m.call("pow", "acc", m.lit(1 / p))
    step, includes = f"acc + {power}", ("mlf/math.h",)
    return pool(v, "portable.lp_pool", m.lit(0), step, root, row.c, includes=includes)


def _unpooled(x: Sequence[int], attrs: Attributes) -> list[int]:
    """The shape that the window of MaxUnpool implies."""
    kernel = attrs["kernel_shape"]
    strides, _, pads = placed(attrs, len(kernel))
    extents = [
        (n - 1) * s - pads[k] - pads[k + len(kernel)] + kernel[k]
        for k, (n, s) in enumerate(zip(x[2:], strides, strict=True))
    ]
    return [*x[:2], *extents]


def _fits_unpooled(f: Facts) -> str:
    window = (*f.attrs["kernel_shape"], *f.attrs.get("strides", ()))
    if any(n < 1 for n in window) or any(n < 1 for n in _unpooled(f.x, f.attrs)[2:]):
        return "its window implies no output"
    if f.shape(1) not in (f.x, None):
        return f"indices of shape {shown(f.shape(1))} for values of shape {shown(f.x)}"
    return f.beyond(1, 0, f.output.elements - 1, "indices")


def _implied(scope: Scope, d: Draft) -> None:
    """Indices count in the output that the window implies, whatever shape is asked for."""
    x = d.types[0]
    if x is None:
        return
    d.attrs = {"mlf.implied": _unpooled(x.shape, d.attrs)}
    d.inputs = d.inputs[:2]


def _as_asked(scope: Scope, node: NodeProto) -> TensorType | None:
    """onnx leaves the shape open, also where a constant says it."""
    shape = scope.consts.get(node.input[2]) if len(node.input) > 2 else None
    x = scope.types[node.input[0]].dtype
    return None if shape is None else TensorType(x, tuple(shape.reshape(-1).tolist()))


@op(
    "MaxUnpool",
    *(Trait.KEPT, Trait.SAME_RANK),
    typed=_as_asked,
    checks=(_fits_unpooled,),
    resolve=_implied,
)
def max_unpool(v: View) -> Kernel:
    """Each value at its index, zeros elsewhere; values beyond the output are dropped."""
    implied, out = v.attr("mlf.implied"), v.y.shape
    axes = [k for k, n in enumerate(implied) if n > 1]
    target = " + ".join(f"a{k} * {math.prod(out[k + 1 :])}" for k in axes) or "0"
    inside = " && ".join(f"a{k} < {out[k]}" for k in axes if out[k] < implied[k])
    return plain_kernel(
        v,
        "unpool",
        {
            "elements": v.x(0).elements,
            "outputs": v.y.elements,
            "places": math.prod(implied),
            "axes": [(k, math.prod(implied[k + 1 :]), implied[k]) for k in axes],
            "store": f"{f'if ({inside}) ' if inside else ''}y0[{target}] = x0[i];",
        },
    )


@op(
    "com.microsoft.QLinearAveragePool",
    *(Trait.MEAN, Trait.SPATIAL, Trait.EPILOGUE),
    signature=Signature.of(f"xx?x? {WINDOW} ceil_mode channels_last count_include_pad"),
    reads=(0,),
    stores=3,
    extents=as_it_is,
    expansion=quantised_pool,
    kinds=KINDS,
)
def quantised_average_pool(v: View) -> Kernel:
    return averages(v, "mlf_requantize_wide")


def averages(v: View, requantize: str) -> Kernel:
    """Mean of each window of an 8-bit tensor: one integer sum, one requantisation.

    y = sat(round(sum(x - x_zero_point) * (x_scale / (y_scale * count))) + y_zero_point), with the
    factor in float32: the arithmetic of onnxruntime's integer path, ties included.
    """
    x_scale, y_scale = np.float32(v.known(1).item()), np.float32(v.known(3).item())
    x_zero, y_zero = int(v.known(2).item()), int(v.known(4).item())
    divisor = divisor_of(v)
    f32 = v.type(v.core.inputs[1]).dtype
    known = constant_factor(v)
    if known is not None:
        factor = literal(known, f32)
    else:
        factor = f"{literal(x_scale, f32)} / ({literal(y_scale, f32)} * (float){divisor})"
    # Padding holds the zero point: it adds nothing to the sum, whether it counts or not.
    area = math.prod(v.attr("kernel_shape"))
    count = "inside" if _reaches_outside(v) else area
    lo, hi = v.y.dtype.range
    total = f"acc - {count} * {x_zero}" if x_zero > 0 else f"acc + {count} * {-x_zero}"
    total = total if x_zero else "acc"
    finish = f"({v.y.dtype.c}){requantize}({total}, {factor}, {y_zero}, {lo}, {hi})"
    counts = (*((count,) if x_zero else ()), *((divisor,) if known is None else ()))
    step = "acc + value"
    return pool(v, "portable.average_pool_s8", "0", step, finish, "int32_t", counts=counts)


def _fits_int32(attrs: Attributes, x: TensorType, y: TensorType, known: Known) -> bool:
    """Whether the sum over a window does, and what zero points take from it."""
    assert known[2] is not None
    largest = max(map(abs, x.dtype.range)) + abs(int(known[2].item()))
    return math.prod(attrs["kernel_shape"]) * largest < 1 << 31


@op(
    "AveragePool",
    *(Trait.KEPT, Trait.MEAN, Trait.SPATIAL, Trait.EPILOGUE, Trait.PROLOGUE),
    quantised="com.microsoft.QLinearAveragePool",
    quantises=_fits_int32,
    checks=(_pool_auto_pad, _pool_pads),
    resolve=spelt_window,
    extents=OF_BATCHES,
    relay=_relay_pool("avg"),
)
def average_pool(v: View) -> Kernel:
    """Mean of each window, summed in float in window order."""
    row, divisor = float_of(v, v.y.dtype), divisor_of(v)
    by = literal(divisor, row) if isinstance(divisor, int) else f"({row.c}){divisor}"
    init, step, finish = literal(0, row), "acc + value", f"acc / {by}"
    return pool(v, "portable.average_pool", init, step, finish, row.c, counts=(divisor,))


def constant_factor(v: View) -> np.float32 | None:
    """What a sum is multiplied by, where all windows have as many elements."""
    x_scale, y_scale = np.float32(v.known(1).item()), np.float32(v.known(3).item())
    divisor = divisor_of(v)
    if isinstance(divisor, str):
        return None
    return np.float32(x_scale / (y_scale * np.float32(divisor)))
