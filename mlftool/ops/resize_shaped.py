"""Resize to sizes that are known only at run time: the image is gathered along each axis that
changes, at places that are worked out beside it (importer/shaped.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlftool.ir import dtype
from mlftool.onnx_rules.shaping import Box, NotShapedError, Shaping
from mlftool.ops.base import UnsupportedError, shown

SAID = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"}
SAID |= {"nearest_mode": "round_prefer_floor", "keep_aspect_ratio_policy": "stretch"}
TAKEN = {
    "mode": ("nearest", "linear"),
    "coordinate_transformation_mode": (
        *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"),
        *("align_corners", "asymmetric"),
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch",),
}


def resize_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """Of an image of known extents. Raises NotShapedError for scales, and for images in boxes."""
    if not s.steps.x(3) or any(s.symbols):
        raise NotShapedError
    if (given := s.known(3)) is not None and np.any(given < 0):
        raise UnsupportedError(f"sizes {shown(given.reshape(-1).tolist())}; expected none below 0")
    shape = s.type(0).shape
    rank = len(shape)
    axes = [a % rank for a in attrs.get("axes") or range(rank)]
    sizes = s.elements(s.steps.x(3))
    if len(sizes) != len(axes):
        raise NotShapedError
    words = _words(s, attrs)
    best: list[int | None] = list(shape)
    extents: list[int | str] = list(shape)
    for k, axis in enumerate(axes):
        best[axis], extents[axis] = sizes[k].most, s.extent_at(s.steps.x(3), k)
    bounds = s.bounds(best)
    value = s.steps.x(0)
    for axis in range(rank):
        if extents[axis] != shape[axis]:
            at = _coordinates(s, words, shape[axis], bounds[axis], s.extent(extents[axis]))
            value = _along(s, words, value, axis, rank, shape[axis], at)
    s.result("Identity", value)
    return Box(bounds, tuple(extents))


def _words(s: Shaping, attrs: Mapping[str, Any]) -> dict[str, str]:
    said = {name: attrs.get(name, word) for name, word in SAID.items()}
    words = {n: w.decode() if isinstance(w, bytes) else str(w) for n, w in said.items()}
    for name, taken in TAKEN.items():
        if words[name] not in taken:
            text = f"sizes are known only at run time with {name} '{words[name]}'"
            raise UnsupportedError(f"{text}; supported: {', '.join(taken)}")
    if attrs.get("antialias", 0):
        raise UnsupportedError("sizes are known only at run time with antialias; supported: none")
    if words["mode"] == "linear" and not s.type(0).dtype.is_float:
        text = f"sizes are known only at run time of a linear image of {s.type(0).dtype}"
        raise UnsupportedError(f"{text}; supported: floats")
    return words


def _coordinates(s: Shaping, words: Mapping[str, str], n: int, bound: int, extent: str) -> str:
    """Where each of `bound` elements of an axis lies among the `n` of the image: float32, in the
    order of onnxruntime's operations."""

    def real(value: Any) -> str:
        return s.steps.const(value, np.float32)

    count = s("Cast", s("Max", extent, s.number(1)), to=dtype.float32.onnx)
    steps = real(np.arange(bound))
    word = words["coordinate_transformation_mode"]
    if word == "align_corners":  # the first stays the first where there is one
        last = s("Max", s("Sub", count, real(1)), real(1))
        return s("Div", s("Mul", steps, real(n - 1)), last)
    scale = s("Div", count, real(n))
    if word == "asymmetric":
        return s("Div", steps, scale)
    at = s("Sub", s("Div", s("Add", steps, real(0.5)), scale), real(0.5))
    if word == "pytorch_half_pixel":
        at = s("Mul", at, s("Cast", s("Greater", count, real(1)), to=dtype.float32.onnx))
    return at


def _along(
    s: Shaping, words: Mapping[str, str], value: str, axis: int, rank: int, n: int, at: str
) -> str:
    """`value` at coordinates `at` of its `axis` of `n` elements."""

    def real(number: float) -> str:
        return s.steps.const(number, np.float32)

    def place(of: str) -> str:
        return s("Cast", s("Clip", of, real(0), real(n - 1)), to=dtype.int64.onnx)

    if words["mode"] == "nearest":
        match words["nearest_mode"]:
            case "floor":
                near = s("Floor", at)
            case "ceil":
                near = s("Ceil", at)
            case "round_prefer_ceil":
                near = s("Floor", s("Add", at, real(0.5)))
            case _:
                near = s("Ceil", s("Sub", at, real(0.5)))
        return s("Gather", value, place(near), axis=axis)
    inside = s("Clip", at, real(0), real(n - 1))
    first = s("Floor", inside)
    share = s("Cast", s("Sub", inside, first), to=s.type(0).dtype.onnx)
    if axes := list(range(1, rank - axis)):
        share = s("Unsqueeze", share, s.number(axes))
    one = s.steps.const(1, s.type(0).dtype.numpy)
    low = s("Gather", value, place(first), axis=axis)
    high = s("Gather", value, place(s("Add", first, real(1))), axis=axis)
    return s("Add", s("Mul", low, s("Sub", one, share)), s("Mul", high, share))
