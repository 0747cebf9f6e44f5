"""Elementwise operators of one tensor, and those whose other operands are parameters."""

from __future__ import annotations

import math
from collections.abc import Callable

from mlftool.ir.dtype import float64
from mlftool.ops.base import Known
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.scalar import Exact, Scalar, compared

MATH = ("mlf/math.h",)


def _function(operator: str, name: str) -> None:
    elementwise(operator, lambda m, a: m.call(name, a), includes=MATH)


def _negative(m: Maths, a: Scalar) -> str:
    """The least integer has no opposite: it stays, as in numpy."""
    if m.dtype.is_float:
        return m.same(f"-{a}")
    return f"0U - (uint{max(32, m.dtype.bits)}_t){a}"


def _abs(m: Maths, a: Scalar) -> str:
    if m.dtype.is_float:
        return m.same(m.size(a))
    return str(a) if m.dtype.kind == "u" else f"{a} < 0 ? {_negative(m, a)} : {_unsigned(m, a)}"


def _unsigned(m: Maths, a: Scalar) -> str:
    return f"(uint{max(32, m.dtype.bits)}_t){a}"


def _sign(m: Maths, a: Scalar) -> str:
    one, zero = m.lit(1), m.lit(0)
    if m.dtype.kind == "u":
        return f"{a} != 0 ? 1 : 0"
    rest = f"({a} == {zero} ? {zero} : {a})" if m.dtype.is_float else zero  # nan stays nan
    return m.same(f"{a} > {zero} ? {one} : ({a} < {zero} ? -{one} : {rest})")


def _isinf(m: Maths, a: Scalar, *, detect_negative: int = 1, detect_positive: int = 1) -> str:
    tests = [f"{a} == INFINITY"] * bool(detect_positive)
    tests += [f"{a} == -INFINITY"] * bool(detect_negative)
    # An overflow to infinity in a comparison's operand cannot happen: both are of one type.
    return Exact(" || ".join(tests) or "false")


def _clip(m: Maths, a: Scalar, lo: Scalar | None = None, hi: Scalar | None = None) -> str:
    """No larger than hi, even where lo is; NaN stays."""
    below = "false" if lo is None else compared(a, "<", lo)
    above = "false" if hi is None else compared(a, ">", hi)
    raised = str(a) if below == "false" else f"({below} ? {lo} : {a})"
    if below == "false" or (lo is not None and hi is not None and _in_order(lo, hi)):
        return m.same(raised if above == "false" else f"({above} ? {hi} : {raised})")
    least = str(lo) if hi is None else f"({lo} > {hi} ? {hi} : {lo})"
    inside = str(a) if above == "false" else f"({above} ? {hi} : {a})"
    return m.same(f"({below} ? {least} : {inside})")


def _limits(known: Known) -> tuple[float, float]:
    low, high = (*known[1:], None, None)[:2]
    return (
        -math.inf if low is None else float(low.item()),
        math.inf if high is None else float(high.item()),
    )


def _in_order(lo: Scalar, hi: Scalar) -> bool:
    return lo.value is not None and hi.value is not None and lo.value <= hi.value


def _sigmoid(m: Maths, text: object) -> str:
    return f"{m.lit(1)} / ({m.lit(1)} + {m.call('exp', f'-({text})')})"


def _softplus(m: Maths, a: Scalar) -> str:
    """log(1 + exp(a)) without overflow."""
    tail = m.call("log1p", m.call("exp", f"-{m.size(a)}"))
    return f"{tail} + ({a} > {m.lit(0)} ? {a} : {m.lit(0)})"


def _gelu(m: Maths, a: Scalar, *, approximate: str = "none") -> str:
    if approximate == "tanh":
        cubic = f"{m.lit(0.7978845608028654)} * ({a} + {m.lit(0.044715)} * {a} * {a} * {a})"
        inner = m.call("tanh", cubic)
    else:
        inner = m.call("erf", f"{a} * {m.lit(0.7071067811865476)}")
    return f"{m.lit(0.5)} * {a} * ({m.lit(1)} + {inner})"


def _celu(m: Maths, a: Scalar, *, alpha: float = 1.0) -> str:
    below = f"{m.lit(alpha)} * {m.call('expm1', f'{a} / {m.lit(alpha)}')}"
    return f"{a} < {m.lit(0)} ? {below} : {a}"


def _selu(
    m: Maths, a: Scalar, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323
) -> str:
    below = f"{m.lit(alpha)} * {m.call('expm1', a)}"
    return f"{m.lit(gamma)} * ({a} > {m.lit(0)} ? {a} : {below})"


def _shrink(m: Maths, a: Scalar, *, bias: float = 0.0, lambd: float = 0.5) -> str:
    if not m.dtype.is_float:  # the parameters are floats all the same
        value = Scalar(f"(double){a}", float64)
        text = _shrink(Maths(float64, float64), value, bias=bias, lambd=lambd)
        return f"mlf_i64_of_double({text})"
    inside = f"{a} > {m.lit(lambd)} ? {a} - {m.lit(bias)} : {m.lit(0)}"
    return f"{a} < {m.lit(-lambd)} ? {a} + {m.lit(bias)} : ({inside})"


def _activation(operator: str, expr: Callable[..., str]) -> None:
    elementwise(operator, expr, includes=MATH)


elementwise("Neg", _negative)
elementwise("Abs", _abs)
elementwise("Sign", _sign)
elementwise("Not", lambda m, a: Exact(f"!{a}"))
elementwise("BitwiseNot", lambda m, a: f"~{a}")
elementwise("IsNaN", lambda m, a: Exact(f"{a} != {a}"))
elementwise("IsInf", _isinf)
elementwise("Reciprocal", lambda m, a: f"{m.lit(1)} / {a}")
elementwise("Sqrt", lambda m, a: f"sqrt({a})" if m.dtype.bits == 64 else f"sqrtf({a})")
elementwise(
    "Relu",
    lambda m, a: m.same(f"{a} <= {m.lit(0)} ? {m.lit(0)} : {a}"),
    limits=lambda known: (0.0, math.inf),
)
elementwise("Clip", _clip, limits=_limits)

for _operator in ("Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"):
    _function(_operator, _operator.lower())
for _operator in ("Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Ceil", "Floor"):
    _function(_operator, _operator.lower())
_function("Round", "rint")

_activation("Sigmoid", _sigmoid)
_activation("Softplus", _softplus)
_activation("Gelu", _gelu)
_activation("Celu", _celu)
_activation("Selu", _selu)
_activation("Mish", lambda m, a: f"{a} * {m.call('tanh', _softplus(m, a))}")
_activation("Swish", lambda m, a, *, alpha=1.0: f"{a} * ({_sigmoid(m, f'{m.lit(alpha)} * {a}')})")
_activation(
    "Elu",
    lambda m, a, *, alpha=1.0: f"{a} < {m.lit(0)} ? {m.lit(alpha)} * {m.call('expm1', a)} : {a}",
)
elementwise("Softsign", lambda m, a: f"{a} / ({m.lit(1)} + {m.size(a)})")
elementwise(
    "LeakyRelu", lambda m, a, *, alpha=0.01: f"{a} < {m.lit(0)} ? {m.lit(alpha)} * {a} : {a}"
)
elementwise(
    "ThresholdedRelu",
    lambda m, a, *, alpha=1.0: m.same(f"{a} > {m.lit(alpha)} ? {a} : {m.lit(0)}"),
)
elementwise("Shrink", _shrink, includes=("mlf/convert.h",))
elementwise(
    "HardSigmoid",
    lambda m, a, *, alpha=0.2, beta=0.5: m.clamp(f"{m.lit(alpha)} * {a} + {m.lit(beta)}", 0, 1),
    includes=MATH,
)
elementwise(
    "HardSwish",
    lambda m, a: f"{a} * {m.clamp(f'{a} * {m.lit(1 / 6)} + {m.lit(0.5)}', 0, 1)}",
    includes=MATH,
)
