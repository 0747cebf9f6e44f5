"""int8 transposed convolutions whose windows touch but do not overlap: kernels as large as strides.

Then an output has the products of one kernel position, and each input pixel becomes a block of
outputs by itself: a product of a row with a matrix that has a column for each position and output
channel. Two pixels and four columns at a time share their loads, and no position has a condition.
"""

from __future__ import annotations

import math

import numpy as np

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Quantisation,
    fits_int32,
    has_normal_scales,
    pack_rows,
    packable,
    pad_rows,
    shape_of,
)
from mlftool.ops.scalar import Store, tensor_operand
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.tiles import Form

COLUMNS = 4


@kernel("mlf.QLinearConvTranspose", needs="", unless="fpu size")
def phases_in_integers(v: View) -> Kernel | None:
    return _phases(v, soft=True)


@kernel("mlf.QLinearConvTranspose", needs="fpu", unless="size")
def phases(v: View) -> Kernel | None:
    return _phases(v, soft=False)


def _phases(v: View, soft: bool) -> Kernel | None:
    if not packable(v):
        return None
    c = shape_of(v)
    if c.group != 1 or len(c.inputs) > 2 or c.kernel != c.strides or max(c.dilations) > 1:
        return None
    c, q = c.planar(), Quantisation.of(v)
    if any(o != n * s for o, n, s in zip(c.outputs, c.inputs, c.strides, strict=True)):
        return None
    if any(c.pads) or np.any(q.w_zero_point) or not fits_int32(c, q):
        return None
    if soft and not has_normal_scales(q):
        return None
    form = Form.of(c, q, soft)
    store = Store(v, f"({v.y.dtype.c})out", "at", "o")
    # [kernel row, kernel column, output channel, input channel]
    w = np.moveaxis(c.weights, 0, 2).reshape(-1, c.ic)
    bias = np.tile(c.bias, math.prod(c.kernel)).astype(np.int64)
    bias = bias - q.x_zero_point * w.astype(np.int64).sum(axis=1)
    return Kernel(
        "phases.blocked",
        "phases.c.j2",
        {
            "pixels": c.batch * math.prod(c.inputs),
            "rows": min(2, c.batch * math.prod(c.inputs)),
            "columns": COLUMNS,
            "ic": c.ic,
            "oc": c.oc,
            "width": c.inputs[1],
            "high": c.kernel[0],
            "wide": c.kernel[1] * c.oc,
            "form": form,
            "store": store,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("w", v.x(3).dtype.c, "const", array=pack_rows(w, COLUMNS)),
            Operand("b", "int32_t", "const", array=pad_rows(bias.astype(np.int32), COLUMNS)),
            *form.operands(1),
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
        ),
        cost=v.y.elements * (4.0 + 1.5 * c.ic),
        macs=v.y.elements * c.ic,
        includes=("mlf/kernel.h", "mlf/tiles.h", *store.includes),
        inplace=store.inplace,
    )
