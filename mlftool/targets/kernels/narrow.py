"""int8 contractions for ARMv6-M (Cortex-M0), whose instructions reach eight registers.

There a product needs three instructions at least: a load, a multiplication that destroys what was
loaded, and an addition. So all else is to be avoided. Eight output channels at a time share the
load of an activation, five of their sums being in registers that only additions reach. Bytes are
loaded at a constant distance from a pointer if they are unsigned, so weights are stored with 128
added and activations are gathered with their highest bit inverted:

    sum of x * w = sum of (x + 128) * (w + 128) - 128 * sum of (x + 128) - 128 * sum of w

The last sum is part of the bias; the one before is of the gathered bytes, once for all channels. A
zero point of the weights is added to its factor.

One function (mlf/narrow.h) computes all outputs of a pixel and requantises them from registers.
Channels without an exact multiplier are computed again from their sums.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ops.base import Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    centred,
    folded_bias,
    pack_rows,
    pad_rows,
)
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.narrow_requantise import in_halves
from mlftool.targets.kernels.parts import (
    Tile,
    after_core,
    byte_kernel,
    constants,
    walk,
)

ROUND = 32  # of weights, that a load reaches from its pointer: one round of the loop


@byte_kernel("narrow", "fpu size", totals=True)
def narrow(c: Contraction, q: Quantisation) -> Tile | None:
    form, v = in_halves(c, q), c.v
    if form is None:
        return None
    columns = _columns(c.oc)
    length = -(-c.depth // (ROUND // columns)) * (ROUND // columns)
    flip = 128 if v.x(0).dtype.name == "int8" else 0
    store = Store(v, f"({v.y.dtype.c})outs[oc]", f"p * {c.oc} + oc", "oc")
    w = c.weights.reshape(c.oc, -1).astype(np.int64)
    rest = ((0, 0), (0, length - c.depth))
    weights = pack_rows(np.pad(w + 128, rest), columns).astype(np.uint8).reshape(-1)
    column = Operand("column", "uint8_t", "scratch", bytes=length)
    order = walk(c, 1, 0, column, store.operands)
    rare = form.rare_channels
    wide = c.oc + -c.oc % columns
    straight = not after_core(v) and wide == c.oc
    outs = () if straight else (Operand("outs", "uint8_t", "scratch", bytes=wide),)
    kept = (Operand("kept", "uint32_t", "scratch", bytes=4 * rare.size),) if rare.size else ()
    blocks = form.blocks(_bias(c, q, flip, columns), columns)
    return Tile(
        "narrow.blocked",
        "narrow.c.j2",
        c,
        (*constants(w=weights, k=blocks), *form.rare_operands(columns)),
        (*order.scratch, *outs, *kept),
        store,
        {
            "batch": c.batch,
            **{"columns": columns, "wide": wide, "straight": straight, "rare": rare.size},
            "length": length,
            "flip": flip,
            "raised": 128 + int(q.w_zero_point.reshape(-1)[0]),
            "fill": q.x_zero_point + flip,
            "form": form,
            "store": store,
        },
        cost=c.tiled(1, columns) * 3.3 + c.pixels * (c.oc * 24.0 + c.depth * 3.0),
        header="mlf/narrow.h",
        walk=order,
    )


def _columns(oc: int) -> int:
    """How many output channels at a time: those that do not fill the last turn are in vain."""
    return min((8, 4), key=lambda n: -(-oc // n) * (3 * n + 1))


def _bias(c: Contraction, q: Quantisation, flip: int, columns: int) -> Array:
    """What remains when products of signed bytes are sums of unsigned ones; modulo 2^32, as they
    are added."""
    folded = pad_rows(folded_bias(c, q) - flip * centred(c, q).sum(axis=1), columns)
    return (folded & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
