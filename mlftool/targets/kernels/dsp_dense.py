"""int8 layers of one pixel with the ARMv7E-M DSP instructions, four channels at a time: one LDM
loads the weights of two pairs of channels, which are paired as in dsp.py."""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored, largest
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import PACKED, TOTALS, WIDEN, paired
from mlftool.targets.kernels.dsp_triples import held, numbers_of
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, walk, weights_zero
from mlftool.targets.requantise.forms import Form, form

WIDTH = 4
MOST_TIMES = 10  # MLF_TIMES_10 of mlf/dsp.h
STREAM = f"for four channels each: where sums begin, {PACKED}, the numbers of requantisation"


@byte_kernel("dsp", totals=True)
def dense(c: Contraction, q: Quantisation, unrolled: int = 0) -> Tile | None:
    """`unrolled` fours of products make one round of the loop, or as many as usually do best."""
    if c.pixels != 1:
        return None
    ordered = (c.depth if c.dense else c.kernel[1] * c.ic) % 4 == 0
    w, rounds = paired(c, q, WIDTH, ordered), -(-c.depth // 4)
    unroll = unrolled or next(n for n in (MOST_TIMES, 8, 6, 7, 5, 4, 3, 2, 1) if rounds % n == 0)
    if w is None or rounds % unroll or unroll > MOST_TIMES:
        return None
    made, column = form(c, q, WIDTH), 4 * rounds
    entries = []
    for b in range(WIDTH):
        channel = f"oc + {b}" if b else "oc"
        store = Store(
            c.v, f"({c.v.y.dtype.c}){made.text(f'acc0{b}', channel, str(b))}", channel, channel
        )
        guard = f"{channel} < {Number(c.oc)}" if b and c.oc % WIDTH else ""
        entries.append(Stored(guard, channel, store))
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * column)
    order = walk(c, 1, column, columns, entries[0].store.operands)
    signed = c.v.x(0).dtype.name == "int8"
    if not signed and not order.direct:
        return None
    stream, folded = _streamed(c, q, w, made)
    return Tile(
        "dsp.dense",
        "dsp_dense.c.j2",
        c,
        (
            Operand("w", "uint32_t", "const", array=stream, note=STREAM),
            *(() if made.hoists else made.operands),
        ),
        order.scratch,
        entries[0].store,
        {
            "rows": 1,
            "column": column,
            "stores": entries,
            "held": held(q, made, WIDTH),
            "ordered": ordered,
            "bytes": "BYTES" if signed else "UNSIGNED",
            "lanes": 1,
            "apart": False,
            "widen": WIDEN[ordered],
            "scatter": WIDEN[ordered and c.ic % 4 == 0],
            "fill": q.x_zero_point,
            "unroll": unroll,
            "again": rounds > unroll,
            "words": stream.size,
            "folded": folded,
            "zeros": bool(weights_zero(q)),
            "by_channel": bool(entries[0].store.statements) or not made.hoists or c.oc % WIDTH,
            "fused": bool(entries[0].store.statements),
        },
        cost=c.tiled(1, WIDTH) * 0.88 + c.oc * 8.0 + c.depth * 1.5,
        header="mlf/dsp.h" + TOTALS * bool(weights_zero(q)),
        walk=order,
    )


def _streamed(c: Contraction, q: Quantisation, words: Array, made: Form) -> tuple[Array, bool]:
    """uint32 [group of four channels, ...]: where the sums of x * w0 and of x * halfword begin, the
    weights, the numbers that `held` names; and whether sums with w1 have their bias. If 24 bits
    cannot hold one, the biases of the odd channels are between weights and numbers."""
    bias = bias_of(c, q, WIDTH).reshape(-1, WIDTH)
    even, odd = bias[:, ::2], bias[:, 1::2]
    small = largest(c, q).max() < 2**23 and np.abs(odd).max() < 2**23
    folded = bool(small and not weights_zero(q))
    whole = even.astype(np.int64) + (256 * odd.astype(np.int64) if folded else 0)
    starts = np.concatenate((even, whole.astype(np.int32)), axis=1, dtype=np.int32)
    apart = [] if folded else [odd]
    rows = [
        starts,
        words.reshape(len(bias), -1).view(np.int32),
        *apart,
        *numbers_of(c, q, made, WIDTH),
    ]
    return np.concatenate(rows, axis=1, dtype=np.int32).view(np.uint32).reshape(-1), folded
