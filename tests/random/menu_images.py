"""Networks of Resize and ConvTranspose, each in all its spellings, with elementwise operators
between: what resamples images composes coordinates, paddings and fused operands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from grow import Grower, Value

TRANSFORMS = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners"),
    *("asymmetric", "tf_crop_and_resize"),
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SCALES = (0.4, 0.5, 0.7, 1.0, 1.3, 1.5, 2.0, 2.5, 3.0, 1 / 3)


def any_resize(g: Grower) -> None:
    """Of sizes or scales, of all axes or some, with a crop, an aspect ratio, and so on."""
    x = g.floats(2, 3, 4, 4, 4, 4, 5)
    if g.chance(0.1):
        x = g.add("Cast", x, to=g.one(2, 3))
    mode = g.one("nearest", "linear", "linear", "cubic")
    transform = g.one(*TRANSFORMS)
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
    axes = [*range(x.rank)]
    if g.chance(0.3):
        axes = sorted(g.rng.permutation(x.rank)[: g.whole(1, min(2, x.rank))].tolist())
        axes = [axes[k] for k in g.rng.permutation(len(axes))]
        attrs["axes"] = [a - x.rank if g.chance(0.2) else a for a in axes]
    change = [a for a in axes if a >= x.rank - 2 or g.chance(0.05)]
    if x.rank == 4 and g.chance(0.15):
        change = [1, 2]
    if mode == "nearest":
        attrs["nearest_mode"] = g.one(*ROUNDINGS)
    elif g.chance(0.2):
        attrs["antialias"] = 1
    if mode == "cubic" or g.chance(0.05):
        attrs["cubic_coeff_a"] = g.one(-0.75, -0.5, -0.6)
    if g.chance(0.2):
        attrs["exclude_outside"] = 1
    roi = None
    if transform == "tf_crop_and_resize":
        attrs["extrapolation_value"] = g.one(0.0, 2.5, 1.0)
        starts = [g.one(0.0, 0.1, -0.2, 0.25) if a in change else 0.0 for a in axes]
        ends = [g.one(1.0, 0.8, 1.3, 0.6) if a in change else 1.0 for a in axes]
        roi = g.const([*starts, *ends], np.float32)
    if g.chance(0.5):
        sizes = [g.whole(1, 2 * x.shape[a] + 2) if a in change else x.shape[a] for a in axes]
        if g.chance(0.1) and roi is None and min(attrs.get("axes", axes)) >= 0:
            attrs["keep_aspect_ratio_policy"] = g.one("not_larger", "not_smaller")
        g.add("Resize", x, roi, None, g.const(sizes, np.int64), **attrs)
    else:
        scales = [g.one(*SCALES) if a in change else 1.0 for a in axes]
        g.add("Resize", x, roi, g.const(scales, np.float32), **attrs)


def any_conv_transpose(g: Grower) -> None:
    """With padding said in all ways, groups, gaps, and weights that are computed."""
    x = g.floats(3, 4, 4, 4, 5)
    rank, channels = x.rank - 2, x.shape[1]
    group = g.one(1, 1, *[d for d in range(1, channels + 1) if channels % d == 0])
    kernel = [g.whole(1, 4) for _ in range(rank)]
    attrs: dict[str, Any] = {"group": group}
    if g.chance(0.5):
        attrs["kernel_shape"] = kernel
    strides = [g.whole(1, 3) for _ in range(rank)]
    if g.chance(0.7):
        attrs["strides"] = strides
    else:
        strides = [1] * rank
    if g.chance(0.3):
        attrs["dilations"] = [g.whole(1, 3) for _ in range(rank)]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, attrs.get("dilations", kernel), strict=True)]
    way = g.one("pads", "auto", "shape", "")
    if way == "pads":
        attrs["pads"] = [g.whole(0, max(0, min(3, s - 1))) for s in (*spans, *spans)]
    elif way == "auto":
        attrs["auto_pad"] = g.one("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    elif way == "shape":
        full = [(n - 1) * s + e for n, s, e in zip(x.shape[2:], strides, spans, strict=True)]
        attrs["output_shape"] = [max(1, n - g.whole(0, 3)) for n in full]
        if g.chance(0.4):
            attrs["auto_pad"] = g.one("SAME_UPPER", "SAME_LOWER")
    if g.chance(0.3) and "SAME" not in attrs.get("auto_pad", ""):
        attrs["output_padding"] = [g.whole(0, s - 1) for s in strides]
    out = g.whole(1, 4)
    fan = channels // group * math.prod(kernel)
    w = g.normal(channels, out, *kernel, scale=fan**-0.5)
    if g.chance(0.1):
        w = g.add("Identity", w)
    bias = [g.normal(out * group)] if g.chance(0.5) else []
    g.add("ConvTranspose", x, w, *bias, **attrs)


def image_input(g: Grower) -> Value:
    """Small, and often of odd extents."""
    rank = g.one(4, 4, 4, 4, 3, 5)
    spatial = [g.whole(1, 9) if rank < 5 else g.whole(1, 5) for _ in range(rank - 2)]
    return g.input(np.float32, (g.one(1, 1, 2), g.whole(1, 4), *spatial))
