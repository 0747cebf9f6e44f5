"""Elementwise operators in fixed point. What else is elementwise in TensorFlow Lite, such as a sum
of two tensors, is Rescales around an operator of int32."""

from __future__ import annotations

from mlftool.ir.rounding import Rescaling, Rounding
from mlftool.ops.base import Trait
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.scalar import Scalar

FIXED = ("mlf/fixed.h",)
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


def _rescale(m: Maths, a: Scalar, *, how: Rescaling = NOTHING) -> str:
    text = f"mlf_rescale({less(a, how.before, how.left)}, {how.m}, {how.exponent})"
    return limited(m, text, how.after, how.low, how.high)


def _divide(m: Maths, a: Scalar, b: Scalar, *, zero: int = 0, how: Rescaling = NOTHING) -> str:
    """(a - how.before) / (b - zero), rescaled."""
    quotient = f"{less(a, how.before)}, {less(b, zero)}, {how.m}, {how.exponent}"
    return limited(m, f"mlf_divide_fixed({quotient})", how.after, how.low, how.high)


def _curve(name: str):  # type: ignore[no-untyped-def]
    def expr(m: Maths, a: Scalar, *, m_: int = 0, by: int = 0) -> str:
        return f"mlf_{name}_fixed({a}, {m_}, {by})"

    return expr


def _inverse_root(
    m: Maths, a: Scalar, *, before: int = 0, m_: int = 0, exponent: int = 0, after: int = 0
) -> str:
    """1 / sqrt(a - before), the greatest where that is 0."""
    least, most = m.out.range
    root = f"mlf_inverse_root_fixed({less(a, before)}, {m_}, {exponent})"
    return f"{a} <= {before} ? {most} : {limited(m, root, after, least, most)}"


def _quantize(m: Maths, a: Scalar, scale: Scalar, *, zero: int = 0) -> str:
    """a / scale to the nearest integer, halves away from zero, and the zero point; nan is least."""
    low, high = m.out.range
    return f"mlf_quantize_away({a} / {scale}, {zero}, {low}, {high})"


elementwise("mlf.QuantizeAway", _quantize, includes=FIXED)
elementwise("mlf.Rescale", _rescale, Trait.RESCALER, includes=Rounding.TWICE.includes)
elementwise("mlf.DivideFixed", _divide, includes=FIXED)
elementwise("mlf.LogisticFixed", _curve("logistic"), includes=FIXED)
elementwise("mlf.TanhFixed", _curve("tanh"), includes=FIXED)
elementwise("mlf.InverseRootFixed", _inverse_root, includes=FIXED)
