"""Convolutions whose weights or quantisation are computed: the loops of `any_rank`, reading ONNX's
layout of the weights and whatever parameters there are as they lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlftool.ir.dtype import int32
from mlftool.ir.graph import View
from mlftool.ir.holes import Number, numbers
from mlftool.ir.operations import Operations, of_text
from mlftool.onnx_rules.boxes import OF_BATCHES
from mlftool.onnx_rules.windows import spelt_window
from mlftool.ops.base import Contracts, Kernel, Layout, Operand, Trait, UnsupportedError, op
from mlftool.ops.contraction import Contraction, auto_pad, fitting_weights, shape_of
from mlftool.ops.scalar import Store, around, literal, tensor_operand


def spatial_axes(c: Contraction) -> list[dict[str, int]]:
    """Geometry of each spatial axis, by the names the template uses."""
    axes = zip(c.inputs, c.outputs, c.kernel, c.strides, c.dilations, c.pads, strict=True)
    return [
        {
            "k": i,
            **numbers({"n": n, "o": o, "kernel": kernel, "stride": s, "dilation": d, "pad": p}),
        }
        for i, (n, o, kernel, s, d, p) in enumerate(axes)
    ]


def computed(v: View) -> Kernel:
    """Conv of any type that C has, ConvInteger and QLinearConv."""
    c, name = shape_of(v), v.core.op
    at = {"w": 3, "xz": 2, "wz": 5, "b": 8} if name == "QLinearConv" else {"w": 1, "b": 2}
    at = {"w": 1, "xz": 2, "wz": 3} if name == "ConvInteger" else at
    row = int32 if name != "Conv" else v.y.dtype
    if row.packed or row.codec:
        raise UnsupportedError(f"{name} on {row}; supported: types that C has, 16-bit floats")
    if name != "Conv" and not (v.x(0).dtype.is_int8 and v.x(at["w"]).dtype.is_int8):
        raise UnsupportedError(f"{name} of {v.x(0).dtype}; supported: int8, uint8")
    finish = "(b[oc] + acc)" if name == "Conv" else "acc"
    if name == "QLinearConv":
        at |= {"xs": 1, "ws": 4, "ys": 6, "yz": 7}
        scale = f"xs[0] * ws[{'oc' if v.x(4).elements > 1 else 0}] / ys[0]"
        lo, hi = v.attr("activation", v.y.dtype.range)
        # A bias of any size: the sum wraps around, as onnxruntime's does.
        total = "(int32_t)((uint32_t)acc + (uint32_t)b[oc])" if v.has(8) else "acc"
        finish = f"({v.y.dtype.c})mlf_requantize_wide({total}, {scale}, yz[0], {lo}, {hi})"
    store = Store(v, finish, f"p * {c.oc} + oc", "oc")
    given = {n: i for n, i in at.items() if v.has(i)}
    channel = "oc" if "wz" in given and v.x(given["wz"]).elements > 1 else "0"
    operands = [tensor_operand(v.graph, n, v.core.inputs[i]) for n, i in given.items()]
    if "b" not in given and name == "Conv":
        operands.append(Operand("b", row.c, "const", array=np.zeros(c.oc, row.numpy)))
    return plain_loops(
        c,
        "portable.computed_weights",
        store,
        operands,
        of_text("a * b + c", row),
        quantised=name != "Conv",
        row=row.c,
        start=literal(0, row),
        zero_point="(int32_t)xz[0]" if "xz" in given else "0",
        minus=f" - (int32_t)wz[{channel}]" if "wz" in given else "",
        onnx=True,
    )


def plain_loops(
    c: Contraction,
    name: str,
    store: Store,
    operands: list[Operand],
    each: Operations,
    **params: Any,
) -> Kernel:
    """The loops of any rank over `operands`; `each`: the operations on floats of a product."""
    shape = numbers({"batch": c.batch, "ic": c.ic, "oc": c.oc, "area": math.prod(c.kernel)})
    return Kernel(
        name,
        "contract_any.c.j2",
        {"axes": spatial_axes(c), **shape, "group": Number(c.group), "store": store, **params},
        around(c.v, *operands, *store.operands),
        cost=c.macs * 8.0 + c.pixels * c.oc * 20.0,
        operations=c.macs * each,
        macs=c.macs,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )


op(
    "ConvInteger",
    *(Trait.KEPT, Trait.SPATIAL, Trait.EPILOGUE),
    contracts=Contracts(Layout.CONVOLUTION),
    checks=(auto_pad, fitting_weights),
    resolve=spelt_window,
    extents=OF_BATCHES,
)(computed)
