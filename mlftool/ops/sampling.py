"""Operators that read images where coordinates say: GridSample, RoiAlign, MaxRoiPool, DeformConv,
and AffineGrid, which makes such coordinates."""

from __future__ import annotations

import math
from typing import Any

from onnx import NodeProto

from mlftool.ir.dtype import float32
from mlftool.ir.graph import View
from mlftool.ir.operations import PRODUCT, times
from mlftool.onnx_rules.boxes import filled, of_batches, static_input
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Next, Outcome, Scope
from mlftool.onnx_rules.windows import placed
from mlftool.ops.base import Facts, Kernel, Trait, UnsupportedError, of_form, op, shown
from mlftool.ops.elementwise import Maths
from mlftool.ops.plain import float_of, plain_kernel
from mlftool.ops.scalar import literal

SAMPLE = ("mlf/sample.h",)
TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}
GRIDS = {"mode": TAPS, "padding_mode": ("zeros", "border", "reflection")}
_TAP = times(load=1, mul=1, add=1, whole=4, loop=1)  # of an element that is weighted
FINEST = 1 << 14  # points of RoiAlign along an axis of a bin, whose square is an int32
HALVES = ("half_pixel", "output_half_pixel")


def _whole_pixels(scope: Scope, d: Draft) -> None:
    """Before 16 coordinates were not moved by half an element."""
    d.attrs["coordinate_transformation_mode"] = "output_half_pixel"


def _without_size(scope: Scope, d: Draft) -> None:
    """The size is the output's type."""
    d.inputs = d.inputs[:1]


@op(
    "GridSample",
    Trait.KEPT,
    forms=of_form("*", "*"),
    checks=(lambda f: f.from_nothing("padding_mode", "zeros"),),
    words=GRIDS,
    extents=of_batches(0, 1),
)
def grid_sample(v: View) -> Kernel:
    """Any number of axes; the taps of all axes multiply. The grid counts axes from the last.

    With cubic taps a coordinate outside stays there and only elements are padded, as onnxruntime
    and PyTorch do; the standard's reference moves the coordinate to the border first.
    """
    row, taps = float_of(v, v.y.dtype), TAPS[v.attr("mode", "linear")]
    if v.x(1).dtype != row:
        raise UnsupportedError(f"a grid of {v.x(1).dtype}; supported: the type of the input")
    shape, points = v.x(0).shape, v.x(1).shape
    rank = len(shape) - 2
    return plain_kernel(
        v,
        "grid_sample",
        {
            "axes": [
                {"n": shape[k + 2], "step": math.prod(shape[k + 3 :]), "from": rank - 1 - k}
                for k in range(rank)
            ],
            "batch": shape[0],
            "channels": shape[1],
            "plane": math.prod(shape[2:]),
            "points": math.prod(points[1:-1]),
            "rank": rank,
            "taps": taps,
            "padding": f"MLF_PAD_{v.attr('padding_mode', 'zeros').upper()}",
            "align": "true" if v.attr("align_corners", 0) else "false",
            "floating": row.c,
        },
        operations=v.y.elements
        * (times(mul=4, add=4, less=4, floor=2, whole=8, loop=2) + taps**rank * _TAP),
        includes=(*SAMPLE, "mlf/resize.h"),
    )


@op("AffineGrid", resolve=_without_size, forms=of_form("n??", "?"))
def affine_grid(v: View) -> Kernel:
    """Of every point of the grid its coordinates times theta; the grid's shape is the output's."""
    row, out = float_of(v, v.y.dtype), v.y.shape
    m, align = Maths(row, row), bool(v.attr("align_corners", 0))
    rank = out[-1]
    if v.x(0).shape != (out[0], rank, rank + 1) or len(out) != rank + 2:
        raise UnsupportedError(f"AffineGrid of theta {v.x(0)} to {v.y}")

    def coordinate(k: int, n: int) -> str:
        if align:
            return f"{m.lit(2)} * ({row.c})i{k} / {m.lit(max(1, n - 1))} - {m.lit(1)}"
        return f"({m.lit(2)} * ({row.c})i{k} + {m.lit(1)}) / {m.lit(n)} - {m.lit(1)}"

    return plain_kernel(
        v,
        "affine_grid",
        {
            "batch": out[0],
            "extents": out[1:-1],
            "coordinates": [coordinate(k, n) for k, n in enumerate(out[1:-1])],
            "rank": rank,
            "floating": row.c,
        },
    )


def _regions(v: View) -> dict[str, Any]:
    extents = dict(zip(("batch", "channels", "ih", "iw"), v.x(0).shape, strict=True))
    rois, _, high, wide = v.y.shape
    scale = literal(v.attr("spatial_scale", 1.0), v.y.dtype)
    return {**extents, "rois": rois, "oh": high, "ow": wide, "scale": scale}


def _regions_in_box(scope: Scope, node: NodeProto) -> Outcome:
    """Of a whole image; beyond the last region there are empty ones."""
    static_input(scope, node)
    for k in range(1, len(node.input)):
        filled(scope, node, k, 0)
    return Next(node)


def _sampling(f: Facts) -> str:
    ratio = f.attrs.get("sampling_ratio", 0)
    return f"sampling_ratio {ratio}; expected at most {FINEST}" if ratio > FINEST else ""


@op(
    "RoiAlign",
    Trait.KEPT,
    older=((16, _whole_pixels),),
    forms=of_form("????", "r4", "r"),
    checks=(Facts.from_nothing, lambda f: f.beyond(2, 0, f.x[0] - 1, "batch_indices"), _sampling),
    words={"mode": ("avg", "max"), "coordinate_transformation_mode": HALVES},
    extents=_regions_in_box,
)
def roi_align(v: View) -> Kernel:
    """Bins of each region, sampled on a grid of points; `max` takes the largest weighted corner."""
    row = float_of(v, v.y.dtype)
    if row != float32:
        raise UnsupportedError(f"RoiAlign on {row}; supported: float32, float16, bfloat16")
    half = v.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    return plain_kernel(
        v,
        "roi_align",
        {
            **_regions(v),
            "ratio": v.attr("sampling_ratio", 0),
            "half": half,
            "largest": v.attr("mode", "avg") == "max",
        },
        operations=v.y.elements * (times(whole=20, div=4, mul=8, add=8) + 16 * _TAP),
        includes=("mlf/math.h", "mlf/place.h"),
    )


@op(
    "MaxRoiPool",
    Trait.KEPT,
    forms=of_form("????", "?5"),
    checks=(Facts.from_nothing,),
    extents=_regions_in_box,
)
def max_roi_pool(v: View) -> Kernel:
    """The largest element of each bin of each region; regions are rounded to whole elements."""
    row = float_of(v, v.y.dtype)
    if row != float32:
        raise UnsupportedError(f"MaxRoiPool on {row}; supported: float32, float16")
    operations = v.y.elements * times(whole=60, less=16, load=8)
    includes = ("mlf/math.h", "mlf/place.h")
    return plain_kernel(v, "max_roi_pool", _regions(v), operations=operations, includes=includes)


def _groups(f: Facts) -> str:
    """Groups and groups of offsets divide the channels."""
    channels = f.x[1] if len(f.x) > 1 else 1
    for name in ("group", "offset_group"):
        count = f.attrs.get(name, 1)
        if count < 1 or channels % count:
            return f"{name} {count}; expected a divisor of {channels} channels"
    return ""


def _deformed(f: Facts) -> str:
    """Weights take the channels and have the kernel; offsets are two for each of its elements."""
    w, offsets, mask = f.shape(1) or (), f.shape(2) or (), f.shape(4)
    if not len(f.x) == len(w) == len(offsets) or len(w) < 3:
        return f"weights {shown(w)} and offsets {shown(offsets)} do not fit input {shown(f.x)}"
    if f.x[1] != w[1] * f.attrs.get("group", 1):
        return f"input {shown(f.x)} has {f.x[1]} channels; weights {shown(w)} do not take these"
    if tuple(f.attrs.get("kernel_shape", w[2:])) != w[2:]:
        return f"kernel_shape {shown(f.attrs['kernel_shape'])} does not fit weights {shown(w)}"
    each = f.attrs.get("offset_group", 1) * math.prod(w[2:])
    own = f.output.shape[2:]
    if offsets != (f.x[0], each * len(own), *own):
        return f"offsets {shown(offsets)}; expected {shown((f.x[0], each * len(own), *own))}"
    if mask is not None and mask != (f.x[0], each, *own):
        return f"mask {shown(mask)}; expected {shown((f.x[0], each, *own))}"
    return ""


@op(
    "DeformConv",
    Trait.KEPT,
    forms=of_form("nihw", "o???", "n?yx", "o", "n?yx"),
    checks=(_groups, _deformed),
    extents=of_batches(0, 2, 4),
)
def deform_conv(v: View) -> Kernel:
    """A convolution whose every tap is moved by an offset and weighed by a mask."""
    row, shape, out = float_of(v, v.y.dtype), v.x(0).shape, v.y.shape
    if len(shape) != 4:
        raise UnsupportedError(f"DeformConv on {v.x(0)}; supported: two spatial axes")
    kernel: Any = v.x(1).shape[2:]
    group, offsets = v.attr("group", 1), v.attr("offset_group", 1)
    strides, dilations, pads = placed(v.core.attrs, 2)
    extents = (*shape, *out[1:])
    return plain_kernel(
        v,
        "deform_conv",
        {
            **dict(zip(("batch", "ic", "ih", "iw", "oc", "oh", "ow"), extents, strict=True)),
            **{"kh": kernel[0], "kw": kernel[1]},
            **{"strides": strides, "dilations": dilations, "pads": pads},
            "own": shape[1] // group,
            "outputs": out[1] // group,
            "offsets": offsets,
            "share": max(1, shape[1] // offsets),  # of no channels, too
            "floating": row.c,
            "zero": literal(0, row),
            "bilinear": "mlf_bilinear" if row.bits == 64 else "mlf_bilinearf",
        },
        operations=v.y.elements * math.prod(kernel) * (shape[1] // group) * (5 * _TAP + PRODUCT),
        includes=SAMPLE,
    )
