"""int8 contractions for ARMv6-M (Cortex-M0), two pixels with one multiplication.

A word holds a byte of each of two pixels; its product with a weight holds both products, so eight
pixels take four multiplications. Sums of the lower halves must stay within 16 bits. As weights are
known, each channel's are cut into the longest parts whose magnitudes add up to 255 at most, after
each of which the halves are taken apart (mlf/narrow_pairs.h). Weights stay bytes, with one more for
each part; while eight pixels are computed, their windows take two bytes an element.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, folded_bias
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.narrow_requantise import in_parts
from mlftool.targets.kernels.parts import Tile, after_core, byte_kernel, constants, walk

PIXELS = 8
MOST_WEIGHT = 255  # of a part's magnitudes: times 128 they are less than 2^15
MOST_LENGTH = 127  # of a part, whose length is a byte
START = 1 << 15  # of each part's sums


@byte_kernel("narrow", "fpu size")
def narrow_pairs(c: Contraction, q: Quantisation) -> Tile | None:
    form = in_parts(c, q) if c.pixels > 1 else None
    if form is None:
        return None
    v, flip = c.v, 0 if c.v.x(0).dtype.name == "int8" else 128
    w = c.weights.reshape(c.oc, -1).astype(np.int64)
    starts = parts_of(w)
    bias = folded_bias(c, q) + flip * w.sum(axis=1) - START * starts.sum(axis=1)
    bias = (bias & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    numbers = np.stack([bias, form.multiplier, form.add], axis=1).reshape(-1)
    columns = Operand("columns", "uint32_t", "scratch", bytes=2 * PIXELS * c.depth)
    store = Store(v, f"({v.y.dtype.c})outs[j * {c.oc} + oc]", f"(p + j) * {c.oc} + oc", "oc")
    order = walk(c, PIXELS, 2 * c.depth, columns, store.operands)
    straight = not after_core(v)
    rest, rare = c.pixels % PIXELS, form.rare_channels.size
    apart = not straight or rest > 0  # the last pixels are computed with others that do not exist
    outs = (Operand("outs", "uint8_t", "scratch", bytes=PIXELS * c.oc),) if apart else ()
    kept = (Operand("kept", "uint32_t", "scratch", bytes=4 * PIXELS * rare),) if rare else ()
    outside = np.full(
        c.ic if c.padded and not c.dense else 0, int(q.x_zero_point), v.known(2).dtype
    )
    blocks = -(-c.pixels // PIXELS)
    return Tile(
        "narrow.pairs",
        "narrow_pairs.c.j2",
        c,
        (
            *constants(w=stream(w, starts), k=numbers),
            *(constants(outside=outside) if outside.size else ()),
            *form.rare_operands(),
        ),
        (*order.scratch, *outs, *kept),
        store,
        {
            "batch": c.batch,
            "eight": PIXELS,
            "rest": rest,
            "straight": straight,
            "apart": apart,
            "rare": rare,
            "form": form,
            "lo": q.lo,
            "hi": q.hi,
            "take": "mlf_pair_u8" if flip else "mlf_pair_s8",
            "store": store,
        },
        cost=blocks * (c.oc * (12.0 * c.depth + 165) + 35.0 * starts.sum() + 25.0 * c.depth + 200),
        header="mlf/narrow_pairs.h",
        walk=order,
    )


def parts_of(w: Array) -> Array:
    """bool [output channel, depth]: where the parts of each channel's weights begin."""
    magnitude = np.abs(w)
    starts = np.zeros(w.shape, bool)
    total, length = np.full(len(w), MOST_WEIGHT + 1), np.zeros(len(w), np.int64)
    for k in range(w.shape[1]):
        total, length = total + magnitude[:, k], length + 1
        starts[:, k] = (total > MOST_WEIGHT) | (length > MOST_LENGTH)
        total = np.where(starts[:, k], magnitude[:, k], total)
        length = np.where(starts[:, k], 1, length)
    return starts


def stream(w: Array, starts: Array) -> Array:
    """int8: each part's weights after minus their number, channel by channel."""
    at = np.flatnonzero(starts)
    lengths = np.diff(at, append=w.size)
    return np.insert(w.reshape(-1), at, -lengths).astype(np.int8)
