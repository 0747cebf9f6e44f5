"""Arithmetic, addresses and what may be one of two, on numbers that are not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import gcd

from mlftool.proof.affine import Known, Sum, Term
from mlftool.proof.ctree import INTEGERS, Type
from mlftool.proof.maxima import Bound, Written
from mlftool.proof.unknowns import (
    INT32,
    Lanes,
    Memory,
    Offsets,
    Pointer,
    Record,
    Split,
    UnprovenError,
    Value,
    Whole,
    leaves,
    range_of,
)

ANYTHING = (-(1 << 63), (1 << 64) - 1)
MOST_SIDES = 4  # of one value: what may be one of more is not known
MOST_FACTS = 12  # of a side

_OF_NUMBERS: Mapping[str, Callable[[int, int], int]] = {
    "&": int.__and__,
    "|": int.__or__,
    "^": int.__xor__,
    "<<": int.__lshift__,
    ">>": int.__rshift__,
    "/": int.__floordiv__,
    "%": int.__mod__,
}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "==": int.__eq__,
    "!=": int.__ne__,
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
}


class Arithmetic:
    """What is known at one place of a function, and what operators make of values there."""

    def __init__(self) -> None:
        self.known = Known()
        self.memories: dict[str, Memory] = {}
        self.dry = 0  # more than 0: accesses are not judged
        self.trials = 0  # loops that are tried to learn what changes: nothing wraps around there
        self.sides: dict[int, tuple[tuple[Sum, ...], tuple[Sum, ...]]] = {}  # of splits
        self._parts: dict[tuple[frozenset[tuple[Term, int]], int], Sum] = {}  # quotients
        self.quotients: dict[str, tuple[Sum, int]] = {}  # what they are of, and by what
        self.read: dict[str, Pointer] = {}  # what was at an address, and still is
        self.bounds: list[Bound] = []
        self.writes: list[Written] = []  # in this turn of the innermost loop

    def is_in(self, of: Sum, ends: tuple[int, int]) -> bool:
        low, high = Sum.of(ends[0]), Sum.of(ends[1])
        return self.known.is_positive(of - low) and self.known.is_positive(high - of)

    def converted(self, type_: Type, value: Value) -> Value:
        """A value as a variable of a type has it."""
        if isinstance(value, Record | Lanes | Offsets):
            return value
        if not type_.is_integer:
            return None
        if isinstance(value, Split):
            return self.mapped(lambda one, _: self.converted(type_, one), value, None)
        if not isinstance(value, Whole):
            return self.unknown(type_)
        unsigned = not INTEGERS[type_.name][1]
        if type_.name == "bool" and not self.is_in(value.sum, (0, 1)):
            return Whole(self._truth("!=", value, Whole(Sum.of(0))), unsigned)
        if self.trials or self.is_in(value.sum, range_of(type_)):
            return Whole(value.sum, unsigned)
        number = value.sum.constant
        if number is not None and type_.name in ("uint8_t", "uint16_t", "uint32_t"):
            return Whole(Sum.of(number % (range_of(type_)[1] + 1)), True)
        return self.unknown(type_)

    def each(self, value: Value, use: Callable[[Value], None]) -> None:
        """Each of the values that one may be, where it is that one."""
        if not isinstance(value, Split):
            return use(value)
        known = self.known
        for facts, part in zip(self.sides[value.number], (value.one, value.two), strict=True):
            self.known = known.also(facts)
            self.each(part, use)
        self.known = known

    def mapped(self, make: Callable[[Value, Value], Value], x: Value, y: Value) -> Value:
        """What is made of two values, each of which may be one of two."""
        if not isinstance(x, Split) and not isinstance(y, Split):
            return make(x, y)
        by = x if isinstance(x, Split) else y
        assert isinstance(by, Split)
        known, found = self.known, list[Value]()
        for side, facts in enumerate(self.sides[by.number]):
            self.known = known.also(facts)
            parts = (_side(v, by.number, side) for v in (x, y))
            found.append(self.mapped(make, *parts))
        self.known = known
        made = Split(by.number, found[0], found[1])
        return made if len(list(leaves(made))) <= MOST_SIDES else None

    def flat(self, value: Value) -> Value:
        """An integer that may be one of two as one that is between them."""
        if not isinstance(value, Split):
            return value
        known, found = self.known, list[tuple[Value, Known]]()
        for facts, part in zip(self.sides[value.number], (value.one, value.two), strict=True):
            self.known = known.also(facts)
            found.append((self.flat(part), self.known))
        self.known = known
        (a, ka), (b, kb) = found
        return self.joined(a, ka, b, kb, None)

    def split(self, ka: Known, kb: Known) -> int:
        """A number for what is one of two values, and what is known where it is which."""
        base = len(self.known.positive)
        made = len(self.sides)
        more = (k.positive[: len(k.positive) - base][-MOST_FACTS:] for k in (ka, kb))
        one, two = more
        self.sides[made] = one, two
        return made

    def loaded(self, value: Value) -> Value:
        """What is at an address, which must be inside its memory."""
        found: list[Value] = []
        self.each(value, lambda pointer: found.append(self._loaded_one(pointer)))
        if all(one == found[0] for one in found):
            return found[0]
        numbers = [one for one in found if isinstance(one, Whole)]
        if len(numbers) < len(found):
            return None
        low = min(self.known.least(one.sum) for one in numbers)
        high = max(self.known.most(one.sum) for one in numbers)
        return Whole(self.known.fresh(low, high), any(one.unsigned for one in numbers))

    def _loaded_one(self, pointer: Value) -> Value:
        if not isinstance(pointer, Pointer):
            self.fail("an address that is not known")
            return None
        if pointer.type.stars:
            raise UnprovenError("an address of addresses")
        self.inside(pointer, Sum.of(pointer.type.bytes))
        at, memory = pointer.at.constant, self.memories[pointer.memory]
        size = memory.type.bytes if memory.holds else 1
        whole = _divides(size, pointer.at)
        if memory.holds and pointer.type == memory.type and whole:
            if at is None:
                ends = _ends_at(memory.holds, size, pointer.at)
                return self.converted(memory.type, Whole(self.known.fresh(*ends)))
            if 0 <= at // size < len(memory.holds):
                return self.converted(memory.type, Whole(Sum.of(memory.holds[at // size])))
        made = self.unknown(pointer.type)
        if isinstance(made, Whole) and not memory.shared:
            (name,) = made.sum.names
            self.read[name] = pointer
            most = [b.most - made.sum for b in self.bounds if self._is_of(b, pointer)]
            self.known = self.known.also(most) if most else self.known
        return made

    def _is_of(self, bound: Bound, pointer: Pointer) -> bool:
        """Whether an address is that of one of the elements."""
        apart = pointer.at - bound.first
        if (bound.memory, bound.type) != (pointer.memory, pointer.type):
            return False
        rest = bound.last - pointer.at
        inside = self.known.is_positive(apart) and self.known.is_positive(rest)
        return inside and _divides(bound.step, apart)

    def written(self, address: Value, size: Sum | None = None) -> None:
        """Forgets what a memory held of which so many bytes change, or an element."""
        found = list(leaves(address))
        if not self.dry:
            for one in found:
                if isinstance(one, Pointer):
                    self.writes.append(Written(one.memory, one.at, size or Sum.of(one.type.bytes)))
                else:
                    self.writes.append(Written(None, Sum.of(0), Sum.of(0)))
        names = {one.memory if isinstance(one, Pointer) else None for one in found}
        kept = set() if None in names else set(self.memories) - names
        self.bounds = [bound for bound in self.bounds if bound.memory in kept]
        self.read = {n: p for n, p in self.read.items() if p.memory in kept}

    def inside(self, pointer: Pointer, size: Sum) -> None:
        if self.dry:
            return
        room = Sum.of(self.memories[pointer.memory].size_bytes) - size - pointer.at
        name = pointer.memory.split(" ")[0]
        if not self.known.is_positive(pointer.at):
            self.fail(f"no lower limit of an index of '{name}' is known")
        if not self.known.is_positive(room):
            self.fail(f"no upper limit of an index of '{name}' is known")

    def fail(self, text: str) -> None:
        if not self.dry:
            raise UnprovenError(text)

    def computed(self, op: str, x: Value, y: Value) -> Value:
        return self.mapped(lambda a, b: self._one_computed(op, a, b), x, y)

    def _one_computed(self, op: str, x: Value, y: Value) -> Value:
        if op == ",":
            return y
        if op in _COMPARED:
            return Whole(self._truth(op, x, y))
        if isinstance(x, Pointer) or isinstance(y, Pointer):
            if op not in ("+", "-"):
                return None
            if isinstance(x, Pointer) and isinstance(y, Pointer):
                return self._apart(x, y) if op == "-" else None
            if isinstance(y, Pointer):
                x, y = y, x
            return self.plus(x, y, 1 if op == "+" else -1)
        if not isinstance(x, Whole) or not isinstance(y, Whole):
            return None
        unsigned = x.unsigned or y.unsigned
        if op in ("+", "-"):
            return self.kept(x.sum + y.sum.times(1 if op == "+" else -1), unsigned)
        if op == "*":
            return self.kept(x.sum * y.sum, unsigned)
        return self._parted(op, x.sum, y.sum, unsigned)

    def _truth(self, op: str, x: Value, y: Value) -> Sum:
        """1 or 0, of two numbers that are known."""
        if isinstance(x, Whole) and isinstance(y, Whole):
            a, b = x.sum.constant, y.sum.constant
            signs = x.unsigned or y.unsigned
            if a is not None and b is not None and not (signs and min(a, b) < 0):
                return Sum.of(_COMPARED[op](a, b))
        return self.known.fresh(0, 1)

    def _parted(self, op: str, x: Sum, y: Sum, unsigned: bool) -> Value:
        """Quotients, remainders, shifts and bits."""
        by = y.constant
        if op in ("/", "%") and by is not None and by > 0 and _divides(by, x):
            exact = Sum({t: f // by for t, f in x.terms.items()})
            return Whole(exact if op == "/" else Sum.of(0), unsigned)
        made = _of_numbers(op, x.constant, by)
        if made is not None:
            return self.kept(Sum.of(made), unsigned)
        positive = self.known.is_positive(x)
        if op == "<<" and by is not None and 0 <= by < 32:
            return self.kept(x.times(1 << by), unsigned)
        if op == ">>" and by is not None and 0 <= by < 32:
            if not positive:
                ends = self.known.least(x) >> by, self.known.most(x) >> by
                return Whole(self.known.fresh(*ends), unsigned)
            op, by = "/", 1 << by
        if op in ("/", "%") and by is not None and by > 0 and positive:
            key = (frozenset(x.terms.items()), by)
            if key not in self._parts:  # its ends hold wherever the same sum is divided again
                self._parts[key] = self.known.fresh(0, max(0, self.known.most(x) // by))
                self.quotients[self._parts[key].name] = x, by
            most = self.known.ceiling(x) // by
            part = self._parts[key] if most > 0 else Sum.of(0)
            rest = x - part.times(by)
            self.known = self.known.also([rest, Sum.of(by - 1) - rest, Sum.of(most) - part])
            return Whole(part if op == "/" else rest, unsigned)
        if op == "&" and by is not None and by < 0 and positive and not -by & (-by - 1):
            bits = self._parted("%", x, Sum.of(-by), unsigned)
            return Whole(x - bits.sum, unsigned) if isinstance(bits, Whole) else None
        if op == "%" and by:
            return Whole(self.known.fresh(1 - abs(by), abs(by) - 1), unsigned)
        if op == "&" and ((by is not None and by >= 0) or self.known.is_positive(y)):
            return Whole(self.known.fresh(0, self.known.most(y)), unsigned)
        return self._anything(unsigned)

    def _apart(self, x: Pointer, y: Pointer) -> Value:
        """How many elements are between two addresses."""
        apart, size = x.at - y.at, x.type.bytes
        if x.memory != y.memory or not _divides(size, apart):
            return Whole(self.known.fresh(*ANYTHING))
        return Whole(Sum({t: f // size for t, f in apart.terms.items()}))

    def _anything(self, unsigned: bool) -> Whole:
        return Whole(self.known.fresh(0 if unsigned else ANYTHING[0], ANYTHING[1]), unsigned)

    def kept(self, of: Sum, unsigned: bool) -> Whole:
        """The result of arithmetic, if it wraps around nowhere."""
        if self.trials or self.is_in(of, (0, (1 << 32) - 1) if unsigned else INT32):
            return Whole(of, unsigned)
        return self._anything(unsigned)

    def plus(self, base: Value, index: Value, sign: int) -> Value:
        return self.mapped(lambda a, b: self._one_plus(a, b, sign), base, index)

    def _one_plus(self, base: Value, index: Value, sign: int) -> Value:
        if isinstance(base, Pointer) and isinstance(index, Whole):
            return replace(base, at=base.at + index.sum.times(sign * base.type.bytes))
        if isinstance(base, Whole) and isinstance(index, Whole):
            return self.kept(base.sum + index.sum.times(sign), base.unsigned)
        return None

    def joined(self, a: Value, ka: Known, b: Value, kb: Known, split: int | None) -> Value:
        """Either of two values, with what holds of both; `split` is the number of a Split."""
        if a == b:
            return a
        if split is not None and a is not None and b is not None:
            made = Split(split, a, b)
            if (
                not isinstance(a, Record | Lanes | Offsets)
                and len(list(leaves(made))) <= MOST_SIDES
            ):
                return made
        if isinstance(a, Record) and isinstance(b, Record):
            names = a.fields.keys() & b.fields.keys()
            each = {n: self.joined(a.fields[n], ka, b.fields[n], kb, split) for n in sorted(names)}
            return Record({n: v for n, v in each.items() if v is not None})
        a, b = self.flat(a), self.flat(b)
        if isinstance(a, Pointer) and isinstance(b, Pointer):
            if (a.memory, a.type) != (b.memory, b.type):
                return None
            return replace(a, at=self._either(a.at, ka, b.at, kb))
        if isinstance(a, Whole) and isinstance(b, Whole):
            return Whole(self._either(a.sum, ka, b.sum, kb), a.unsigned or b.unsigned)
        return None

    def _either(self, a: Sum, ka: Known, b: Sum, kb: Known) -> Sum:
        if a == b:
            return a
        low, high = min(ka.floor(a), kb.floor(b)), max(ka.ceiling(a), kb.ceiling(b))
        made = self.known.fresh(low, high)
        quotients = (self.quotients[end.name] for end in (a, b) if end.name in self.quotients)
        for of, by in ((a, 1), (b, 1), *quotients):
            for sign in (by, -by):
                away = of.times(sign // by)
                more = min(ka.floor(a.times(sign) - away), kb.floor(b.times(sign) - away))
                apart = made.times(sign) - away
                if more > self.known.least(apart):
                    self.known = self.known.also([apart - Sum.of(more)])
        return made

    def unknown(self, type_: Type) -> Value:
        if not type_.is_integer:
            return None
        return Whole(self.known.fresh(*range_of(type_)), not INTEGERS[type_.name][1])


@lru_cache(maxsize=1024)
def _ends_every(holds: tuple[int, ...], first: int, step: int) -> tuple[int, int]:
    found = holds[first::step] or holds
    return min(found), max(found)


def _ends_at(holds: tuple[int, ...], size: int, at: Sum) -> tuple[int, int]:
    """The least and the greatest element that may be so many bytes from the first."""
    step = gcd(*(factor for term, factor in at.terms.items() if term)) // size
    return _ends_every(holds, at.terms.get((), 0) // size % step, step)


def _of_numbers(op: str, x: int | None, y: int | None) -> int | None:
    """What some operators give of numbers that are known and not negative; a mask may be."""
    if op not in _OF_NUMBERS or x is None or y is None or x < 0 or (y < 0 and op != "&"):
        return None
    most = {"<<": y < 32, ">>": y < 32, "/": y > 0, "%": y > 0}
    return _OF_NUMBERS[op](x, y) if most.get(op, True) else None


def _side(value: Value, number: int, side: int) -> Value:
    """A value where a split took a side."""
    if isinstance(value, Split) and value.number == number:
        return value.two if side else value.one
    return value


def _divides(by: int, sum_: Sum) -> bool:
    return all(factor % by == 0 for factor in sum_.terms.values())
