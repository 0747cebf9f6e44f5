"""int8 contractions with the ARMv7E-M DSP instructions for `optimize: size`.

The same packing and arithmetic as dsp.py and dsp_depthwise.py, but nothing is unrolled and
there are no special cases: a pointwise layer is a 1x1 window, a plane that fits is one band, and
all scratch is in the workspace. So texts hardly depend on the layer, and codegen/share.py makes one
function of all layers of a network.

Weights of four bits come two in a byte: masked and shifted to the upper half of a byte, SXTB16
gives sixteen times their value, so the accumulators hold sixteen times the sum.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ir.holes import Number, numbers
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, largest, requantize
from mlftool.ops.nibbles import are_nibbles, joined
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import WIDEN, entries_of, paired, quads
from mlftool.targets.kernels.dsp_depthwise import plane_of
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, constants, scale_of, walk

# A dense layer of fewer products takes the loop of convolutions, with its one pixel in both places.
FUNCTION_OF_ITS_OWN = 1024


@byte_kernel("dsp size", "mve", signed=True)
def small_pairs(c: Contraction, q: Quantisation) -> Tile | None:
    """Two pixels x two channels at a time, or one pixel x four."""
    rows, width = (1, 4) if c.pixels == 1 and c.macs >= FUNCTION_OF_ITS_OWN else (2, 2)
    ordered = c.ic % 4 == 0
    nibbles = are_nibbles(c, q) and 16 * int(largest(c, q).max(initial=0)) < 2**31
    w = paired_nibbles(c, width, ordered) if nibbles else paired(c, width, ordered)
    if w is None:
        return None
    entries, twice = entries_of(c, q, rows, width, None, always=True)
    store = entries[0].store
    column = -(-c.depth // 4) * 4
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * rows * column, planned=True)
    order = walk(c, rows, column, columns, store.operands)
    bias = bias_of(c, q, width) * (16 if nibbles else 1)
    end = -(-c.pixels // rows) * rows
    return Tile(
        "dsp.small_nibbles" if nibbles else "dsp.small_pairs",
        "dsp_small_pairs.c.j2",
        c,
        constants(w=w, b=bias, scale=scale_of(q, width)),
        order.scratch,
        store,
        {
            "rows": rows,
            "unroll": 1,
            "column": Number(column),
            "rest": Number(column - c.depth),
            "stores": entries,
            "widen": WIDEN[ordered],
            "fill": q.x_zero_point,
            "nibbles": nibbles,
            "order": tuple(
                Number(n)
                for n in ((end - rows, -rows, -rows) if order.backwards else (0, end, rows))
            ),
            "twice": twice,
        },
        cost=c.macs * (1.25 if nibbles else 1.0) + c.pixels * (c.oc * 26.0 + c.depth * 7.0),
        header=_header(nibbles, rows),
        walk=order,
        small=True,
    )


def _header(nibbles: bool, rows: int) -> str:
    """Where the sums of so many pixels are."""
    return f"mlf/dsp{'_nibbles' if nibbles else '_pairs' if rows == 2 else ''}.h"


def paired_nibbles(c: Contraction, width: int, ordered: bool) -> Array:
    """uint32 [OC/width, K/4, width/2]: four weights of one channel in the upper halves of the
    bytes, of the next in the lower ones, in the order in which SXTB16 meets the widened input."""
    w = quads(c, width)
    both = joined(w[:, :, 1::2], w[:, :, ::2])
    both = both if ordered else both[..., [0, 2, 1, 3]]
    words = (both.astype(np.uint32) << np.array([0, 8, 16, 24], np.uint32)).sum(axis=-1)
    return np.ascontiguousarray(words.astype(np.uint32)).reshape(-1)


@byte_kernel("dsp size", depthwise=True, signed=True)
def small_planes(c: Contraction, q: Quantisation) -> Tile | None:
    """Depthwise, channel by channel and output by output."""
    plane = plane_of(c) if c.batch == 1 else None
    if plane is None:
        return None
    store = Store(c.v, f"({c.v.y.dtype.c}){requantize(c, q, 'acc', 'c')}", "o", "c")
    size = 2 * plane.elements
    return Tile(
        "dsp.small_planes",
        "dsp_small_planes.c.j2",
        c,
        constants(w=plane.weights, b=bias_of(c, q), scale=q.factor),
        [Operand("plane", "int16_t", "scratch", bytes=size, planned=True)],
        store,
        {
            **numbers(plane.params),
            "outer": plane.outer.opened,
            "inner": plane.inner.opened,
            "fill": q.x_zero_point,
            "store": store,
        },
        cost=c.macs * 2.2 + c.pixels * c.oc * 26.0 + c.oc * 6.0 * c.inputs[0] * c.inputs[1],
        header="mlf/dsp.h",
        overtakes=plane.overtakes,
        small=True,
    )
