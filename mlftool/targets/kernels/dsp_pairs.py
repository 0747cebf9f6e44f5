"""int8 contractions with the ARMv7E-M DSP instructions: sixteen products in thirteen instructions.

SMLAD adds two 16-bit products. The operands of two output pixels are widened to int16 once. Weights
stay bytes, but of two output channels in one halfword, 256 * w1 + w0: the sum of x * halfword needs
no unpacking, one SXTB16 gives two w0, and the difference of the two sums is 256 times the sum with
w1. So unpacking costs half, and registers are left for loading two words at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    Stored,
    folded_bias,
    geometry,
    pad_rows,
    requantize,
    scale_operand,
    stores,
)
from mlftool.ops.fixed import fixed
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.parts import bytes_of, operands, walk

# C functions that make int16 of bytes; the second in the order in which SXTB16 gives them.
WIDEN = ("mlf_widen_s8", "mlf_widen_s8_pairs")


def paired(c: Contraction, width: int, ordered: bool) -> Array | None:
    """[OC/width, K/4, width/2, 2] words of two halfwords 256 * w1 + w0: two products of two
    channels. None if a halfword cannot hold that."""
    w = pad_rows(c.weights.reshape(c.oc, -1).astype(np.int32), width)
    w = np.concatenate([w, np.zeros((w.shape[0], -w.shape[1] % 4), w.dtype)], axis=1)
    both = 256 * w[1::2] + w[::2]
    if both.min() < -(2**15):
        return None
    quads = both.reshape(both.shape[0], -1, 4)[..., [0, 2, 1, 3] if ordered else [0, 1, 2, 3]]
    halves = quads.astype(np.int16).view(np.uint16).astype(np.uint32)
    words = halves[..., ::2] | halves[..., 1::2] << 16  # [OC/2, K/4, 2]
    shuffled = words.reshape(-1, width // 2, words.shape[1], 2).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(shuffled).reshape(-1)


def entries_of(
    c: Contraction,
    q: Quantisation,
    rows: int,
    width: int,
    requantised: Callable[[str, str], str],
    always: bool = False,
) -> tuple[list[Stored], bool]:
    """`stores`, but where the last pixel has no second one it is stored twice, as pixel `q1`, which
    needs no condition, unless the store reads what it replaces; and whether that is so. `always`:
    also if no pixel is left over."""
    entries = stores(c, q, rows, width, width, requantised)
    if rows == 1 or (c.pixels % rows == 0 and not always) or entries[0].store.inplace:
        return entries, False
    first = entries[:width]
    second = []
    for b, entry in enumerate(first):
        channel = f"oc + {b}" if b else "oc"
        acc = f"acc1{b}"
        text = requantised(acc, channel)
        index = f"q1 * {c.oc} + {channel}"
        store = Store(c.v, f"({c.v.y.dtype.c}){text}", index, channel)
        second.append(replace(entry, index=index, store=store))
    return [*first, *second], True


PACKED = "two halfwords 256 * w1 + w0 a word"


@kernel("QLinearConv", "com.microsoft.QGemm", needs="dsp")
def pairs(v: View) -> Kernel | None:
    """Two pixels x two channels at a time, or one pixel x four."""
    return unrolled_pairs(v)


def unrolled_pairs(v: View, unrolled: int = 0) -> Kernel | None:
    """`unrolled` fours of products make one round of the loop, or as many as usually do best."""
    found = bytes_of(v, signed=True)
    if found is None:
        return None
    c, q = found
    rows, width = (1, 4) if c.pixels == 1 else (2, 2)
    run = c.depth if c.dense else c.kernel[1] * c.ic
    ordered = run % 4 == 0
    w, largest = paired(c, width, ordered), np.abs(c.weights.reshape(c.oc, -1).astype(int))
    if w is None or 128 * largest.sum(axis=1).max() >= 2**23:
        return None
    fix = fixed(c, q)

    def requantised(acc: str, channel: str) -> str:
        return fix.text(acc, f"m[{channel}]") if fix else requantize(c, q, acc, channel)

    entries, twice = entries_of(c, q, rows, width, requantised)
    store = entries[0].store
    column = -(-c.depth // 4) * 4
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * rows * column)
    order = walk(c, rows, column, columns, store.operands)
    constants = [
        Operand("w", "uint32_t", "const", array=w, note=PACKED),
        Operand("b", "int32_t", "const", array=pad_rows(folded_bias(c, q).astype(np.int32), width)),
        fix.coded(width) if fix else scale_operand(q, width),
    ]
    rounds = column // 4
    unroll = unrolled or next(n for n in (8, 6, 7, 5, 4, 3, 2, 1) if rounds % n == 0)
    if rounds % unroll:
        return None
    return Kernel(
        "dsp.pairs",
        "dsp_pairs.c.j2",
        {
            **geometry(c),
            "rows": rows,
            "pairs": width // 2,
            "column": column,
            "stores": entries,
            "ordered": ordered,
            "widen": WIDEN[ordered],
            "scatter": WIDEN[ordered and c.ic % 4 == 0],
            "fill": q.x_zero_point,
            "unroll": unroll,
            "direct": order.direct,
            "backwards": order.descends,
            "twice": twice,
        },
        operands(v, constants, store.operands, order.scratch),
        cost=c.macs * 0.9 + c.pixels * (c.oc * 16.0 + c.depth * 1.5),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=store.inplace,
        overlap=order.overlap,
    )
