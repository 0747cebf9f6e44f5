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

INT64 = onnx.TensorProto.INT64


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
    if bits not in (2, 4, 8) or s.attrs.get("weight_prepacked", 0):
        raise UnsupportedError("MatMulNBits of this form; supported: 2, 4, 8 bits, not prepacked")
    stored, expected = s.type(1).elements, n * blocks * size * bits // 8
    if stored != expected:
        raise Refuse("MLF0303", f"its weights have {stored} bytes; expected {expected}")
    weights = _unpacked(s, s.x(1), bits, [n, blocks * size])
    scales = s("Reshape", s.x(2), s.const([n, blocks], np.int64))
    zeros = _zeros_of_blocks(s, n, blocks, bits)
    if s.x(4) or (s.x(3) and s.type(3).dtype.is_float):
        value = _grouped(s, _columns(s, weights, blocks * size, k), scales, zeros)
    else:
        value = s("DequantizeLinear", weights, scales, zeros, axis=1, block_size=size)
        value = _columns(s, value, blocks * size, k)
    _with_bias(s, s("Transpose", value, perm=[1, 0]))


@microsoft(MatMulFpQ4="xxx blk_quant_type", boxes=True)
def _matmul_of_blocks(s: Steps) -> None:
    """x @ w.T with the rows of w in blocks of 32: a scale, of kind 1 a zero point, and 16 bytes,
    whose lower halves come first."""
    kind, given = s.attrs.get("blk_quant_type", 1), [s.consts.get(s.x(i)) for i in (1, 2)]
    if kind not in (0, 1) or given[0] is None or given[1] is None or given[1].size != 2:
        raise UnsupportedError("MatMulFpQ4 of this form; supported: constants, kinds 0 and 1")
    blob, (k, n) = given[0].reshape(-1), map(int, given[1].reshape(-1))
    blocks, size = -(-k // 32), 20 + kind
    if min(k, n) < 1 or blob.size != n * blocks * size:
        raise Refuse("MLF0303", f"{blob.size} bytes of weights; expected {n * blocks * size}")
    rows = blob.astype(np.uint8).reshape(n, blocks, size)
    scales = s.const(np.ascontiguousarray(rows[..., :4]).view("<f4").reshape(n, blocks))
    zeros = s.const(rows[..., 4] if kind else np.full((n, blocks), 8), np.uint8)
    halves = rows[..., size - 16 :]
    values = np.concatenate([halves & 15, halves >> 4], axis=-1).reshape(n, blocks * 32)
    weights = s.const(values, np.uint8)
    value = s("DequantizeLinear", weights, scales, zeros, axis=1, block_size=32)
    value = s("Transpose", _columns(s, value, blocks * 32, k), perm=[1, 0])
    s("MatMul", s.x(0), value, out=0)


def _zeros_of_blocks(s: Steps, n: int, blocks: int, bits: int) -> str:
    if not s.x(3):
        return s.const(np.full((n, blocks), 1 << (bits - 1)), np.uint8)
    if s.type(3).dtype.is_float:
        return s("Reshape", s.x(3), s.const([n, blocks], np.int64))
    room = -(-blocks * bits // 8) * 8 // bits
    return _columns(s, _unpacked(s, s.x(3), bits, [n, room]), room, blocks)


def _columns(s: Steps, value: str, given: int, count: int) -> str:
    """The first `count` of the `given` columns, along the last axis."""
    if count == given:
        return value
    return s("Slice", value, *(s.const([n], np.int64) for n in (0, count, -1)))


def _grouped(s: Steps, weights: str, scales: str, zeros: str) -> str:
    """Weights with float zero points, or with `g_idx`, the block of each row."""
    of = s.x(4)
    if not of:
        of = s.const(np.arange(s.attrs["K"]) // s.attrs["block_size"], np.int64)
    to = s.type(0).dtype.onnx
    scales, zeros = (s("Gather", part, of, axis=1) for part in (scales, zeros))
    return s("Mul", s("Sub", s("Cast", weights, to=to), s("Cast", zeros, to=to)), scales)


def _with_bias(s: Steps, weights: str) -> None:
    if s.x(5):
        s("Add", s("MatMul", s.x(0), weights), s.x(5), out=0)
    else:
        s("MatMul", s.x(0), weights, out=0)


# The sixteen values of bitsandbytes' four bits, by `quant_type`.
_FP4 = (0.0, 5.208333333e-03, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
_BNB4 = ((*_FP4, *(-v for v in _FP4)), _NF4)


@microsoft(MatMulBnb4="xxx K N block_size quant_type training_mode transB", boxes=True)
def _matmul_of_bnb4(s: Steps) -> None:
    """x @ w.T. w is stored in blocks of consecutive elements, each block with its largest absolute
    value; the first of two elements is in the upper four bits."""
    n, k, size = s.attrs["N"], s.attrs["K"], s.attrs["block_size"]
    kind, by_rows = s.attrs["quant_type"], s.attrs.get("transB", 1)
    if min(n, k, size) < 1 or kind not in (0, 1):
        text = f"N, K, block_size and quant_type are {n}, {k}, {size} and {kind}"
        raise Refuse("MLF0303", f"{text}; expected 1 or more, and 0 (FP4) or 1 (NF4)")
    if not by_rows:
        raise UnsupportedError("MatMulBnb4 with transB=0; supported: 1")
    count, found = n * k, (s.type(1).elements, s.type(2).elements)
    expected = (-(-count // 2), -(-count // size))
    if found != expected:
        text = f"it has {found[0]} bytes of weights and {found[1]} block maxima"
        raise Refuse("MLF0303", f"{text}; expected {expected[0]} and {expected[1]}")
    low = s("BitwiseAnd", s.x(1), s.const(15, np.uint8))
    high = s("BitShift", s.x(1), s.const(4, np.uint8), direction="RIGHT")
    pair = [s("Reshape", part, s.const([-1, 1], np.int64)) for part in (high, low)]
    index = s("Cast", s("Reshape", s("Concat", *pair, axis=1), s.const([-1], np.int64)), to=INT64)
    table = s.const(_BNB4[kind], s.type(0).dtype.numpy)
    each = s("Gather", table, s("Gather", index, s.const(np.arange(count), np.int64)))
    scale = s("Gather", s.x(2), s.const(np.arange(count) // size, np.int64))
    value = s("Reshape", s("Mul", each, scale), s.const([n, k], np.int64))
    s("MatMul", s.x(0), s("Transpose", value, perm=[1, 0]), out=0)


@microsoft(GatherBlockQuantized="xxx? bits block_size gather_axis quantize_axis")
def _gather_blocks(s: Steps) -> None:
    """Rows of a table that is dequantised by blocks. Bytes hold one number or two along the last
    axis, and so do their zero points. The default zero point of bytes is the middle of their range,
    of int4 and uint4 it is 0."""
    axis, size = s.attrs.get("quantize_axis", 1), s.attrs.get("block_size", 128)
    stored, zeros = s.x(0), s.x(3)
    if s.type(0).dtype.name == "uint8":
        bits = s.attrs.get("bits", 4)
        if bits not in (2, 4, 8):
            raise Refuse("MLF0303", f"bits is {bits}; expected 2, 4 or 8")
        stored, *_ = _numbers_in(s, 0, bits)
        if zeros:
            zeros = _columns(s, *_numbers_in(s, 3, bits), s.type(2).shape[-1])
        else:
            zeros = s.const(np.full(s.type(2).shape, 1 << (bits - 1)), np.uint8)
    value = s(
        "DequantizeLinear", stored, s.x(2), *filter(None, [zeros]), axis=axis, block_size=size
    )
    s("Gather", value, s.x(1), out=0, axis=s.attrs.get("gather_axis", 0))


def _numbers_in(s: Steps, i: int, bits: int) -> tuple[str, int]:
    """What the bytes of input `i` hold, and how many along the last axis."""
    *outer, last = s.shape(i, 1, -1)
    last *= 8 // bits
    return (s.x(i) if bits == 8 else _unpacked(s, s.x(i), bits, [*outer, last])), last
