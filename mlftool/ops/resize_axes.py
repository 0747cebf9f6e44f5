"""The one spelling of Resize that its kernel reads: `axes` are those that change, `mlf.scales` and
`mlf.roi` what is known of them, `mlf.fixed` tells onnxruntime's fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from onnx import NodeProto

from mlftool.ir.dtype import float32
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.boxes import whole
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import CONSTANT, EXTENTS, Outcome, Refuse, Scope
from mlftool.ops.base import Attributes
from mlftool.ops.shapers import elements

INPUTS = ("x", "roi", "scales", "sizes")


def resized_boxes(scope: Scope, node: NodeProto) -> Outcome:
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


def upsample(scope: Scope, d: Draft) -> None:
    """The first name of Resize, which had scales as attributes, for two axes at the very first."""
    if "height_scale" in d.attrs:
        d.attrs["scales"] = [1.0, 1.0, d.attrs.pop("height_scale"), d.attrs.pop("width_scale")]
    d.op = "Resize"
    if "scales" in d.attrs:
        scales = np.array(d.attrs.pop("scales"), np.float32)
        d.inputs = [d.inputs[0], d.constant(scope, "scales", scales)]
        d.values = [d.values[0], scales]
        d.types = [d.types[0], TensorType(float32, scales.shape)]
    asymmetric(scope, d)


def asymmetric(scope: Scope, d: Draft) -> None:
    """Before 11 there was one transformation and one way to round, and scales came first."""
    mode = "nearest" if d.attrs.get("mode", "nearest") == "nearest" else "linear"
    d.attrs |= {
        "mode": mode,
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "mlf.simple",
    }
    d.inputs, d.values = [d.inputs[0], "", d.inputs[1]], [d.values[0], None, d.values[1]]
    d.types = [d.types[0], None, d.types[1]]


def axes_that_change(scope: Scope, d: Draft) -> None:
    """`axes` are those that change; their scales and crop are attributes if they are known.

    Sizes that need not keep the image's proportions say no more than the output's type.
    """
    x, attrs = d.types[0], d.attrs
    if x is None:
        return
    rank = len(x.shape)
    crop = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    axes = [a % rank for a in attrs.get("axes") or range(rank)]
    given = dict(zip_longest(INPUTS, d.inputs, fillvalue=""))
    scale_type = dict(zip_longest(INPUTS, d.types))["scales"]
    if scale_type is None or not scale_type.elements:
        given["scales"] = ""
    roi = dict(zip_longest(INPUTS, d.values))["roi"]
    if crop and not given["roi"]:  # all of the image, as onnxruntime takes it
        roi = np.repeat((0.0, 1.0), len(axes))
    if crop and roi is not None:
        attrs["mlf.roi"] = [float(r) for r in roi]
    scales = _known_scales(d, x.shape, axes, bool(given["scales"]))
    if scales is not None:
        attrs["mlf.scales"] = scales
        out = d.out_types[0].shape
        if given["scales"]:
            out = d.out_shape = _scaled(x.shape, axes, scales)
        if not crop or roi is not None:
            axes = _all_axes(d, axes, rank)
        _leave_out_same(d, axes, x.shape, out, crop)
    else:
        attrs["axes"] = axes
    d.inputs = [
        d.inputs[0],
        given["roi"] if crop and roi is None else "",
        "" if scales is not None else given["scales"],
        "" if scales is not None or given["scales"] else given["sizes"],
    ]
    moves = attrs.get("mode", "nearest") == "nearest" or not attrs["axes"]
    if moves and not any(d.inputs[1:]):
        d.op, d.attrs = "mlf.Nearest", attrs if attrs["axes"] else {"axes": [], "mlf.scales": []}


def _known_scales(
    d: Draft, shape: Sequence[int], axes: Sequence[int], given: bool
) -> list[float] | None:
    """A scale per axis, from constant scales where they are `given`, else from the sizes."""
    known = dict(zip_longest(INPUTS, d.values))
    scales, sizes = known["scales"], known["sizes"]
    policy = d.attrs.get("keep_aspect_ratio_policy", "stretch")
    if given:
        return None if scales is None else [float(s) for s in scales]
    if policy == "stretch":
        return [d.out_types[0].shape[a] / shape[a] for a in axes]
    if sizes is None:
        return None
    each = [int(n) / shape[a] for n, a in zip(sizes, axes, strict=True)]
    return [min(each) if policy == "not_larger" else max(each)] * len(axes)


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
