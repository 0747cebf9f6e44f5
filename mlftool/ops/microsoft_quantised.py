"""What onnxruntime's quantiser writes in operator format, in the standard's terms."""

from __future__ import annotations

import numpy as np
import onnx

from mlftool.ir.rounding import ATTRIBUTE, Rounding
from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import UnsupportedError
from mlftool.ops.microsoft import WINDOW, microsoft, turned
from mlftool.ops.softmax_integers import FLOATS


@microsoft(QLinearSigmoid="xx?x?", QLinearLeakyRelu="xx?x? alpha", boxes=True)
def _quantised_unary(s: Steps) -> None:
    core = s.node.op_type.removeprefix("QLinear")
    s.q(s(core, s.dq(0), **s.known_to(core)), 3)


@microsoft(QLinearSoftmax="xx?xx axis opset")
def _quantised_softmax(s: Steps) -> None:
    """Before opset 13 all axes from `axis` on are one. onnxruntime multiplies by the whole part of
    the scale's reciprocal, in float32."""
    if s.type(0).dtype.name == "int8" and np.isinf(s.consts.get(s.x(1), 1)).any():
        raise UnsupportedError(
            "its scale is infinite, for which onnxruntime's table has no meaning"
        )
    shape, axis = s.shape(0, 1, -1), s.attrs.get("axis", -1)
    value = s.dq(0)
    if s.attrs.get("opset", 13) < 13 and axis % len(shape) != len(shape) - 1:
        value = s("Softmax", s("Flatten", value, axis=axis), axis=-1, **{FLOATS: 1})
        value = s("Reshape", value, s.const(shape, np.int64))
    else:
        value = s("Softmax", value, axis=axis, **{FLOATS: 1})
    s.q(value, 3, s("Reciprocal", s("Floor", s("Reciprocal", s.x(3)))))


@microsoft(QLinearConcat="xx* axis", boxes=True)
def _quantised_concat(s: Steps) -> None:
    parts = [s.dq(k) for k in range(2, len(s.node.input), 3)]
    s.q(s("Concat", *parts, axis=s.attrs["axis"]), 0)


@microsoft(QLinearGlobalAveragePool="xxxxx channels_last", boxes=True)
def quantised_pool(s: Steps) -> None:
    """`channels_last` data are turned round and back. onnxruntime rounds means of windows late."""
    last, rank = s.attrs.pop("channels_last", 0), len(s.type(0).shape)
    value = turned(s, s.dq(0), rank) if last else s.dq(0)
    core = s.node.op_type.removeprefix("QLinear")
    value = s(core, value, **s.known_to(core))
    late = {ATTRIBUTE: Rounding.LATE.value} if core == "AveragePool" else {}
    s.q(s("Transpose", value, perm=[0, *range(2, rank), 1]) if last else value, 3, **late)


@microsoft(QLinearConv=f"xxxxxxxx? {WINDOW} channels_last dilations group", boxes=True)
def _quantised_conv(s: Steps) -> None:
    """The standard's, but for `channels_last`."""
    last, rank = s.attrs.pop("channels_last", 0), len(s.type(0).shape)
    inputs = list(s.node.input)
    if not last:
        s("QLinearConv", *inputs, out=0, **s.known_to("QLinearConv"))
        return
    inputs[0] = turned(s, s.x(0), rank)
    turned(s, s("QLinearConv", *inputs, **s.known_to("QLinearConv")), rank, back=True)


@microsoft(QLinearReduceMean="xx?x? axes keepdims", boxes=True)
def _quantised_mean(s: Steps) -> None:
    axes = s.attrs.get("axes")
    named = (s.const(axes, np.int64),) if axes else ()
    s.q(s("ReduceMean", s.dq(0), *named, keepdims=s.attrs.get("keepdims", 1)), 3)


@microsoft(QLinearWhere="xxxxxxxxx", boxes=True)
def _quantised_where(s: Steps) -> None:
    s.q(s("Where", s.x(0), s.dq(1), s.dq(4)), 7)


def quantised_gemm(s: Steps) -> None:
    """Scales of output columns run along the first axis of a `b` that is turned. The bias is in
    units of the products, alpha included; the output is float if it has no scale."""
    if bool(s.x(7)) != bool(s.x(8)):  # onnxruntime gives floats that are divided by the scale
        raise UnsupportedError("QGemm with a scale or a zero point of its output; supported: both")
    attrs = s.known_to("Gemm")
    a, b = s.dq(0), s.dq(3, axis=0 if s.attrs.get("transB", 0) else 1)
    bias: tuple[str, ...] = ()
    if s.x(6):
        unit = s("Mul", s.x(1), s.x(4))
        if s.attrs.get("alpha", 1.0) != 1.0:
            unit = s("Mul", unit, s.const(s.attrs["alpha"]))
        if s.types[4] is not None and s.types[4].elements == 1:
            unit = s("Reshape", unit, s.const([], np.int64))
        bias = (s("DequantizeLinear", s.x(6), unit, axis=-1),)
    if s.x(7):
        s.q(s("Gemm", a, b, *bias, **attrs), 7)
    else:
        s("Gemm", a, b, *bias, out=0, **attrs)


@microsoft(MatMulIntegerToFloat="xxxx???", boxes=True)
def _matmul_to_float(s: Steps) -> None:
    _scaled_product(s, s.x(0), s.x(4), s("Mul", s.x(2), s.x(3)), s.x(5), s.x(6))


@microsoft(DynamicQuantizeMatMul="xxx??", boxes=True)
def _dynamic_matmul(s: Steps) -> None:
    made = s("DynamicQuantizeLinear", s.x(0))
    scale, zero = s.fresh(f"{made}.scale"), s.fresh(f"{made}.zero")
    s.made[-1].output.extend([scale, zero])
    _scaled_product(s, made, zero, s("Mul", scale, s.x(2)), s.x(3), s.x(4))


def _scaled_product(s: Steps, a: str, a_zero: str, factor: str, b_zero: str, bias: str) -> None:
    total = s("MatMulInteger", a, s.x(1), a_zero, b_zero)
    wide = s("Cast", total, to=onnx.TensorProto.FLOAT)
    if bias:
        s("Add", s("Mul", wide, factor), bias, out=0)
    else:
        s("Mul", wide, factor, out=0)


@microsoft(MatMulInteger16="xx", boxes=True)
def _matmul_of_shorts(s: Steps) -> None:
    """Sums in int32."""
    s("MatMul", *(s("Cast", s.x(k), to=onnx.TensorProto.INT32) for k in (0, 1)), out=0)


def _unpacked(s: Steps, packed: str, bits: int, shape: list[int]) -> str:
    """Bytes that hold several unsigned numbers, the first one lowest, as a byte for each."""
    parts = []
    for k in range(8 // bits):
        part = packed
        if k:
            part = s("BitShift", part, s.const(k * bits, np.uint8), direction="RIGHT")
        if bits * (k + 1) < 8:
            part = s("BitwiseAnd", part, s.const((1 << bits) - 1, np.uint8))
        parts.append(s("Unsqueeze", part, s.const([-1], np.int64)))
    joined = s("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
    return s("Reshape", joined, s.const(shape, np.int64))


@microsoft(MatMulNBits="xxx??? K N accuracy_level bits block_size weight_prepacked", boxes=True)
def _matmul_of_bits(s: Steps) -> None:
    """x @ w.T with w in blocks along its rows, each with a scale of its own; a zero point left out
    is the middle. Rows are filled up to whole blocks, zero points to whole bytes."""
    n, k, size = s.attrs["N"], s.attrs["K"], s.attrs["block_size"]
    bits = s.attrs.get("bits", 4)
    if min(n, k, size) < 1:
        raise Refuse("MLF0303", f"N, K and block_size are {n}, {k} and {size}; expected 1 or more")
    blocks = -(-k // size)
    if bits not in (2, 4, 8) or s.x(4) or s.attrs.get("weight_prepacked", 0):
        raise UnsupportedError("MatMulNBits of this form; supported: 2, 4, 8 bits, no g_idx, plain")
    stored, expected = s.type(1).elements, n * blocks * size * bits // 8
    if stored != expected:
        raise Refuse("MLF0303", f"its weights have {stored} bytes; expected {expected}")
    weights = _unpacked(s, s.x(1), bits, [n, blocks * size])
    scales = s("Reshape", s.x(2), s.const([n, blocks], np.int64))
    if not s.x(3):
        zeros = s.const(np.full((n, blocks), 1 << (bits - 1)), np.uint8)
    elif s.type(3).dtype.is_float:
        raise UnsupportedError("MatMulNBits with float zero points; supported: integer ones")
    else:
        room = -(-blocks * bits // 8) * 8 // bits
        zeros = _unpacked(s, s.x(3), bits, [n, room])
        if room != blocks:
            ends = (s.const([0], np.int64), s.const([blocks], np.int64), s.const([1], np.int64))
            zeros = s("Slice", zeros, *ends)
    value = s("DequantizeLinear", weights, scales, zeros, axis=1, block_size=size)
    if blocks * size != k:
        ends = (s.const([0], np.int64), s.const([k], np.int64), s.const([1], np.int64))
        value = s("Slice", value, *ends)
    product = (s.x(0), s("Transpose", value, perm=[1, 0]))
    if s.x(5):
        s("Add", s("MatMul", *product), s.x(5), out=0)
    else:
        s("MatMul", *product, out=0)


@microsoft(GatherBlockQuantized="xxx? bits block_size gather_axis quantize_axis")
def _gather_blocks(s: Steps) -> None:
    """Rows of a table that is dequantised by blocks."""
    data, shape = s.type(0), s.shape(0, 1, -1)
    axis, size = s.attrs.get("quantize_axis", 1), s.attrs.get("block_size", 128)
    stored = s.x(0)
    if data.dtype.name == "uint8" and s.attrs.get("bits", 4) == 4:
        stored = _unpacked(s, stored, 4, [*shape[:-1], 2 * shape[-1]])
    zeros = (s.x(3),) if s.x(3) else ()
    if zeros and data.dtype.name == "uint8" and s.attrs.get("bits", 4) == 4:
        raise UnsupportedError("GatherBlockQuantized of bytes with zero points; supported: 4 bits")
    if not zeros and stored != s.x(0):
        zeros = (s.const(np.full(s.type(2).shape, 8), np.uint8),)
    value = s("DequantizeLinear", stored, s.x(2), *zeros, axis=axis, block_size=size)
    s("Gather", value, s.x(1), out=0, axis=s.attrs.get("gather_axis", 0))
