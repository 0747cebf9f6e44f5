"""int8 layers of one pixel with the ARMv7E-M DSP instructions, six channels at a time and the rest
four: one LDM loads the weights of some pairs of channels, which are paired as in dsp.py."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import TOTALS, WIDEN, paired
from mlftool.targets.kernels.dsp_stream import STREAM, Ending, Ends, held, streamed_in
from mlftool.targets.kernels.parts import Tile, byte_kernel, walk, weights_zero
from mlftool.targets.requantise.forms import form

SIX, FOUR = 6, 4
MOST_TIMES = 10  # MLF_TIMES_10 of mlf/dsp.h
WORTH = 4096  # products from which six channels are worth a kilobyte of code
MOST_SIXTEENS = 5


@frozen
class Band:
    """Channels from `first` below `end`, `width` at a time; a round of the loop has `times` steps
    of four products for four channels, of sixteen for six, after `fours` of four."""

    first: int
    end: int
    width: int
    times: int
    again: bool
    fours: int = 0


@byte_kernel("dsp", totals=True)
def dense(c: Contraction, q: Quantisation, unrolled: int = 0) -> Tile | None:
    """Four channels at a time; `unrolled` fours of products make one round of the loop, or as many
    as usually do best."""
    return _tile(c, q, "dsp.dense", unrolled)


@byte_kernel("dsp", "size", totals=True)
def sixes(c: Contraction, q: Quantisation) -> Tile | None:
    """Six channels at a time, the rest in fours."""
    return _tile(c, q, "dsp.sixes", sixes=c.oc) if c.macs >= WORTH else None


def _tile(
    c: Contraction, q: Quantisation, name: str, unrolled: int = 0, sixes: int = 0
) -> Tile | None:
    bands = _bands(c, unrolled, sixes) if c.pixels == 1 else ()
    if not bands:
        return None
    ordered = (c.depth if c.dense else c.kernel[1] * c.ic) % 4 == 0
    padded, column = bands[-1].end, -(-c.depth // 4) * 4
    made = form(c, q, padded)
    ends = Ends.of(c, q, made)
    entries, unsure = ([_entries(c, t, band) for band in bands] for t in (ends.sure, ends.unsure))
    first = entries[0][0].store
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * column)
    order = walk(c, 1, column, columns, first.operands)
    signed = c.v.x(0).dtype.name == "int8"
    if not signed and not order.direct:
        return None
    wide = sum(b.end - b.first for b in bands if b.width == SIX)
    stream = _stream(c, q, bands, ordered, ends)
    if stream is None or (sixes and not wide):
        return None
    stops = np.cumsum([part.size for part in stream]).tolist()
    pairs = [list(pairwise(held(q, made, b.width)))[::2] for b in bands]
    return Tile(
        name,
        "dsp_dense.c.j2",
        c,
        (
            Operand("w", "uint32_t", "const", array=np.concatenate(stream), note=STREAM),
            *(() if made.hoists else made.operands),
        ),
        order.scratch,
        first,
        {
            "rows": 1,
            "column": column,
            "bands": list(zip(bands, stops, entries, unsure, pairs, strict=True)),
            "ordered": ordered,
            "bytes": "BYTES" if signed else "UNSIGNED",
            "lanes": 1,
            "apart": False,
            "widen": WIDEN[ordered],
            "scatter": WIDEN[ordered and c.ic % 4 == 0],
            "fill": q.x_zero_point,
            **ends.params,
            "zeros": bool(weights_zero(q)),
            "by_channel": bool(first.statements) or not made.hoists or padded > c.oc,
            "fused": bool(first.statements),
        },
        cost=column * (0.87 * wide + 0.88 * (padded - wide)) + c.oc * 8.0 + c.depth * 1.5,
        header=("mlf/dsp_sixes.h" if wide else "mlf/dsp.h") + TOTALS * bool(weights_zero(q)),
        walk=order,
    )


def _stream(
    c: Contraction, q: Quantisation, bands: Sequence[Band], ordered: bool, ends: Ends
) -> list[Array] | None:
    """The words of each band, one after the other; None if weights do not fit pairs."""
    stream, padded = [], bands[-1].end
    for band in bands:
        at = slice(band.first, band.end)
        words = paired(c, q, band.width, ordered, at)
        if words is None:
            return None
        if band.width == SIX:  # three pairs for the first word of the pixel, then for the second
            words = words.reshape(-1, SIX // 2, 2).transpose(0, 2, 1)
        stream.append(streamed_in(band.width, c, q, words, ends, True, at, padded))
    return stream


def _bands(c: Contraction, unrolled: int, sixes: int) -> Sequence[Band]:
    """`unrolled` fours of products are a round, as in `dense`; none if the depth has no such
    rounds. `sixes` says how many channels may be taken six at a time: as many as leave whole
    fours."""
    oc, rounds = c.oc, -(-c.depth // 4)
    times = unrolled or next(n for n in (MOST_TIMES, 8, 6, 7, 5, 4, 3, 2, 1) if rounds % n == 0)
    if rounds % times or times > MOST_TIMES:
        return ()
    count = next((n for n in range(sixes // SIX, 0, -1) if -(oc - SIX * n) % FOUR < 2), 0)
    end = SIX * count
    found = []
    if count:
        steps = rounds // 4
        turns = next((n for n in range(MOST_SIXTEENS, 0, -1) if steps % n == 0 and n <= steps), 0)
        found.append(Band(0, end, SIX, turns, steps > turns, rounds % 4))
    if end < oc:
        found.append(Band(end, oc + (end - oc) % FOUR, FOUR, times, rounds > times))
    return found


def _entries(c: Contraction, text: Ending, band: Band) -> list[Stored]:
    found = []
    for b in range(band.width):
        at = band.first + b
        channel = f"oc + {at}" if at else "oc"
        store = Store(c.v, f"({c.v.y.dtype.c}){text(f'acc0{b}', channel, b)}", channel, channel)
        guard = f"{channel} < {Number(c.oc)}" if b and band.end > c.oc else ""
        found.append(Stored(guard, channel, store))
    return found
