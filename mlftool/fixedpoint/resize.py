"""Bilinear resizing in fixed point: places and shares are tables, which the front end computes."""

from __future__ import annotations

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, op
from mlftool.ops.plain import plain_kernel


@op("mlf.BilinearFixed")
def bilinear(v: View) -> Kernel:
    """Of int8 [N, H, W, C]. Inputs 1 and 2 are int32 [extent, 3] for rows and columns: two places
    and the second one's share in 1024ths. Sums are rounded to the nearest, halves away from zero.
    """
    (n, h, w, c), (_, oh, ow, _) = v.x(0).shape, v.y.shape
    sizes = {"batch": n, "h": h, "w": w, "channels": c, "oh": oh, "ow": ow}
    return plain_kernel(v, "bilinear_fixed", sizes, cost=v.y.elements * 30.0)


@op("mlf.Bilinear")
def bilinear_of_floats(v: View) -> Kernel:
    """Of floats [N, H, W, C]. Inputs are for rows and then for columns: two places, int32
    [extent, 2], and the second one's share [extent]; products are added up in TensorFlow Lite's
    order."""
    (n, h, w, c), (_, oh, ow, _) = v.x(0).shape, v.y.shape
    sizes = {"batch": n, "h": h, "w": w, "channels": c, "oh": oh, "ow": ow}
    return plain_kernel(v, "bilinear", sizes, cost=v.y.elements * 30.0)
