"""What a contraction is: its geometry, its quantisation, and what becomes of an accumulator.

The kernels of ops/contract.py and of the targets are written in these terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import int32, of
from mlftool.ir.graph import Array, View
from mlftool.ir.holes import Number, numbers
from mlftool.ir.rounding import FactorError, Rounding, parts, rescaled
from mlftool.onnx_rules.windows import placed
from mlftool.ops.base import (
    OPS,
    Contracts,
    Facts,
    Layout,
    Operand,
    UnsupportedError,
    contracts,
    of_form,
    shown,
)
from mlftool.ops.scalar import Store, number

BLOCK = 256
ONE_FOR_Y = of_form("*", "*", "*", "*", "*", "*", ".", ".")  # a quantised product's scale
AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@frozen
class Contraction:
    """The geometry of one contraction. A Gemm is a 1x1 convolution over its rows.

    Spatial tuples have one entry per spatial axis; `pads` are those before the first element.
    """

    v: View
    batch: int
    ic: int  # input channels
    oc: int  # output channels
    inputs: tuple[int, ...]  # spatial extents of x
    outputs: tuple[int, ...]  # spatial extents of y
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    group: int

    @property
    def pixels(self) -> int:
        return self.batch * math.prod(self.outputs)

    @property
    def depth(self) -> int:
        """Products per output element: kernel area x input channels of a group."""
        return math.prod(self.kernel) * self.ic // self.group

    @property
    def macs(self) -> int:
        return self.pixels * self.oc * self.depth

    def tiled(self, rows: int, columns: int) -> int:
        """The products of tiles of `rows` pixels x `columns` channels, those beyond the output's
        edges included: what a kernel computes that guards only its stores."""
        pixels, channels = -(-self.pixels // rows) * rows, -(-self.oc // columns) * columns
        return pixels * channels * self.depth

    @property
    def quantised(self) -> bool:
        return contracts_of(self.v).quantised

    @property
    def depthwise(self) -> bool:
        return self.group > 1 and self.group == self.ic == self.oc

    def planar(self) -> Contraction:
        """The same contraction with exactly two spatial axes; it must have at most two."""
        grow = 2 - len(self.inputs)
        named = ("inputs", "outputs", "kernel", "strides", "dilations")
        ones = {name: (1,) * grow + getattr(self, name) for name in named}
        return replace(self, **ones, pads=(0,) * grow + self.pads)

    @property
    def axes(self) -> list[tuple[int, ...]]:
        """Of each spatial axis: input, output, kernel, stride, dilation, padding before."""
        sizes = (self.inputs, self.outputs, self.kernel, self.strides, self.dilations, self.pads)
        return list(zip(*sizes, strict=True))

    @property
    def padded(self) -> bool:
        """Whether some window reaches outside the input."""
        return any(p > 0 or (o - 1) * s - p + (k - 1) * d >= n for n, o, k, s, d, p in self.axes)

    @property
    def whole(self) -> bool:
        """Whether some window lies inside the input, as none does in the band at an edge."""
        places = ((range(-p, o * s - p, s), n - (k - 1) * d) for n, o, k, s, d, p in self.axes)
        return all(any(0 <= at < end for at in starts) for starts, end in places)

    @property
    def dense(self) -> bool:
        """Whether the pixels' operands lie one after the other in memory, as in a Gemm."""
        return not self.padded and {*self.kernel, *self.strides} <= {1}

    @cached_property
    def weights(self) -> Array:
        """[output channel, *kernel, input channel]."""
        operands = contracts_of(self.v)
        w = self.v.known(operands.weights)
        if operands.layout is Layout.CONVOLUTION:
            return np.ascontiguousarray(np.moveaxis(w, 1, -1))
        if operands.layout is Layout.TRANSPOSED:
            groups = w.reshape(self.group, -1, *w.shape[1:])  # [g, ic, oc, *kernel]
            turned = np.moveaxis(groups, 1, -1)
            return np.ascontiguousarray(turned).reshape(self.oc, *self.kernel, -1)
        w = w if self.v.attr("transB", 0) else w.T
        return np.ascontiguousarray(w).reshape(self.oc, *(1,) * len(self.kernel), self.ic)

    @cached_property
    def bias(self) -> Array:
        """[output channel], int32, float32 or, after 16-bit activations, int64; zeros if there is
        none."""
        i = contracts_of(self.v).bias
        dtype = np.dtype(np.int32 if self.quantised else np.float32)
        if i is None or not self.v.has(i):
            return np.zeros(self.oc, dtype)
        bias = np.broadcast_to(self.v.known(i).reshape(-1), (self.oc,))
        return bias if bias.dtype == np.int64 else bias.astype(dtype)


def fitting_weights(f: Facts) -> str:
    """Channels, groups, kernel and bias of a convolution are those of its weights."""
    c = OPS[f.op].contracts
    assert c is not None
    x, w, group = f.shape(0), f.shape(c.weights), f.attrs.get("group", 1)
    b = None if c.bias is None else f.shape(c.bias)
    if x is None or w is None or len(x) != len(w):
        return f"weights {shown(w)} do not fit input {shown(x)}"
    if group < 1:
        return f"group is {group}; expected at least 1"
    if x[1] != w[1] * group:
        return f"input {shown(x)} has {x[1]} channels; weights {shown(w)} take {w[1] * group}"
    if w[0] % group:
        return f"{w[0]} output channels; expected a multiple of its {group} groups"
    kernel = f.attrs.get("kernel_shape")
    if kernel is not None and tuple(kernel) != w[2:]:
        return f"kernel_shape {shown(kernel)} does not fit weights {shown(w)}"
    if b is not None and b != w[:1]:
        return f"bias {shown(b)}; expected one value for each of {w[0]} output channels"
    ones, pads = [1] * len(w), f.attrs.get("pads") or [0] * (2 * len(w))
    padded = [n + a + b for n, a, b in zip(x[2:], pads, pads[len(w) - 2 :], strict=False)]
    rows = zip(padded, w[2:], f.attrs.get("dilations") or ones, strict=False)
    wide = any(n < (k - 1) * dilation + 1 for n, k, dilation in rows)
    if wide and not f.attrs.get("auto_pad", "").startswith("SAME"):
        text = f"a dilated window of {shown(w[2:])} is wider than {shown(padded)}"
        return f"{text}, input and padding"
    several = (4, 5) if c.quantised else (3,)
    for k in (*several, *((1, 2, 6, 7) if c.quantised else (2,) if c.bias is None else ())):
        by, most = f.shape(k), w[0] if k in several else 1
        if by is not None and math.prod(by) not in (1, most):
            return f"{math.prod(by)} scales or zero points; expected one of {sorted({1, most})}"
    return ""


def auto_pad(f: Facts) -> str:
    mode = f.attrs.get("auto_pad", "NOTSET")
    return "" if mode in AUTO_PADS else f"auto_pad '{mode}'; expected {', '.join(AUTO_PADS)}"


def contracts_of(v: View) -> Contracts:
    """Where the node's core has its operands."""
    found = contracts(v.core)
    assert found is not None, v.core.op
    return found


def contraction(v: View) -> Contraction:
    """Read the geometry of the node's core. Raises UnsupportedError for forms no kernel with packed
    weights takes."""
    quantised = contracts_of(v).quantised
    if not packable(v):
        raise UnsupportedError("weights are computed at run time; supported: constant weights")
    if v.x(0).dtype.name != "float32" and not quantised:
        raise UnsupportedError(f"{v.x(0).dtype} input; supported: float32 or quantised int8/uint8")
    return shape_of(v)


def packable(v: View) -> bool:
    """Whether weights and in quantised forms all parameters are known at compile time, and there
    are some inputs, weights and results: all windows may lie in the padding, and a box of run-time
    extents may have none."""
    places = range(1, len(v.core.inputs)) if contracts_of(v).quantised else (1, 2)
    some = all(t.elements for t in (v.x(0), v.x(contracts_of(v).weights), v.y))
    return some and all(v.const(i) is not None for i in places if v.has(i))


def shape_of(v: View) -> Contraction:
    """The geometry alone."""
    return v.once("contraction", lambda: _shape_of(v))


def _shape_of(v: View) -> Contraction:
    operands = contracts_of(v)
    if operands.layout in (Layout.CONVOLUTION, Layout.TRANSPOSED):
        shape, out = v.x(0).shape, v.y.shape
        rank = len(shape) - 2
        strides, dilations, pads = map(tuple, placed(v.core.attrs, rank))
        kernel = tuple(v.attr("kernel_shape") or v.x(operands.weights).shape[2:])
        window = (shape[1:-1], out[1:-1], kernel, strides, dilations, pads[:rank])
        return Contraction(v, shape[0], shape[-1], out[-1], *window, v.attr("group", 1))
    m, k = v.x(0).shape
    return Contraction(v, 1, k, v.y.shape[-1], (m,), (m,), (1,), (1,), (1,), (0,), 1)


@frozen
class Quantisation:
    """The constants of a quantised contraction: y = sat(round(acc * scale) + y_zero_point), or, in
    float, y = acc * scale. Kernels read `factor`, the scale in the form that the rounding needs."""

    x_zero_point: Number
    w_zero_point: Array  # int32 [1] or [output channel]
    scale: Array  # float32 [1] or [output channel]: x_scale * w_scale / y_scale
    y_zero_point: Number
    lo: Number  # of the stored value, activation included
    hi: Number
    factor: Array  # float32 like `scale`, or what Rounding.factors gives
    rounding: Rounding = Rounding.EVEN
    to_float: bool = False

    @staticmethod
    def of(v: View) -> Quantisation:
        return v.once("quantisation", lambda: Quantisation._of(v))

    @staticmethod
    def _of(v: View) -> Quantisation:
        y_scale = contracts_of(v).y_scale
        assert y_scale is not None
        rounding = Rounding.of(v.core)
        # In this order, in float32 as onnxruntime does, else in float64: it decides the last bit.
        scale = v.known(1).reshape(-1)
        scale = scale if rounding is Rounding.EVEN else scale.astype(np.float64)
        scale = scale * v.known(4).reshape(-1)
        to_float = not v.has(y_scale)
        lo, hi = (0, 0) if to_float else v.attr("activation", v.y.dtype.range)
        if not to_float:
            with np.errstate(divide="ignore", invalid="ignore"):  # a scale of zero
                scale = scale / v.known(y_scale).reshape(-1)
        w_zp = v.const(5)
        w_zp = np.zeros(1, np.int32) if w_zp is None else w_zp.reshape(-1).astype(np.int32)
        x_zero, y_zero = v.known(2).item(), 0 if to_float else v.known(y_scale + 1).item()
        zero, low, high = (Number(n) for n in (y_zero, lo, hi))
        single = scale.astype(np.float32)
        try:
            factors = single if rounding is Rounding.EVEN else rounding.factors(scale)
        except FactorError as error:
            raise UnsupportedError(str(error)) from None
        return Quantisation(
            Number(x_zero), w_zp, single, zero, low, high, factors, rounding, to_float
        )


def weight_zero_point(q: Quantisation | None, channel: str) -> str:
    """C text of what is subtracted from a weight of an output channel, "" if nothing is."""
    if q is None or not np.any(q.w_zero_point):
        return ""
    one = q.w_zero_point.size == 1
    return f" - {number(q.w_zero_point.item(), int32) if one else f'wz[{channel}]'}"


def centred(c: Contraction, q: Quantisation) -> Array:
    """int64 [output channel, depth]: the weights less their zero point."""
    w = c.weights.reshape(c.oc, -1).astype(np.int64)
    return np.asarray(w - q.w_zero_point.reshape(-1, 1))


def folded_bias(c: Contraction, q: Quantisation) -> Array:
    """Bias with the input's zero point folded in, so that kernels multiply raw input bytes.

    Exact whenever padding is filled with the zero point. int64; callers check the range.
    """
    positive, negative = halves(c, q)
    return np.asarray(c.bias.astype(np.int64) - q.x_zero_point * (positive + negative))


def halves(c: Contraction, q: Quantisation) -> tuple[Array, Array]:
    """int64 [output channel]: the sums of the positive and of the negative centred weights.

    A gigabyte of int64 for a hundred megabytes of weights would be slow and much, so in int32.
    """
    zero = q.w_zero_point.reshape(-1, 1).astype(np.int32)

    def sums() -> tuple[Array, Array]:
        parts = []
        for rows in range(0, c.oc, 256):
            w = c.weights.reshape(c.oc, -1)[rows : rows + 256].astype(np.int32)
            w -= zero[rows : rows + 256] if zero.size > 1 else zero
            parts.append([f(w, 0).sum(axis=1, dtype=np.int64) for f in (np.maximum, np.minimum)])
        positive, negative = (np.concatenate(half) for half in zip(*parts, strict=True))
        return positive, negative

    return c.v.once(("halves", zero.tobytes()), sums)


def fits_int32(c: Contraction, q: Quantisation) -> bool:
    """Whether no accumulator, whatever the input, can leave int32."""
    positive, negative = halves(c, q)
    return bool(np.all(np.abs(folded_bias(c, q)) + span(c) * (positive - negative) < 2**31))


def largest(c: Contraction, q: Quantisation) -> Array:
    """int64 [output channel]: no accumulator, whatever the input, has a larger absolute value."""
    positive, negative = halves(c, q)
    return np.asarray(np.abs(c.bias.astype(np.int64)) + reach(c, q) * (positive - negative))


def reach(c: Contraction, q: Quantisation) -> int:
    """The largest difference of an input and its zero point."""
    lowest, highest = c.v.x(0).dtype.range
    return max(highest - q.x_zero_point, q.x_zero_point - lowest)


def span(c: Contraction) -> int:
    """The largest difference of two inputs."""
    return int(np.ptp(c.v.x(0).dtype.range))


def requantize(
    c: Contraction, q: Quantisation, acc: str, channel: str, here: bool = False, scale: str = ""
) -> str:
    """C text that turns an accumulator into a stored value, or into a float; the only place that
    does. `here`: for few bytes of code, too, without a call; `scale`: a variable that holds it."""
    scale = scale or scale_text(q, channel)
    if q.to_float:
        return f"((float){acc} * {scale})"
    wide = largest(c, q).max(initial=0) >= 2**31
    if q.rounding is not Rounding.EVEN:
        cast = "(int32_t)" if wide and q.rounding is Rounding.TWICE else ""  # TFLite's sums wrap
        return f"{q.rounding.function}({cast}{acc}, {scale}, {q.y_zero_point}, {q.lo}, {q.hi})"
    if wide:
        return f"mlf_quantize((float){acc} * {scale}, {q.y_zero_point}, {q.lo}, {q.hi})"
    form = ("_here" if here else "") if is_narrow(c, q) else "_wide"
    return f"mlf_requantize{form}({acc}, {scale}, {q.y_zero_point}, {q.lo}, {q.hi})"


def is_narrow(c: Contraction, q: Quantisation) -> bool:
    """Whether no accumulator times its scale reaches 2^22, below which mlf_round_even is exact: the
    clamp may then come after it and be an integer one, a single instruction on many cores."""
    return bool(np.all(largest(c, q) * np.abs(q.scale.astype(np.float64)) < 2**22 - 1))


def has_normal_scales(q: Quantisation) -> bool:
    """Whether mlf_requantize_soft takes all scales."""
    scale = q.scale.astype(np.float32)
    normal = np.isfinite(scale) & (scale >= np.finfo(np.float32).tiny)
    return not q.to_float and q.rounding is Rounding.EVEN and bool(np.all(normal))


def grows(c: Contraction, q: Quantisation) -> bool:
    """Whether a greater sum never gives a smaller output, as `results` takes for granted."""
    if q.to_float or q.rounding is Rounding.ONCE:
        return False
    if q.rounding is Rounding.EVEN:
        return has_normal_scales(q)
    left = np.maximum(parts(q.factor)[1], 0)  # what a left shift pushes out is lost
    return bool(np.all(largest(c, q) * 2.0**left < 2**31))


def results(q: Quantisation, acc: Array) -> Array:
    """int64 [..., channel]: what is stored for accumulators."""
    if q.rounding is Rounding.TWICE:
        value = rescaled(acc, *parts(q.factor)).astype(np.float64)
    else:
        with np.errstate(over="ignore"):
            value = np.rint(acc.astype(np.float32) * q.scale).astype(np.float64)
    return np.clip(value + q.y_zero_point, q.lo, q.hi).astype(np.int64)


def scale_text(q: Quantisation, channel: str) -> str:
    """C text of the scale of an output channel."""
    return "scale[0]" if q.scale.size == 1 else f"scale[{channel}]"


def requantize_soft(q: Quantisation, acc: str, channel: str, rarely: bool = False) -> str:
    """The same as `requantize`, without a single operation on floats; `rarely`: as a function that
    is called instead of inlined."""
    name = "mlf_requantize_rarely" if rarely else "mlf_requantize_soft"
    return f"{name}({acc}, {scale_text(q, channel)}, {q.y_zero_point}, {q.lo}, {q.hi})"


def scale_operand(q: Quantisation, width: int = 1) -> Operand:
    """The parameter that `scale_text` names; channels are a multiple of `width`, zeros added."""
    array = q.factor if q.factor.size == 1 else pad_rows(q.factor, width)
    return Operand("scale", of(array).c, "const", array=array)


@frozen
class Stored:
    """What becomes of one accumulator: after `statements`, y[index] = result, if `guard` holds or
    is ""."""

    guard: str
    index: str
    store: Store

    @property
    def statements(self) -> Sequence[str]:
        return self.store.statements

    @property
    def result(self) -> str:
        return self.store.result


def stores(
    c: Contraction,
    q: Quantisation | None,
    rows: int,
    columns: int,
    width: int,
    requantised: Callable[[str, str], str] | None = None,
    biased: bool = False,
) -> list[Stored]:
    """What to do with accumulators acc<j><b> of `rows` pixels x `columns` channels.

    `requantised(accumulator, channel)` replaces `requantize` where a kernel has its own form.
    `biased`: sums of floats have their bias.
    """
    entries = []
    for j in range(rows):
        for b in range(columns):
            channel = f"oc + {b}" if b else "oc"
            pixel, acc = f"(p + {j})" if j else "p", f"acc{j}{b}"
            if q:
                text = requantised(acc, channel) if requantised else requantize(c, q, acc, channel)
                acc = f"({c.v.y.dtype.c}){text}"
            elif blocks(c) == 1 and not biased:
                acc = f"(b[{channel}] + {acc})"
            index = f"{pixel} * {Number(c.oc)} + {channel}"
            # For every pixel and channel, also where it is always there: layers share a function.
            guards = [f"p + {j} < {Number(c.pixels)}"] if j and c.pixels % rows else []
            guards += [f"{channel} < {Number(c.oc)}"] if b and c.oc % width else []
            entries.append(Stored(" && ".join(guards), index, Store(c.v, acc, index, channel)))
    return entries


def blocks(c: Contraction) -> int:
    """How many partial sums make one float output element."""
    if c.depth <= BLOCK:
        return 1
    return -(-c.depth // BLOCK) if c.dense else c.kernel[0]


def geometry(c: Contraction) -> dict[str, Any]:
    """The numbers every planar template needs, by short C-like names; `whole`: whether some window
    lies inside the input, each of its rows a run of it."""
    (ih, iw), (oh, ow), (kh, kw) = c.inputs, c.outputs, c.kernel
    (sh, sw), (dh, dw), (ph, pw) = c.strides, c.dilations, c.pads
    said = {"ih": ih, "iw": iw, "ic": c.ic, "oh": oh, "ow": ow, "oc": c.oc, "kh": kh, "kw": kw}
    said |= {"sh": sh, "sw": sw, "dh": dh, "dw": dw, "ph": ph, "pw": pw}
    said |= {"pixels": c.pixels, "depth": c.depth, "group": c.group, "every": c.ic // c.group}
    return {**numbers(said), "dense": c.dense, "padded": c.padded, "whole": c.whole and dw == 1}


def even_columns(channels: int, most: int) -> int:
    """How many channels a tile of at most `most` has, so that all tiles have about as many: 16 of
    128, 10 of 20, 1 of 1."""
    return -(-channels // -(-channels // most))


def of_group(c: Contraction, columns: int) -> int:
    """How many channels a tile has if none may have those of two groups."""
    return columns if c.group == 1 else math.gcd(columns, c.oc // c.group)


def pack_rows(w: Array, width: int) -> Array:
    """[OC, ...] -> [ceil(OC/width), depth, width]: `width` output channels interleaved."""
    flat = w.reshape(w.shape[0], -1)
    rows = -(-flat.shape[0] // width) * width
    padded = np.zeros((rows, flat.shape[1]), w.dtype)
    padded[: flat.shape[0]] = flat
    return np.ascontiguousarray(padded.reshape(-1, width, flat.shape[1]).transpose(0, 2, 1))


def pad_rows(values: Array, multiple: int) -> Array:
    """First axis grown with zeros to a multiple."""
    short = -values.shape[0] % multiple
    if not short:
        return values
    return np.concatenate([values, np.zeros((short, *values.shape[1:]), values.dtype)])
