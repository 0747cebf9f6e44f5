"""Transposed convolution: each output element gathers the products that fall onto it.

Sums are bias + (products in the order kernel position, input channel), one running sum per element.
The quantised form, which ONNX does not have, reads what QLinearConv does: its sums are integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import DType, int32, int64
from mlftool.ir.graph import View
from mlftool.ir.operations import of_text, times
from mlftool.onnx_rules.boxes import OF_BATCHES
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Scope
from mlftool.onnx_rules.windows import halves, placed
from mlftool.ops.base import Contracts, Facts, Kernel, Layout, Operand, Trait, op, shown
from mlftool.ops.contract_computed import spatial_axes
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    auto_pad,
    largest,
    requantize,
    scale_operand,
    shape_of,
)
from mlftool.ops.plain import float_of
from mlftool.ops.scalar import Store, around, literal, tensor_operand

Requantised = Callable[[Contraction, Quantisation, str, str], str]


@frozen
class _Sum:
    """The holes of the loop nest: an accumulator's type and first value, the factors of a product,
    and what is made of the sum."""

    row: DType
    zero: str
    x: Callable[[str], str]  # the C of an input's factor, given its element
    w: Callable[[str], str]
    finish: str
    operands: tuple[Operand, ...]


def _float(v: View, c: Contraction) -> _Sum:
    row, weights = float_of(v, v.y.dtype), v.const(1)
    bias = f"b[{'oc' if v.x(2).elements > 1 else 0}]" if v.has(2) else literal(0, row)
    w = tensor_operand(v.graph, "w", v.core.inputs[1])
    if weights is not None:
        w = Operand("w", row.c, "const", array=c.weights)
    b = (tensor_operand(v.graph, "b", v.core.inputs[2]),) if v.has(2) else ()
    return _Sum(row, literal(0, row), str, str, f"({bias} + acc)", (w, *b))


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
        row,
        "b[oc]",
        lambda x: f"(({row.c}){x} - ({q.x_zero_point}))",
        lambda w: f"(({row.c}){w}{minus})",
        f"({v.y.dtype.c}){requantised(c, q, 'acc', 'oc')}",
        tuple(operands),
    )


def _fits(f: Facts) -> str:
    x, w, b, group = f.shape(0), f.shape(1), f.shape(2), f.attrs.get("group", 1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return f"weights {shown(w)} do not fit input {shown(x)}"
    if group < 1 or x[1] != w[0] or w[0] % group:
        return f"weights {shown(w)} in {group} groups do not fit input {shown(x)}"
    kernel = f.attrs.get("kernel_shape")
    if kernel is not None and tuple(kernel) != w[2:]:
        return f"kernel_shape {shown(kernel)} does not fit weights {shown(w)}"
    if b is not None and b != (w[1] * group,):
        return f"bias {shown(b)}; expected one value for each of {w[1] * group} output channels"
    return ""


def _same(f: Facts) -> str:
    """With SAME_* the standard makes the output input * stride, and says nothing of output_padding;
    onnx's inference adds it, onnxruntime does not. They agree where nothing is cut off."""
    x, w = f.shape(0), f.shape(1)
    extra = f.attrs.get("output_padding") or []
    mode = f.attrs.get("auto_pad", "NOTSET")
    plain = not mode.startswith("SAME") or not any(extra)
    if x is None or w is None or plain or f.attrs.get("output_shape"):
        return ""
    strides, dilations, _ = placed(f.attrs, len(extra))
    rows = zip(x[2:], w[2:], strides, dilations, extra, strict=True)
    whole = tuple((n - 1) * s + (k - 1) * d + 1 + e for n, k, s, d, e in rows)
    fits = all(out <= n * s for out, n, s in zip(whole, x[2:], strides, strict=True))
    if fits and whole == f.output.shape[2:]:
        return ""
    return (
        f"auto_pad {mode} with output_padding {shown(extra)}, of which the standard does not say "
        "how large the output is; expected pads or output_shape instead"
    )


def _spelt_out(scope: Scope, d: Draft) -> None:
    """Padding that is asked for by the output's extents is what is left over of the full result."""
    x, w = d.types[0], d.types[1]
    if x is None or w is None:
        return
    spatial, kernel = x.shape[2:], w.shape[2:]
    rank = len(spatial)
    strides, dilations, pads = placed(d.attrs, rank)
    extra = d.attrs.pop("output_padding", None) or [0] * rank
    auto_pad, stated = d.attrs.pop("auto_pad", "NOTSET"), d.attrs.pop("output_shape", None)
    out = d.out_types[0].shape[2:]
    if stated:  # onnx's inference forgets them where they are less than the input's
        out = tuple(stated[-rank:])
        d.out_shape = (x.shape[0], w.shape[1] * d.attrs.get("group", 1), *out)
    if auto_pad == "VALID":
        pads = [0] * (2 * rank)
    elif auto_pad != "NOTSET" or stated:
        rows = zip(spatial, strides, extra, kernel, dilations, out, strict=True)
        totals = [max(0, (n - 1) * s + e + (k - 1) * dl + 1 - o) for n, s, e, k, dl, o in rows]
        pads = halves(totals, auto_pad == "SAME_UPPER")
    d.attrs.update(kernel_shape=list(kernel), strides=strides, dilations=dilations, pads=pads)


@op(
    "ConvTranspose",
    *(Trait.KEPT, Trait.SPATIAL, Trait.EPILOGUE),
    contracts=Contracts(Layout.TRANSPOSED, bias=2, forward="Conv"),
    quantised="mlf.QLinearConvTranspose",
    checks=(auto_pad, _fits, _same),
    resolve=_spelt_out,
    extents=OF_BATCHES,
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
    at = "c" if packed else f"c * {c.oc // c.group * area}"
    step = f"acc += {total.x('xp[c]')} * {total.w(f'wp[{at}]')};"
    products = math.prod(v.x(0).shape) * c.oc // c.group * area
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
            "type": total.row.c,
            "zero": total.zero,
            "step": step,
            "store": store,
        },
        around(v, *total.operands, *store.operands),
        operations=products * (of_text(step, total.row) + times(loop=1, whole=1))
        + v.y.elements * area * times(whole=6, choose=2, loop=1)
        + v.y.elements * (of_text(total.finish, v.y.dtype) + times(store=1, loop=1)),
        macs=products,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )


op(
    "mlf.QLinearConvTranspose",
    *(Trait.SPATIAL, Trait.EPILOGUE),
    contracts=Contracts(Layout.TRANSPOSED, 3, bias=8, y_scale=6, forward="QLinearConv"),
)(conv_transpose)
