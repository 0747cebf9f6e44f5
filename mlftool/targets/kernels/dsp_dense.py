"""int8 layers of one pixel with the ARMv7E-M DSP instructions, four channels at a time: one LDM
loads the weights of two pairs of channels, which are paired as in dsp.py."""

from __future__ import annotations

from mlftool.ir.holes import Number
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import WIDEN, paired
from mlftool.targets.kernels.dsp_triples import STREAM, held, streamed
from mlftool.targets.kernels.parts import Tile, byte_kernel, walk
from mlftool.targets.requantise.forms import form

WIDTH = 4
MOST_TIMES = 10  # MLF_TIMES_10 of mlf/dsp.h


@byte_kernel("dsp", signed=True)
def dense(c: Contraction, q: Quantisation, unrolled: int = 0) -> Tile | None:
    """`unrolled` fours of products make one round of the loop, or as many as usually do best."""
    if c.pixels != 1:
        return None
    ordered = (c.depth if c.dense else c.kernel[1] * c.ic) % 4 == 0
    w, rounds = paired(c, WIDTH, ordered), -(-c.depth // 4)
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
    stream = streamed(c, q, w, made, WIDTH)
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
            "held": held(made, WIDTH),
            "ordered": ordered,
            "lanes": 1,
            "apart": False,
            "widen": WIDEN[ordered],
            "scatter": WIDEN[ordered and c.ic % 4 == 0],
            "fill": q.x_zero_point,
            "unroll": unroll,
            "again": rounds > unroll,
            "words": stream.size,
            "by_channel": bool(entries[0].store.statements) or not made.hoists or c.oc % WIDTH,
            "fused": bool(entries[0].store.statements),
        },
        cost=c.macs * 0.88 + c.oc * 8.0 + c.depth * 1.5,
        header="mlf/dsp.h",
        walk=order,
    )
