"""Resize to sizes that are known only at run time: the image is gathered along each axis that
changes, at places that are worked out beside it (importer/shaped.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlftool.ir import dtype
from mlftool.onnx_rules.shaping import Box, NotShapedError, Shaping
from mlftool.ops.base import UnsupportedError, shown

SAID = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"}
SAID |= {"nearest_mode": "round_prefer_floor", "keep_aspect_ratio_policy": "stretch"}
TAKEN = {
    "mode": ("nearest", "linear", "cubic"),
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
            if words["mode"] == "cubic":
                value = _cubic(s, attrs, value, axis, shape, at)
            else:
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
    if words["mode"] != "nearest" and not s.type(0).dtype.is_float:
        text = f"sizes are known only at run time of a {words['mode']} image of {s.type(0).dtype}"
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


def _cubic(
    s: Shaping, attrs: Mapping[str, Any], value: str, axis: int, shape: Sequence[int], at: str
) -> str:
    """`value` at coordinates `at` of its `axis`, of the four elements around each; elements outside
    of the image are its first and last, or are left out where `exclude_outside` says so."""

    def real(number: float) -> str:
        return s.steps.const(number, np.float32)

    low = s("Floor", at)
    share, last = s("Sub", at, low), real(shape[axis] - 1)
    places = [s("Add", low, real(k)) for k in (-1, 0, 1, 2)]
    weights = _cubic_weights(s, share, attrs.get("cubic_coeff_a", -0.75))
    if attrs.get("exclude_outside", 0):
        near = [s("Equal", p, s("Clip", p, real(0), last)) for p in places]
        weights = [s("Where", n, w, real(0)) for n, w in zip(near, weights, strict=True)]
        total = s("Sum", *weights)
        weights = [s("Div", w, total) for w in weights]
    parts = []
    for p, weight in zip(places, weights, strict=True):
        index = s("Cast", s("Clip", p, real(0), last), to=dtype.int64.onnx)
        factor = s("Cast", weight, to=s.type(0).dtype.onnx)
        if axes := list(range(1, len(shape) - axis)):
            factor = s("Unsqueeze", factor, s.number(axes))
        parts.append(s("Mul", s("Gather", value, index, axis=axis), factor))
    return s("Sum", *parts)


def _cubic_weights(s: Shaping, share: str, a: float) -> list[str]:
    """Of the elements at distances 1 + share, share, 1 - share and 2 - share."""

    def real(number: float) -> str:
        return s.steps.const(number, np.float32)

    def along(x: str, *coefficients: float) -> str:
        """A polynomial, its highest power first."""
        value = real(coefficients[0])
        for c in coefficients[1:]:
            value = s("Add", s("Mul", value, x), real(c))
        return value

    other = s("Sub", real(1), share)
    near, far = (a + 2, -(a + 3), 0, 1), (a, -5 * a, 8 * a, -4 * a)
    return [
        along(s("Add", share, real(1)), *far),
        along(share, *near),
        along(other, *near),
        along(s("Add", other, real(1)), *far),
    ]
