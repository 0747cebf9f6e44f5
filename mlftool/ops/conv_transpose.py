"""Transposed convolution: each output element gathers the products that fall onto it.

Sums are bias + (products in the order kernel position, input channel), one running sum per element.
The quantised form, which ONNX does not have, reads what QLinearConv does: its sums are integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlftool.ir.dtype import int32, int64
from mlftool.ir.graph import View
from mlftool.ops.base import Contracts, Kernel, Layout, Operand, Trait, op
from mlftool.ops.contract_computed import spatial_axes
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    largest,
    requantize,
    scale_operand,
    shape_of,
)
from mlftool.ops.plain import float_of
from mlftool.ops.scalar import Store, literal, tensor_operand

Requantised = Callable[[Contraction, Quantisation, str, str], str]


@dataclass(frozen=True)
class _Sum:
    """The holes of the loop nest: an accumulator's type and first value, the factors of a product,
    and what is made of the sum."""

    type: str
    zero: str
    factors: tuple[str, str]  # "@" is the element
    finish: str
    operands: tuple[Operand, ...]


def _float(v: View, c: Contraction) -> _Sum:
    row, weights = float_of(v, v.y.dtype), v.const(1)
    bias = f"b[{'oc' if v.x(2).elements > 1 else 0}]" if v.has(2) else literal(0, row)
    w = tensor_operand(v.graph, "w", v.core.inputs[1])
    if weights is not None:
        w = Operand("w", row.c, "const", array=c.weights)
    b = (tensor_operand(v.graph, "b", v.core.inputs[2]),) if v.has(2) else ()
    return _Sum(row.c, literal(0, row), ("@", "@"), f"({bias} + acc)", (w, *b))


def _quantised(v: View, c: Contraction, requantised: Requantised) -> _Sum:
    """In int64 where an int32 might overflow."""
    q = Quantisation.of(v)
    row = int64 if largest(c, q).max(initial=0) >= 2**31 else int32
    w_zero = Operand("wz", "int32_t", "const", array=q.w_zero_point)
    minus = f" - wz[{'oc' if q.w_zero_point.size > 1 else 0}]" if np.any(q.w_zero_point) else ""
    operands = [
        Operand("w", v.x(3).dtype.c, "const", array=c.weights),
        Operand("b", row.c, "const", array=c.bias.astype(row.numpy)),
        scale_operand(q),
        *([w_zero] if minus else []),
    ]
    return _Sum(
        row.c,
        "b[oc]",
        (f"(({row.c})@ - ({q.x_zero_point}))", f"(({row.c})@{minus})"),
        f"({v.y.dtype.c}){requantised(c, q, 'acc', 'oc')}",
        tuple(operands),
    )


@op(
    "ConvTranspose",
    *(Trait.SPATIAL, Trait.EPILOGUE),
    contracts=Contracts(Layout.TRANSPOSED, bias=2, forward="Conv"),
    quantised="mlf.QLinearConvTranspose",
)
def conv_transpose(v: View) -> Kernel:
    return gathered(v, requantize)


def gathered(v: View, requantised: Requantised) -> Kernel:
    """Any number of spatial axes; constant weights are packed, others read as ONNX has them."""
    c = shape_of(v)
    total = _quantised(v, c, requantised) if c.quantised else _float(v, c)
    store = Store(v, total.finish, f"p * {c.oc} + oc", "oc")
    packed = total.operands[0].role == "const"
    area, ic = math.prod(c.kernel), c.ic // c.group
    x, w = total.factors
    step = "c" if packed else f"c * {c.oc // c.group * area}"
    return Kernel(
        "portable.conv_transpose",
        "conv_transpose.c.j2",
        {
            "axes": spatial_axes(c),
            "batch": c.batch,
            "channels": c.ic,
            "outputs": c.oc,
            "group": c.group,
            "ic": ic,
            "oc": c.oc // c.group,
            "area": area,
            "packed": packed,
            "type": total.type,
            "zero": total.zero,
            "step": f"acc += {x.replace('@', 'xp[c]')} * {w.replace('@', f'wp[{step}]')};",
            "store": store,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            *total.operands,
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
        ),
        cost=v.y.elements * area * (6.0 + 2 * ic),
        macs=math.prod(v.x(0).shape) * c.oc // c.group * area,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )


op(
    "mlf.QLinearConvTranspose",
    *(Trait.SPATIAL, Trait.EPILOGUE),
    contracts=Contracts(Layout.TRANSPOSED, 3, bias=8, y_scale=6, forward="QLinearConv"),
)(conv_transpose)
