"""int8 contractions with the ARMv7E-M DSP instructions for `optimize: size`.

The same packing and arithmetic as dsp_pairs.py and dsp_depthwise.py, but nothing is unrolled and
there are no special cases: a pointwise layer is a 1x1 window, a plane that fits is one band, and
all scratch is in the workspace. So texts hardly depend on the layer, and codegen/share.py makes one
function of all layers of a network.

Weights of four bits come two in a byte: masked and shifted to the upper half of a byte, SXTB16
gives sixteen times their value, so the accumulators hold sixteen times the sum.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    folded_bias,
    geometry,
    largest,
    pad_rows,
    requantize,
    scale_operand,
)
from mlftool.ops.nibbles import are_nibbles, joined
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.dsp_depthwise import axes, overtakes, plane_of, takes_taps
from mlftool.targets.kernels.dsp_pairs import WIDEN, entries_of, paired
from mlftool.targets.kernels.parts import bytes_of, operands, walk

# A dense layer of fewer products takes the loop of convolutions, with its one pixel in both places.
FUNCTION_OF_ITS_OWN = 1024


@kernel("QLinearConv", "com.microsoft.QGemm", needs="dsp size", unless="mve")
def small_pairs(v: View) -> Kernel | None:
    """Two pixels x two channels at a time, or one pixel x four."""
    found = bytes_of(v, signed=True)
    if found is None:
        return None
    c, q = found
    rows, width = (1, 4) if c.pixels == 1 and c.macs >= FUNCTION_OF_ITS_OWN else (2, 2)
    ordered = c.ic % 4 == 0
    nibbles = are_nibbles(c, q) and 16 * int(largest(c, q).max(initial=0)) < 2**31
    w = paired_nibbles(c, width, ordered) if nibbles else paired(c, width, ordered)
    most = np.abs(c.weights.reshape(c.oc, -1).astype(int)).sum(axis=1).max()
    if w is None or (not nibbles and 128 * most >= 2**23):
        return None
    entries, twice = entries_of(
        c, q, rows, width, lambda a, ch: requantize(c, q, a, ch), always=True
    )
    store = entries[0].store
    column = -(-c.depth // 4) * 4
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * rows * column, planned=True)
    order = walk(c, rows, column, columns, store.operands)
    end = -(-c.pixels // rows) * rows
    return Kernel(
        "dsp.small_nibbles" if nibbles else "dsp.small_pairs",
        "dsp_small_pairs.c.j2",
        {
            **geometry(c),
            "rows": rows,
            "column": column,
            "rest": column - c.depth,
            "stores": entries,
            "widen": WIDEN[ordered],
            "fill": q.x_zero_point,
            "direct": order.direct,
            "nibbles": nibbles,
            "order": (end - rows, -rows, -rows) if order.backwards else (0, end, rows),
            "twice": twice,
        },
        operands(
            v,
            (
                Operand("w", "uint32_t", "const", array=w),
                Operand("b", "int32_t", "const", array=_bias(c, q, width, nibbles)),
                scale_operand(q, width),
            ),
            store.operands,
            order.scratch,
        ),
        cost=c.macs * (1.25 if nibbles else 1.0) + c.pixels * (c.oc * 26.0 + c.depth * 7.0),
        compact=True,
        macs=c.macs,
        includes=(
            *("mlf/kernel.h", "mlf/dsp_nibbles.h" if nibbles else "mlf/dsp.h"),
            *store.includes,
        ),
        inplace=store.inplace,
        overlap=order.overlap,
        parametric=True,
    )


def _bias(c: Contraction, q: Quantisation, width: int, nibbles: bool) -> Array:
    bias = pad_rows(folded_bias(c, q).astype(np.int32), width)
    return bias * 16 if nibbles else bias


def paired_nibbles(c: Contraction, width: int, ordered: bool) -> Array:
    """uint32 [OC/width, K/4, width/2]: four weights of one channel in the upper halves of the
    bytes, of the next in the lower ones, in the order in which SXTB16 meets the widened input."""
    w = pad_rows(c.weights.reshape(c.oc, -1), width)
    w = np.concatenate([w, np.zeros((w.shape[0], -w.shape[1] % 4), w.dtype)], axis=1)
    both = joined(w[1::2], w[::2]).reshape(w.shape[0] // 2, -1, 4)
    both = both if ordered else both[..., [0, 2, 1, 3]]
    words = (both.astype(np.uint32) << np.array([0, 8, 16, 24], np.uint32)).sum(axis=-1)
    shuffled = words.astype(np.uint32).reshape(-1, width // 2, words.shape[1])
    return np.ascontiguousarray(shuffled.transpose(0, 2, 1)).reshape(-1)


@kernel("QLinearConv", needs="dsp size")
def small_planes(v: View) -> Kernel | None:
    """Depthwise, channel by channel and output by output."""
    found = bytes_of(v, depthwise=True, signed=True)
    if found is None or found[0].batch > 1 or not takes_taps(found[0]):
        return None
    c, q = found
    taps = c.kernel[0] * c.kernel[1]
    outer, inner = axes(c)
    width, height, band = plane_of(outer, inner)
    w = c.weights.reshape(c.oc, *c.kernel)
    w = np.moveaxis(w, 1, 2) if inner.is_rows else w
    store = Store(v, f"({v.y.dtype.c}){requantize(c, q, 'acc', 'c')}", "o", "c")
    over = (v.core.inputs[0],) if overtakes(c, outer, inner, band) and not store.operands else ()
    return Kernel(
        "dsp.small_planes",
        "dsp_small_planes.c.j2",
        {
            "channels": c.oc,
            "taps": taps,
            "outer": outer,
            "inner": inner,
            "width": width,
            "height": height,
            "band": band,
            "keep": max(0, outer.k - outer.s) if band < outer.n_out else 0,
            "fill": q.x_zero_point,
            "store": store,
        },
        operands(
            v,
            (
                Operand("w", "int8_t", "const", array=np.ascontiguousarray(w).reshape(c.oc, taps)),
                Operand("b", "int32_t", "const", array=folded_bias(c, q).astype(np.int32)),
                scale_operand(q),
            ),
            store.operands,
            [Operand("plane", "int16_t", "scratch", bytes=2 * width * height, planned=True)],
        ),
        cost=c.macs * 2.2 + c.pixels * c.oc * 26.0 + c.oc * 6.0 * c.inputs[0] * c.inputs[1],
        compact=True,
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=(*store.inplace, *over),
        parametric=True,
    )
