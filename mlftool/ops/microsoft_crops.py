"""onnxruntime's CropAndResize, of detectors by TensorFlow, in terms of GridSample."""

from __future__ import annotations

import numpy as np

from mlftool.onnx_rules.scope import CONSTANT, Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.microsoft import microsoft

MODES = {"bilinear": "linear", "nearest": "nearest"}


def _line(s: Steps, ends: tuple[str, str], extent: int, count: int, nearest: bool) -> list[str]:
    """Of each region the coordinates of `count` elements along an axis of the image, [regions,
    count]: GridSample's, from -1 to 1, and whether they are in the image."""
    first, last = ends
    numbers = (0, 0.5, 1, 2, extent - 1, max(extent - 1, 1), max(count - 1, 1))
    zero, half, one, two, most, span, parts = (s.const(n, s.type(1).dtype.numpy) for n in numbers)
    if count > 1:
        step = s("Div", s("Mul", s("Sub", last, first), most), parts)
        steps = s.const(np.arange(count), s.type(1).dtype.numpy)
        at = s("Add", s("Mul", first, most), s("Mul", steps, step))
    else:
        at = s("Mul", s("Mul", s("Add", first, last), half), most)
    inside = s("And", s("GreaterOrEqual", at, zero), s("LessOrEqual", at, most))
    if nearest:  # halves go up
        whole = s("Floor", at)
        up = s("GreaterOrEqual", s("Sub", at, whole), half)
        at = s("Where", up, s("Add", whole, one), whole)
    return [s("Sub", s("Div", s("Mul", at, two), span), one), inside]


@microsoft(CropAndResize="xxxx extrapolation_value mode")
def _cropped(s: Steps) -> None:
    """Regions (y1, x1, y2, x2) of images, from 0 to 1, whose corners are those of the result."""
    mode, size = s.attrs.get("mode", "bilinear"), s.consts.get(s.x(3))
    if mode not in MODES:
        raise Refuse("MLF0303", f"mode '{mode}'; expected one of {', '.join(MODES)}")
    if size is None:
        raise Refuse("MLF0302", "a size known only at run time; supported: a constant", CONSTANT)
    if size.shape != (2,) or (size < 1).any() or (size > 1 << 15).any():
        raise Refuse("MLF0303", f"crop_size is {size.tolist()}; expected 2 numbers from 1 on")
    extents, dtype = s.shape(0, 4)[2:], s.type(0).dtype.numpy
    high, wide = (int(n) for n in size)
    corners = [s("Gather", s.x(1), s.const([k], np.int64), axis=1) for k in range(4)]
    near = mode == "nearest"
    y, in_y = _line(s, (corners[0], corners[2]), extents[0], high, near)
    x, in_x = _line(s, (corners[1], corners[3]), extents[1], wide, near)
    down, along = s.const([2], np.int64), s.const([1], np.int64)
    shape = s("Concat", s("Shape", s.x(1), end=1), s.const([high, wide], np.int64), axis=0)
    grid = [s("Expand", s("Unsqueeze", v, a), shape) for v, a in ((x, along), (y, down))]
    stacked = s("Concat", *(s("Unsqueeze", g, s.const([-1], np.int64)) for g in grid), axis=-1)
    images = s("Gather", s.x(0), s.x(2), axis=0)
    way = MODES[mode]
    value = s("GridSample", images, stacked, mode=way, padding_mode="border", align_corners=1)
    inside = s("And", s("Unsqueeze", in_y, down), s("Unsqueeze", in_x, along))
    beyond = s.const(s.attrs.get("extrapolation_value", 0.0), dtype)
    s("Where", s("Unsqueeze", inside, along), value, beyond, out=0)
