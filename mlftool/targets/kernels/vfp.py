"""Float contractions in the thirty-two registers of a Cortex-M's FPU: four pixels x four channels,
or one pixel x eight channels (mlf/vfp.h)."""

from __future__ import annotations

from collections.abc import Callable

from mlftool.ir.graph import View
from mlftool.ir.holes import numbers
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    BLOCK,
    blocks,
    contraction,
    geometry,
    pack_rows,
    packable,
    pad_rows,
    stores,
)
from mlftool.ops.scalar import around
from mlftool.targets.kernels import FLOATS, kernel

LEAST = 3  # pixels, for four at a time

ModeBid = Callable[[View, str, float], "Kernel | None"]


def float_modes(exact: float, fused: float, unless: str = "size") -> Callable[[ModeBid], ModeBid]:
    """Register a kernel of both float modes, which gets the mode and the instructions of each; in
    exact mode `unless` the target has a feature."""

    def register(bid: ModeBid) -> ModeBid:
        without = f"fused {unless}"
        kernel(*FLOATS, needs="dsp fpu", unless=without)(lambda v: bid(v, "exact", exact))
        kernel(*FLOATS, needs="dsp fpu fused", unless="size")(lambda v: bid(v, "fused", fused))
        return bid

    return register


@float_modes(2.2, 1.2, "")
def in_lanes(v: View, mode: str, each: float) -> Kernel | None:
    """The kernel with functions of a float mode; `each`: instructions per product."""
    if not packable(v) or v.x(0).dtype.name != "float32":
        return None
    c = contraction(v)
    if c.depthwise or len(c.inputs) > 2:
        return None
    c, grouped = c.planar(), c.group > 1
    if c.pixels < LEAST and (grouped or not c.dense):
        return None
    if grouped and (c.oc // c.group % 4 or c.depth > BLOCK):
        return None
    rows, columns = (1, 8) if c.pixels < LEAST else (4, 4)
    entries = stores(c, None, rows, columns, columns, biased=True)
    first = entries[0].store
    w = Operand("w", "float", "const", array=pack_rows(c.weights, columns))
    b = Operand("b", "float", "const", array=pad_rows(c.bias, columns))
    operands = [*around(c.v, w, b, *first.operands)]
    if grouped or (not c.dense and (c.padded or c.dilations[1] != 1)):
        operands.append(Operand("patch", "float", "scratch", bytes=4 * rows * c.depth * c.group))
    return Kernel(
        f"vfp.{mode}.{rows}x{columns}",
        "vfp.c.j2",
        {
            **geometry(c),
            **({"dense": True} if grouped else {}),
            **{"rows": rows, "columns": columns, "stores": entries, "mode": mode},
            **({} if mode == "exact" else {"fused": True}),
            **numbers({"blocks": blocks(c), "block": min(BLOCK, c.depth)}),
            "fill": "0.0f",
        },
        tuple(operands),
        cost=c.tiled(rows, columns) * each
        + c.pixels * (c.oc * 12.0 + grouped * c.depth * c.group * 4.0),
        macs=c.macs,
        includes=(f"mlf/vfp_{mode}.h", *first.includes),
        inplace=first.inplace,
        parametric=True,
    )
