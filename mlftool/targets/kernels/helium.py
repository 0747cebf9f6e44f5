"""int8 contractions with Helium, the vector unit of Cortex-M55: sixteen products an instruction.

VMLADAVA multiplies sixteen pairs of bytes and adds them to one register, so the operands of a pixel
are gathered into bytes that lie together, and weights are packed for four channels in turns of
sixteen. Four sums then become one vector and are requantised together; the integer form of
ops/fixed.py is VMULH, VADD and VSHL. Depthwise layers have neighbouring channels in the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlftool.ir.graph import Array, View
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
from mlftool.ops.fixed import fixed
from mlftool.ops.scalar import Store, tensor_operand
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.dsp import prepare
from mlftool.targets.kernels.dsp_pairs import (
    STACK_LIMIT_BYTES,
    distances,
    distances_while_reading,
)

BYTES = 16  # of a vector


@dataclass(frozen=True)
class _Finish:
    """What becomes of a vector of accumulators: `text` turns it into stored values at once; `store`
    does element by element, for all of them if there is no text, else for those in `rest`."""

    text: str | None
    store: Store | None
    operands: tuple[Operand, ...]
    includes: tuple[str, ...] = ()
    inplace: tuple[str, ...] = ()


def _finish(c: Contraction, q: Quantisation, kind: str, width: int, first: str) -> _Finish:
    """For vectors of `kind` (quad or octet) of `width` channels, of which `first` is the first."""
    bias = folded_bias(c, q).astype(np.int32)
    b = Operand("b", "int32_t", "const", array=_lanes(bias, kind))
    lane, index = {"quad": "sums[i]", "octet": "sums[i / 2 + i % 2 * 4]"}[kind], f"{first} + i"
    value = f"({c.v.y.dtype.c}){requantize(c, q, lane, index)}"
    store = Store(c.v, value, f"p * {c.oc} + {index}", index)
    fix = fixed(c, q)
    if fix is None or store.ops:
        operands = (b, scale_operand(q), *store.operands)
        return _Finish(None, store, operands, store.includes, store.inplace)
    text = f"mlf_{kind}_requantize(acc, m + {first}, {fix.add}, {fix.shift}, {fix.lo}, {fix.hi})"
    m = Operand("m", "int32_t", "const", array=_lanes(fix.multiplier, kind))
    if not fix.exact.any():
        return _Finish(text, None, (b, m))
    rest = Operand("rest", "uint8_t", "const", array=_bits(fix.exact, width))
    return _Finish(text, store, (b, m, rest, scale_operand(q)))


def _bits(flags: Array, width: int) -> Array:
    """One byte for `width` channels, the first in its lowest bit."""
    rows = pad_rows(flags.astype(np.uint8), width).reshape(-1, width)
    return np.asarray((rows << np.arange(width)).sum(axis=1).astype(np.uint8))


def _lanes(values: Array, kind: str) -> Array:
    """Channel values in the order of lanes, zeros added."""
    if kind == "quad":
        return pad_rows(values, 4)
    padded = pad_rows(values, 8)
    return np.ascontiguousarray(padded.reshape(-1, 4, 2).transpose(0, 2, 1)).reshape(-1)


def _packed(c: Contraction, column: int) -> Array:
    """[OC/4, K/16, 4, 16], zeros added."""
    w = pad_rows(c.weights.reshape(c.oc, -1), 4)
    w = np.pad(w, ((0, 0), (0, column - w.shape[1])))
    turns = w.reshape(-1, 4, column // BYTES, BYTES).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(turns).reshape(-1)


@kernel("QLinearConv", "com.microsoft.QGemm", needs="mve")
def quads(v: View) -> Kernel | None:
    """One pixel x four channels at a time."""
    prepared = prepare(v)
    if prepared is None:
        return None
    c, q = prepared
    column = -(-c.depth // BYTES) * BYTES
    finish = _finish(c, q, "quad", 4, "oc")
    read = v.core.inputs[0]
    scratch = Operand("columns", "int8_t", "scratch", bytes=column)
    # A long dense layer reads its input as it is, rather than take the arena for a copy.
    direct = c.pixels == 1 and c.dense and column == c.depth and column > STACK_LIMIT_BYTES
    again = direct or any(o.value == read for o in finish.operands)
    # An output that grows faster than the input is read goes from its end to its beginning.
    backwards = c.oc * c.pixels > c.ic * c.inputs[0] * c.inputs[1] * c.batch
    return Kernel(
        "helium.quads",
        "helium.c.j2",
        {
            **geometry(c),
            "column": column,
            "fill": q.x_zero_point,
            "requantised": finish.text,
            "store": finish.store,
            "direct": direct,
            "backwards": backwards and c.pixels > 1,
        },
        (
            tensor_operand(v.graph, "x", read),
            Operand("w", "int8_t", "const", array=_packed(c, column)),
            *finish.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            *(() if direct else (scratch,)),
        ),
        cost=c.pixels * (c.oc * (column * 0.15 + 5.0) + column * 0.3),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/mve.h", *finish.includes),
        inplace=finish.inplace,
        overlap={} if again else {read: distances(c, 1, backwards)},
    )


@kernel("QLinearConv", needs="mve")
def octets(v: View) -> Kernel | None:
    """Depthwise: eight channels at a time, all taps of a pixel. A tap outside the input reads a row
    of zero points."""
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2:
        return None
    c = c.planar()
    q = Quantisation.of(v)
    signed = v.x(0).dtype.name == "int8" and v.known(3).dtype == np.int8
    if not signed or np.any(q.w_zero_point) or not fits_int32(c, q):
        return None
    finish = _finish(c, q, "octet", 8, "c")
    w = pad_rows(c.weights.reshape(c.oc, -1), 8)  # -> [C/8, taps, 8]
    w = np.ascontiguousarray(w.reshape(-1, 8, w.shape[1]).transpose(0, 2, 1)).reshape(-1)
    read = v.core.inputs[0]
    again = any(o.value == read for o in finish.operands)
    outside = (Operand("outside", "int8_t", "scratch", bytes=c.oc),) if c.padded else ()
    return Kernel(
        "helium.octets",
        "helium_depthwise.c.j2",
        {
            **geometry(c),
            "fill": q.x_zero_point,
            "requantised": finish.text,
            "store": finish.store,
        },
        (
            tensor_operand(v.graph, "x", read),
            Operand("w", "int8_t", "const", array=w),
            *finish.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            *outside,
        ),
        cost=c.macs * 1.1 + c.pixels * (c.oc * 3.0 + 40),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/mve.h", *finish.includes),
        inplace=finish.inplace,
        overlap={} if again else {read: distances_while_reading(c)},
    )
