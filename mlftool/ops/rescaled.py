"""Integers times a number in fixed point, as TensorFlow Lite rounds them: those of one tensor, and
products of two. Kernels take them with their neighbours (ops/pairs.py)."""

from __future__ import annotations

from mlftool.ir.rounding import Rescaling, Rounding
from mlftool.ops.base import Trait
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.scalar import Scalar

NOTHING = Rescaling()


def limited(m: Maths, text: str, zero: int, low: int, high: int) -> str:
    """`text` and the output's zero point, within limits; int32 has no limits."""
    plus = f" {'-' if zero < 0 else '+'} {abs(zero)}" if zero else ""
    if m.out.bits > 16:
        return f"(int32_t)((uint32_t){text} + (uint32_t){zero})" if zero else text
    return f"mlf_clamp_i32({text}{plus}, {low}, {high})"


def less(a: Scalar, zero: int, left: int = 0) -> str:
    """C text of (a - zero) * 2^left as int32, wrapped if a is one already."""
    if a.dtype.bits > 16:
        text = f"(int32_t)((uint32_t){a} - (uint32_t){zero})" if zero else str(a)
    else:
        text = f"((int32_t){a} {'+' if zero < 0 else '-'} {abs(zero)})" if zero else f"(int32_t){a}"
    return f"(int32_t)((uint32_t){text} << {left})" if left else text


def _rescale(
    m: Maths, a: Scalar, *, how: Rescaling = NOTHING, function: str = "mlf_rescale"
) -> str:
    text = f"{function}({less(a, how.before, how.left)}, {how.m}, {how.exponent})"
    return limited(m, text, how.after, how.low, how.high)


def _rescale_once(m: Maths, a: Scalar, *, how: Rescaling = NOTHING) -> str:
    return _rescale(m, a, how=how, function="mlf_rescale_once")


def _multiply(m: Maths, a: Scalar, b: Scalar, *, zero: int = 0, how: Rescaling = NOTHING) -> str:
    """(a - how.before) * (b - zero), rescaled. Products of bytes do not wrap around."""
    factors = less(a, how.before), less(b, zero)
    product = " * ".join(factors)
    if a.dtype.bits > 8:
        product = f"(int32_t)({' * '.join(f'(uint32_t){f}' for f in factors)})"
    text = f"mlf_rescale({product}, {how.m}, {how.exponent})"
    return limited(m, text, how.after, how.low, how.high)


INCLUDES = Rounding.TWICE.includes
elementwise("mlf.Rescale", _rescale, Trait.RESCALER, includes=INCLUDES)
elementwise("mlf.RescaleOnce", _rescale_once, includes=INCLUDES)
elementwise("mlf.MultiplyFixed", _multiply, Trait.RESCALER, includes=INCLUDES)
