"""Elementwise operators of several tensors: arithmetic, comparisons, logic, bits, choice.

Integers wrap around and division by zero gives 0, whatever the target: both are undefined in C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, mul, sub
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir import relay
from mlftool.ir.dtype import float64
from mlftool.ir.graph import Node, TensorType
from mlftool.ir.relay import Site
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Refuse, Scope
from mlftool.onnx_rules.shaping import Bounds, Element, exactly, largest_of, least_of, reckoned
from mlftool.ops import folded
from mlftool.ops.base import Affine, Attributes, Facts, Known, Trait
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.scalar import Exact, ExprFn, Scalar, compared, integer_of


def _wide(m: Maths) -> str:
    """The unsigned type in which integers of the computing type wrap around."""
    return "uint64_t" if m.dtype.bits == 64 else "uint32_t"


def _wrapping(sign: str) -> ExprFn:
    def expr(m: Maths, *operands: Scalar) -> str:
        if m.dtype.is_float:
            return _rounding(m, sign, operands)
        return f" {sign} ".join(f"({_wide(m)}){o}" for o in operands)

    return expr


def _rounding(m: Maths, sign: str, operands: tuple[Scalar, ...]) -> str:
    """From left to right."""
    return f" {sign} ".join(map(str, operands))


def _divide(m: Maths, a: Scalar, b: Scalar) -> str:
    """Integers towards zero."""
    if m.dtype.is_float:
        return f"{a} / {b}"
    if b.value is not None:
        minus = f"0U - ({_wide(m)}){a}"
        return {0: "0", -1: minus}.get(int(b.value), f"{a} / {b}")
    text = f"{a} / {b}"
    if m.dtype.kind == "i" and m.dtype.bits >= 32:
        text = f"({b} == -1 ? ({m.dtype.c})(0U - ({_wide(m)}){a}) : {text})"
    return f"{b} == 0 ? 0 : {text}"


def _mod(m: Maths, a: Scalar, b: Scalar, *, fmod: int = 0) -> str:
    """The remainder has the sign of b, or of a with `fmod`."""
    if m.dtype.is_float:
        if fmod:
            return f"fmod({a}, {b})" if m.dtype.bits == 64 else f"fmodf({a}, {b})"
        return m.call("mod", a, b)
    if b.value in (0, -1):
        return "0"
    if m.dtype.kind == "u":
        return f"{b} == 0 ? 0 : {a} % {b}"
    rest = f"{a} % {b}"
    if not fmod:
        rest = f"({rest} != 0 && ({rest} < 0) != ({b} < 0) ? {rest} + {b} : {rest})"
    return f"{b} == 0 || {b} == -1 ? 0 : {rest}"


def _pow(m: Maths, a: Scalar, b: Scalar) -> str:
    if not m.dtype.is_float:
        if not b.dtype.is_float:
            return f"mlf_pow_integer((int64_t){a}, (int64_t){b})"
        return integer_of(m.dtype, float64, f"mlf_pow((double){a}, (double){b})")
    simple = {1: str(a), 2: f"{a} * {a}", -1: f"{m.lit(1)} / {a}"}  # as exact as any
    if b.value in simple:
        return simple[int(b.value or 0)]
    return m.call("pow", a, f"({m.dtype.c}){b}")


def _extreme(sign: str) -> ExprFn:
    """Min or Max of any number of operands; a NaN anywhere wins."""

    def expr(m: Maths, *operands: Scalar) -> str:
        best = operands[0]
        for b in operands[1:]:
            test = compared(b, sign, best)
            if m.dtype.is_float:
                test = f"{test} || {b} != {b}"
            decided = {"true": b, "false": best}
            best = decided.get(test) or Scalar(f"({test} ? {b} : {best})", best.dtype)
        return m.same(str(best))

    return expr


def _shift(m: Maths, a: Scalar, b: Scalar, *, direction: str) -> str:
    """Bits that are shifted out are gone, however far it goes; a negative number stays negative."""
    bits = m.dtype.bits
    if direction == "LEFT":
        return f"({_wide(m)}){b} < {bits} ? ({_wide(m)}){a} << {b} : 0"
    beyond = f"({a} < 0 ? -1 : 0)" if m.dtype.kind == "i" else "0"
    return f"({_wide(m)}){b} < {bits} ? {a} >> {b} : {beyond}"


def _compare(sign: str) -> ExprFn:
    return lambda m, a, b: Exact(compared(a, sign, b))


def _logical(sign: str) -> ExprFn:
    return lambda m, a, b: Exact(f"{a} {sign} {b}")


def _equal(m: Maths, a: Scalar, b: Scalar) -> str:
    if a.dtype.kind == "s":
        return Exact(f"mlf_string_equal(&{a}, &{b})")
    return Exact(compared(a, "==", b))


def _bitwise(sign: str) -> ExprFn:
    return lambda m, a, b: f"{a} {sign} {b}"


def _prelu(m: Maths, a: Scalar, slope: Scalar) -> str:
    if m.dtype.kind == "u":
        return str(a)
    product = _wrapping("*")(m, slope, a)
    product = product if m.dtype.is_float else f"({m.dtype.c})({product})"
    return f"{a} < {m.lit(0)} ? {product} : {a}"


def _relay_shift(s: Site) -> str:
    way = "left_shift" if s.attr("direction", "LEFT") == "LEFT" else "right_shift"
    return s.call(way, s.arg(0), s.arg(1))


def _relay_mod(s: Site) -> str:
    # Relay's mod truncates, as C does.
    return s.call("mod" if s.attr("fmod", 0) else "floor_mod", s.arg(0), s.arg(1))


def _relay_prelu(s: Site) -> str | None:
    """One slope for each channel; other slopes as what they do."""
    negative = s.call("minimum", s.arg(), s.literal(0))
    return s.call("add", s.call("nn.relu", s.arg()), s.call("multiply", negative, s.arg(1)))


def _shifted(known: Known, attrs: Attributes) -> Affine:
    value = next((k for k in known if k is not None), None)
    return None if value is None else (np.ones(1), value)


def _difference(known: Known, attrs: Attributes) -> Affine:
    left, right = known
    if left is not None:
        return np.array([-1.0]), left
    return None if right is None else (np.ones(1), -right)


def _scaled(known: Known, attrs: Attributes) -> Affine:
    value = next((k for k in known if k is not None), None)
    return None if value is None else (value, np.zeros(1))


def _quotient(known: Known, attrs: Attributes) -> Affine:
    left, right = known
    if left is not None or right is None or np.any(right == 0):
        return None
    return 1 / right, np.zeros(1)


def _one_sided_broadcast(scope: Scope, d: Draft) -> None:
    """Before 7 the second operand alone was repeated, its first axis standing at `axis`."""
    x, y = d.types[0], d.types[1]
    axis = d.attrs.pop("axis", None)
    d.attrs.pop("broadcast", None)
    if axis is None or x is None or y is None:
        return
    after = len(x.shape) - axis % len(x.shape) - len(y.shape)
    d.inputs[1] = d.reshaped(scope, d.inputs[1], TensorType(y.dtype, y.shape + (1,) * after))


def _widened(scope: Scope, node: NodeProto) -> TensorType | None:
    """PRelu's output where slopes are wider than the input, which older opsets do not allow."""
    given = [scope.types[n] for n in node.input]
    if scope.opsets[""] < 7:
        return None
    try:
        wider = np.broadcast_shapes(*(t.shape for t in given))
    except ValueError:
        text = f"{' and '.join(map(str, given))} do not broadcast"
        raise Refuse("MLF0303", text) from None
    return TensorType(given[0].dtype, wider) if wider != given[0].shape else None


def _slope_per_channel(scope: Scope, d: Draft) -> None:
    """Before 7 a vector of slopes went along the channels, axis 1."""
    x, slope = d.types[0], d.types[1]
    if x is None or slope is None or len(slope.shape) != 1 or slope.shape == (1,):
        return
    shape = slope.shape + (1,) * (len(x.shape) - 2)
    d.inputs[1] = d.reshaped(scope, d.inputs[1], TensorType(slope.dtype, shape))


def _each(pick: Callable[[Sequence[Element]], Element]) -> Bounds:
    """What is known of an element by what is known of the elements that it is made of."""

    def bounds(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element] | None:
        count, row = scope.types[node.result].elements, scope.types[node.result].dtype
        if any(scope.types[name].dtype.is_float for name in node.inputs):
            return None
        rows = [p * count if len(p) == 1 else p for p in parts]
        equal = len({len(r) for r in rows}) == 1
        reach = range(int(row.range[0]), int(row.range[1]) + 1)
        found = [pick(each) for each in zip(*rows, strict=True)] if equal else []
        fits = all(n in reach for e in found for n in (e.least, e.most) if n is not None)
        return found if found and fits else None

    return bounds


def _are_equal(pair: Sequence[Element]) -> Element:
    """1 or 0 where that is certain."""
    a, b = pair
    if a == b and (a.exact or a.symbol):
        return exactly(1)
    apart = any(
        low.most is not None and high.least is not None and low.most < high.least
        for low, high in ((a, b), (b, a))
    )
    return exactly(0) if apart else Element(1, least=0)


def _chosen(trio: Sequence[Element]) -> Element:
    condition, a, b = trio
    if a == b or condition.exact:
        return a if condition.most else b
    return largest_of((a, b))


def _has_the_axis(f: Facts) -> str:
    return f.has_axes() if "axis" in f.attrs else ""


def _binary(name: str, expr: ExprFn, relay_op: str, *traits: Trait, **fields: Any) -> None:
    fields |= {"older": ((7, _one_sided_broadcast),), "checks": (_has_the_axis,)}
    elementwise(name, expr, *traits, relay=relay.binary(relay_op), **fields)


_PARTS = reckoned(lambda a, b: a // b if b else None, 1, falls=True)
_binary(
    "Add", _wrapping("+"), "add", Trait.ADDITION, affine=_shifted, bounds=_each(reckoned(add, 0))
)
_binary(
    "Sub",
    _wrapping("-"),
    "subtract",
    affine=_difference,
    bounds=_each(reckoned(sub, 0, falls=True)),
)
_binary(
    "Mul",
    _wrapping("*"),
    "multiply",
    Trait.MULTIPLICATION,
    affine=_scaled,
    bounds=_each(reckoned(mul, 1)),
)
_binary("Div", _divide, "divide", affine=_quotient, bounds=_each(_PARTS))
_binary("Pow", _pow, "power", includes=("mlf/math.h", "mlf/convert.h"), constant=folded.power)
_binary("BitwiseAnd", _bitwise("&"), "bitwise_and")
_binary("BitwiseOr", _bitwise("|"), "bitwise_or")
_binary("BitwiseXor", _bitwise("^"), "bitwise_xor")
_binary("And", _logical("&&"), "logical_and")
_binary("Or", _logical("||"), "logical_or")
_binary("Xor", _logical("!="), "logical_xor")
_binary("Equal", _equal, "equal", bounds=_each(_are_equal))
_binary("Less", _compare("<"), "less")
_binary("LessOrEqual", _compare("<="), "less_equal")
_binary("Greater", _compare(">"), "greater")
_binary("GreaterOrEqual", _compare(">="), "greater_equal")
elementwise("Sum", _wrapping("+"), relay=relay.variadic("add"))
elementwise(
    "Mean",
    lambda m, *operands: f"({_rounding(m, '+', operands)}) / {m.lit(len(operands))}",
    relay=relay.variadic("add", mean=True),
    constant=folded.mean,
)
elementwise("Mod", _mod, includes=("mlf/math.h",), relay=_relay_mod)
elementwise(
    "Min", _extreme("<"), Trait.STEPWISE, bounds=_each(least_of), relay=relay.variadic("minimum")
)
elementwise(
    "Max", _extreme(">"), Trait.STEPWISE, bounds=_each(largest_of), relay=relay.variadic("maximum")
)
elementwise(
    "PRelu",
    _prelu,
    Trait.SLOPE,
    typed=_widened,
    relay=_relay_prelu,
    older=((7, _slope_per_channel),),
    constant=folded.prelu,
)
elementwise("BitShift", _shift, relay=_relay_shift)
elementwise(
    "Where",
    lambda m, condition, a, b: m.same(f"{condition} ? {a} : {b}"),
    bounds=_each(_chosen),
    relay=lambda s: s.call("where", *s.args()),
)
