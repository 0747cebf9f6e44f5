"""Resize: every axis that changes has a table of which input elements make an output element, and
with which weights; an output element is the sum over the tables of all such axes.

Tables are worked out at run time (crt/include/mlf/resize.h), so scales may be computed. Attributes
as `_axes_that_change` spells them: `axes`, and `mlf.scales` and `mlf.roi` where they are known, and
`mlf.fixed` where onnxruntime computes in fixed point. Sums have onnxruntime's order, so linear and
cubic results are its bits: a linear element is its taps' sum with the innermost axis' weight first
in each product, a cubic or antialiased one is summed axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir.dtype import DType, float32, int32, int64
from mlftool.ir.graph import TensorType, View
from mlftool.ir.operations import Operations, copies, of_text, times
from mlftool.onnx_rules.boxes import whole
from mlftool.onnx_rules.draft import EVERY_OPSET, Draft
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import CONSTANT, EXTENTS, Outcome, Refuse, Scope
from mlftool.ops.base import (
    FIRST,
    Attributes,
    Facts,
    Kernel,
    Operand,
    Trait,
    UnsupportedError,
    of_form,
    old,
    op,
    shown,
)
from mlftool.ops.elementwise import index_text, row_major
from mlftool.ops.plain import float_of
from mlftool.ops.resize_shaped import resize_in_box
from mlftool.ops.scalar import Load, Store, around, literal, read_by
from mlftool.ops.shapers import elements

TRANSFORMS = {
    "half_pixel": "MLF_RESIZE_HALF_PIXEL",
    "half_pixel_symmetric": "MLF_RESIZE_SYMMETRIC",
    "pytorch_half_pixel": "MLF_RESIZE_PYTORCH",
    "align_corners": "MLF_RESIZE_ALIGN_CORNERS",
    "asymmetric": "MLF_RESIZE_ASYMMETRIC",
    "tf_crop_and_resize": "MLF_RESIZE_CROP",
    "tf_half_pixel_for_nn": "MLF_RESIZE_TF_HALF_PIXEL",
}
ROUNDINGS = {
    "round_prefer_floor": "MLF_RESIZE_PREFER_FLOOR",
    "round_prefer_ceil": "MLF_RESIZE_PREFER_CEIL",
    "floor": "MLF_RESIZE_FLOOR",
    "ceil": "MLF_RESIZE_CEIL",
    "mlf.simple": "MLF_RESIZE_SIMPLE",
}
SUPPORT = {"nearest": 0, "linear": 1, "cubic": 2}  # half the width of the filter


def _scale(v: View, j: int, axis: int) -> str:
    """C text of the scale of the j-th axis that changes."""
    if v.attr("mlf.scales") is not None:
        return literal(v.attr("mlf.scales")[j], float32)
    if v.has(2):
        return f"scales[{j}]"
    if v.has(3):
        return "fit"
    return f"({v.y.shape[axis]}.0f / {v.x(0).shape[axis]}.0f)"


def _roi(v: View, j: int, count: int) -> tuple[str, str]:
    if (known := v.attr("mlf.roi")) is not None:
        return literal(known[j], float32), literal(known[count + j], float32)
    return (f"roi[{j}]", f"roi[{count + j}]") if v.has(1) else ("0.0f", "1.0f")


def _antialias(v: View) -> bool:
    """Whether the filter is stretched where an axis shrinks: the nearest element has none."""
    return bool(v.attr("antialias", 0)) and v.attr("mode", "nearest") != "nearest"


def _taps(v: View, axis: int) -> int:
    """How many elements of an axis the filter can reach, which is more where it is stretched."""
    support = SUPPORT[v.attr("mode", "nearest")]
    if not support:
        return 1
    if not v.attr("antialias", 0):
        return 2 * support
    least = min(1.0, (v.y.shape[axis] - 0.5) / v.x(0).shape[axis])
    return math.ceil(2 * support / least) + 1


def _axes(v: View) -> list[dict[str, Any]]:
    axes = v.attr("axes")
    made = []
    for j, axis in enumerate(axes):
        start, end = _roi(v, j, len(axes))
        made.append(
            {
                "axis": axis,
                "n": v.x(0).shape[axis],
                "out": v.y.shape[axis],
                "step": math.prod(v.x(0).shape[axis + 1 :]),
                "taps": 1 if _is_same(v, j, axis) else _taps(v, axis),
                "scale": _scale(v, j, axis),
                "start": start,
                "end": end,
                "same": _is_same(v, j, axis),
                "halved": "true" if _is_halved(v, axis) else "false",
                "k": j,
            }
        )
    return made


def _is_halved(v: View, axis: int) -> bool:
    """Whether onnxruntime adds two halves of an axis' last element: in the axes of the image, which
    computed scales do not tell from those that stay."""
    return v.attr("mlf.scales") is not None or v.y.shape[axis] != v.x(0).shape[axis]


def _is_same(v: View, j: int, axis: int) -> bool:
    """An axis of the image that stays as it is needs no table."""
    scales, crop = v.attr("mlf.scales"), v.has(1) or v.attr("mlf.roi") is not None
    linear = v.attr("mode", "nearest") == "linear" and not v.attr("antialias", 0)
    stays = v.y.shape[axis] == v.x(0).shape[axis]
    return linear and stays and not crop and scales is not None and scales[j] == 1.0


def _loops(v: View, axes: list[dict[str, Any]]) -> list[tuple[int, int, dict[str, Any] | None]]:
    """Extent, step in the input, and the table of each loop over the output; axes without a table
    are joined with their neighbours."""
    by_axis = {a["axis"]: a for a in axes}
    loops: list[tuple[int, int, dict[str, Any] | None]] = []
    for axis, n in enumerate(v.y.shape):
        table, step = by_axis.get(axis), math.prod(v.x(0).shape[axis + 1 :])
        if table is None and loops and loops[-1][2] is None:
            loops[-1] = (loops[-1][0] * n, step, None)
        elif n > 1 or table is not None:
            loops.append((n, step, table))
    return loops


def _near(
    axes: list[dict[str, Any]], loops: list[tuple[int, int, dict[str, Any] | None]]
) -> list[tuple[str, str]]:
    """Where the taps of a linear element begin, and the weight of each, in the order of their sum:
    where the innermost loop goes along elements with the same of both, they are worked out once."""
    if loops[-1][1:] != (1, None) or len(axes) > 2 or any(a["same"] for a in axes):
        return []
    begin = [f"i{k} * {step}" for k, (_, step, table) in enumerate(loops[:-1]) if table is None]
    taps = []
    for at in np.ndindex(*(a["taps"] for a in axes)):
        index = [f"first{k} + {n}" if n else f"first{k}" for k, n in enumerate(at)]
        places = [f"place{a['k']}[{i}] * {a['step']}" for a, i in zip(axes, index, strict=True)]
        weights = [f"weight{a['k']}[{i}]" for a, i in zip(axes, index, strict=True)]
        taps.append((" + ".join(begin + places), " * ".join(reversed(weights))))
    return taps


def _resize(
    v: View, load: Callable[[str], str], tensor: str, store: Store, *, fill: str, row: DType
) -> Kernel:
    axes, mode = _axes(v), v.attr("mode", "nearest")
    loops, antialias = _loops(v, axes), _antialias(v)
    kind = "int32_t" if v.attr("mlf.fixed", 0) else "float"
    transform = v.attr("coordinate_transformation_mode", "half_pixel")
    crop = transform == "tf_crop_and_resize"
    for a in axes:
        a["loop"] = next(k for k, entry in enumerate(loops) if entry[2] is a)
    fixed, scratch = bool(v.attr("mlf.fixed", 0)), []
    cast = f"({row.c})" if antialias and v.y.dtype.kind in "iu" else ""
    for k, a in enumerate(axes):
        whole, half = ("1024", "512") if fixed else ("1.0f", "0.5f")
        a["place"], a["weight"] = f"place{k}[at{k}]", f"{cast}weight{k}[at{k}]"
        if a["same"]:
            a["place"] = f"i{a['loop']}"
            a["weight"] = f"({a['place']} == {a['n'] - 1} ? {half} : {whole})"
            continue
        size = a["out"] * a["taps"] * 4
        scratch.append(Operand(f"place{k}", "int32_t", "scratch", bytes=size))
        if mode != "nearest":
            scratch.append(Operand(f"weight{k}", kind, "scratch", bytes=size))
    given = {n: i for n, i in (("roi", 1), ("scales", 2), ("sizes", 3)) if v.has(i)}
    plain = [f"i{k} * {step}" for k, (_, step, table) in enumerate(loops) if table is None]
    found = [f"{a['place']} * {a['step']}" for a in axes]
    source = " + ".join([*plain, *found]) or "0"
    near = [] if crop or antialias or mode != "linear" else _near(axes, loops)
    taps, apart = math.prod(a["taps"] for a in axes), SUPPORT[mode] == 2 or antialias
    # Elements that a nearest one has beside it, too.
    beside = loops[-1][0] if mode == "nearest" and loops and loops[-1][2] is None else 1
    factors = 0 if mode == "nearest" else 1 if apart else len(axes)
    return Kernel(
        "portable.resize",
        "resize.c.j2",
        {
            "axes": axes,
            "loops": [n for n, _, _ in loops],
            "transform": TRANSFORMS[transform],
            "crop": crop,
            "wild": crop or bool(given),
            "rounding": ROUNDINGS[v.attr("nearest_mode", "round_prefer_floor")],
            "support": SUPPORT[mode],
            "cubic": literal(v.attr("cubic_coeff_a", -0.75), float32),
            "antialias": antialias,
            "apart": apart,
            "fixed": fixed,
            "outside": "true" if v.attr("exclude_outside", 0) else "false",
            "fit": v.attr("keep_aspect_ratio_policy") if v.has(3) else "",
            "near": near,
            "sums": [load(f"near{k}[i{len(loops) - 1}]") for k in range(len(near))],
            "x_type": v.graph.types[tensor].dtype.c,
            "weight_type": kind,
            "load": load(f"x[{source}]"),
            "fill": fill,
            "type": row.c,
            "begin": literal(1 << 21 if cast and row != float32 else 0, row),
            "finish": cast and f"mlf_resize_{'float' if row == float32 else v.y.dtype}",
            "store": store,
            "target": _target(v)[0],
        },
        (*around(v, *read_by(v, given), *store.operands, x=tensor), *scratch),
        operations=v.y.elements // beside * _of_taps(taps, row, bool(near), factors, beside)
        + sum(a["out"] for a in axes if not a["same"]) * _COORDINATE,
        includes=("mlf/kernel.h", "mlf/resize.h", *store.includes),
    )


# Where an output element of an axis is in the input, and with which weights.
_COORDINATE = times(div=1, mul=1, add=3, less=4, convert=2, floor=1, choose=4, store=3, loop=1)


def _of_taps(taps: int, row: DType, near: bool, factors: int, beside: int) -> Operations:
    """`beside` output elements of so many of the input, each times so many factors; `near`: their
    places are known before."""
    if beside > 1:
        return copies(beside * row.bytes) + times(load=1, loop=1, whole=6)
    if near:
        return taps * of_text("sum += x[0] * w[0]", row) + times(store=1, loop=1)
    each = times(load=2, loop=1, whole=2)
    if factors:
        each += of_text("sum += x[0]" + " * w[0]" * factors, row) + times(whole=2)
    return taps * each + times(store=1, loop=1, whole=2)


def _target(v: View) -> tuple[str, str]:
    """C indices of an output element, and of it in the last axis."""
    loops = _loops(v, _axes(v))
    target = index_text(row_major([n for n, _, _ in loops])) if loops else "0"
    return target, f"({target}) % {v.y.shape[-1]}"


def _beyond(v: View, row: DType) -> float:
    """What stands for elements beyond the image, as far as the type has it."""
    value = float(v.attr("extrapolation_value", 0.0))
    if row.kind in "iu":
        return 0 if math.isnan(value) else int(min(max(row.range[0], value), row.range[1]))
    return value


def _turned(attrs: Attributes, perm: Sequence[int]) -> Attributes:
    return {**attrs, "axes": [perm[a] for a in attrs["axes"]]}


def _crop_fits(f: Facts) -> str:
    """A crop has both ends of each axis that is resized."""
    roi, x = f.shape(1), f.shape(0)
    if f.attrs.get("coordinate_transformation_mode") != "tf_crop_and_resize" or None in (roi, x):
        return ""
    count = 2 * len(f.attrs.get("axes") or f.x)
    return "" if roi == (count,) else f"a crop of shape {shown(roi)}; expected {count} numbers"


def _resized_boxes(scope: Scope, node: NodeProto) -> Outcome:
    """Axes whose extents are known only at run time stay as they are; sizes that say so become
    their bounds."""
    symbols, attrs = scope.extents_of(node.input[0]), attributes(node)
    axes = [a % len(symbols) for a in attrs.get("axes") or range(len(symbols))]
    late = [j for j, a in enumerate(axes) if symbols[a]]
    scales = _said_scales(scope, node, attrs)
    sizes = elements(scope, node.input[3]) if scales is None and len(node.input) > 3 else []
    said = [s == 1 for s in scales] if scales else [e.symbol for e in sizes]
    plain = attrs.get("keep_aspect_ratio_policy", b"stretch") == b"stretch"
    plain &= attrs.get("coordinate_transformation_mode") != b"tf_crop_and_resize"
    stay = len(said) == len(axes) and all(said[j] in (True, symbols[axes[j]]) for j in late)
    if late and not (plain and stay):
        text = f"an extent of '{node.input[0]}' that it changes is known only at run time"
        return Refuse("MLF0302", text, EXTENTS)
    if late and sizes:
        if any(not e.exact and j not in late for j, e in enumerate(sizes)):
            return Refuse("MLF0206", "its sizes are known only at run time", CONSTANT)
        box = scope.types[node.input[0]].shape
        known = [box[a] if symbols[a] else e.most for a, e in zip(axes, sizes, strict=True)]
        node.input[3] = scope.new_const(f"{node.input[3]}.bound", np.array(known, np.int64))
    return whole(scope, node)


def _said_scales(scope: Scope, node: NodeProto, attrs: Attributes) -> Sequence[float] | None:
    """Scales that are known: an attribute or the last of two or three inputs."""
    if "scales" in attrs or "height_scale" in attrs:
        return attrs.get("scales") or [1.0, 1.0, attrs["height_scale"], attrs["width_scale"]]
    name = node.input[min(2, len(node.input) - 1)]
    return scope.consts[name].reshape(-1).tolist() or None if name in scope.consts else None


def _upsample(scope: Scope, d: Draft) -> None:
    """The first name of Resize, which had scales as attributes, for two axes at the very first."""
    if "height_scale" in d.attrs:
        d.attrs["scales"] = [1.0, 1.0, d.attrs.pop("height_scale"), d.attrs.pop("width_scale")]
    d.op = "Resize"
    if "scales" in d.attrs:
        scales = np.array(d.attrs.pop("scales"), np.float32)
        d.inputs = [d.inputs[0], d.constant(scope, "scales", scales)]
        d.values = [d.values[0], scales]
        d.types = [d.types[0], TensorType(float32, scales.shape)]
    _asymmetric(scope, d)


def _asymmetric(scope: Scope, d: Draft) -> None:
    """Before 11 there was one transformation and one way to round, and scales came first."""
    mode = "nearest" if d.attrs.get("mode", "nearest") == "nearest" else "linear"
    d.attrs |= {
        "mode": mode,
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "mlf.simple",
    }
    d.inputs, d.values = [d.inputs[0], "", d.inputs[1]], [d.values[0], None, d.values[1]]
    d.types = [d.types[0], None, d.types[1]]


def _axes_that_change(scope: Scope, d: Draft) -> None:
    """`axes` are those that change; their scales and crop are attributes if they are known.

    Sizes that need not keep the image's proportions say no more than the output's type.
    """
    x, attrs = d.types[0], d.attrs
    if x is None:
        return
    rank, out = len(x.shape), d.out_types[0].shape
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    crop = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    axes = [a % rank for a in attrs.get("axes") or range(rank)]
    given = dict(zip(("x", "roi", "scales", "sizes"), d.inputs, strict=False))
    values = dict(zip(("x", "roi", "scales", "sizes"), d.values, strict=False))
    scales: list[float] | None = None
    if given.get("scales") and d.types[2] is not None and d.types[2].elements:
        if (known := values["scales"]) is not None:
            scales = [float(s) for s in known]
            out = d.out_shape = _scaled(x.shape, axes, scales)
    else:
        given["scales"] = ""
        by = [out[a] / x.shape[a] for a in axes]
        sizes = values.get("sizes")
        if policy == "stretch":
            scales = by
        elif sizes is not None:
            each = [int(n) / x.shape[a] for n, a in zip(sizes, axes, strict=True)]
            scales = [min(each) if policy == "not_larger" else max(each)] * len(axes)
    roi = values.get("roi")
    if crop and not given.get("roi"):  # all of the image, as onnxruntime takes it
        roi = np.repeat((0.0, 1.0), len(axes))
    if crop and roi is not None:
        attrs["mlf.roi"] = [float(r) for r in roi]
    if scales is not None:
        attrs["mlf.scales"] = scales
        if not crop or roi is not None:
            axes = _all_axes(d, axes, rank)
        _leave_out_same(d, axes, x.shape, out, crop)
    else:
        attrs["axes"] = axes
    need_roi = crop and roi is None
    d.inputs = [
        d.inputs[0],
        given.get("roi", "") if need_roi else "",
        "" if scales is not None else given["scales"],
        "" if scales is not None or given["scales"] else given["sizes"],
    ]
    moves = attrs.get("mode", "nearest") == "nearest" or not attrs["axes"]
    if moves and len([i for i in d.inputs if i]) == 1:
        d.op, d.attrs = "mlf.Nearest", attrs if attrs["axes"] else {"axes": [], "mlf.scales": []}


def _scaled(shape: Sequence[int], axes: Sequence[int], scales: Sequence[float]) -> tuple[int, ...]:
    """0.7 of 10 is 7, a float32 product as in onnxruntime and PyTorch; onnx infers 6."""
    by = {axis: np.float32(s) for axis, s in zip(axes, scales, strict=True) if s != 1}
    return tuple(int(np.float32(n) * by[a]) if a in by else n for a, n in enumerate(shape))


def _leave_out_same(
    d: Draft, axes: Sequence[int], shape: Sequence[int], out: Sequence[int], crop: bool
) -> None:
    """Only the axes that change, where what is said of each is known."""
    scales, count = d.attrs["mlf.scales"], len(axes)  # of crops known at run time, as given
    kept = [
        j
        for j, axis in enumerate(axes)
        if scales[j] != 1.0 or out[axis] != shape[axis] or (crop and not _whole(d, j, count))
    ]
    if kept and d.attrs.get("mode") == "linear" and not d.attrs.get("antialias", 0):
        image = _image_axes(scales)
        kept = [j for j, axis in enumerate(axes) if j in kept or axis in image]
        row = d.out_types[0].dtype
        within = all(axes[j] in image for j in kept)
        if row.kind in "iu" and row.bits == 8 and image == (1, 2) and within:
            d.attrs["mlf.fixed"] = 1
    if crop and "mlf.roi" not in d.attrs:
        kept = list(range(count))
    d.attrs["axes"] = [axes[j] for j in kept]
    d.attrs["mlf.scales"] = [scales[j] for j in kept]
    if "mlf.roi" in d.attrs:
        roi = d.attrs["mlf.roi"]
        d.attrs["mlf.roi"] = [roi[j] for j in kept] + [roi[count + j] for j in kept]


def _all_axes(d: Draft, axes: Sequence[int], rank: int) -> list[int]:
    """Every axis in its order, with what is said of it, or the scale and the crop of one that
    stays."""
    given = {axis: j for j, axis in enumerate(axes)}
    scales, roi = d.attrs["mlf.scales"], d.attrs.get("mlf.roi", [])
    d.attrs["mlf.scales"] = [scales[given[a]] if a in given else 1.0 for a in range(rank)]
    if roi:
        starts = [roi[given[a]] if a in given else 0.0 for a in range(rank)]
        ends = [roi[len(axes) + given[a]] if a in given else 1.0 for a in range(rank)]
        d.attrs["mlf.roi"] = starts + ends
    return list(range(rank))


def _image_axes(scales: Sequence[float]) -> tuple[int, ...]:
    """Those that onnxruntime interpolates along, whether or not they change: its sums run over
    all of them. A second axis that changes tells NHWC."""
    match scales:
        case (_, 1.0, _, _):
            return (2, 3)
        case (_, _, _, 1.0):
            return (1, 2)
        case (_, _, _, _, _):
            return (2, 3, 4)
    return tuple(range(len(scales))) if len(scales) in (2, 3) else ()


def _whole(d: Draft, j: int, count: int) -> bool:
    roi = d.attrs.get("mlf.roi")
    return roi is not None and (roi[j], roi[count + j]) == (0.0, 1.0)


old(
    "Upsample",
    Trait.KEPT,
    Trait.SAME_RANK,
    forms=of_form("*", "?"),
    checks=(Facts.has_axes, Facts.from_nothing),
    words={"mode": ("nearest", "linear", "bilinear")},
    older=((EVERY_OPSET, _upsample),),
    extents=_resized_boxes,
)


@op(
    "Resize",
    *(Trait.KEPT, Trait.EPILOGUE, Trait.PROLOGUE, Trait.SAME_RANK),
    forms=of_form("*", "?", "?", "?"),
    moved=FIRST,
    turned=_turned,
    checks=(Facts.has_axes, Facts.from_nothing, _crop_fits),
    words={
        "mode": SUPPORT,
        "coordinate_transformation_mode": TRANSFORMS,
        "nearest_mode": [word for word in ROUNDINGS if not word.startswith("mlf.")],
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    },
    older=((11, _asymmetric),),
    extents=_resized_boxes,
    shaped=resize_in_box,
    resolve=_axes_that_change,
)
def resize(v: View) -> Kernel:
    """Linear and cubic, in float32 weights. Small integers are cut off, as onnxruntime does, cubic
    ones at the ends of their range, too; antialiased ones are rounded after each axis."""
    load, row, result = Load(v), v.y.dtype, "result"
    beyond, (lo, hi) = _beyond(v, row), row.range if row.kind in "iu" else (0, 0)
    read: Callable[[str], str] = load.expr
    if v.attr("mlf.fixed", 0):
        beyond *= (unit := 1024 ** len(v.attr("axes")))
        row, result = int32, f"({row.c})(result / {unit})"
    elif row.kind in "iu" and (row.bits < 32 or row == int32):
        in_bytes, cubic = _antialias(v) and row.bits == 8, v.attr("mode") == "cubic"
        result = f"({row.c}){'result' if in_bytes else f'mlf_resize_cut(result, {lo}, {hi})'}"
        row = float32 if not in_bytes else int64 if cubic else int32  # signed weights may overflow
        cast = row.c
        read = lambda c: f"({cast})({load.expr(c)})"  # noqa: E731
    elif row.kind in "iu":  # whose values a float32 does not hold
        raise UnsupportedError(f"{v.attr('mode')} Resize of {row}; supported: nearest")
    store = Store(v, result, *_target(v))
    fill = literal(beyond, row if row.kind in "iu" else float_of(v, row))
    kernel = _resize(v, read, load.tensor, store, fill=fill, row=row)
    again = v.y.elements * math.prod(a["taps"] for a in kernel.params["axes"]) - v.x(0).elements
    operations = kernel.operations + max(0, again) * load.operations
    includes = (*kernel.includes, *load.includes)
    return replace(kernel, includes=includes, operations=operations)


@op("mlf.Nearest", Trait.MOVES_DATA, Trait.ORDER_PRESERVING, moved=FIRST, turned=_turned)
def nearest(v: View) -> Kernel:
    """Each output element is one of the input's, whatever its type."""
    row = v.y.dtype
    if row.packed:
        raise UnsupportedError(f"Resize of {row}; supported: types of whole bytes")
    fill = literal(_beyond(v, row) if row == row.raw else 0, row.raw)
    store = Store(v, "result", *_target(v))
    store.result, store.includes = "result", ()  # as it is stored: no conversion
    return _resize(v, str, v.core.inputs[0], store, fill=fill, row=row)
