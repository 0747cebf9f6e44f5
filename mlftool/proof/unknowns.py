"""What a value of C may be where its numbers are not known, and the memory that it may lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlftool.frozen import field, frozen, replace
from mlftool.proof.affine import Sum
from mlftool.proof.ctree import INTEGERS, VOID, Type
from mlftool.proof.vectors import Vector

INT32 = (-(1 << 31), (1 << 31) - 1)


class UnprovenError(Exception):
    """Why an access is not shown to be inside its operand."""


class UnrollError(UnprovenError):
    """Each turn of a loop must be looked at by itself."""


@frozen
class Whole:
    """An integer. `unsigned`: arithmetic with it never goes below 0."""

    sum: Sum
    unsigned: bool = False


@frozen
class Pointer:
    """`at` bytes into a memory, to elements of a type."""

    memory: str
    at: Sum
    type: Type


@frozen
class Split:
    """What an `if` left in one of two ways; all values with its number took the same way."""

    number: int
    one: Value
    two: Value


@frozen
class Record:
    """A struct; members that are not among `fields` are not known. The name of an element of an
    array is that of the array, a point and its number."""

    fields: Mapping[str, Value] = field(default_factory=dict)


@frozen
class Lanes:
    """A predicate of a vector: so many lanes are active, from the first on."""

    count: Sum


@frozen
class Offsets:
    """A vector whose lanes are known numbers (vectors.py)."""

    lanes: Vector


# None: a float, or not known at all.
Value = Whole | Pointer | Split | Record | Lanes | Offsets | None


@frozen
class Memory:
    """Bytes that a kernel is given, and the integers, of a type, that they hold where those are
    known. `source` is the text of all of them, for contracts (touches.py). `same`: the number of
    an earlier operand that has exactly these bytes."""

    size_bytes: int
    holds: tuple[int, ...] = ()
    type: Type = VOID
    source: str = ""
    shared: bool = False  # with another operand at another place, which may be written
    same: int | None = None


def pointed(type_: Type) -> Type:
    return replace(type_, stars=type_.stars - 1)


def range_of(type_: Type) -> tuple[int, int]:
    size, signed = INTEGERS[type_.name]
    if type_.name == "char":  # signed or not
        return -128, 255
    if type_.name in ("size_t", "ptrdiff_t", "uintptr_t"):  # 4 or 8 bytes
        return (-(1 << 63), (1 << 63) - 1) if signed else (0, (1 << 64) - 1)
    return (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)


def leaves(value: Value) -> Iterator[Value]:
    """What a value may be."""
    if isinstance(value, Split):
        yield from leaves(value.one)
        yield from leaves(value.two)
    else:
        yield value


def with_leaves(value: Value, found: Iterator[Value]) -> Value:
    if isinstance(value, Split):
        one = with_leaves(value.one, found)
        return Split(value.number, one, with_leaves(value.two, found))
    return next(found)


def moved(value: Value, by: Sum) -> Value:
    if isinstance(value, Pointer):
        return replace(value, at=value.at + by)
    return replace(value, sum=value.sum + by) if isinstance(value, Whole) else value


def sum_of(value: Value) -> Sum:
    if isinstance(value, Pointer):
        return value.at
    return value.sum if isinstance(value, Whole) else Sum.of(0)


def must_part(a: Value, b: Value) -> bool:
    """Whether two values can only be kept apart."""
    if isinstance(a, Split) or isinstance(b, Split):
        return a != b
    if isinstance(a, Whole) and isinstance(b, Whole):  # masks
        return a != b and a.sum.constant is not None and b.sum.constant is not None
    return isinstance(a, Pointer) and isinstance(b, Pointer) and a.memory != b.memory
