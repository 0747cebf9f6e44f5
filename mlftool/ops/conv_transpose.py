"""Transposed convolution: each output element gathers the products that fall onto it.

Sums are bias + (products in the order kernel position, input channel), one running sum per element.
"""

from __future__ import annotations

import math

import numpy as np

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, Trait, op
from mlftool.ops.plain import float_of
from mlftool.ops.scalar import Store, literal, tensor_operand


@op("ConvTranspose", Trait.SPATIAL, Trait.EPILOGUE)
def conv_transpose(v: View) -> Kernel:
    """Any number of spatial axes; constant weights are packed, others read as ONNX has them."""
    row, (shape, out) = float_of(v, v.y.dtype), (v.x(0).shape, v.y.shape)
    rank, group = len(shape) - 2, v.attr("group", 1)
    ic, oc, kernel = shape[-1] // group, out[-1] // group, v.x(1).shape[2:]
    area, weights = math.prod(kernel), v.const(1)
    bias = f"b[{'oc' if v.x(2).elements > 1 else 0}]" if v.has(2) else literal(0, row)
    store = Store(v, f"({bias} + acc)", f"p * {out[-1]} + oc", "oc")
    if weights is None:
        w = tensor_operand(v.graph, "w", v.core.inputs[1])
    else:
        packed = weights.reshape(group, ic, oc, area).transpose(0, 2, 3, 1)  # [g][oc][k][ic]
        w = Operand("w", row.c, "const", array=np.ascontiguousarray(packed))
    b = (tensor_operand(v.graph, "b", v.core.inputs[2]),) if v.has(2) else ()
    macs = math.prod(shape) * oc * area
    return Kernel(
        "portable.conv_transpose",
        "conv_transpose.c.j2",
        {
            "axes": [
                {
                    "k": k,
                    "n": shape[k + 1],
                    "o": out[k + 1],
                    "kernel": kernel[k],
                    "stride": v.attr("strides")[k],
                    "dilation": v.attr("dilations")[k],
                    "pad": v.attr("pads")[k],
                }
                for k in range(rank)
            ],
            "batch": shape[0],
            "channels": shape[-1],
            "outputs": out[-1],
            "group": group,
            "ic": ic,
            "oc": oc,
            "area": area,
            "packed": weights is not None,
            "zero": literal(0, row),
            "store": store,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            w,
            *b,
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
        ),
        cost=v.y.elements * area * (6.0 + 2 * ic),
        macs=macs,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )
