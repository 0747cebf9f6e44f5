"""Computed bytes times a constant matrix of bytes in int32, as dynamic quantisation has them. The
bytes are rows of a matrix, or windows of a convolution, gathered unless they are dense.

The input's zero point is known only when the model runs, so the sum falls into three:

    sum((x - xz) * (w - wz)) = sum(x * w) - xz * sum(w - wz) - wz * sum(x)

The first is a product of bytes like that of other layers, the second a constant of each column, the
third one number for each row, needed only if the weights less their zero points are no bytes.
No sum leaves int32; parts of it may, so they are added as unsigned numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import of
from mlftool.ir.graph import Array, View
from mlftool.ir.holes import Number
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Stored,
    even_columns,
    geometry,
    pack_rows,
    pad_rows,
    shape_of,
)
from mlftool.ops.scalar import Store, around, read_by
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.dsp import MOST_TIMES, paired_of, quads_of
from mlftool.targets.kernels.helium import VECTOR, packed_of


@frozen
class Matrix:
    """Constant weights, int8 or all uint8, and what their zero points make of the other sums."""

    weights: Array  # [columns, depth]
    zeros: Array  # int32 [columns]
    sums: Array  # int32 [columns]: of weights less their zero points
    window: Contraction | None = None  # two-dimensional, where rows are gathered

    @property
    def depth(self) -> int:
        return int(self.weights.shape[1])

    @property
    def columns(self) -> int:
        return int(self.weights.shape[0])


def matrix_of(v: View, stored: type[np.int8] | type[np.uint8] = np.int8) -> Matrix | None:
    """The weights of the node as bytes of type `stored`; None where they or their zero points are
    computed, come in stacks, or rows have zero points of their own, or a sum could leave int32."""
    w, zero = v.const(1), v.const(3) if v.has(3) else np.zeros(1, np.int8)
    window = shape_of(v) if v.core.op == "ConvInteger" else None
    if w is None or zero is None or not w.size or not v.y.elements:
        return None
    if window is not None:
        if window.group > 1 or len(window.inputs) > 2:
            return None
        w, window = window.weights.reshape(window.oc, -1).T, window.planar()
    if w.ndim != 2:
        return None
    if not v.x(0).dtype.is_int8 or not v.x(1).dtype.is_int8:
        return None
    depth, columns = w.shape
    if zero.size != 1 and zero.shape not in ((columns,), (1, columns)):
        return None
    if (v.has(2) and v.x(2).elements != 1) or depth * 255 * 255 >= 2**31:
        return None
    wide = w.T.astype(np.int32)
    zeros = np.broadcast_to(zero.reshape(-1).astype(np.int32), (columns,))
    centred = wide - zeros[:, None]
    low, high = np.iinfo(stored).min, np.iinfo(stored).max
    if low <= centred.min() and centred.max() <= high:
        kept, zeros = centred, np.zeros(columns, np.int32)
    else:
        less = np.iinfo(w.dtype).min - low
        kept, zeros = wide - less, zeros - less
    sums = centred.sum(axis=1, dtype=np.int32)
    gathered = None if window is None or window.dense else window
    return Matrix(kept.astype(stored), zeros.astype(np.int32), sums, gathered)


@frozen
class Dot:
    """How the products of a row with `width` columns are added: a form that the template has."""

    name: str
    form: str
    width: int
    weights: Array
    each: float  # instructions for a product
    turn: int = 1  # rows are filled with zeros up to a multiple
    less: int = 0  # what the form subtracts from each byte of the input
    header: str = ""
    params: Mapping[str, Any] | None = None


def _kernel(v: View, m: Matrix, dot: Dot) -> Kernel:
    rows, x = v.y.elements // m.columns, v.x(0).dtype
    column = -(-m.depth // dot.turn) * dot.turn
    copies = column != m.depth or m.window is not None
    padded = -(-m.columns // dot.width) * dot.width
    rest = bool(m.zeros.any())
    known = bool(rest and (m.zeros == m.zeros[0]).all())
    constants = {"w": dot.weights, "sums": pad_rows(m.sums, dot.width)}
    if rest and not known:
        constants["wz"] = pad_rows(m.zeros, dot.width)
    entries = []
    for b in range(dot.width):
        channel = f"oc + {b}" if b else "oc"
        parts = f"(uint32_t)acc0{b} + less * (uint32_t)sums[{channel}]"
        if rest:
            parts += " + rest" if known else f" + rest * (uint32_t)wz[{channel}]"
        index = f"p * {Number(m.columns)} + {channel}"
        store = Store(v, f"(int32_t)({parts})", index, channel)
        guard = f"{channel} < {Number(m.columns)}" if b and m.columns % dot.width else ""
        entries.append(Stored(guard, index, store))
    store = entries[0].store
    scratch = Operand("columns", x.c, "scratch", bytes=column)
    return Kernel(
        f"{dot.name}.integer_products",
        "integer_products.c.j2",
        {
            **{"form": dot.form, "width": dot.width, "stores": entries, "copies": copies},
            **{"rows": rows, "depth": m.depth, "column": column, "oc": m.columns},
            "less": dot.less,
            "zero": "xz" if v.has(2) else "",
            "rest": rest,
            "factor": Number(int(m.zeros[0])) if known else "",
            "window": geometry(m.window) if m.window else None,
            **(dot.params or {}),
        },
        around(
            v,
            *read_by(v, {"xz": 2} if v.has(2) else {}),
            *(Operand(name, of(a).c, "const", array=a) for name, a in constants.items()),
            *store.operands,
            *([scratch] if copies else []),
        ),
        cost=rows * (column * (padded * dot.each + 3.0 * (copies + rest)) + padded * 10.0),
        macs=rows * m.columns * m.depth,
        includes=("mlf/kernel.h", *filter(None, (dot.header,)), *store.includes),
        inplace=store.inplace,
    )


def _panels(
    v: View, name: str, stored: type[np.int8] | type[np.uint8], most: int, each: float
) -> Kernel | None:
    """Up to `most` columns at a time, product by product."""
    m = matrix_of(v, stored)
    if m is None:
        return None
    width = even_columns(m.columns, most)
    steps = next(n for n in (4, 2, 1) if m.depth % n == 0)
    packed = pack_rows(m.weights, width)
    return _kernel(v, m, Dot(name, "panels", width, packed, each, params={"steps": steps}))


@kernel("MatMulInteger", needs="", unless="fpu registers narrow size")
@kernel("ConvInteger", needs="", unless="fpu registers narrow size")
@kernel("MatMulInteger", needs="registers", unless="size")
@kernel("ConvInteger", needs="registers", unless="size")
def panels(v: View) -> Kernel | None:
    """Four columns at a time, or fewer. Compilers make vectors of the portable loops where a
    processor has some: on x86-64 this takes three times as long."""
    return _panels(v, "panels", np.int8, 4, 3.3)


@kernel("MatMulInteger", needs="narrow", unless="size")
@kernel("ConvInteger", needs="narrow", unless="size")
def narrow(v: View) -> Kernel | None:
    """Two weights at a time, unsigned: these cores load bytes without their sign."""
    return _panels(v, "narrow", np.uint8, 2, 4.5)


@kernel("MatMulInteger", needs="dsp", unless="size")
@kernel("ConvInteger", needs="dsp", unless="size")
def paired(v: View) -> Kernel | None:
    """Four columns at a time, of which two share a halfword (dsp.py)."""
    m = matrix_of(v)
    words = paired_of(m.weights, v.x(0).dtype.range, 4, ordered=True) if m else None
    if m is None or words is None:
        return None
    rounds = -(-m.depth // 4)
    unroll = next(n for n in (MOST_TIMES, 6, 7, 5, 4, 3, 2, 1) if rounds % n == 0)
    params = {
        "bytes": "BYTES" if v.x(0).dtype.name == "int8" else "UNSIGNED",
        "unroll": unroll,
        "again": rounds > unroll,
    }
    dot = Dot("dsp.paired", "paired", 4, words, 1.05, turn=4, header="mlf/dsp.h", params=params)
    return _kernel(v, m, dot)


@kernel("MatMulInteger", needs="dsp", unless="size")
@kernel("ConvInteger", needs="dsp", unless="size")
def quads(v: View) -> Kernel | None:
    """The same of weights that cannot be paired, or of many products."""
    m = matrix_of(v)
    if m is None:
        return None
    w = np.ascontiguousarray(quads_of(m.weights, 4)).reshape(-1)
    signed = v.x(0).dtype.name == "int8"
    dot = Dot("dsp.quads", "quads", 4, w, 1.5, 4, header="mlf/dsp.h", params={"signed": signed})
    return _kernel(v, m, dot)


@kernel("MatMulInteger", needs="mve", unless="size")
@kernel("ConvInteger", needs="mve", unless="size")
def octets(v: View) -> Kernel | None:
    """Eight columns at a time, sixteen products of each (helium.py); bytes become signed there."""
    m = matrix_of(v)
    if m is None:
        return None
    unsigned = v.x(0).dtype.name == "uint8"
    groups = -(-m.depth // VECTOR)
    w = packed_of(m.weights, groups * VECTOR, VECTOR, 8)
    params = {"groups": groups, "of": "_u8" if unsigned else ""}
    less = 128 if unsigned else 0
    return _kernel(
        v, m, Dot("helium", "octets", 8, w, 0.15, VECTOR, less, "mlf/mve.h", params=params)
    )
