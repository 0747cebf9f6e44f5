"""Contractions: Conv, Gemm and their quantised forms are one loop nest with four holes.

Activations are [N, H, W, C] here (passes/layout.py sees to that), weights are packed at compile
time. A float sum is bias + sum of blocks: products in the order (kernel row, kernel column, input
channel) are added from zero in blocks of at most BLOCK, or by kernel row where a convolution has
more. This is what onnxruntime's matrix product does; a single running sum strays ten times further
from it on MLPerf's anomaly detector, whose layers cancel almost completely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import of
from mlftool.ir.graph import Array, View
from mlftool.ir.holes import Number, numbers
from mlftool.ir.operations import NOTHING, PRODUCT, Operations, times
from mlftool.ir.relay import LAYOUTS, Site, dense, requantise, scale_of, window, zero_point
from mlftool.onnx_rules.boxes import OF_BATCHES, as_it_is, of_products
from mlftool.onnx_rules.windows import spelt_window
from mlftool.ops.base import Contracts, Kernel, Layout, Operand, Signature, Trait, op
from mlftool.ops.contract_computed import computed, plain_loops
from mlftool.ops.contraction import (
    BLOCK,
    Contraction,
    Quantisation,
    auto_pad,
    blocks,
    centred,
    contraction,
    contracts_of,
    even_columns,
    fits_int32,
    fitting_weights,
    folded_bias,
    geometry,
    largest,
    of_group,
    pack_rows,
    packable,
    pad_rows,
    requantize,
    scale_operand,
    stores,
    weight_zero_point,
)
from mlftool.ops.halves import halves
from mlftool.ops.matmul import fitting_bias, matmul, same_depth, whole_factors, without_factors
from mlftool.ops.microsoft import KINDS
from mlftool.ops.microsoft_quantised import quantised_gemm
from mlftool.ops.nibbles import are_nibbles, nibble_rows
from mlftool.ops.scalar import Store, around
from mlftool.ops.scales import of_rows

# Instructions per product where two weights are taken from each byte, as counted on a Cortex-M4.
_UNPACKED = 5.4
_SCALED = times(convert=1, mul=1)  # and more for each weight that is a byte times a scale


class Form(Protocol):
    """How sums are stored: the operands that the text reads, and what that includes."""

    @property
    def operands(self) -> tuple[Operand, ...]: ...
    @property
    def includes(self) -> tuple[str, ...]: ...
    def text(self, acc: str, channel: str) -> str:
        """C text of what is stored for an accumulator."""


class Requantised(Protocol):
    """Makes another form of requantisation, for weights padded to `columns` output channels."""

    def __call__(self, c: Contraction, q: Quantisation, columns: int) -> Form | None: ...


def blocked(
    v: View,
    most_rows: int = 2,
    float_columns: int = 4,
    requantised: Requantised | None = None,
    nibbles: bool = False,
    byte_columns: int = 2,
    narrow: bool = False,
) -> Kernel | None:
    """`rows` pixels x `columns` output channels at a time, of one group; at most two spatial axes.
    `nibbles`: only with weights of four bits, packed. `narrow`: only with floats that are bytes
    times a scale for each channel, or that 16 bits hold, stored as these."""
    c = contraction(v)
    if c.depthwise or len(c.inputs) > 2:
        return None
    c = c.planar()
    rows, grouped = min(most_rows, c.pixels), c.group > 1
    q = Quantisation.of(v) if c.quantised else None
    if grouped and (nibbles or (c.depth > BLOCK and not q)):
        return None
    if (q and not fits_int32(c, q)) or (nibbles and not (q and are_nibbles(c, q))):
        return None
    columns = of_group(c, byte_columns if q else float_columns)
    packed = (
        _packed_bytes(c, q, columns, requantised, nibbles)
        if q
        else _packed_floats(c, columns, narrow)
    )
    if packed is None:
        return None
    entries = stores(c, q, rows, columns, columns, packed.text)
    first = entries[0].store
    w = Operand("w", of(packed.weights).c, "const", array=packed.weights)
    b = Operand("b", of(packed.bias).c, "const", array=packed.bias)
    operands = [*around(v, w, b, *packed.operands, *first.operands)]
    if grouped or (not c.dense and (c.padded or c.dilations[1] != 1)):
        size = rows * c.depth * c.group * v.x(0).dtype.bytes
        operands.append(Operand("patch", v.x(0).dtype.c, "scratch", bytes=size))
    products = c.tiled(rows, columns)
    return Kernel(
        f"portable.{packed.name}",
        "contract_s8.c.j2" if q else "contract_f32.c.j2",
        {
            **geometry(c),
            **({"dense": True} if grouped else {}),
            **{"rows": rows, "columns": columns, "stores": entries},
            **{"nibbles": nibbles, "stored": packed.type},
            **numbers({"blocks": blocks(c), "block": min(BLOCK, c.depth)}),
            "fill": q.x_zero_point if q else "0.0f",
            "minus": partial(weight_zero_point, q),
        },
        tuple(operands),
        cost=products * (_UNPACKED if nibbles else 2.6 if q else 1.0)
        + c.pixels * (c.oc * 12.0 + grouped * c.depth * c.group * 4.0),
        operations=NOTHING if q else products * PRODUCT + products / rows * packed.each,
        macs=c.macs,
        includes=("mlf/kernel.h", *packed.includes, *first.includes),
        inplace=first.inplace,
        parametric=True,
    )


@frozen
class _Packed:
    """How weights and biases are in flash, and what reads them."""

    weights: Array
    bias: Array
    name: str = "blocked"  # of kernels that read them
    type: str = "float"  # or "bytes", that of Halves, or "" of quantised ones
    operands: tuple[Operand, ...] = ()
    each: Operations = NOTHING  # for each weight, beyond loading it
    includes: tuple[str, ...] = ()
    text: Callable[[str, str], str] | None = None  # of what is stored, in a form of its own


def _packed_bytes(
    c: Contraction, q: Quantisation, columns: int, requantised: Requantised | None, nibbles: bool
) -> _Packed:
    weights = nibble_rows(c) if nibbles else pad_rows(c.weights.reshape(c.oc, -1), columns)
    bias = pad_rows(folded_bias(c, q).astype(np.int32), columns)
    form, zeros = requantised and requantised(c, q, columns), _zero_points(q, columns)
    made = _Packed(weights, bias, "nibbles" if nibbles else "blocked", "")
    if not form:
        return replace(made, operands=(scale_operand(q, columns), *zeros))
    operands = (*form.operands, *zeros)
    return replace(made, operands=operands, includes=form.includes, text=form.text)


def _packed_floats(c: Contraction, columns: int, narrow: bool) -> _Packed | None:
    """As floats, or `narrow`: in the smallest form, if there is one."""
    bias = pad_rows(c.bias, columns)
    if not narrow:
        return _Packed(pack_rows(c.weights, columns), bias)
    if found := of_rows(c.weights):
        scales = Operand("scales", "float", "const", array=pad_rows(found[0], columns))
        return _Packed(pack_rows(found[1], columns), bias, "scaled", "bytes", (scales,), _SCALED)
    if half := halves(pack_rows(c.weights, columns)):
        headers = ("mlf/convert.h",)
        return _Packed(half.words, bias, "halves", half.type, (), half.each, headers)
    return None


def _zero_points(q: Quantisation, columns: int) -> tuple[Operand, ...]:
    """Zero points of the weights where they differ; a single one is written into the code."""
    if q.w_zero_point.size == 1 or not np.any(q.w_zero_point):
        return ()
    return (Operand("wz", "int32_t", "const", array=pad_rows(q.w_zero_point, columns)),)


def depthwise(v: View, requantised: Requantised | None = None) -> Kernel | None:
    """One filter per channel, channels innermost. Weights with a zero point are stored without it,
    as int16 or, if they have 16 bits themselves, int32: they are few."""
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2:
        return None
    c = c.planar()
    q = Quantisation.of(v) if c.quantised else None
    if q and not fits_int32(c, q):
        return None
    form = requantised(c, q, 1) if q and requantised else None
    text = form.text("acc", "c") if form else requantize(c, q, "acc", "c") if q else ""
    acc = f"({v.y.dtype.c}){text}" if q else "(b[c] + acc)"
    store = Store(v, acc, f"p * {Number(c.oc)} + c", "c")
    taps = np.ascontiguousarray(np.moveaxis(c.weights, 0, -1)).reshape(-1, c.oc)  # [KH*KW, C]
    if q and np.any(q.w_zero_point):
        wide = np.int16 if c.weights.dtype.itemsize == 1 else np.int32
        taps = np.ascontiguousarray(centred(c, q).T).astype(wide)
    unroll = c.whole and taps.shape[0] <= 25
    operands = [Operand("w", of(taps).c, "const", array=taps)]
    if not q or c.padded or not unroll:
        operands.append(Operand("b", "int32_t" if q else "float", "const", array=c.bias))
    if q and unroll:
        inner = folded_bias(c, q).astype(np.int32)
        operands.append(Operand("b_inner", "int32_t", "const", array=inner))
    if q:
        operands += form.operands if form else (scale_operand(q),)
    g = geometry(c)
    places = product(range(g["kh"]), range(g["kw"]))
    tap_list = [((y * g["dh"] * g["iw"] + x * g["dw"]) * c.ic, y * g["kw"] + x) for y, x in places]
    return Kernel(
        "portable.depthwise",
        "depthwise.c.j2",
        {
            **g,
            "taps": tap_list,
            "quantised": bool(q),
            "store": store,
            "zero_point": q.x_zero_point if q else 0,
            "unroll": unroll,
            "acc_type": "int32_t" if q else "float",
        },
        around(v, *operands, *store.operands),
        cost=c.macs * (4.5 if q else 3.5) + c.pixels * c.oc * 12.0,
        operations=NOTHING if q else c.macs * PRODUCT,
        macs=c.macs,
        includes=("mlf/kernel.h", *(form.includes if form else ()), *store.includes),
        inplace=store.inplace,
        parametric=True,
    )


def any_rank(v: View) -> Kernel:
    """Plain loops for what the others decline: groups, three spatial axes, weight zero points."""
    c = contraction(v)
    q = Quantisation.of(v) if c.quantised else None
    wide = q is not None and largest(c, q).max() >= 2**31  # of 16-bit activations, most often
    bias = c.bias.astype(np.int64) if wide else c.bias
    acc = f"({v.y.dtype.c}){requantize(c, q, 'acc', 'oc')}" if q else "(b[oc] + acc)"
    store = Store(v, acc, f"p * {Number(c.oc)} + oc", "oc")
    operands = [
        Operand("w", v.type(v.core.inputs[3 if q else 1]).dtype.c, "const", array=c.weights),
        Operand("b", of(bias).c, "const", array=bias),
        *([scale_operand(q), *_zero_points(q, 1)] if q else []),
    ]
    kernel = plain_loops(
        c,
        "portable.any_rank",
        store,
        operands,
        NOTHING if q else PRODUCT,
        quantised=bool(q),
        row=of(bias).c,
        start="b[oc]" if q else "0.0f",
        zero_point=q.x_zero_point if q else 0,
        minus=weight_zero_point(q, "oc"),
        onnx=False,
    )
    return replace(kernel, parametric=True)


def contract(v: View) -> Kernel:
    """The cheapest portable kernel of the family."""
    operands = contracts_of(v)
    if not packable(v) or (not operands.quantised and v.x(0).dtype.name != "float32"):
        if operands.layout is Layout.CONVOLUTION:
            return computed(v)
        if not operands.quantised:
            return matmul(v)
    floats, integers = (even_columns(contraction(v).oc, most) for most in (4, 2))
    return depthwise(v) or blocked(v, 2, floats, byte_columns=integers) or any_rank(v)


def _windows(s: Site, weights: tuple[int, ...]) -> dict[str, Any]:
    """What Relay's convolutions say of their windows."""
    data_layout, kernel_layout = LAYOUTS[s.rank - 2]
    sizes = {"channels": weights[0], "kernel_size": list(weights[2:])}
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return {**window(s), "groups": s.attr("group", 1), **sizes, **layouts}


def _relay_conv(s: Site) -> str | None:
    if s.rank - 2 not in LAYOUTS:
        return None
    y = s.call(f"nn.conv{s.rank - 2}d", s.arg(0), s.arg(1), **_windows(s, s.type(1).shape))
    return s.call("nn.bias_add", y, s.arg(2)) if s.has(2) else y


def _relay_gemm(s: Site) -> str:
    x = s.arg(0)
    if s.attr("transA", 0):
        x = s.call("transpose", x, axes=[1, 0])
    y = dense(s, x, s.arg(1), s.out.shape[1], bool(s.attr("transB", 0)))
    alpha, beta = s.attr("alpha", 1.0), s.attr("beta", 1.0)
    if alpha != 1:
        y = s.call("multiply", y, s.literal(alpha))
    if not s.has(2):
        return y
    c = s.arg(2)
    return s.call("add", y, s.call("multiply", c, s.literal(beta)) if beta != 1 else c)


def _relay_qlinear_conv(s: Site) -> str | None:
    if s.rank != 4 or str(s.type(1).dtype) != "float32":
        return None
    zeros, scales = (zero_point(s, 2), zero_point(s, 5)), (scale_of(s, 1), scale_of(s, 4))
    said = {**_windows(s, s.type(3).shape), "out_dtype": "int32"}
    y = s.call("qnn.conv2d", s.arg(0), s.arg(3), *zeros, *scales, **said)
    if s.has(8):
        y = s.call("nn.bias_add", y, s.arg(8))
    return requantise(s, y, (1, 4), (6, 7))


op(
    "Conv",
    *(Trait.KEPT, Trait.SPATIAL, Trait.EPILOGUE),
    contracts=Contracts(Layout.CONVOLUTION, bias=2, packs_bias=True),
    quantised="QLinearConv",
    checks=(auto_pad, fitting_weights),
    resolve=spelt_window,
    extents=OF_BATCHES,
    relay=_relay_conv,
)(contract)
op(
    "QLinearConv",
    *(Trait.KEPT, Trait.SPATIAL, Trait.EPILOGUE),
    contracts=Contracts(Layout.CONVOLUTION, 3, bias=8, y_scale=6),
    extents=OF_BATCHES,
    checks=(auto_pad, fitting_weights),
    resolve=spelt_window,
    relay=_relay_qlinear_conv,
)(contract)
op(
    "Gemm",
    Trait.EPILOGUE,
    contracts=Contracts(Layout.MATRIX, bias=2, packs_bias=True, computed="QLinearMatMul"),
    quantised="com.microsoft.QGemm",
    extents=of_products,
    checks=(same_depth, fitting_bias, whole_factors),
    canonical=without_factors,
    relay=_relay_gemm,
)(contract)
op(
    "com.microsoft.QGemm",
    Trait.EPILOGUE,
    contracts=Contracts(Layout.MATRIX, 3, bias=6, y_scale=7),
    signature=Signature.of("xxxxxx??? alpha transA transB"),
    extents=as_it_is,
    expansion=quantised_gemm,
    kinds=KINDS,
)(contract)
