"""Contractions of int16 and int8 with the ARMv7E-M DSP instructions.

Activations are what SMLAD takes. Weights stay bytes, two products of two channels in a word, and
are widened as they are read, by one SXTB16 for two of them: twenty instructions for twenty-four
products where bytes take seventeen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ir.holes import Number
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    Stored,
    folded_bias,
    largest,
    pad_rows,
)
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import BYTES, kernel
from mlftool.targets.kernels.dsp import quads
from mlftool.targets.kernels.dsp_depthwise import planes_of
from mlftool.targets.kernels.dsp_stream import held, numbers_of
from mlftool.targets.kernels.dsp_triples import stores, unrolled
from mlftool.targets.kernels.parts import Tile, Walk, shorts_of, walk
from mlftool.targets.requantise.forms import Form
from mlftool.targets.requantise.halfwords import apart, form

COPY, COPY_TRIPLES = "mlf_copy_s16", "mlf_copy_s16_triples"
HEADER = "mlf/dsp_wide.h"
STREAM = "by groups of channels: initial sums, weights, numbers of the requantisation"
WIDTH = 4  # channels of one pixel

WideBid = Callable[[Contraction, Quantisation, Form, Array], "Tile | None"]


def wide_kernel(multiple: int, *, depthwise: bool = False) -> Callable[[WideBid], WideBid]:
    """Register a kernel of int16 activations and int8 weights without zero point whose sums of
    products fit int32. It gets the form of its stores and where its sums begin, int32 [channel],
    for channels padded to a `multiple`."""

    def register(bid: WideBid) -> WideBid:
        @kernel(*BYTES, needs="dsp", unless="size")
        def whole(v: View) -> Kernel | None:
            found = _wide(v, depthwise, multiple)
            made = bid(*found) if found else None
            return made.kernel if made else None

        return bid

    return register


def _wide(
    v: View, depthwise: bool, multiple: int
) -> tuple[Contraction, Quantisation, Form, Array] | None:
    found = shorts_of(v, depthwise=depthwise)
    if found is None:
        return None
    c, q = found
    begin, fits = folded_bias(c, q), largest(c, q).max(initial=0) < 2**31
    made = (form if fits else apart)(c, q, multiple)
    begin = begin if fits else begin - c.bias.astype(np.int64)
    return c, q, made, pad_rows(begin.astype(np.uint32).view(np.int32), multiple)


def _stream(c: Contraction, q: Quantisation, made: Form, begin: Array, width: int) -> Operand:
    """[group of `width` channels, ...]: where sums begin, weights, what `held` names. A word of
    weights has products k and k + 1 of two channels."""
    w = quads(c, width)  # [OC/width, K/4, width, 4]
    groups, rounds = w.shape[:2]
    w = w.reshape(groups, rounds, width // 2, 2, 2, 2)  # [..., pair, channel, half, product]
    words = np.ascontiguousarray(w.transpose(0, 1, 4, 2, 5, 3)).reshape(groups, -1)
    rows = [begin.reshape(groups, width), words.view(np.int32), *numbers_of(c, q, made, width)]
    both = np.concatenate(rows, axis=1, dtype=np.int32).view(np.uint32).reshape(-1)
    return Operand("w", "uint32_t", "const", array=both, note=STREAM)


def _gather(q: Quantisation, fours: bool) -> dict[str, object]:
    """How windows are gathered; `fours`: as words that alternate."""
    copy = COPY_TRIPLES if fours else COPY
    return {"ordered": False, "widen": copy, "scatter": copy, "fill": q.x_zero_point}


@wide_kernel(2)
def wide(c: Contraction, q: Quantisation, made: Form, begin: Array) -> Tile | None:
    """Three pixels x two channels at a time."""
    if c.pixels < 2:
        return None
    fours, rounds = (c.depth if c.dense else c.ic) % 4 == 0, -(-c.depth // 4)
    column, pixels = 4 * rounds, -(-c.pixels // 3) * 3
    found, again = stores(c, lambda acc, channel, b: made.text(acc, channel, str(b)))
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * (3 if fours else 4) * column)
    order = walk(c, 3, column, columns, found[0].store.operands)
    return Tile(
        "dsp.wide",
        "dsp_wide.c.j2",
        c,
        (_stream(c, q, made, begin, 2), *(() if made.hoists else made.operands)),
        order.scratch,
        found[0].store,
        {
            "rows": 3,
            "column": column,
            "stores": found,
            "held": held(q, made),
            "lanes": 3 if fours else 1,
            "apart": not fours,
            "twice": again,
            "fused": bool(found[0].statements),
            **_gather(q, fours),
            **unrolled(rounds),
        },
        cost=pixels * (c.oc * (c.depth * 0.88 + 12.0) + c.depth * (1.5 if fours else 2.5)),
        header=HEADER,
        walk=order,
    )


@wide_kernel(WIDTH)
def wide_dense(c: Contraction, q: Quantisation, made: Form, begin: Array) -> Tile | None:
    """One pixel x four channels at a time."""
    if c.pixels != 1:
        return None
    rounds, found = -(-c.depth // 4), []
    for b in range(WIDTH):
        channel = f"oc + {b}" if b else "oc"
        text = f"({c.v.y.dtype.c}){made.text(f'acc0{b}', channel, str(b))}"
        guard = f"{channel} < {Number(c.oc)}" if b and c.oc % WIDTH else ""
        found.append(Stored(guard, channel, Store(c.v, text, channel, channel)))
    columns = Operand("columns", "int16_t", "scratch", bytes=8 * rounds)
    others = found[0].store.operands
    direct = c.dense and c.depth % 4 == 0
    order = Walk.in_place() if direct else walk(c, 1, 0, columns, others)
    return Tile(
        "dsp.wide_dense",
        "dsp_wide_dense.c.j2",
        c,
        (_stream(c, q, made, begin, WIDTH), *(() if made.hoists else made.operands)),
        order.scratch,
        found[0].store,
        {
            "rows": 1,
            "column": 4 * rounds,
            "stores": found,
            "held": held(q, made, WIDTH),
            "lanes": 1,
            "apart": False,
            **_gather(q, False),
            **unrolled(rounds),
        },
        cost=c.tiled(1, WIDTH) * 1.22 + c.oc * 14.0 + (0.0 if direct else c.depth * 2.0),
        header=HEADER,
        walk=order,
    )


@wide_kernel(1, depthwise=True)
def wide_planes(c: Contraction, q: Quantisation, made: Form, begin: Array) -> Tile | None:
    """Depthwise, channel by channel; a plane is copied and padded, not widened."""
    return planes_of(c, q, made, begin, "dsp.wide_planes", HEADER)
