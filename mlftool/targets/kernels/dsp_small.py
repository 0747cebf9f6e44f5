"""int8 contractions with the ARMv7E-M DSP instructions for `optimize: size`.

The same packing and arithmetic as dsp.py and dsp_depthwise.py, but nothing is unrolled and
there are no special cases: a pointwise layer is a 1x1 window, a plane that fits is one band, and
all scratch is in the workspace. So texts hardly depend on the layer, and codegen/share.py makes one
function of all layers of a network.

Weights of four bits come two in a byte. Masked and shifted to the top of a halfword they are 2^12
times their value, with their sign, so one AND unpacks two and the accumulators hold 2^12 times the
sum. Where a sum leaves no room for that, SXTB16 makes sixteen times their value of bytes. A scale
that is as much smaller takes either back, at no cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ir.holes import Number, numbers
from mlftool.ir.operations import NOTHING
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    Stored,
    is_narrow,
    largest,
    pad_rows,
    requantize,
    scale_text,
    stores,
)
from mlftool.ops.nibbles import are_nibbles, joined
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import TOTALS, WIDEN, paired, quads, zeros_of
from mlftool.targets.kernels.dsp_depthwise import plane_of
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, constants, scale_of, walk

# A dense layer of fewer products takes the loop of convolutions, with its one pixel in both places.
FUNCTION_OF_ITS_OWN = 1024
TOP, SIXTEENTH = 12, 4


@byte_kernel("dsp size", "mve", signed=True, totals=True)
def small_pairs(c: Contraction, q: Quantisation) -> Tile | None:
    """Two pixels x two channels at a time, or one pixel x four."""
    rows, width = (1, 4) if c.pixels == 1 and c.macs >= FUNCTION_OF_ITS_OWN else (2, 2)
    raised = _raised(c, q)
    found = zeros_of(c, q, width)
    # Bytes of windows whose taps are no words are copied, then widened.
    copied = c.ic % 4 != 0 and rows == 2 and not raised and found is None
    ordered = c.ic % 4 == 0 or copied
    w = _WEIGHTS[raised](c, width, ordered) if raised else paired(c, q, width, ordered)
    zeros = {} if found is None else {"z": found}
    if w is None or (raised and zeros):
        return None
    lowered = raised and q.rounding is Rounding.EVEN and _normal(q, raised)
    q = replace(q, factor=np.ldexp(q.factor, -raised)) if lowered else q
    q = _by_channel(c, q) if c.pixels == 1 and rows == 2 else q
    single = q.rounding is Rounding.EVEN and q.scale.size == c.oc
    stream = single and rows == 2 and not raised and not zeros
    entries, twice = _entries(c, q, rows, width, stream)
    store = entries[0].store
    twins = ordered and rows == 2 and not raised and not zeros
    whole = stream and twins and twice and _saturates(c, q) and store.operations == NOTHING
    step = 8 if whole else 4
    column = -(-c.depth // step) * step
    size = 2 * rows * column + copied * column
    columns = Operand("columns", "int16_t", "scratch", bytes=size, planned=True)
    order = walk(c, rows, column, columns, store.operands)
    bias = bias_of(c, q, width) << raised
    end = -(-c.pixels // rows) * rows
    apart = {"w": w, "b": bias, "scale": scale_of(q, width)}
    arrays = {"w": _stream(w, bias, pad_rows(q.factor, width), column // 2)} if stream else apart
    return Tile(
        "dsp.small_nibbles" if raised else "dsp.small_pairs",
        "dsp_small_pairs.c.j2",
        c,
        constants(**arrays, **zeros),
        order.scratch,
        store,
        {
            "rows": rows,
            "unroll": 1,
            "column": Number(column),
            "rest": Number(column - c.depth),
            "stores": entries,
            "widen": "mlf_widen_s8_twins" if twins else WIDEN[ordered],
            "twins": twins,
            "stream": stream,
            "whole": whole,
            "copied": copied,
            "run": Number(c.kernel[1] if c.dilations[1] == 1 and c.kernel[1] <= c.inputs[1] else 1),
            "zero": q.y_zero_point,
            "ordered": ordered,
            "several": c.batch > 1,
            "fill": q.x_zero_point,
            "nibbles": bool(raised),
            "top": raised == TOP,
            "shift": 0 if lowered else raised,
            "order": tuple(
                Number(n)
                for n in ((end - rows, -rows, -rows) if order.backwards else (0, end, rows))
            ),
            "twice": twice,
            "direct": order.direct,
            "zeros": bool(zeros),
        },
        cost=c.tiled(rows, width) * _PER_PRODUCT[raised] + c.pixels * (c.oc * 26.0 + c.depth * 7.0),
        header=_header(bool(raised), rows) + TOTALS * bool(zeros),
        walk=order,
        small=True,
    )


def _stream(w: Array, bias: Array, scale: Array, words: int) -> Array:
    """uint32: of each two channels their biases, the bits of their scales and their weights, with
    zeros that make them so many words."""
    w = w.reshape(bias.size // 2, -1)
    w = np.pad(w, ((0, 0), (0, words - w.shape[1])))
    first = (a.view(np.uint32).reshape(-1, 2) for a in (bias.astype(np.int32), scale))
    return np.concatenate([*first, w], axis=1).reshape(-1)


def _saturates(c: Contraction, q: Quantisation) -> bool:
    """Whether SSAT is all that limits results."""
    limits = (q.lo, q.hi) == (-128, 127) and not q.to_float and c.v.y.dtype.c == "int8_t"
    return limits and is_narrow(c, q)


def _by_channel(c: Contraction, q: Quantisation) -> Quantisation:
    """With a scale for each of a dense layer's few channels, as convolutions have: one function."""
    scale, factor = (np.broadcast_to(a, (c.oc, *a.shape[1:])) for a in (q.scale, q.factor))
    return replace(q, scale=scale, factor=factor)


def _entries(
    c: Contraction, q: Quantisation, rows: int, width: int, stream: bool
) -> tuple[list[Stored], bool]:
    """`stores` from elements `at<j>` of the output, with variables `scale<b>` in a `stream`; and
    whether a missing second pixel, which needs no condition then, is the first one again: unless
    the store reads what it replaces."""
    given = stores(c, q, rows, width, width)
    here = rows == 2 and not given[0].statements
    twice, entries = rows == 2 and not given[0].store.inplace, []
    for k, entry in enumerate(given):
        j, b = divmod(k, width)
        channel = f"oc + {b}" if b else "oc"
        index = f"at{j} + {b}" if b else f"at{j}"
        index = index if rows == 2 else entry.index
        value = requantize(c, q, f"acc{j}{b}", channel, here, f"scale{b}" if stream else "")
        text = f"({c.v.y.dtype.c}){value}"
        guard = given[b].guard if twice else entry.guard
        entries.append(Stored(guard, index, Store(c.v, text, index, channel)))
    return entries, twice


def _header(nibbles: bool, rows: int) -> str:
    """Where the sums of so many pixels are."""
    sums = f"mlf/dsp{'_nibbles' if nibbles else '_pairs' if rows == 2 else ''}.h"
    return f"{sums} mlf/dsp_small.h" if rows == 2 else sums


def _raised(c: Contraction, q: Quantisation) -> int:
    """The bits by which sums are shifted, as the weights that they are of; 0: weights are bytes."""
    room = 31 - int(largest(c, q).max(initial=0)).bit_length()
    return next((n for n in (TOP, SIXTEENTH) if n <= room), 0) if are_nibbles(c, q) else 0


def _normal(q: Quantisation, lower: int) -> bool:
    """Whether scales that are so many bits lower lose nothing."""
    return bool(np.all(np.ldexp(q.factor, -lower) >= np.finfo(np.float32).tiny))


def topped(c: Contraction, width: int, ordered: bool) -> Array:
    """uint32 [OC/width, K/4, width/2]: of each pair of products a nibble of each halfword, for one
    channel the upper two, for the next the lower two."""
    w = quads(c, width)[..., [0, 2, 1, 3] if ordered else [0, 1, 2, 3]]
    pairs = w.astype(np.uint32).reshape(*w.shape[:2], width // 2, 2, 2, 2) & 15
    at = np.array([[[12, 28], [8, 24]], [[4, 20], [0, 16]]], np.uint32)  # channel, pair, product
    return np.ascontiguousarray((pairs << at).sum(axis=(-3, -2, -1), dtype=np.uint32)).reshape(-1)


def sixteenths(c: Contraction, width: int, ordered: bool) -> Array:
    """uint32 [OC/width, K/4, width/2]: four weights of one channel in the upper halves of the
    bytes, of the next in the lower ones, in the order in which SXTB16 meets the widened input."""
    w = quads(c, width)
    both = joined(w[:, :, 1::2], w[:, :, ::2])
    both = both if ordered else both[..., [0, 2, 1, 3]]
    words = (both.astype(np.uint32) << np.array([0, 8, 16, 24], np.uint32)).sum(axis=-1)
    return np.ascontiguousarray(words.astype(np.uint32)).reshape(-1)


# How weights are packed whose sums are so many bits higher.
_WEIGHTS = {SIXTEENTH: sixteenths, TOP: topped}
_PER_PRODUCT = {0: 1.0, SIXTEENTH: 1.5, TOP: 1.1}


# Taps of a 3x3 window as SXTB16 makes of two words: two of each row, the last of two rows; and one.
_BY_SXTB16 = [0, 3, 1, 4, 6, 2, 7, 5, 8]


@byte_kernel("dsp size", depthwise=True, signed=True)
def small_planes(c: Contraction, q: Quantisation) -> Tile | None:
    """Depthwise, channel by channel and output by output."""
    plane = plane_of(c) if c.batch == 1 else None
    if plane is None:
        return None
    store = Store(c.v, f"({c.v.y.dtype.c}){requantize(c, q, 'acc', 'c', here=True)}", "o", "c")
    size = 2 * plane.elements
    usual = q.rounding is Rounding.EVEN and _saturates(c, q) and store.operations == NOTHING
    usual = usual and c.kernel == (3, 3) and plane.inner.n_out < 2**15
    usual = usual and largest(c, q).max() < 2**31
    weights = plane.weights[:, _BY_SXTB16] if usual else plane.weights
    return Tile(
        "dsp.small_planes",
        "dsp_small_planes.c.j2",
        c,
        constants(w=weights, b=bias_of(c, q), scale=q.factor),
        [Operand("plane", "int16_t", "scratch", bytes=size, planned=True)],
        store,
        {
            **numbers(plane.params),
            "outer": plane.outer.opened,
            "inner": plane.inner.opened,
            "apart": plane.phases > 1,
            "fill": q.x_zero_point,
            "store": store,
            "windows": (scale_text(q, "c"), q.y_zero_point) if usual else (),
        },
        cost=c.macs * 2.2 + c.pixels * c.oc * 26.0 + c.oc * 6.0 * c.inputs[0] * c.inputs[1],
        header="mlf/dsp_windows.h" if usual else "mlf/dsp_small.h",
        overtakes=plane.overtakes,
        small=True,
    )
