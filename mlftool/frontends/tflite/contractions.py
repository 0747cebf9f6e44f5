"""Sums of products: convolutions, fully connected layers and matrix products.

They are QLinearConv, com.microsoft.QGemm and their like, whose requantisation rounds as TensorFlow
Lite Micro does: twice after sums of 32 bits, once after those of 64 (mlftool/ir/rounding.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlftool.frontends.tflite.arithmetic import rescale
from mlftool.frontends.tflite.model import Tensor
from mlftool.frontends.tflite.site import RefusedError, Site, kind_of, operator, same_floats
from mlftool.frozen import frozen
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType
from mlftool.ir.rounding import ATTRIBUTE, Rounding

SAME = 0
INT32 = 2  # a TensorType, in quantized_bias_type
FIRST = (0, 3, 1, 2)  # channels last to channels first
LAST = (0, 2, 3, 1)


@frozen
class Window:
    """Along one axis: what is added before and after."""

    before: int
    behind: int


def window(same: bool, n: int, out: int, kernel: int, stride: int, dilation: int) -> Window:
    """Padding as TensorFlow has it: the odd element is at the end."""
    if not same:
        return Window(0, 0)
    total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - n)
    return Window(total // 2, total - total // 2)


def extent(same: bool, n: int, kernel: int, stride: int, dilation: int) -> int:
    """Of the output along one axis."""
    return -(-n // stride) if same else (n + stride - ((kernel - 1) * dilation + 1)) // stride


def spatial(s: Site, kernel: Sequence[int], x: Tensor, y: Tensor) -> dict[str, Any]:
    """The attributes of a window over axes 1 and 2 of `x`, which must give `y`."""
    strides = [s.option("stride_h"), s.option("stride_w")]
    dilations = [s.option("dilation_h_factor", 1), s.option("dilation_w_factor", 1)]
    s.expect(
        s.option("padding") in (0, 1), f"padding {s.option('padding')}; expected SAME or VALID"
    )
    s.expect(min(strides) > 0, f"a stride of {min(strides)}; expected at least 1")
    s.expect(min(dilations) > 0, f"a dilation of {min(dilations)}; expected at least 1")
    s.expect(min(kernel) > 0, f"a filter of {min(kernel)}; expected at least 1")
    same, inner = s.option("padding") == SAME, zip(kernel, strides, dilations, strict=True)
    sizes = x.type.shape[1:3]
    made = [extent(same, n, *axis) for n, axis in zip(sizes, inner, strict=True)]
    s.expect(
        [x.type.shape[0], *made] == list(y.type.shape[:3]),
        f"an output of {y.type}; expected {[x.type.shape[0], *made]} along axes 0 to 2",
    )
    pads = [
        window(same, n, o, k, st, d)
        for n, o, k, st, d in zip(sizes, made, kernel, strides, dilations, strict=True)
    ]
    return {
        "kernel_shape": tuple(kernel),
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "pads": (*(p.before for p in pads), *(p.behind for p in pads)),
    }


def rank(s: Site, n: int, *tensors: Tensor) -> None:
    for tensor in tensors:
        s.expect(len(tensor.type.shape) == n, f"a tensor {tensor.type}; expected {n} axes")


def biases(s: Site, i: int, channels: int) -> Array | None:
    """The bias if there is one. Raises RefusedError unless it has a number for each channel."""
    if not s.has(i):
        return None
    bias = s.known(i, "biases")
    s.expect(bias.shape == (channels,), f"a bias {s.x(i).type}; expected {channels} numbers")
    return bias


def rounding(s: Site, bias: Array | None, *, wide_only: bool = False) -> Rounding:
    """What sums become, by the types of x and of the bias. Raises RefusedError for an odd bias."""
    if s.x().type.dtype.name == "int8":
        s.expect(bias is None or bias.dtype == np.int32, "a bias that is not int32")
        return Rounding.TWICE
    if bias is not None:
        row = bias.dtype.name
        s.expect(row in ("int32", "int64"), f"a bias of {row} for int16; supported: int32, int64")
        s.expect(not wide_only or row == "int64", f"a bias of {row} for int16; supported: int64")
        return Rounding.TWICE if row == "int32" else Rounding.ONCE
    short = s.option("quantized_bias_type", 0) == INT32 and not wide_only
    return Rounding.TWICE if short else Rounding.ONCE


@frozen
class Quantities:
    """What a quantised contraction reads besides its tensors."""

    weights: Array
    bias: Array | None
    rounding: Rounding
    counts: bool = False  # the weights' zero point counts


def weights_of(s: Site, x: Tensor, channels: int) -> Array:
    """Input 1: constant weights of 8 bits for `x`, with scales for all or for each of
    `channels`."""
    w, tensor = s.known(1, "weights"), s.x(1)
    s.expect(w.dtype == np.int8, f"weights {tensor.type}; supported: int8 and int4")
    s.expect(tensor.unsigned == x.unsigned, f"weights of {tensor.stored} for {x.stored}")
    q = tensor.quantised
    fits = q is not None and q.scale.size in (1, channels)
    s.expect(fits, f"weights with {tensor.unusable or 'no scales that fit'}")
    return w


def contraction(
    s: Site,
    op: str,
    x: str,
    q: Quantities,
    out: str,
    attrs: Mapping[str, Any],
    x_at: int = 0,
    w_at: int = 1,
) -> None:
    """The node that makes `out`, whose operands lie as QLinearConv's, or as QGemm's. Raises
    FactorError for scales that no multiplier gives, which passes need not expect."""
    w = s.x(w_at).quantised
    assert w is not None
    s.expect(s.x(x_at).type.dtype == s.y().type.dtype, f"an output {s.y().type}; expected x's type")
    if q.bias is not None and q.rounding is Rounding.ONCE:
        # Sums of 64 bits are taken to fit 48: the product with 15 bits of a multiplier has 63.
        s.expect(bool((abs(q.bias.astype(float)) < 2.0**46).all()), "a bias beyond 46 bits")
    xt, y, row = s.x(x_at), s.y(), np.dtype(s.x(x_at).type.dtype.name)
    narrow = row == np.int8
    zeros = w.zero_point if q.counts else np.zeros(1)
    x_zero, y_zero = s.zero(xt), s.zero(y)
    s.expect(narrow or x_zero == 0 == y_zero, "a zero point of int16; expected 0")
    q.rounding.factors(s.scale(xt) * w.scale.astype(np.float64) / s.scale(y))  # or a FactorError
    parts = [
        x,
        s.const(np.float32(s.scale(xt)), what="x_scale"),
        s.const(np.array(x_zero, row), what="x_zero_point"),
        s.const(q.weights, what="weights"),
        s.const(w.scale, what="w_scale"),
        s.const(zeros.astype(np.int8), what="w_zero_point"),
        s.const(np.float32(s.scale(y)), what="y_scale"),
        s.const(np.array(y_zero, row), what="y_zero_point"),
    ]
    bias = "" if q.bias is None else s.const(q.bias, what="bias")
    parts = [*parts[:6], bias, *parts[6:]] if op == GEMM else [*parts, *([bias] if bias else [])]
    more = {"activation": s.stored_limits(), ATTRIBUTE: q.rounding.value}
    s.add(op, parts, out, {**attrs, **more})


GEMM = "com.microsoft.QGemm"


def convolved(s: Site, weights: Array, group: int, *, wide_only: bool = False) -> None:
    """A convolution with weights [O, I, H, W]; biases of int16 layers are int64 if `wide_only`."""
    attrs, q = spatial(s, weights.shape[2:], s.x(), s.y()), None
    weights = np.ascontiguousarray(weights)
    if kind_of(s) != "float32":
        weights_of(s, s.x(), weights.shape[0])
        bias = biases(s, 2, weights.shape[0])
        how = rounding(s, bias, wide_only=wide_only)
        q = Quantities(weights, bias, how, counts=s.x(1).unsigned)
    else:
        same_floats(s, 1, 2)
    x, y = s.turned(s.name(0), FIRST), s.y().type
    shape = tuple(y.shape[p] for p in FIRST)
    attrs = {**attrs, "group": group}
    out = s.draft.fresh(f"{s.label}.nchw", TensorType(y.dtype, shape))
    if q:
        contraction(s, "QLinearConv", x, q, out, attrs)
    else:
        bias = biases(s, 2, y.shape[-1])
        parts = [x, s.const(weights, what="weights")]
        parts += [] if bias is None else [s.const(bias, what="bias")]
        s.add("Conv", parts, out, attrs)
    if q or not s.cuts:
        s.turned(out, LAST, s.out())
    else:
        s.within(s.turned(out, LAST), s.out())


@operator("CONV_2D")
def conv_2d(s: Site) -> None:
    kind_of(s)
    x, y = s.x(), s.y()
    rank(s, 4, x, y, s.x(1))
    w = s.known(1, "weights")
    oc, _, _, ic = w.shape
    s.expect(ic > 0 and x.type.shape[3] % ic == 0, f"weights {s.x(1).type} for {x.type}")
    group = x.type.shape[3] // ic
    s.expect(group > 0 and oc % group == 0 and oc == y.type.shape[3], f"weights {s.x(1).type}")
    convolved(s, w.transpose(0, 3, 1, 2), group)


@operator("CONV_3D")
def conv_3d(s: Site) -> None:
    """float32, as LiteRT."""
    s.expect(kind_of(s) == "float32", f"{s.x().type}; supported: float32")
    same_floats(s, 1, 2)
    x, y, w = s.x().type.shape, s.y().type.shape, s.known(1, "weights")
    rank(s, 5, s.x(), s.y(), s.x(1))
    fits = (w.shape[3], w.shape[4], x[0]) == (x[4], y[4], y[0])
    s.expect(fits, f"weights {s.x(1).type} for {s.x().type} and {s.y().type}")
    strides = [s.option(f"stride_{a}") for a in "dhw"]
    dilations = [s.option(f"dilation_{a}_factor", 1) for a in "dhw"]
    s.expect(min(*strides, *dilations, *w.shape[:3]) > 0, "a stride, dilation or filter below 1")
    same = s.option("padding") == SAME
    axes = [*zip(x[1:4], w.shape[:3], strides, dilations, strict=True)]
    made = tuple(extent(same, *axis) for axis in axes)
    s.expect(y[1:4] == made, f"an output {s.y().type}; expected {made} along axes 1 to 3")
    pads = [window(same, n, o, k, st, d) for o, (n, k, st, d) in zip(made, axes, strict=True)]
    attrs = {
        "kernel_shape": w.shape[:3],
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "pads": (*(p.before for p in pads), *(p.behind for p in pads)),
    }
    bias = biases(s, 2, y[4])
    parts = [s.turned(s.name(), (0, 4, 1, 2, 3))]
    parts.append(s.const(np.ascontiguousarray(w.transpose(4, 3, 0, 1, 2)), what="weights"))
    parts += [] if bias is None else [s.const(bias, what="bias")]
    found = s.add("Conv", parts, TensorType(dtype.float32, (y[0], y[4], *made)), attrs)
    s.within(s.turned(found, (0, 2, 3, 4, 1)), s.out())


@operator("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(s: Site) -> None:
    kind_of(s)
    x, y = s.x(), s.y()
    rank(s, 4, x, y, s.x(1))
    w, channels = s.known(1, "weights"), x.type.shape[3]
    one, _, _, oc = w.shape
    fits = one == 1 and channels > 0 and oc % channels == 0 and oc == y.type.shape[3]
    s.expect(fits, f"weights {s.x(1).type} for {x.type}")
    multiplier = s.option("depth_multiplier", 0)
    s.expect(multiplier in (0, oc // channels), f"a depth_multiplier of {multiplier}")
    convolved(s, w.transpose(3, 0, 1, 2), channels, wide_only=True)


@operator("TRANSPOSE_CONV")
def transpose_conv(s: Site) -> None:
    """Inputs are the output's shape, weights, x and a bias."""
    x, y, row = s.x(2), s.y(), kind_of(s, tensor=s.x(2))
    rank(s, 4, x, y, s.x(1))
    w = s.known(1, "weights")
    oc, kh, kw, ic = w.shape
    s.expect(ic == x.type.shape[3] and oc == y.type.shape[3], f"weights {s.x(1).type}")
    s.expect(x.type.shape[0] == y.type.shape[0], f"an output of {y.type} for {x.type}")
    strides = [s.option("stride_h"), s.option("stride_w")]
    s.expect(min(strides) > 0, f"a stride of {min(strides)}; expected at least 1")
    sizes_given = s.x(0).data
    s.expect(
        sizes_given is None or sizes_given.reshape(-1).tolist() == list(y.type.shape),
        f"an output of {y.type} where input 0 gives another shape",
    )
    same = s.option("padding") == SAME
    pads, sizes = [], zip(y.type.shape[1:3], x.type.shape[1:3], (kh, kw), strides, strict=True)
    for out, n, k, stride in sizes:
        s.expect(extent(same, out, k, stride, 1) == n, f"an output of {y.type} for {x.type}")
        before = window(same, out, n, k, stride, 1).before
        pads.append((before, (n - 1) * stride + k - before - out))
    attrs = {
        "kernel_shape": (kh, kw),
        "strides": tuple(strides),
        "pads": (pads[0][0], pads[1][0], pads[0][1], pads[1][1]),
        "group": 1,
    }
    turned = np.ascontiguousarray(w.transpose(3, 0, 1, 2))  # [I, O, H, W]
    bias = biases(s, 3, oc)
    made = TensorType(y.type.dtype, tuple(y.type.shape[p] for p in FIRST))
    out_, turned_x = s.draft.fresh(f"{s.label}.nchw", made), s.turned(s.name(2), FIRST)
    if row == "float32":
        same_floats(s, 1, 3)
        parts = [turned_x, s.const(turned, what="weights")]
        parts += [] if bias is None else [s.const(bias, what="bias")]
        s.add("ConvTranspose", parts, out_, attrs)
        s.within(s.turned(out_, LAST), s.out())
        return
    weights_of(s, x, oc)
    how = Rounding.TWICE if row == "int8" else Rounding.ONCE
    wanted = ("int32",) if row == "int8" else ("int64", "int16")
    name = "none" if bias is None else bias.dtype.name
    s.expect(name in ("none", *wanted), f"a bias of {name}; supported: {', '.join(wanted)}")
    bias = bias.astype(np.int64) if bias is not None and bias.dtype == np.int16 else bias
    q = Quantities(turned, bias, how, counts=s.x(1).unsigned)
    contraction(s, "mlf.QLinearConvTranspose", turned_x, q, out_, attrs, x_at=2)
    s.turned(out_, LAST, s.out())


@operator("FULLY_CONNECTED")
def fully_connected(s: Site) -> None:
    row, x, y = kind_of(s), s.x(), s.y()
    rank(s, 2, s.x(1))
    s.expect(
        s.option("weights_format", 0) == 0, "shuffled weights; supported: weights_format DEFAULT"
    )
    oc, depth = s.x(1).type.shape
    rows = x.type.elements // max(1, depth)
    fits = rows * depth == x.type.elements and rows * oc == y.type.elements
    fits = fits and y.type.shape[-1:] == (oc,)
    s.expect(fits, f"weights {s.x(1).type} for {x.type} and {y.type}")
    if row == "float32":
        same_floats(s, 1, 2)
    flat = s.reshaped(s.name(0), (rows, depth))
    bias = biases(s, 2, oc)
    if x.unsigned and s.x(1).data is not None:
        weights_of(s, x, 1)
    if x.unsigned or s.x(1).data is None:
        _computed_weights(s, flat, (rows, oc), bias)
        return
    w = s.known(1, "weights")
    made = s.draft.fresh(f"{s.label}.rows", TensorType(y.type.dtype, (rows, oc)))
    if row == "float32":
        parts = [flat, s.const(w, what="weights")]
        parts += [] if bias is None else [s.const(bias, what="bias")]
        s.add("Gemm", parts, made, {"transB": 1})
        s.within(s.reshaped(made, y.type.shape), s.out())
        return
    weights_of(s, x, oc)
    channels = s.x(1).quantised
    assert channels is not None
    q = Quantities(w, bias, rounding(s, bias), counts=channels.scale.size == 1)
    contraction(s, GEMM, flat, q, made, {"transB": 1})
    s.reshaped(made, y.type.shape, s.out())


def _computed_weights(s: Site, flat: str, shape: tuple[int, int], bias: Array | None) -> None:
    """Weights that are no constants: of floats, or of int8 with one scale. So are all of uint8,
    whose sums TensorFlow Lite rounds once."""
    x, w, y = s.x(0), s.x(1), s.y()
    row = x.type.dtype
    s.expect(row.name != "int16" and w.type.dtype == row, "weights that are computed, of int16")
    turned = s.turned(s.name(1), (1, 0))
    if row.is_float:
        made = TensorType(row, shape)
        total = s.add("MatMul", (flat, turned), made)
        if bias is not None:
            total = s.add("Add", (total, s.const(bias, what="bias")), made)
        s.within(s.reshaped(total, y.type.shape), s.out())
        return
    s.expect(bias is None or bias.dtype == np.int32, "a bias that is not int32")
    wide = TensorType(dtype.int32, shape)
    zeros = [s.const(np.array(s.zero(t), np.int8)) for t in (x, w)]
    total = s.add("MatMulInteger", (flat, turned, *zeros), wide)
    if bias is not None:
        total = s.add("Add", (total, s.const(bias, what="bias")), wide)
    real, total = s.scale(x) * s.scale(w) / s.scale(y), s.reshaped(total, y.type.shape)
    limits = s.stored_limits()
    rescale(s, total, real, s.out(), after=s.zero(y), limits=limits, once=x.unsigned)


@operator("BATCH_MATMUL")
def batch_matmul(s: Site) -> None:
    a, b, y, row = s.x(0), s.x(1), s.y(), kind_of(s)
    if row == "float32":
        same_floats(s, 1)
    s.expect(a.type.dtype == b.type.dtype == y.type.dtype, f"{a.type} by {b.type} to {y.type}")
    s.expect(min(len(a.type.shape), len(b.type.shape)) >= 2, f"{a.type} by {b.type}")
    names = [s.name(0), s.name(1)]
    for i, option in enumerate(("adj_x", "adj_y")):
        if s.option(option, False):
            n = len(s.x(i).type.shape)
            names[i] = s.turned(names[i], (*range(n - 2), n - 1, n - 2))
    left, right = (s.draft.types[name].shape for name in names)
    try:
        stacks = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise RefusedError(f"{a.type} by {b.type}") from None
    fits = left[-1] == right[-2] and y.type.shape == (*stacks, left[-2], right[-1])
    s.expect(fits, f"{a.type} by {b.type} to {y.type}")
    if row == "float32":
        s.add("MatMul", names, s.out())
        return
    how = Rounding.TWICE if row == "int8" else Rounding.ONCE
    real = np.array(s.scale(a) * s.scale(b) / s.scale(y))
    attrs = {"zeros": [s.zero(a), s.zero(b)], "after": s.zero(y), ATTRIBUTE: how.value}
    s.add("mlf.MatMulFixed", names, s.out(), {**attrs, "factor": how.factors(real).item()})
