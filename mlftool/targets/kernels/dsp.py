"""int8 contractions with the ARMv7E-M DSP instructions: twenty-four products in seventeen
instructions.

SMLAD adds two 16-bit products. The operands of two output pixels are widened to int16 once. Weights
stay bytes, but of two output channels in one halfword, 256 * w1 + w0: the sum of x * halfword needs
no unpacking, one SXTB16 gives two w0, and the difference of the two sums is 256 times the sum with
w1. So unpacking costs half, and registers are left for loading two words at once.

Weights that cannot be paired are unpacked: four of two channels cost two loads and four SXTB16, and
eight SMLAD do the sixteen products. SXTB16 takes bytes 0 and 2, then 1 and 3; weights are packed so
that this is the order of the widened pixels. A dense layer of one pixel has nothing to widen for,
and treats its input as it does its weights.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored, pad_rows, requantize, stores
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.parts import (
    Tile,
    Walk,
    bias_of,
    byte_kernel,
    constants,
    walk,
    weights_zero,
)
from mlftool.targets.requantise.forms import Form, form

# C functions that make int16 of bytes; the second in the order in which SXTB16 gives them.
WIDEN = ("mlf_widen_s8", "mlf_widen_s8_pairs")
TOTALS = " mlf/dsp_totals.h"  # of weights with a zero point
PACKED = "two halfwords 256 * w1 + w0 in each word"
MOST_TIMES = 8  # MLF_TIMES_8 of mlf/dsp.h


def quads(c: Contraction, width: int) -> Array:
    """[OC/width, K/4, width, 4] weights, zeros added."""
    return quads_of(c.weights.reshape(c.oc, -1), width)


def quads_of(flat: Array, width: int) -> Array:
    """The same of weights [OC, K]."""
    w = pad_rows(flat, width)
    w = np.pad(w, ((0, 0), (0, -w.shape[1] % 4)))
    return w.reshape(-1, width, w.shape[1] // 4, 4).transpose(0, 2, 1, 3)


def paired(
    c: Contraction, q: Quantisation, width: int, ordered: bool, channels: slice = slice(None)
) -> Array | None:
    """[OC/width, K/4, width/2, 2] words of two halfwords 256 * w1 + w0: two products of two of the
    `channels`. None if a halfword cannot hold that, or a sum with w1 its 24 bits."""
    w = c.weights.reshape(c.oc, -1)
    w = (w + _raised(c)[:, None]).astype(np.int8) if weights_zero(q) else w
    return paired_of(w[channels], c.v.x(0).dtype.range, width, ordered)


def _raised(c: Contraction) -> Array:
    """int16 [output channel]: what is added to weights, which have a zero point, before they are
    paired, at most 128. A halfword with -128 above has no room for less than 0 below: one is added
    above or, if that is too much for 127, what it takes below."""
    w = pad_rows(c.weights.reshape(c.oc, -1), 2)
    low, high = w[::2].astype(np.int16), w[1::2]
    above = (high.min(axis=1) == -128) & (high.max(axis=1) < 127)
    missing = np.where((high == -128) & ~above[:, None], -low, 0).max(axis=1)
    below = np.where(low.max(axis=1) + missing <= 127, np.maximum(missing, 0), 0)
    return np.stack([below, above], axis=1).reshape(-1)[: c.oc].astype(np.int16)


def zeros_of(c: Contraction, q: Quantisation, width: int, are_paired: bool = True) -> Array | None:
    """int32 [output channel]: what a pixel's total is multiplied by before it is added to a sum;
    None if weights have no zero point."""
    if not weights_zero(q):
        return None
    zeros = -np.broadcast_to(q.w_zero_point, (c.oc,)) - (_raised(c) if are_paired else 0)
    return pad_rows(zeros.astype(np.int32), width)


def paired_of(flat: Array, inputs: tuple[int, int], width: int, ordered: bool) -> Array | None:
    """The same of int8 weights [OC, K] for inputs from the first to the second of `inputs`."""
    positive, negative = (f(flat, 0).sum(axis=1, dtype=int) for f in (np.maximum, np.minimum))
    lowest, highest = inputs
    sums = (highest * positive + lowest * negative, lowest * positive + highest * negative)
    w = quads_of(flat, width)
    low, high = w[:, :, ::2], w[:, :, 1::2]
    if ((high == -128) & (low < 0)).any() or np.abs(sums).max() >= 2**23:
        return None
    order = [0, 2, 1, 3] if ordered else [0, 1, 2, 3]
    halves = (256 * high.astype(np.int16) + low)[..., order].view(np.uint16)
    words = halves[..., 1::2].astype(np.uint32)
    words <<= 16
    words |= halves[..., ::2]
    return np.ascontiguousarray(words).reshape(-1)


def entries_of(
    c: Contraction,
    q: Quantisation,
    rows: int,
    width: int,
    finish: Form | None,
) -> tuple[list[Stored], bool]:
    """`stores`, but where the last pixel has no second or third one it is stored again, as pixels
    `q1` and `q2`, which need no condition, unless the store reads what it replaces; and whether
    that is so."""
    requantised = finish.text if finish else partial(requantize, c, q)
    entries = stores(c, q, rows, width, width, requantised)
    if rows == 1 or c.pixels % rows == 0 or entries[0].store.inplace:
        return entries, False
    again = list(entries[:width])
    for j in range(1, rows):
        for b, entry in enumerate(entries[:width]):
            channel = f"oc + {b}" if b else "oc"
            text = requantised(f"acc{j}{b}", channel)
            index = f"q{j} * {Number(c.oc)} + {channel}"
            store = Store(c.v, f"({c.v.y.dtype.c}){text}", index, channel)
            again.append(replace(entry, index=index, store=store))
    return again, True


@frozen
class Dot:
    """How the products of `rows` pixels x `width` channels are added: dsp_dot_<form>.j2."""

    name: str
    form: str
    rows: int
    width: int
    weights: Operand
    finish: Form
    ordered: bool  # operands are in the order in which SXTB16 gives bytes
    unroll: int
    cost: float

    @property
    def header(self) -> str:
        return "mlf/dsp_pairs.h" if self.form == "pairs" else "mlf/dsp.h"


def _tile(c: Contraction, q: Quantisation, dot: Dot, order: Walk | None = None) -> Tile:
    entries, twice = entries_of(c, q, dot.rows, dot.width, dot.finish)
    store, column = entries[0].store, -(-c.depth // 4) * 4
    found = zeros_of(c, q, dot.width, dot.form == "pairs")
    zeros = {} if found is None else {"z": found}
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * dot.rows * column)
    order = order or walk(c, dot.rows, column, columns, store.operands)
    return Tile(
        dot.name,
        "dsp.c.j2",
        c,
        (dot.weights, *constants(b=bias_of(c, q, dot.width), **zeros), *dot.finish.operands),
        order.scratch,
        store,
        {
            "dot": dot.form,
            "rows": dot.rows,
            "column": column,
            "stores": entries,
            "ordered": dot.ordered,
            "width": dot.width,
            "lanes": 1,
            "apart": False,
            "widen": WIDEN[dot.ordered],
            "scatter": WIDEN[dot.ordered and c.ic % 4 == 0],
            "fill": q.x_zero_point,
            "unroll": dot.unroll,
            "twice": twice,
            "zeros": bool(zeros),
        },
        cost=dot.cost,
        header=dot.header + TOTALS * bool(zeros),
        walk=order,
    )


@byte_kernel("dsp", signed=True, totals=True)
def pairs(c: Contraction, q: Quantisation, unrolled: int = 0) -> Tile | None:
    """Two pixels x two channels at a time. `unrolled` fours of products make one round of the loop,
    or as many as usually do best."""
    ordered = (c.depth if c.dense else c.kernel[1] * c.ic) % 4 == 0
    w, rounds = paired(c, q, 2, ordered), -(-c.depth // 4)
    unroll = unrolled or next(n for n in (8, 6, 7, 5, 4, 3, 2, 1) if rounds % n == 0)
    if c.pixels < 2 or w is None or rounds % unroll:
        return None
    weights = Operand("w", "uint32_t", "const", array=w, note=PACKED)
    cost = c.tiled(2, 2) * 0.86 + c.pixels * (c.oc * 12.0 + c.depth * 1.5)
    dot = Dot("dsp.pairs", "pairs", 2, 2, weights, form(c, q, 2), ordered, unroll, cost)
    return _tile(c, q, dot)


def _unpacked(
    c: Contraction, q: Quantisation, name: str, rows: int, width: int, order: list[int], cost: float
) -> Dot:
    (w,) = constants(w=np.ascontiguousarray(quads(c, width)[..., order]).reshape(-1))
    unroll = 4 if -(-c.depth // 4) % 4 == 0 else 2
    return Dot(name, "quads", rows, width, w, form(c, q, width), False, unroll, cost)


@byte_kernel("dsp", signed=True, totals=True)
def two_by_two(c: Contraction, q: Quantisation) -> Tile | None:
    """Two pixels x two channels at a time; wants more than one pixel."""
    if c.pixels < 2:
        return None
    cost = c.tiled(2, 2) * 1.3 + c.pixels * (c.oc * 13.0 + c.depth * 2.5)
    return _tile(c, q, _unpacked(c, q, "dsp.two_by_two", 2, 2, [0, 2, 1, 3], cost))


@byte_kernel("dsp", signed=True, totals=True)
def rows_of_four(c: Contraction, q: Quantisation) -> Tile | None:
    """One pixel with contiguous operands (a dense layer): four channels at a time."""
    if c.pixels != 1 or not c.dense or c.depth % 4:
        return None
    cost = c.tiled(1, 4) * 1.7 + c.oc * 14.0
    dot = _unpacked(c, q, "dsp.rows_of_four", 1, 4, [0, 1, 2, 3], cost)
    return _tile(c, q, dot, Walk.in_place())
