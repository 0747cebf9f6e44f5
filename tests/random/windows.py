"""Kernels, strides and pads that fit an image."""

from __future__ import annotations

from typing import Any

from grow import Grower, Value


def window(g: Grower, x: Value, least: int = 1) -> dict[str, Any]:
    """Random geometry of a window over the spatial axes of x."""
    rank = x.rank - 2
    kernel = [min(g.whole(least, 3), max(1, n)) for n in x.shape[2:]]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if g.chance(0.5):
        attrs["strides"] = [g.whole(1, 3) for _ in range(rank)]
    if g.chance(0.6):
        pads = [g.whole(0, k - 1) for k in (*kernel, *kernel)]
        attrs["pads"] = pads
    elif g.chance(0.3):
        attrs["auto_pad"] = g.one("SAME_UPPER", "SAME_LOWER", "VALID")
    return attrs
