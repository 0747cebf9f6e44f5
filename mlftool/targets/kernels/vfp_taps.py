"""Depthwise float contractions with one load for a tap of eight channels (mlf/vfp_taps.h), also for
Helium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ir.holes import Number
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import Contraction, contraction, geometry, packable, pad_rows
from mlftool.ops.scalar import Store, around
from mlftool.targets.kernels.vfp import float_modes

LANES, MOST = 4, 8  # channels at a time


@float_modes(21.0, 13.0, "pipelined")
def taps(v: View, mode: str, each: float) -> Kernel | None:
    """With functions of a float mode; `each`: instructions for a tap of eight channels. In exact
    mode fewer instructions on every core, but not fewer cycles where a single load takes one."""
    c = of_taps(v)
    if c is None or c.oc % LANES:
        return None
    tap, wide, narrow = each * c.kernel[0] * c.kernel[1], c.oc // MOST, c.oc % MOST // LANES
    cost = c.pixels * (40.0 + wide * (tap + 100.0) + narrow * (0.6 * tap + 70.0))
    direct = not v.node.body and v.out.dtype.name == "float32"
    params = {"direct": direct, **({} if mode == "exact" else {"fused": True})}
    return in_taps(c, mode, MOST, cost, "mlf/vfp_taps.h", params)


def of_taps(v: View) -> Contraction | None:
    """A depthwise convolution of floats, each of whose windows has a tap inside the image."""
    if not packable(v) or v.x(0).dtype.name != "float32":
        return None
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2 or not _has_taps(c.planar()):
        return None
    return c.planar()


def in_taps(
    c: Contraction, mode: str, most: int, cost: float, header: str, params: Mapping[str, Any]
) -> Kernel:
    """`most` channels at a time, then four, by functions mlf_<mode>_taps_<n>."""
    store = Store(c.v, "sums[i]", f"p * {Number(c.oc)} + c + i", "c + i")
    operands = (
        Operand("w", "float", "const", array=_packed(c, most)),
        Operand("b", "float", "const", array=pad_rows(c.bias, LANES)),
    )
    family = "helium" if mode == "fast" else "vfp"
    return Kernel(
        f"{family}.{mode}.depthwise",
        "vfp_taps.c.j2",
        {**geometry(c), "mode": mode, "most": most, "store": store, **params},
        around(c.v, *operands, *store.operands),
        cost=cost,
        macs=c.macs,
        includes=(header, *store.includes),
        inplace=store.inplace,
        parametric=True,
    )


def _has_taps(c: Contraction) -> bool:
    """Whether every window has a tap inside the image."""
    ends = zip(c.inputs, c.outputs, c.kernel, c.strides, c.dilations, c.pads, strict=True)
    return all(_meets(*axis) for axis in ends)


def _meets(n: int, outputs: int, taps: int, stride: int, dilation: int, pad: int) -> bool:
    starts = np.arange(outputs)[:, None] * stride - pad
    at = starts + np.arange(taps) * dilation
    return bool(np.all(np.any((at >= 0) & (at < n), axis=1)))


def _packed(c: Contraction, most: int) -> Array:
    """[taps, most] of so many channels each, then [taps, 4] of each four that are left."""
    taps = pad_rows(np.ascontiguousarray(c.weights.reshape(c.oc, -1)), LANES)
    wide = c.oc // most * most
    parts = [taps[k : k + most].T.reshape(-1) for k in range(0, wide, most)]
    parts += [taps[k : k + LANES].T.reshape(-1) for k in range(wide, len(taps), LANES)]
    return np.concatenate(parts)
