"""Resize: every axis that changes has a table of which input elements make an output element, and
with which weights; an output element is the sum over the tables of all such axes.

Tables are worked out at run time (crt/include/mlf/resize.h), so scales may be computed. The
attributes are those of ops/resize_axes.py. Sums have onnxruntime's order, so linear and cubic
results are its bits: a linear element is its taps' sum with the innermost axis' weight first in
each product, a cubic or antialiased one is summed axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlftool.ir.dtype import DType, float32, int32, int64
from mlftool.ir.graph import View
from mlftool.ir.operations import Operations, copies, of_text, times
from mlftool.onnx_rules.draft import EVERY_OPSET
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
from mlftool.ops.resize_axes import asymmetric, axes_that_change, resized_boxes, upsample
from mlftool.ops.resize_shaped import resize_in_box
from mlftool.ops.scalar import Load, Store, around, literal, read_by

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
# What the template needs of an axis that changes, and a loop over the output: its extent, its step
# in the input, and the table of its axis if that changes.
Table = dict[str, Any]
Loop = tuple[int, int, Table | None]
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


def _axes(v: View) -> list[Table]:
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


def _loops(v: View, axes: list[Table]) -> list[Loop]:
    """Axes without a table are joined with their neighbours."""
    by_axis = {a["axis"]: a for a in axes}
    loops: list[Loop] = []
    for axis, n in enumerate(v.y.shape):
        table, step = by_axis.get(axis), math.prod(v.x(0).shape[axis + 1 :])
        if table is None and loops and loops[-1][2] is None:
            loops[-1] = (loops[-1][0] * n, step, None)
        elif n > 1 or table is not None:
            loops.append((n, step, table))
    return loops


def _near(axes: list[Table], loops: list[Loop]) -> list[tuple[str, str]]:
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


def _with_places(v: View, axes: list[Table], loops: list[Loop], cast: str) -> list[Table]:
    """The axes with the C of where each tap is and of its weight; `cast` is before a weight."""
    whole, half = ("1024", "512") if v.attr("mlf.fixed", 0) else ("1.0f", "0.5f")
    placed = []
    for k, a in enumerate(axes):
        loop = next(i for i, entry in enumerate(loops) if entry[2] is a)
        place, weight = f"place{k}[at{k}]", f"{cast}weight{k}[at{k}]"
        if a["same"]:
            place = f"i{loop}"
            weight = f"({place} == {a['n'] - 1} ? {half} : {whole})"
        placed.append({**a, "loop": loop, "place": place, "weight": weight})
    return placed


def _tables(axes: list[Table], weights: str) -> list[Operand]:
    """Scratch of each axis' places, and of its weights of this type, "" for nearest elements."""
    tables = []
    for k, a in enumerate(axes):
        if not a["same"]:
            size = a["out"] * a["taps"] * 4
            tables.append(Operand(f"place{k}", "int32_t", "scratch", bytes=size))
            tables += [Operand(f"weight{k}", weights, "scratch", bytes=size)] if weights else []
    return tables


def _resize(
    v: View, load: Callable[[str], str], tensor: str, store: Store, *, fill: str, row: DType
) -> Kernel:
    mode, antialias = v.attr("mode", "nearest"), _antialias(v)
    transform = v.attr("coordinate_transformation_mode", "half_pixel")
    crop = transform == "tf_crop_and_resize"
    cast = f"({row.c})" if antialias and v.y.dtype.kind in "iu" else ""
    loops = _loops(v, axes := _axes(v))
    axes = _with_places(v, axes, loops, cast)
    kind = "int32_t" if v.attr("mlf.fixed", 0) else "float"
    given = {n: i for n, i in (("roi", 1), ("scales", 2), ("sizes", 3)) if v.has(i)}
    plain = [f"i{k} * {step}" for k, (_, step, table) in enumerate(loops) if table is None]
    source = " + ".join([*plain, *(f"{a['place']} * {a['step']}" for a in axes)]) or "0"
    near = [] if crop or antialias or mode != "linear" else _near(axes, loops)
    apart = SUPPORT[mode] == 2 or antialias
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
            "fixed": bool(v.attr("mlf.fixed", 0)),
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
        (
            *around(v, *read_by(v, given), *store.operands, x=tensor),
            *_tables(axes, "" if mode == "nearest" else kind),
        ),
        operations=_operations(v, axes, loops, row, bool(near), apart),
        includes=("mlf/kernel.h", "mlf/resize.h", *store.includes),
    )


# Where an output element of an axis is in the input, and with which weights.
_COORDINATE = times(div=1, mul=1, add=3, less=4, convert=2, floor=1, choose=4, store=3, loop=1)


def _operations(
    v: View, axes: list[Table], loops: list[Loop], row: DType, near: bool, apart: bool
) -> Operations:
    nearest = v.attr("mode", "nearest") == "nearest"
    # Elements that a nearest one has beside it, too.
    beside = loops[-1][0] if nearest and loops and loops[-1][2] is None else 1
    factors = 0 if nearest else 1 if apart else len(axes)
    taps = _of_taps(math.prod(a["taps"] for a in axes), row, near, factors, beside)
    tables: int = sum(a["out"] for a in axes if not a["same"])
    return v.y.elements // beside * taps + tables * _COORDINATE


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


old(
    "Upsample",
    Trait.KEPT,
    Trait.SAME_RANK,
    forms=of_form("*", "?"),
    checks=(Facts.has_axes, Facts.from_nothing),
    words={"mode": ("nearest", "linear", "bilinear")},
    older=((EVERY_OPSET, upsample),),
    extents=resized_boxes,
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
    older=((11, asymmetric),),
    extents=resized_boxes,
    shaped=resize_in_box,
    resolve=axes_that_change,
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
    fill = literal(np.array(_beyond(v, row)).astype(row.numpy).view(row.raw.numpy)[()], row.raw)
    store = Store(v, "result", *_target(v))
    store.result, store.includes = "result", ()  # as it is stored: no conversion
    return _resize(v, str, v.core.inputs[0], store, fill=fill, row=row)
