"""Elementwise operators of one tensor, and those whose other operands are parameters."""

from __future__ import annotations

import math

import numpy as np

from mlftool.ir import relay
from mlftool.ir.dtype import float32, float64
from mlftool.ir.relay import Rule, Site
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Scope
from mlftool.ops import folded
from mlftool.ops.base import Known, Trait, Value
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.scalar import Exact, ExprFn, Scalar, compared, integer_of

MATH = ("mlf/math.h",)


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


_ENDS = (-math.inf, math.inf)


def _limits(known: Known) -> tuple[float, float]:
    """In order: where the lower is above the upper, all becomes the upper."""
    ends = (*known[1:], None, None)[:2]
    low, high = (e if k is None else float(k.item()) for e, k in zip(_ENDS, ends, strict=True))
    return min(low, high), high


def _bounds_to_inputs(scope: Scope, d: Draft) -> None:
    row = d.types[0].dtype if d.types[0] is not None else float32
    for name in ("min", "max"):
        bound = d.attrs.pop(name, None)
        d.inputs.append(
            "" if bound is None else d.constant(scope, name, np.array(bound, row.numpy))
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
    if alpha == 0:  # max(0, a) + min(0, 0 * (exp(a / 0) - 1))
        return f"{a} < {m.lit(0)} ? {m.lit(0)} : {m.lit(math.nan)}"
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
        return integer_of(m.dtype, float64, text)
    inside = f"{a} > {m.lit(lambd)} ? {a} - {m.lit(bias)} : {m.lit(0)}"
    return f"{a} < {m.lit(-lambd)} ? {a} + {m.lit(bias)} : ({inside})"


def _relay_round(s: Site) -> str:
    """Halves to even; Relay's own round takes them away from zero."""
    below = s.call("subtract", s.arg(), s.literal(0.5))
    low = s.call("ceil", below)
    odd = s.call("equal", s.call("abs", s.call("mod", low, s.literal(2))), s.literal(1))
    up = s.call("logical_and", s.call("equal", low, below), odd)
    return s.call("where", up, s.call("add", low, s.literal(1)), low)


def _relay_is_inf(s: Site) -> str | None:
    both = s.attr("detect_negative", 1) and s.attr("detect_positive", 1)
    return s.call("isinf", s.arg()) if both else None


def _relay_clip(s: Site) -> str | None:
    low, high = s.scalar(1), s.scalar(2)
    if low is not None and high is not None:
        return s.call("clip", s.arg(), a_min=low, a_max=high)
    x = s.arg()
    if s.has(1):
        x = s.call("maximum", x, s.single(1))
    return s.call("minimum", x, s.single(2)) if s.has(2) else x


def _relay_line(s: Site, x: str, factor: float, offset: float, clip: bool = False) -> str:
    """factor * x + offset, between 0 and 1 with `clip`."""
    y = s.call("add", s.call("multiply", x, s.literal(factor)), s.literal(offset))
    return s.call("clip", y, a_min=0.0, a_max=1.0) if clip else y


def _relay_below(s: Site, x: str, inner: str, alpha: float) -> str:
    """relu(x) + alpha * (exp(inner) - 1) where that is negative"""
    rise = s.call("subtract", s.call("exp", inner), s.literal(1))
    fall = s.call("minimum", s.call("multiply", rise, s.literal(alpha)), s.literal(0))
    return s.call("add", s.call("nn.relu", x), fall)


def _relay_elu(s: Site) -> str | None:
    alpha = s.attr("alpha", 1.0)
    return _relay_below(s, s.arg(), s.arg(), alpha) if alpha >= 0 else None


def _relay_celu(s: Site) -> str | None:
    alpha = s.attr("alpha", 1.0)
    if alpha <= 0:
        return None
    return _relay_below(s, s.arg(), s.call("divide", s.arg(), s.literal(alpha)), alpha)


def _relay_selu(s: Site) -> str:
    alpha, gamma = s.attr("alpha", 1.6732631921768188), s.attr("gamma", 1.0507010221481323)
    return s.call("multiply", _relay_below(s, s.arg(), s.arg(), alpha), s.literal(gamma))


def _relay_softplus(s: Site, index: int = 0) -> str:
    return s.call("log", s.call("add", s.call("exp", s.arg(index)), s.literal(1)))


def _relay_swish(s: Site) -> str:
    inner = s.call("multiply", s.arg(), s.literal(s.attr("alpha", 1.0)))
    return s.call("multiply", s.arg(), s.call("sigmoid", inner))


def _relay_gelu(s: Site) -> str | None:
    if s.attr("approximate", "none") != "none":
        return None
    inner = s.call("erf", s.call("multiply", s.arg(), s.literal(0.5**0.5)))
    return s.call("multiply", s.arg(), _relay_line(s, inner, 0.5, 0.5))


def _relay_thresholded_relu(s: Site) -> str:
    above = s.call("greater", s.arg(), s.literal(s.attr("alpha", 1.0)))
    return s.call("where", above, s.arg(), s.call("zeros_like", s.arg()))


def _function(name: str) -> ExprFn:
    return lambda m, a: m.call(name, a)


def _activation(operator: str, expr: ExprFn, rule: Rule, constant: Value | None = None) -> None:
    elementwise(operator, expr, includes=MATH, relay=rule, constant=constant)


elementwise("Neg", _negative, relay=relay.unary("negative"))
elementwise("Abs", _abs, relay=relay.unary("abs"))
elementwise("Sign", _sign, relay=relay.unary("sign"))
elementwise("Not", lambda m, a: Exact(f"!{a}"), relay=relay.unary("logical_not"))
elementwise("BitwiseNot", lambda m, a: f"~{a}", relay=relay.unary("bitwise_not"))
elementwise("IsNaN", lambda m, a: Exact(f"{a} != {a}"), relay=relay.unary("isnan"))
elementwise("IsInf", _isinf, relay=_relay_is_inf)
elementwise(
    "Reciprocal",
    lambda m, a: f"{m.lit(1)} / {a}",
    relay=lambda s: s.call("divide", s.literal(1), s.arg()),
)
elementwise("Sqrt", lambda m, a: m.root(a), includes=("mlf/root.h",), relay=relay.unary("sqrt"))
elementwise(
    "Relu",
    lambda m, a: m.same(f"{a} <= {m.lit(0)} ? {m.lit(0)} : {a}"),
    limits=lambda known: (0.0, math.inf),
    relay=relay.unary("nn.relu"),
)
elementwise(
    "Clip",
    _clip,
    limits=_limits,
    relay=_relay_clip,
    older=((11, _bounds_to_inputs),),
    constant=folded.clip,
)

_FUNCTIONS = "Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Ceil Floor"
for _name in _FUNCTIONS.split():
    _activation(_name, _function(_name.lower()), relay.unary(_name.lower()))
_activation("Erf", _function("erf"), relay.unary("erf"), folded.erf)
_activation("Round", _function("rint"), _relay_round)

_activation("Sigmoid", _sigmoid, relay.unary("sigmoid"))
_activation("Softplus", _softplus, _relay_softplus)
_activation("Gelu", _gelu, _relay_gelu)
_activation("Celu", _celu, _relay_celu)
_activation("Selu", _selu, _relay_selu)
_activation(
    "Mish",
    lambda m, a: f"{a} * {m.call('tanh', _softplus(m, a))}",
    lambda s: s.call("multiply", s.arg(), s.call("tanh", _relay_softplus(s))),
)
_activation(
    "Swish",
    lambda m, a, *, alpha=1.0: f"{a} * ({_sigmoid(m, f'{m.lit(alpha)} * {a}')})",
    _relay_swish,
)
_activation(
    "Elu",
    lambda m, a, *, alpha=1.0: f"{a} < {m.lit(0)} ? {m.lit(alpha)} * {m.call('expm1', a)} : {a}",
    _relay_elu,
)
elementwise(
    "Softsign",
    lambda m, a: f"{a} / ({m.lit(1)} + {m.size(a)})",
    relay=lambda s: s.call("divide", s.arg(), s.call("add", s.call("abs", s.arg()), s.literal(1))),
    constant=folded.softsign,
)
elementwise(
    "LeakyRelu",
    lambda m, a, *, alpha=0.01: f"{a} < {m.lit(0)} ? {m.lit(alpha)} * {a} : {a}",
    relay=lambda s: s.call("nn.leaky_relu", s.arg(), alpha=float(s.attr("alpha", 0.01))),
    constant=folded.leaky_relu,
)
elementwise(
    "ThresholdedRelu",
    lambda m, a, *, alpha=1.0: m.same(f"{a} > {m.lit(alpha)} ? {a} : {m.lit(0)}"),
    Trait.EARLY,
    relay=_relay_thresholded_relu,
)
elementwise("Shrink", _shrink, includes=("mlf/convert.h",))
_activation(
    "HardSigmoid",
    lambda m, a, *, alpha=0.2, beta=0.5: m.clamp(f"{m.lit(alpha)} * {a} + {m.lit(beta)}", 0, 1),
    lambda s: _relay_line(s, s.arg(), s.attr("alpha", 0.2), s.attr("beta", 0.5), clip=True),
)
_activation(
    "HardSwish",
    lambda m, a: f"{a} * {m.clamp(f'{a} * {m.lit(1 / 6)} + {m.lit(0.5)}', 0, 1)}",
    lambda s: s.call("multiply", s.arg(), _relay_line(s, s.arg(), 1 / 6, 0.5, clip=True)),
)
