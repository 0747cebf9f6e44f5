"""int8 contractions with Helium, the vector unit of Cortex-M55: sixteen products an instruction.

VMLADAVA multiplies sixteen pairs of bytes and adds them to one register, so the operands of two
pixels are gathered into bytes that lie together, and weights are packed for four channels in turns
of sixteen: six loads for eight times sixteen products. Depthwise layers have neighbouring channels
in the lanes. helium_finish.py requantises eight sums at once.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    contraction,
    fits_int32,
    geometry,
    pad_rows,
)
from mlftool.ops.scalar import tensor_operand
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.dsp import prepare
from mlftool.targets.kernels.dsp_pairs import (
    STACK_LIMIT_BYTES,
    distances,
    distances_while_reading,
)
from mlftool.targets.kernels.helium_finish import Shape, finish

BYTES = 16  # of a vector
FAR = 127  # bytes from a pointer that a load reaches


def _packed(c: Contraction, column: int) -> Array:
    """[OC/4, K/16, 4, 16], zeros added."""
    w = pad_rows(c.weights.reshape(c.oc, -1), 4)
    w = np.pad(w, ((0, 0), (0, column - w.shape[1])))
    turns = w.reshape(-1, 4, column // BYTES, BYTES).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(turns).reshape(-1)


@kernel("QLinearConv", "com.microsoft.QGemm", needs="mve")
def quads(v: View) -> Kernel | None:
    """Two pixels x four channels at a time."""
    prepared = prepare(v)
    if prepared is None:
        return None
    c, q = prepared
    rows = min(c.pixels, 2)
    column = -(-c.depth // BYTES) * BYTES
    count = f"mlf_min_i32(4, {c.oc} - oc)" if c.oc % 4 else "4"
    f = finish(c, q, Shape("pair" if rows == 2 else "one", "oc", count))
    read = v.core.inputs[0]
    scratch = Operand("columns", "int8_t", "scratch", bytes=rows * column)
    # A long dense layer reads its input as it is, rather than take the arena for a copy.
    direct = rows == 1 and c.dense and column == c.depth and column > STACK_LIMIT_BYTES
    again = direct or any(o.value == read for o in f.operands)
    # An output that grows faster than the input is read goes from its end to its beginning.
    backwards = c.oc * c.pixels > c.ic * c.inputs[0] * c.inputs[1] * c.batch
    return Kernel(
        "helium.quads",
        "helium.c.j2",
        {
            **geometry(c),
            "column": column,
            "rows": rows,
            "fill": q.x_zero_point,
            "f": f,
            "direct": direct,
            "backwards": backwards and c.pixels > rows,
        },
        (
            tensor_operand(v.graph, "x", read),
            Operand("w", "int8_t", "const", array=_packed(c, column)),
            *f.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            *(() if direct else (scratch,)),
        ),
        cost=c.pixels * (c.oc * (column * 0.12 + 4.0) + column * 0.3),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/mve.h", *f.includes),
        inplace=f.inplace,
        overlap={} if again else {read: distances(c, rows, backwards)},
    )


@kernel("QLinearConv", needs="mve")
def octets(v: View) -> Kernel | None:
    """Depthwise: eight channels at a time, all taps of a pixel."""
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2:
        return None
    c = c.planar()
    q = Quantisation.of(v)
    signed = v.x(0).dtype.name == "int8" and v.known(3).dtype == np.int8
    if not signed or np.any(q.w_zero_point) or not fits_int32(c, q):
        return None
    f = finish(c, q, Shape("octet", "c", "n" if c.oc % 8 else "8"))
    w = pad_rows(c.weights.reshape(c.oc, -1), 8)  # -> [C/8, taps, 8]
    w = np.ascontiguousarray(w.reshape(-1, 8, w.shape[1]).transpose(0, 2, 1)).reshape(-1)
    read = v.core.inputs[0]
    again = any(o.value == read for o in f.operands)
    reach = (c.kernel[1] - 1) * c.dilations[1] + 1
    scratch = Operand("window", "int8_t", "scratch", bytes=c.kernel[0] * reach * c.ic)
    step = c.dilations[1] * c.ic
    return Kernel(
        "helium.octets",
        "helium_depthwise.c.j2",
        {
            **geometry(c),
            "fill": q.x_zero_point,
            "f": f,
            "reach": reach,
            "unrolled": c.kernel[0] <= 5 and c.kernel[1] <= 5,
            # An instruction reaches 127 bytes to either side of a pointer, so it stands between.
            "centre": step if step <= FAR and c.kernel[1] > 1 else 0,
        },
        (
            tensor_operand(v.graph, "x", read),
            Operand("w", "int8_t", "const", array=w),
            *f.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            *((scratch,) if c.padded else ()),
        ),
        cost=c.macs * 0.75 + c.pixels * (c.oc * 3.0 + 50),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/mve.h", *f.includes),
        inplace=f.inplace,
        overlap={} if again else {read: distances_while_reading(c)},
    )
