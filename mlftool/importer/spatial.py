"""Derived attributes of operators on images beside windows (importer/opset.py), spelt out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlftool.ir.dtype import float32
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.draft import Change, Draft
from mlftool.onnx_rules.scope import Scope


def _conv_transpose(scope: Scope, d: Draft) -> None:
    """Padding that is asked for by the output's extents is what is left over of the full result."""
    x, w = d.types[0], d.types[1]
    if x is None or w is None:
        return
    spatial, kernel = x.shape[2:], w.shape[2:]
    rank = len(spatial)
    strides = d.attrs.get("strides") or [1] * rank
    dilations = d.attrs.get("dilations") or [1] * rank
    extra = d.attrs.pop("output_padding", None) or [0] * rank
    pads = d.attrs.get("pads") or [0] * (2 * rank)
    auto_pad, stated = d.attrs.pop("auto_pad", "NOTSET"), d.attrs.pop("output_shape", None)
    out = d.out_types[0].shape[2:]
    if stated:  # onnx's inference forgets them where they are less than the input's
        out = tuple(stated[-rank:])
        d.out_shape = (x.shape[0], w.shape[1] * d.attrs.get("group", 1), *out)
    if auto_pad == "VALID":
        pads = [0] * (2 * rank)
    elif auto_pad != "NOTSET" or stated:
        totals = [
            max(0, (n - 1) * s + e + (k - 1) * dl + 1 - o)
            for n, s, e, k, dl, o in zip(
                spatial, strides, extra, kernel, dilations, out, strict=True
            )
        ]
        small = [t // 2 for t in totals]
        large = [t - t // 2 for t in totals]
        pads = small + large if auto_pad == "SAME_UPPER" else large + small
    d.attrs.update(kernel_shape=list(kernel), strides=strides, dilations=dilations, pads=pads)


def _max_unpool(scope: Scope, d: Draft) -> None:
    """Indices count in the output that the window implies, whatever shape is asked for."""
    x = d.types[0]
    if x is None:
        return
    kernel = d.attrs["kernel_shape"]
    strides = d.attrs.get("strides") or [1] * len(kernel)
    pads = d.attrs.get("pads") or [0] * (2 * len(kernel))
    implied = [
        (n - 1) * s - pads[k] - pads[k + len(kernel)] + kernel[k]
        for k, (n, s) in enumerate(zip(x.shape[2:], strides, strict=True))
    ]
    d.attrs = {"mlf.implied": [*x.shape[:2], *implied]}
    d.inputs = d.inputs[:2]


def upsample(scope: Scope, d: Draft) -> None:
    """The first name of Resize, which had scales as attributes, for two axes at the very first."""
    if "height_scale" in d.attrs:
        d.attrs["scales"] = [1.0, 1.0, d.attrs.pop("height_scale"), d.attrs.pop("width_scale")]
    d.op = "Resize"
    if "scales" in d.attrs:
        scales = np.array(d.attrs.pop("scales"), np.float32)
        d.inputs, d.values = (
            [d.inputs[0], d.constant(scope, "scales", scales)],
            [d.values[0], scales],
        )
        d.types = [d.types[0], TensorType(float32, scales.shape)]
    old_resize(scope, d)


def old_resize(scope: Scope, d: Draft) -> None:
    """Before 11 there was one transformation and one way to round, and scales came first."""
    mode = "nearest" if d.attrs.get("mode", "nearest") == "nearest" else "linear"
    d.attrs |= {
        "mode": mode,
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "mlf.simple",
    }
    d.inputs, d.values = [d.inputs[0], "", d.inputs[1]], [d.values[0], None, d.values[1]]
    d.types = [d.types[0], None, d.types[1]]


def _resize(scope: Scope, d: Draft) -> None:
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
        known = values["scales"]
        scales = None if known is None else [float(s) for s in known]
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
    if attrs.get("mode", "nearest") == "nearest" and len([i for i in d.inputs if i]) == 1:
        d.op = "mlf.Nearest"


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
        if row.kind in "iu" and row.bits == 8 and image == (1, 2):
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


def old_roi_align(scope: Scope, d: Draft) -> None:
    """Before 16 coordinates were not moved by half an element."""
    d.attrs["coordinate_transformation_mode"] = "output_half_pixel"


def _affine_grid(scope: Scope, d: Draft) -> None:
    """The size is the output's type."""
    d.inputs = d.inputs[:1]


SPATIAL_RESOLVERS: Mapping[str, Change] = {
    "AffineGrid": _affine_grid,
    "ConvTranspose": _conv_transpose,
    "MaxUnpool": _max_unpool,
    "Resize": _resize,
}
