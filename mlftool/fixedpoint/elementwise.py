"""Elementwise operators in fixed point. What else is elementwise in TensorFlow Lite, such as a sum
of two tensors, is Rescales around an operator of int32."""

from __future__ import annotations

from mlftool.ir.rounding import Rescaling
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.rescaled import NOTHING, less, limited
from mlftool.ops.scalar import Scalar

FIXED = ("mlf/fixed.h",)


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
elementwise("mlf.DivideFixed", _divide, includes=FIXED)
elementwise("mlf.LogisticFixed", _curve("logistic"), includes=FIXED)
elementwise("mlf.TanhFixed", _curve("tanh"), includes=FIXED)
elementwise("mlf.InverseRootFixed", _inverse_root, includes=FIXED)
