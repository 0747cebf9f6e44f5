"""Operators that change the element type: Cast, QuantizeLinear, DequantizeLinear, which are
elementwise, and DynamicQuantizeLinear, which finds its scale out first."""

from __future__ import annotations

from mlftool.ir.dtype import BY_ONNX, DType
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, Trait, op
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.scalar import Exact, Scalar, settle, tensor_operand, widen

CONVERT = ("mlf/convert.h",)


def _as_float(a: Scalar) -> str:
    """A value as a float that rounds to narrower types as the value itself would."""
    if a.dtype.codec or a.dtype.name == "float32":
        return str(a)
    if a.dtype.name == "float64":
        return f"mlf_float_to_odd({a})"
    return f"mlf_float_to_odd((double){a})" if a.dtype.bits >= 32 else f"(float){a}"


def _narrow_float(out: DType, text: str, saturate: int, round_mode: str = "up") -> Exact:
    """`text`, a float, as a value of a narrow type."""
    mode = "_sat" if saturate and out.codec.startswith(("e4", "e5", "e8")) else ""
    mode = f"_{round_mode}{mode}" if out.codec == "e8m0" else mode
    return Exact(widen(out, f"mlf_{out.codec}_of_float{mode}({text})"))


def _cast(m: Maths, a: Scalar, *, saturate: int = 1, round_mode: str = "up") -> str:
    out, source = m.out, a.dtype
    if out == source:
        return Exact(a)
    if out.kind == "b":
        return Exact(f"{a} != 0")
    if out.codec:
        return _narrow_float(out, _as_float(a), saturate, round_mode)
    if out.is_float:
        return Exact(a) if source.codec and out.bits == 32 else Exact(f"({out.c}){a}")
    if source.is_float:
        name = "double" if source.bits == 64 else "float"
        kind = {"uint64": "u64", "uint32": "i64", "int64": "i64"}.get(out.name, "i32")
        return f"mlf_{kind}_of_{name}({a})"
    return str(a)


def _dequantize(m: Maths, x: Scalar, scale: Scalar, zero_point: Scalar | None = None) -> str:
    """Computed in float32, whatever the scale's type."""
    value = str(x) if x.dtype.is_float else f"(float){x}"
    if zero_point is None or zero_point.value == 0 or x.dtype.is_float:
        return f"{value} * {scale}"
    if x.dtype.bits >= 32:
        return f"({value} - (float){zero_point}) * {scale}"
    return f"(float)({x} - {zero_point}) * {scale}"


def _quantize(
    m: Maths,
    x: Scalar,
    scale: Scalar,
    zero_point: Scalar | None = None,
    *,
    saturate: int = 1,
    precision: int = 0,
) -> str:
    """The quotient has the scale's type, or `precision`."""
    value = str(x) if x.dtype.is_float else f"(float){x}"
    ratio = settle(BY_ONNX[precision] if precision else scale.dtype, f"{value} / {scale}")
    zero = "0" if zero_point is None else str(zero_point)
    if not m.out.is_float:
        lo, hi = m.out.range
        return f"mlf_quantize({ratio}, {zero}, {lo}, {hi})"
    if zero_point is not None and zero_point.value != 0 and m.out.packed:
        ratio = f"{ratio} + {zero}"
    return _narrow_float(m.out, ratio, saturate)


elementwise("Cast", _cast, includes=CONVERT)
elementwise("DequantizeLinear", _dequantize, Trait.QUANTISE)
elementwise("QuantizeLinear", _quantize, Trait.QUANTISE)


@op("DynamicQuantizeLinear")
def dynamic_quantize(v: View) -> Kernel:
    """uint8 between the least and the largest element, zero included; scale and zero point too."""
    y, scale, zero_point = v.node.outputs
    return Kernel(
        "portable.dynamic_quantise",
        "dynamic_quantise.c.j2",
        {"elements": v.x(0).elements},
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("y", "uint8_t", "out", y),
            Operand("scale", "float", "out", scale),
            Operand("zero_point", "uint8_t", "out", zero_point),
        ),
        cost=v.x(0).elements * 30.0,
    )
