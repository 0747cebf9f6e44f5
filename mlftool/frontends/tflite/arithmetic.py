"""Elementwise operators of several tensors.

On quantised tensors they are operators of int32 between Rescales, which fuse into one loop.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from mlftool.frontends.tflite.model import Tensor
from mlftool.frontends.tflite.site import INTEGERS, RefusedError, Site, one_of, operator
from mlftool.ir import dtype
from mlftool.ir.dtype import DType
from mlftool.ir.graph import TensorType
from mlftool.ir.rounding import Rescaling, multiplier, rescaled

WIDE = one_of("int32", "int64")


def broadcast(s: Site, *tensors: Tensor) -> tuple[int, ...]:
    """The shape of all. Raises RefusedError unless it is the output's."""
    try:
        shape = np.broadcast_shapes(*(t.type.shape for t in tensors))
    except ValueError:
        raise RefusedError("inputs " + " and ".join(str(t.type) for t in tensors)) from None
    s.expect(shape == s.y().type.shape, f"an output {s.y().type}; expected the shape {shape}")
    return shape


def same_types(s: Site, *tensors: Tensor, also: frozenset[str]) -> str:
    """The element type that all have."""
    kinds = {t.type.dtype.name for t in tensors}
    s.expect(len(kinds) == 1, f"inputs of types {', '.join(sorted(kinds))}; supported: one type")
    known = one_of("float32") | INTEGERS | also
    found = kinds.pop()
    s.expect(found in known, f"{found}; supported: {', '.join(sorted(known))}")
    return found


def rescale(
    s: Site,
    name: str,
    real: float,
    out: str | DType,
    *,
    before: int = 0,
    left: int = 0,
    after: int = 0,
    limits: tuple[int, int] = (0, 0),
    once: bool = False,
) -> str:
    """(name - before) * 2^left * real + after, as the value `out` or a new one of that type,
    rounded twice, or `once`."""
    how = Rescaling(before, left, *multiplier(real), after, *limits)
    value = s.draft.consts.get(name)
    if value is not None and isinstance(out, DType) and out.bits == 32:
        return s.const(how.apply(value).astype(np.int32))
    type_ = s.draft.types[name]
    made_as = TensorType(out, type_.shape) if isinstance(out, DType) else out
    op = "mlf.RescaleOnce" if once else "mlf.Rescale"
    return s.add(op, (name,), made_as, asdict(how))


def widened(s: Site, name: str, zero: int) -> str:
    """int32: the integers less their zero point."""
    value = s.draft.consts.get(name)
    if value is not None:
        return s.const((value.astype(np.int64) - zero).astype(np.int32))
    wide = TensorType(dtype.int32, s.draft.types[name].shape)
    made = s.add("Cast", (name,), wide, {"to": dtype.int32.onnx})
    return s.add("Sub", (made, s.const(np.int32(zero))), wide) if zero else made


def below_one(s: Site, *factors: float) -> None:
    s.expect(all(f < 1 for f in factors), "scales so far apart that a factor is 1 or more")


def sum_of(s: Site, op: str, left: int) -> None:
    """Sums and differences: both operands on one scale, twice the larger one."""
    a, b, y = s.x(0), s.x(1), s.y()
    top = 2 * max(s.scale(a), s.scale(b))
    factors = [s.scale(a) / top, s.scale(b) / top, top / (2**left * s.scale(y))]
    below_one(s, *factors)
    parts = [
        rescale(s, s.name(i), f, dtype.int32, before=s.zero(t), left=left)
        for i, (t, f) in enumerate(zip((a, b), factors, strict=False))
    ]
    total = s.add(op, parts, TensorType(dtype.int32, y.type.shape))
    rescale(s, total, factors[2], s.out(), after=s.zero(y), limits=s.stored_limits())


def _sum(op: str) -> None:
    def rule(s: Site) -> None:
        shape = broadcast(s, s.x(0), s.x(1))
        row = same_types(s, s.x(0), s.x(1), also=WIDE)
        if row in INTEGERS:
            same_types(s, s.x(0), s.y(), also=WIDE)
            sum_of(s, op, 20 if row == "int8" else 15)
            return
        made = s.add(op, (s.name(0), s.name(1)), TensorType(s.y().type.dtype, shape))
        # TensorFlow Lite Micro leaves out the activation of a sum of int32; LiteRT, which alone has
        # sums of int64, does not.
        if op == "Add" and row == "int32":
            s.add("Identity", (made,), s.out())
        else:
            s.within(made, s.out())

    operator("ADD" if op == "Add" else "SUB")(rule)


_sum("Add")
_sum("Sub")


@operator("MUL")
def multiply(s: Site) -> None:
    a, b, y = s.x(0), s.x(1), s.y()
    shape, row = broadcast(s, a, b), same_types(s, a, b, also=WIDE)
    if row not in INTEGERS:
        s.within(s.add("Mul", (s.name(0), s.name(1)), TensorType(y.type.dtype, shape)), s.out())
        return
    same_types(s, a, y, also=WIDE)
    factor = multiplier(s.scale(a) * s.scale(b) / s.scale(y))
    how = Rescaling(s.zero(a), 0, *factor, s.zero(y), *s.stored_limits())
    attrs = {**asdict(how), "zero": s.zero(b)}
    s.add("mlf.MultiplyFixed", (s.name(0), s.name(1)), s.out(), attrs)


@operator("SQUARED_DIFFERENCE")
def squared_difference(s: Site) -> None:
    a, b, y = s.x(0), s.x(1), s.y()
    shape, row = broadcast(s, a, b), same_types(s, a, b, also=one_of("int32"))
    type_ = TensorType(dtype.int32 if row in INTEGERS else y.type.dtype, shape)
    if row not in INTEGERS:
        away = s.add("Sub", (s.name(0), s.name(1)), type_)
        s.add("Mul", (away, away), s.out())
        return
    same_types(s, a, y, also=one_of("int32"))
    left = 7 if row == "int8" else 0
    top = 2 * max(s.scale(a), s.scale(b))
    parts = [
        rescale(s, s.name(i), s.scale(t) / top, dtype.int32, before=s.zero(t), left=left)
        for i, t in enumerate((a, b))
    ]
    away = s.add("Sub", parts, type_)
    square = s.add("Mul", (away, away), type_)
    real = top * top / (2 ** (2 * left) * s.scale(y))
    rescale(s, square, real, s.out(), after=s.zero(y), limits=y.type.dtype.range)


@operator("DIV")
def divide(s: Site) -> None:
    a, b, y = s.x(0), s.x(1), s.y()
    shape, row = broadcast(s, a, b), same_types(s, a, b, also=one_of("int32"))
    if row not in INTEGERS:
        s.within(s.add("Div", (s.name(0), s.name(1)), TensorType(y.type.dtype, shape)), s.out())
        return
    same_types(s, a, y, also=one_of("int32"))
    factor = multiplier(s.scale(a) / (s.scale(b) * s.scale(y)))
    how = Rescaling(s.zero(a), 0, *factor, s.zero(y), *s.stored_limits())
    attrs = {**asdict(how), "zero": s.zero(b)}
    s.add("mlf.DivideFixed", (s.name(0), s.name(1)), s.out(), attrs)


@operator("ADD_N")
def add_n(s: Site) -> None:
    """Sums of int8 start at the rescaled zero point, as in TensorFlow Lite Micro."""
    tensors = [s.x(i) for i in range(len(s.node.inputs))]
    y, row = s.y(), same_types(s, *tensors, also=one_of("int32"))
    s.expect(all(t.type == y.type for t in tensors), "inputs and an output of different types")
    if row in ("float32", "int32"):
        total = s.name(0)
        for i in range(1, len(tensors)):
            total = s.add("Add", (total, s.name(i)), y.type)
        s.add("Identity", (total,), s.out())
        return
    s.expect(row == "int8", f"{row}; supported: float32, int8, int32")
    scale, zero = s.scale(tensors[0]), s.zero(tensors[0])
    s.expect(all(s.scale(t) == scale for t in tensors), "inputs of different scales")
    wide = TensorType(dtype.int32, y.type.shape)
    m, exponent = multiplier(0.5)
    total = s.const(np.int32(rescaled(-zero << 20, m, exponent)))
    for i in range(len(tensors)):
        part = rescale(s, s.name(i), 0.5, dtype.int32, before=s.zero(tensors[i]), left=20)
        total = s.add("Add", (part, total), wide)
    real = 2 * scale / (2**20 * s.scale(y))
    below_one(s, real)
    rescale(s, total, real, s.out(), after=s.zero(y), limits=y.type.dtype.range)


def _compared(kind: str, op: str, equality: bool) -> None:
    def rule(s: Site) -> None:
        a, b = s.x(0), s.x(1)
        broadcast(s, a, b)
        row = same_types(s, a, b, also=WIDE | (one_of("bool") if equality else frozenset()))
        names = [s.name(0), s.name(1)]
        if row == "int16" and not equality:  # LiteRT compares what is stored
            found = [(s.scale(t), s.zero(t)) for t in (a, b)]
            s.expect(found[0] == found[1], "int16 with different scales; supported: equal ones")
        if row in INTEGERS:
            below_one(s, s.scale(a), s.scale(b))
            names = [
                rescale(s, s.name(i), s.scale(t), dtype.int32, before=s.zero(t), left=8)
                for i, t in enumerate((a, b))
            ]
        if kind != "NOT_EQUAL":
            s.add(op, names, s.out())
            return
        s.add("Not", (s.add(op, names, s.y().type),), s.out())

    operator(kind)(rule)


for _kind, _op in {
    "EQUAL": "Equal",
    "NOT_EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
}.items():
    _compared(_kind, _op, _op == "Equal")


@operator("MAXIMUM", "MINIMUM")
def extreme(s: Site) -> None:
    """Integers are compared as they are stored."""
    broadcast(s, s.x(0), s.x(1))
    same_types(s, s.x(0), s.x(1), s.y(), also=WIDE)
    s.add("Max" if s.node.kind == "MAXIMUM" else "Min", (s.name(0), s.name(1)), s.out())


def _plain(kind: str, op: str, *types: str) -> None:
    """Operators of two tensors that ONNX has, too."""

    def rule(s: Site) -> None:
        broadcast(s, s.x(0), s.x(1))
        row = {s.x(0).type.dtype.name, s.x(1).type.dtype.name}
        s.expect(
            len(row) == 1 and row <= set(types),
            f"{', '.join(sorted(row))}; supported: {', '.join(types)}",
        )
        s.expect(s.y().type.dtype.name in row, f"an output {s.y().type}; expected {types[0]}")
        s.add(op, (s.name(0), s.name(1)), s.out())

    operator(kind)(rule)


_plain("LOGICAL_AND", "And", "bool")
_plain("LOGICAL_OR", "Or", "bool")
_plain("POW", "Pow", "float32")


def _as_stored(s: Site, also: frozenset[str]) -> tuple[tuple[int, ...], str]:
    """The shape and the element type of all."""
    s.expect(not s.x().unsigned, "uint8; supported: float32 and signed integers")
    row = same_types(s, s.x(0), s.x(1), s.y(), also=also)
    return broadcast(s, s.x(0), s.x(1)), row


@operator("FLOOR_DIV")
def floor_div(s: Site) -> None:
    """Integers are divided as they are stored."""
    shape, row = _as_stored(s, one_of("int32"))
    (a, b), type_ = (s.name(0), s.name(1)), TensorType(s.y().type.dtype, shape)
    if row == "float32":
        s.add("Floor", (s.add("Div", (a, b), type_),), s.out())
        return
    rests = [s.add("Mod", (a, b), type_, {"fmod": by}) for by in (0, 1)]
    same = s.add("Equal", rests, TensorType(dtype.bool_, shape))
    less = s.add(
        "Cast",
        (s.add("Not", (same,), TensorType(dtype.bool_, shape)),),
        type_,
        {"to": type_.dtype.onnx},
    )
    s.add("Sub", (s.add("Div", (a, b), type_), less), s.out())


@operator("FLOOR_MOD")
def floor_mod(s: Site) -> None:
    """The remainder has the divisor's sign; integers are divided as they are stored."""
    shape, row = _as_stored(s, WIDE)
    if row != "float32":
        s.add("Mod", (s.name(0), s.name(1)), s.out(), {"fmod": 0})
        return
    type_, b = TensorType(s.y().type.dtype, shape), s.name(1)
    rest = s.add("Mod", (s.name(0), b), type_, {"fmod": 1})
    zero, flag = s.const(np.float32(0)), TensorType(dtype.bool_, shape)
    shapes = shape, s.x(1).type.shape
    signs = [
        s.add("Less", (name, zero), TensorType(dtype.bool_, n))
        for name, n in zip((rest, b), shapes, strict=True)
    ]
    some = s.add("Not", (s.add("Equal", (rest, zero), flag),), flag)
    moves = s.add("And", (some, s.add("Xor", signs, flag)), flag)
    s.add("Where", (moves, s.add("Add", (rest, b), type_), rest), s.out())


@operator("SELECT_V2")
def select(s: Site) -> None:
    broadcast(s, s.x(0), s.x(1), s.x(2))
    s.expect(s.x(0).type.dtype.name == "bool", "a condition that is not bool")
    same_types(s, s.x(1), s.x(2), s.y(), also=WIDE | one_of("bool"))
    s.add("Where", (s.name(0), s.name(1), s.name(2)), s.out())


@operator("SELECT")
def select_rows(s: Site) -> None:
    """As SELECT_V2 with equal shapes; a condition of rank 1 selects whole rows."""
    flags, x, y = s.x(0).type, s.x(1), s.y()
    s.expect(flags.dtype.name == "bool", "a condition that is not bool")
    same_types(s, x, s.x(2), y, also=WIDE | one_of("bool"))
    shape = x.type.shape
    s.expect(shape == s.x(2).type.shape == y.type.shape, f"{x.type}, {s.x(2).type} to {y.type}")
    rows = flags.shape != shape and flags.shape in ((), shape[:1], (1,))
    s.expect(rows or flags.shape == shape, f"{flags} for {x.type}")
    name = s.name(0)
    if rows:
        name = s.reshaped(name, (*flags.shape, *(1,) * (len(shape) - len(flags.shape))))
    s.add("Where", (name, s.name(1), s.name(2)), s.out())
