"""Contractions: Conv, Gemm and their quantised forms are one loop nest with four holes.

Activations are [N, H, W, C] here (passes/layout.py sees to that), weights are packed at compile
time. A float sum is bias + sum of blocks: products in the order (kernel row, kernel column, input
channel) are added from zero in blocks of at most BLOCK, or by kernel row where a convolution has
more. This is what onnxruntime's matrix product does; a single running sum strays ten times further
from it on MLPerf's anomaly detector, whose layers cancel almost completely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.scalar import Store, literal

BLOCK = 256
QUANTISED = {"QLinearConv", "com.microsoft.QGemm"}
CONVOLUTIONS = {"Conv", "QLinearConv"}


@dataclass(frozen=True)
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

    @property
    def quantised(self) -> bool:
        return self.v.core.op in QUANTISED

    @property
    def depthwise(self) -> bool:
        return self.group > 1 and self.group == self.ic == self.oc

    def planar(self) -> Contraction:
        """The same contraction with exactly two spatial axes; it must have at most two."""
        grow = 2 - len(self.inputs)
        one, zero = (1,) * grow, (0,) * grow
        return Contraction(
            self.v,
            self.batch,
            self.ic,
            self.oc,
            one + self.inputs,
            one + self.outputs,
            one + self.kernel,
            one + self.strides,
            one + self.dilations,
            zero + self.pads,
            self.group,
        )

    @property
    def padded(self) -> bool:
        """Whether some window reaches outside the input."""
        return any(
            p > 0 or (o - 1) * s - p + (k - 1) * d >= n
            for o, s, p, k, d, n in zip(
                self.outputs,
                self.strides,
                self.pads,
                self.kernel,
                self.dilations,
                self.inputs,
                strict=True,
            )
        )

    @property
    def dense(self) -> bool:
        """Whether the pixels' operands lie one after the other in memory, as in a Gemm."""
        return not self.padded and all(
            k == 1 and s == 1 for k, s in zip(self.kernel, self.strides, strict=True)
        )

    @cached_property
    def weights(self) -> Array:
        """[output channel, *kernel, input channel]."""
        w = self.v.known(3 if self.quantised else 1)
        if self.v.core.op in CONVOLUTIONS:
            return np.ascontiguousarray(np.moveaxis(w, 1, -1))
        w = w if self.v.attr("transB", 0) else w.T
        return np.ascontiguousarray(w).reshape(self.oc, *(1,) * len(self.kernel), self.ic)

    @cached_property
    def bias(self) -> Array:
        """[output channel], int32 or float32; zeros if there is none."""
        i = {"Conv": 2, "Gemm": 2, "QLinearConv": 8}.get(self.v.core.op, 6)
        dtype = np.int32 if self.quantised else np.float32
        if not self.v.has(i):
            return np.zeros(self.oc, dtype)
        return np.broadcast_to(self.v.known(i).reshape(-1), (self.oc,)).astype(dtype)


def contraction(v: View) -> Contraction:
    """Read the geometry of the node's core. Raises UnsupportedError for forms no kernel takes."""
    quantised = v.core.op in QUANTISED
    if v.const(3 if quantised else 1) is None:
        raise UnsupportedError("weights are computed at run time; supported: constant weights")
    if v.x(0).dtype.name != "float32" and not quantised:
        raise UnsupportedError(f"{v.x(0).dtype} input; supported: float32 or quantised int8/uint8")
    if v.core.op in CONVOLUTIONS:
        shape, out = v.x(0).shape, v.y.shape
        rank = len(shape) - 2
        pads = tuple(v.attr("pads", (0,) * (2 * rank)))
        one = (1,) * rank
        return Contraction(
            v,
            shape[0],
            shape[-1],
            out[-1],
            shape[1:-1],
            out[1:-1],
            tuple(v.attr("kernel_shape")),
            tuple(v.attr("strides", one)),
            tuple(v.attr("dilations", one)),
            pads[:rank],
            v.attr("group", 1),
        )
    m, k = v.x(0).shape
    return Contraction(v, 1, k, v.y.shape[-1], (m,), (m,), (1,), (1,), (1,), (0,), 1)


@dataclass(frozen=True)
class Quantisation:
    """The constants of a quantised contraction: y = sat(round(acc * scale) + y_zero_point)."""

    x_zero_point: int
    w_zero_point: Array  # int32 [1] or [output channel]
    scale: Array  # float32 [1] or [output channel]: x_scale * w_scale / y_scale
    y_zero_point: int
    lo: int  # of the stored value, activation included
    hi: int

    @staticmethod
    def of(v: View) -> Quantisation:
        y_scale, y_zp = (6, 7) if v.core.op == "QLinearConv" else (7, 8)
        # In float32 and in this order, as onnxruntime does; the order decides the last bit.
        scale = (v.known(1).reshape(-1) * v.known(4).reshape(-1)) / v.known(y_scale).reshape(-1)
        lo, hi = v.attr("activation", v.y.dtype.range)
        w_zp = v.const(5)
        w_zp = np.zeros(1, np.int32) if w_zp is None else w_zp.reshape(-1).astype(np.int32)
        return Quantisation(
            int(v.known(2).item()),
            w_zp,
            scale.astype(np.float32),
            int(v.known(y_zp).item()),
            lo,
            hi,
        )


def folded_bias(c: Contraction, q: Quantisation) -> Array:
    """Bias with the input's zero point folded in, so that kernels multiply raw input bytes.

    Exact whenever padding is filled with the zero point. int64; callers check the range.
    """
    w = c.weights.reshape(c.oc, -1).astype(np.int64)
    return np.asarray(c.bias.astype(np.int64) - q.x_zero_point * w.sum(axis=1))


def fits_int32(c: Contraction, q: Quantisation) -> bool:
    """Whether no accumulator, whatever the input, can leave int32."""
    w = np.abs(c.weights.reshape(c.oc, -1).astype(np.int64)).sum(axis=1)
    return bool(np.all(np.abs(folded_bias(c, q)) + 255 * w < 2**31))


def requantize(c: Contraction, q: Quantisation, acc: str, channel: str) -> str:
    """C text that turns an accumulator into a stored value; the only place that does."""
    w = np.abs(c.weights.reshape(c.oc, -1).astype(np.int64) - q.w_zero_point.reshape(-1, 1)).sum(1)
    bound = (np.abs(c.bias.astype(np.int64)) + 255 * w) * q.scale.astype(np.float64)
    # mlf_round_even is exact below 2^22; where the accumulator cannot get there, the clamp may
    # come after the rounding and be an integer one, which is a single instruction on many cores.
    name = "mlf_requantize" if np.all(bound < 2**22 - 1) else "mlf_requantize_wide"
    scale = "scale[0]" if q.scale.size == 1 else f"scale[{channel}]"
    return f"{name}({acc}, {scale}, {q.y_zero_point}, {q.lo}, {q.hi})"


def scale_operand(q: Quantisation) -> Operand:
    return Operand("scale", "float", "const", array=q.scale)


def stores(
    c: Contraction,
    q: Quantisation | None,
    rows: int,
    columns: int,
    width: int,
) -> list[dict[str, Any]]:
    """What to do with accumulators acc<j><b> of `rows` pixels x `columns` channels.

    One entry per accumulator: guard condition ("" if it always holds), statements and result.
    """
    entries = []
    for j in range(rows):
        for b in range(columns):
            channel = f"oc + {b}" if b else "oc"
            pixel = f"(p + {j})" if j else "p"
            acc = f"acc{j}{b}"
            if q:
                acc = f"({c.v.y.dtype.c}){requantize(c, q, acc, channel)}"
            elif blocks(c) == 1:
                acc = f"(b[{channel}] + {acc})"
            store = Store(c.v, acc, f"{pixel} * {c.oc} + {channel}", channel)
            guards = []
            if j and c.pixels % rows:
                guards.append(f"p + {j} < {c.pixels}")
            if b and c.oc % width:
                guards.append(f"{channel} < {c.oc}")
            entries.append(
                {
                    "guard": " && ".join(guards),
                    "statements": store.statements,
                    "index": f"{pixel} * {c.oc} + {channel}",
                    "result": store.result,
                    "store": store,
                }
            )
    return entries


def blocks(c: Contraction) -> int:
    """How many partial sums make one float output element."""
    if c.depth <= BLOCK:
        return 1
    return -(-c.depth // BLOCK) if c.dense else c.kernel[0]


def geometry(c: Contraction) -> dict[str, Any]:
    """The numbers every planar template needs, by short C-like names."""
    (ih, iw), (oh, ow), (kh, kw) = c.inputs, c.outputs, c.kernel
    (sh, sw), (dh, dw), (ph, pw) = c.strides, c.dilations, c.pads
    return {
        "ih": ih,
        "iw": iw,
        "ic": c.ic,
        "oh": oh,
        "ow": ow,
        "oc": c.oc,
        "kh": kh,
        "kw": kw,
        "sh": sh,
        "sw": sw,
        "dh": dh,
        "dw": dw,
        "ph": ph,
        "pw": pw,
        "pixels": c.pixels,
        "depth": c.depth,
        "dense": c.dense,
        "padded": c.padded,
    }


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
    return np.concatenate([values, np.zeros((short, *values.shape[1:]), values.dtype)])


def blocked(v: View) -> Kernel | None:
    """`rows` pixels x `columns` output channels at a time; ungrouped, at most two spatial axes."""
    c = contraction(v)
    if c.group != 1 or len(c.inputs) > 2:
        return None
    c = c.planar()
    rows = 2 if c.pixels > 1 else 1
    q = Quantisation.of(v) if c.quantised else None
    if q and (np.any(q.w_zero_point) or not fits_int32(c, q)):
        return None
    columns = 2 if q else 4
    entries = stores(c, q, rows, columns, columns)
    first: Store = entries[0]["store"]
    ctype = v.x(0).dtype.c
    extra: tuple[Operand, ...] = ()
    if q:
        bias = pad_rows(folded_bias(c, q).astype(np.int32), columns)
        weights = pad_rows(c.weights.reshape(c.oc, -1), columns)
        scales = q.scale if q.scale.size == 1 else pad_rows(q.scale, columns)
        extra = (Operand("scale", "float", "const", array=scales),)
    else:
        bias, weights = pad_rows(c.bias, columns), pack_rows(c.weights, columns)
    operands = [
        Operand("x", ctype, "in", v.core.inputs[0]),
        Operand(
            "w",
            "int8_t" if q and weights.dtype == np.int8 else "uint8_t" if q else "float",
            "const",
            array=weights,
        ),
        Operand("b", "int32_t" if q else "float", "const", array=bias),
        *extra,
        *first.operands,
        Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
    ]
    if not c.dense and (c.padded or c.dilations[1] != 1):
        operands.append(
            Operand("patch", ctype, "scratch", bytes=rows * c.depth * v.x(0).dtype.bytes)
        )
    return Kernel(
        "portable.blocked",
        "contract_s8.c.j2" if q else "contract_f32.c.j2",
        {
            **geometry(c),
            "rows": rows,
            "columns": columns,
            "stores": entries,
            "blocks": blocks(c),
            "block": min(BLOCK, c.depth),
            "fill": q.x_zero_point if q else "0.0f",
        },
        tuple(operands),
        cost=c.macs * (2.6 if q else 3.0) + c.pixels * c.oc * 12.0,
        macs=c.macs,
        includes=("mlf/kernel.h", *first.includes),
        inplace=first.inplace,
    )


def depthwise(v: View) -> Kernel | None:
    """One filter per channel, channels innermost."""
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2:
        return None
    c = c.planar()
    q = Quantisation.of(v) if c.quantised else None
    if q and (np.any(q.w_zero_point) or not fits_int32(c, q)):
        return None
    acc = f"({v.y.dtype.c}){requantize(c, q, 'acc', 'c')}" if q else "(b[c] + acc)"
    store = Store(v, acc, f"p * {c.oc} + c", "c")
    taps = np.ascontiguousarray(np.moveaxis(c.weights, 0, -1)).reshape(-1, c.oc)  # [KH*KW, C]
    unroll = taps.shape[0] <= 25
    operands = [
        Operand("x", v.x(0).dtype.c, "in", v.core.inputs[0]),
        Operand(
            "w",
            {"int8": "int8_t", "uint8": "uint8_t"}.get(taps.dtype.name, "float"),
            "const",
            array=taps,
        ),
    ]
    if not q or c.padded or not unroll:
        operands.append(Operand("b", "int32_t" if q else "float", "const", array=c.bias))
    if q and unroll:
        operands.append(
            Operand("b_inner", "int32_t", "const", array=folded_bias(c, q).astype(np.int32))
        )
    if q:
        operands.append(scale_operand(q))
    operands += [*store.operands, Operand("y", v.out.dtype.c, "out", v.node.outputs[0])]
    g = geometry(c)
    tap_list = [
        ((ky * g["dh"] * g["iw"] + kx * g["dw"]) * c.ic, ky * g["kw"] + kx)
        for ky in range(g["kh"])
        for kx in range(g["kw"])
    ]
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
        tuple(operands),
        cost=c.macs * 4.5 + c.pixels * c.oc * 12.0,
        macs=c.macs,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )


def any_rank(v: View) -> Kernel:
    """Plain loops for what the others decline: groups, three spatial axes, weight zero points."""
    c = contraction(v)
    q = Quantisation.of(v) if c.quantised else None
    if q and c.depth * 255 * 255 + int(np.abs(c.bias.astype(np.int64)).max()) >= 2**31:
        raise UnsupportedError(f"{c.depth} products per output may overflow the int32 accumulator")
    acc = f"({v.y.dtype.c}){requantize(c, q, 'acc', 'oc')}" if q else "(b[oc] + acc)"
    store = Store(v, acc, f"p * {c.oc} + oc", "oc")
    w_zp = (
        ("wz[oc]" if q.w_zero_point.size > 1 else literal(q.w_zero_point[0], v.x(2).dtype))
        if q
        else ""
    )
    axes = [
        {
            "k": i,
            "n": c.inputs[i],
            "o": c.outputs[i],
            "kernel": c.kernel[i],
            "stride": c.strides[i],
            "dilation": c.dilations[i],
            "pad": c.pads[i],
        }
        for i in range(len(c.inputs))
    ]
    operands = [
        Operand("x", v.x(0).dtype.c, "in", v.core.inputs[0]),
        Operand("w", v.type(v.core.inputs[3 if q else 1]).dtype.c, "const", array=c.weights),
        Operand("b", "int32_t" if q else "float", "const", array=c.bias),
    ]
    if q:
        operands.append(scale_operand(q))
        if q.w_zero_point.size > 1:
            operands.append(Operand("wz", "int32_t", "const", array=q.w_zero_point))
    operands += [*store.operands, Operand("y", v.out.dtype.c, "out", v.node.outputs[0])]
    return Kernel(
        "portable.any_rank",
        "contract_any.c.j2",
        {
            "axes": axes,
            "batch": c.batch,
            "ic": c.ic,
            "oc": c.oc,
            "group": c.group,
            "store": store,
            "quantised": bool(q),
            "zero_point": q.x_zero_point if q else 0,
            "w_zero_point": w_zp,
            "area": math.prod(c.kernel),
        },
        tuple(operands),
        cost=c.macs * 9.0 + c.pixels * c.oc * 20.0,
        macs=c.macs,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )


def contract(v: View) -> Kernel:
    """The cheapest portable kernel of the family."""
    return depthwise(v) or blocked(v) or any_rank(v)


op("Conv", Trait.SPATIAL, Trait.EPILOGUE)(contract)
op("QLinearConv", Trait.SPATIAL, Trait.EPILOGUE)(contract)
op("Gemm", Trait.EPILOGUE)(contract)
op("com.microsoft.QGemm", Trait.EPILOGUE)(contract)
