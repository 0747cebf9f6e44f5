"""int8 contractions with the ARMv7E-M DSP instructions where code bytes count (`optimize: size`).

The same packing and arithmetic as dsp_pairs.py and dsp_depthwise.py, but nothing is unrolled and no
case has code of its own: a pointwise layer is a window of one, a plane that fits is taken in one
band, scratch lies in the workspace however small it is. So texts depend on next to nothing, and
codegen/share.py makes one function of all layers of a network.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    contraction,
    fits_int32,
    folded_bias,
    geometry,
    pad_rows,
    requantize,
    scale_operand,
)
from mlftool.ops.scalar import Store, tensor_operand
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.dsp import prepare
from mlftool.targets.kernels.dsp_depthwise import MOST_TAPS, axes, overtakes, plane_of
from mlftool.targets.kernels.dsp_pairs import STACK_LIMIT_BYTES, distances, entries_of, paired

# A dense layer of fewer products takes the loop of convolutions, with its one pixel in both places.
FUNCTION_OF_ITS_OWN = 1024


@kernel("QLinearConv", "com.microsoft.QGemm", needs="dsp size")
def small_pairs(v: View) -> Kernel | None:
    """Two pixels x two channels at a time, or one pixel x four."""
    prepared = prepare(v)
    if prepared is None:
        return None
    c, q = prepared
    rows, width = (1, 4) if c.pixels == 1 and c.macs >= FUNCTION_OF_ITS_OWN else (2, 2)
    ordered = c.ic % 4 == 0
    w, largest = paired(c, width, ordered), np.abs(c.weights.reshape(c.oc, -1).astype(int))
    if w is None or 128 * largest.sum(axis=1).max() >= 2**23:
        return None
    entries = entries_of(c, q, rows, width, lambda a, ch: requantize(c, q, a, ch), always=True)
    store = entries[0]["store"]
    column = -(-c.depth // 4) * 4
    scratch = Operand("columns", "int16_t", "scratch", bytes=2 * rows * column, planned=True)
    direct = rows == 1 and c.dense and c.depth % 4 == 0 and scratch.bytes > STACK_LIMIT_BYTES
    scale = q.scale if q.scale.size == 1 else pad_rows(q.scale, width)
    read = v.core.inputs[0]
    again = direct or any(o.value == read for o in store.operands)
    backwards = c.oc * c.pixels > c.ic * c.inputs[0] * c.inputs[1] * c.batch
    steps = -(-c.pixels // rows)
    order = (steps * rows - rows, -rows, -rows) if backwards else (0, steps * rows, rows)
    return Kernel(
        "dsp.small_pairs",
        "dsp_small_pairs.c.j2",
        {
            **geometry(c),
            "rows": rows,
            "column": column,
            "rest": column - c.depth,
            "stores": entries,
            "widen": "mlf_widen_s8_pairs" if ordered else "mlf_widen_s8",
            "fill": q.x_zero_point,
            "direct": direct,
            "order": order,
            "twice": any("q1 *" in e["index"] for e in entries),
        },
        (
            tensor_operand(v.graph, "x", read),
            Operand("w", "uint32_t", "const", array=w),
            Operand("b", "int32_t", "const", array=_bias(c, q, width)),
            Operand("scale", "float", "const", array=scale),
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            *(() if direct else (scratch,)),
        ),
        cost=c.macs * 0.6 + c.pixels * c.oc * 3.0,  # below the kernels that are written for speed
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=store.inplace,
        overlap={} if again else {read: distances(c, rows, backwards)},
        parametric=True,
    )


def _bias(c: Contraction, q: Quantisation, width: int) -> np.ndarray:
    return pad_rows(folded_bias(c, q).astype(np.int32), width)


@kernel("QLinearConv", needs="dsp size")
def small_planes(v: View) -> Kernel | None:
    """Depthwise, channel by channel and output by output."""
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2 or c.batch > 1:
        return None
    c = c.planar()
    q = Quantisation.of(v)
    signed = v.x(0).dtype.name == "int8" and v.known(3).dtype == np.int8
    taps = c.kernel[0] * c.kernel[1]
    plain = max(c.dilations) == 1 and max(c.strides) <= 4 and taps <= MOST_TAPS
    if not (signed and plain) or np.any(q.w_zero_point) or not fits_int32(c, q):
        return None
    outer, inner = axes(c)
    width, height, band = plane_of(outer, inner)
    w = c.weights.reshape(c.oc, *c.kernel)
    w = np.moveaxis(w, 1, 2) if inner.x != c.ic else w
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
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("w", "int8_t", "const", array=np.ascontiguousarray(w).reshape(c.oc, taps)),
            Operand("b", "int32_t", "const", array=folded_bias(c, q).astype(np.int32)),
            scale_operand(q),
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            Operand("plane", "int16_t", "scratch", bytes=2 * width * height, planned=True),
        ),
        cost=c.macs * 0.3 + c.pixels * c.oc * 3.0,
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=(*store.inplace, *over),
        parametric=True,
    )
