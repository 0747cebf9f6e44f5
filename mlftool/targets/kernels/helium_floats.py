"""Float contractions with Helium in the float mode `fast`: four channels in the lanes, each of
which adds its products in the order of `fused` (mlf/mve_floats.h)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ir.holes import Number
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import Contraction, contraction, geometry, packable, pad_rows
from mlftool.ops.scalar import Store, around
from mlftool.targets.kernels import FLOATS, kernel
from mlftool.targets.kernels.parts import after_core, is_relu
from mlftool.targets.kernels.vfp import in_lanes

LANES, MOST = 4, 16  # channels at a time
NEEDS = "mve flushed"


@kernel(*FLOATS, needs=NEEDS, unless="size")
def lanes(v: View) -> Kernel | None:
    """As vfp.fused; what a Relu makes of sums is stored as vectors."""
    made = in_lanes(v, "fused", 0.5)
    if made is None:
        return None
    rows, columns = made.params["rows"], made.params["columns"]
    c = contraction(v).planar()
    least = _least(v, c, columns) if c.pixels >= rows else None
    return replace(
        made,
        name=f"helium.fast.{rows}x{columns}",
        template="helium_lanes.c.j2",
        params={**made.params, **_stored(least)},
        includes=("mlf/mve_floats.h", *made.includes[1:]),
    )


@kernel(*FLOATS, needs=NEEDS, unless="size")
def depthwise(v: View) -> Kernel | None:
    if not packable(v) or v.x(0).dtype.name != "float32":
        return None
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2:
        return None
    c = c.planar()
    if not _has_taps(c):
        return None
    taps, wide, narrow = c.kernel[0] * c.kernel[1], c.oc // MOST, -(-(c.oc % MOST) // LANES)
    store = Store(v, "sums[i]", f"p * {Number(c.oc)} + c + i", "c + i")
    operands = (
        Operand("w", "float", "const", array=_packed(c)),
        Operand("b", "float", "const", array=pad_rows(c.bias, LANES)),
    )
    return Kernel(
        "helium.fast.depthwise",
        "helium_floats.c.j2",
        {**geometry(c), **_stored(_least(v, c, LANES)), "store": store, "fused": True},
        around(v, *operands, *store.operands),
        cost=c.pixels * (50.0 + wide * (15.0 * taps + 45.0) + narrow * (5.0 * taps + 45.0)),
        macs=c.macs,
        includes=("mlf/mve_floats.h", *store.includes),
        inplace=store.inplace,
    )


def _least(v: View, c: Contraction, columns: int) -> str | None:
    """The bits of the least float that is stored, if nothing but a Relu follows and all lanes are
    channels; None where elements are stored one by one."""
    nodes = after_core(v)
    if c.oc % columns or v.out.dtype.name != "float32":
        return None
    if not nodes:
        return "INT32_MIN"
    return "0" if len(nodes) == 1 and is_relu(nodes[0]) else None


def _stored(least: str | None) -> dict[str, Any]:
    return {"direct": least is not None, "least": least or "INT32_MIN"}


def _has_taps(c: Contraction) -> bool:
    """Whether every window has a tap inside the image."""
    ends = zip(c.inputs, c.outputs, c.kernel, c.strides, c.dilations, c.pads, strict=True)
    return all(_meets(*axis) for axis in ends)


def _meets(n: int, outputs: int, taps: int, stride: int, dilation: int, pad: int) -> bool:
    starts = np.arange(outputs)[:, None] * stride - pad
    at = starts + np.arange(taps) * dilation
    return bool(np.all(np.any((at >= 0) & (at < n), axis=1)))


def _packed(c: Contraction) -> Array:
    """[taps, 16] of each sixteen channels, then [taps, 4] of each four that are left."""
    taps = pad_rows(np.ascontiguousarray(c.weights.reshape(c.oc, -1)), LANES)
    wide = c.oc // MOST * MOST
    parts = [taps[k : k + MOST].T.reshape(-1) for k in range(0, wide, MOST)]
    parts += [taps[k : k + LANES].T.reshape(-1) for k in range(wide, len(taps), LANES)]
    return np.concatenate(parts)
