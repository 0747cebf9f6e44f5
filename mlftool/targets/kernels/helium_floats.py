"""Float contractions with Helium in the float mode `fast`: four channels in the lanes, each of
which adds its products in the order of `fused` (mlf/mve_floats.h)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.contraction import Contraction, contraction
from mlftool.targets.kernels import FLOATS, kernel
from mlftool.targets.kernels.parts import after_core, is_relu
from mlftool.targets.kernels.vfp import in_lanes
from mlftool.targets.kernels.vfp_taps import LANES, in_taps, of_taps

MOST = 16  # channels at a time
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
    c = of_taps(v)
    if c is None:
        return None
    taps, wide, narrow = c.kernel[0] * c.kernel[1], c.oc // MOST, -(-(c.oc % MOST) // LANES)
    cost = c.pixels * (50.0 + wide * (15.0 * taps + 45.0) + narrow * (5.0 * taps + 45.0))
    stored = _stored(_least(v, c, LANES))
    return in_taps(c, "fast", MOST, cost, "mlf/mve_floats.h", {**stored, "fused": True})


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
