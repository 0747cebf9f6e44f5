"""int8 contractions with the ARMv7E-M DSP instructions, for weights that dsp_pairs.py cannot take.

The operands of two output pixels are widened to int16 once; then every four weights of two output
channels cost two loads and four SXTB16, and eight SMLAD do the sixteen products. SXTB16 takes bytes
0 and 2, then 1 and 3; weights are packed so that this is the order of the widened pixels. A dense
layer has one pixel, nothing to widen for, and treats its input as it does its weights.
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
    pad_rows,
    scale_operand,
    stores,
)
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.parts import bytes_of, operands


def _pack(c: Contraction, width: int, order: list[int]) -> Array:
    """[OC/width, K/4, width, 4] with each four bytes in `order`, zeros added."""
    w = pad_rows(c.weights.reshape(c.oc, -1), width)
    w = np.concatenate([w, np.zeros((w.shape[0], -w.shape[1] % 4), w.dtype)], axis=1)
    quads = w.reshape(-1, width, w.shape[1] // 4, 4)[..., order]
    return np.ascontiguousarray(quads.transpose(0, 2, 1, 3)).reshape(-1)


def _constants(c: Contraction, q: Quantisation, width: int, order: list[int]) -> list[Operand]:
    return [
        Operand("w", "int8_t", "const", array=_pack(c, width, order)),
        Operand("b", "int32_t", "const", array=pad_rows(folded_bias(c, q).astype(np.int32), width)),
        scale_operand(q, width),
    ]


@kernel("QLinearConv", "com.microsoft.QGemm", needs="dsp")
def two_by_two(v: View) -> Kernel | None:
    """Two pixels x two channels at a time; wants more than one pixel."""
    found = bytes_of(v, signed=True)
    if found is None or found[0].pixels < 2:
        return None
    c, q = found
    entries = stores(c, q, 2, 2, 2)
    store = entries[0].store
    column = -(-c.depth // 4) * 4
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * 2 * column)
    return Kernel(
        "dsp.two_by_two",
        "dsp_two_by_two.c.j2",
        {
            **geometry(c),
            "column": column,
            "stores": entries,
            "fill": q.x_zero_point,
            "run": c.depth if c.dense else c.kernel[1] * c.ic,
            "unroll": 4 if column % 16 == 0 else 2,
        },
        operands(v, _constants(c, q, 2, [0, 2, 1, 3]), store.operands, [columns]),
        cost=c.macs * 1.3 + c.pixels * (c.oc * 20.0 + c.depth * 2.5),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=store.inplace,
    )


@kernel("com.microsoft.QGemm", "QLinearConv", needs="dsp")
def rows_of_four(v: View) -> Kernel | None:
    """One pixel with contiguous operands (a dense layer): four channels at a time."""
    found = bytes_of(v, signed=True)
    if found is None:
        return None
    c, q = found
    if c.pixels != 1 or not c.dense or c.depth % 4:
        return None
    entries = stores(c, q, 1, 4, 4)
    store = entries[0].store
    return Kernel(
        "dsp.rows_of_four",
        "dsp_rows_of_four.c.j2",
        {**geometry(c), "stores": entries},
        operands(v, _constants(c, q, 4, [0, 1, 2, 3]), store.operands, []),
        cost=c.macs * 1.7 + c.oc * 14.0,
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=store.inplace,
    )
