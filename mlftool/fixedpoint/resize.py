"""Bilinear resizing in fixed point: places and shares are tables, which the front end computes."""

from __future__ import annotations

from mlftool.ir.graph import View
from mlftool.ir.operations import times
from mlftool.ops.base import Kernel, op
from mlftool.ops.plain import plain_kernel

_FIXED = times(load=6, times=8, whole=12, choose=1, store=1, loop=1)
_FLOATS = times(load=6, mul=6, add=6, whole=4, store=1, loop=1)


@op("mlf.BilinearFixed")
def bilinear(v: View) -> Kernel:
    """Of int8 or int16 [N, H, W, C]. Inputs 1 and 2 are int32 [extent, 3] for rows and columns: two
    places and the second one's share in 1024ths. Sums are rounded to the nearest, halves away from
    zero.
    """
    (n, h, w, c), (_, oh, ow, _) = v.x(0).shape, v.y.shape
    sizes = {"batch": n, "h": h, "w": w, "channels": c, "oh": oh, "ow": ow}
    return plain_kernel(v, "bilinear_fixed", sizes, operations=v.y.elements * _FIXED)


@op("mlf.Bilinear")
def bilinear_of_floats(v: View) -> Kernel:
    """Of floats [N, H, W, C]. Inputs are for rows and then for columns: two places, int32
    [extent, 2], and the second one's share [extent]; products are added up in TensorFlow Lite's
    order."""
    (n, h, w, c), (_, oh, ow, _) = v.x(0).shape, v.y.shape
    sizes = {"batch": n, "h": h, "w": w, "channels": c, "oh": oh, "ow": ow}
    return plain_kernel(v, "bilinear", sizes, operations=v.y.elements * _FLOATS)
