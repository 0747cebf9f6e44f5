"""Expressions of C on unknown numbers: what they are, which addresses they touch, and what holds
where a condition is true (indices.py has the statements, ccalls.py the calls)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlftool.proof.affine import Known, Sum, Term
from mlftool.proof.ctree import INTEGERS, VOID, Definition, Expr, Stmt, Type, number
from mlftool.proof.vectors import Vector

ANYTHING = (-(1 << 63), (1 << 64) - 1)
INT32 = (-(1 << 31), (1 << 31) - 1)
UINT32 = (0, (1 << 32) - 1)
MOST_SIDES = 4  # of one value: what may be one of more is not known
MOST_FACTS = 12  # of a side


_OF_NUMBERS: Mapping[str, Callable[[int, int], int]] = {
    "&": int.__and__,
    "|": int.__or__,
    "^": int.__xor__,
    "<<": int.__lshift__,
    ">>": int.__rshift__,
}


class UnprovenError(Exception):
    """Why an access is not shown to be inside its operand."""


class UnrollError(UnprovenError):
    """Each turn of a loop must be looked at by itself."""


@dataclass(frozen=True)
class Whole:
    """An integer. `unsigned`: arithmetic with it never goes below 0."""

    sum: Sum
    unsigned: bool = False


@dataclass(frozen=True)
class Pointer:
    """`at` bytes into a memory, to elements of a type."""

    memory: str
    at: Sum
    type: Type


@dataclass(frozen=True)
class Split:
    """What an `if` left in one of two ways; all values with its number took the same way."""

    number: int
    one: Value
    two: Value


@dataclass(frozen=True)
class Record:
    """A struct; members that are not among `fields` are not known. The name of an element of an
    array is that of the array, a point and its number."""

    fields: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Lanes:
    """A predicate of a vector: so many lanes are active, from the first on."""

    count: Sum


@dataclass(frozen=True)
class Offsets:
    """A vector whose lanes are known numbers (vectors.py)."""

    lanes: Vector


Value = (
    Whole | Pointer | Split | Record | Lanes | Offsets | None
)  # None: a float, or not known at all
Find = Callable[[str], Definition | None]


@dataclass(frozen=True)
class Memory:
    """Bytes that a kernel is given, and the integers, of a type, that they hold where those are
    known. `source` is the text of all of them, for contracts (touches.py)."""

    size_bytes: int
    holds: tuple[int, ...] = ()
    type: Type = VOID
    source: str = ""


def pointed(type_: Type) -> Type:
    return replace(type_, stars=type_.stars - 1)


def range_of(type_: Type) -> tuple[int, int]:
    size, signed = INTEGERS[type_.name]
    if type_.name == "char":  # signed or not
        return -128, 255
    if type_.name in ("size_t", "ptrdiff_t", "uintptr_t"):  # 4 or 8 bytes
        return (-(1 << 63), (1 << 63) - 1) if signed else (0, (1 << 64) - 1)
    return (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)


class Values:
    """The state at one place of a function, and the expressions there."""

    def __init__(self, find: Find) -> None:
        self.known = Known()
        self.memories: dict[str, Memory] = {}
        self.find = find
        self.values: dict[str, Value] = {}
        self.types: dict[str, Type] = {}
        self.truths: dict[str, tuple[tuple[Sum, ...], tuple[Sum, ...]]] = {}  # of bools
        self.taken: set[str] = set()  # variables whose address is taken
        self.dry = 0  # more than 0: accesses are not judged
        self.trials = 0  # loops that are tried to learn what changes: nothing wraps around there
        self.left = [False]  # whether a turn of each open loop may end early
        self.returned: list[Value] = []
        self.sides: dict[int, tuple[tuple[Sum, ...], tuple[Sum, ...]]] = {}  # of splits
        self.depth = 0
        self._parts: dict[tuple[frozenset[tuple[Term, int]], int], Sum] = {}  # quotients

    def declare(self, name: str, type_: Type, value: Value) -> None:
        self.types[name] = type_
        self.truths.pop(name, None)
        value = Record() if value is None and _is_struct(type_) else value
        self.values[name] = self.converted(type_, value) if type_.stars == 0 else value

    def block(self, body: Sequence[Stmt]) -> bool:
        """Runs statements, of a helper here; whether what follows them is never reached."""
        raise NotImplementedError

    # Conditions.

    def says(self, condition: Expr, truth: bool) -> list[Sum]:
        """What is not negative where a condition is true, or false."""
        e = condition
        if e.kind == "unary" and e.text == "!":
            return self.says(e.parts[0], not truth)
        if e.kind == "name" and e.text in self.truths and e.text not in self.taken:
            return list(self.truths[e.text][not truth])
        if e.kind != "binary":
            return [] if changes_something(e) else self._so(self.quiet(e), truth)
        if e.text in ("&&", "||"):
            if (e.text == "&&") != truth:
                return []
            first = self.says(e.parts[0], truth)
            known, self.known = self.known, self.known.also(first)
            second = self.says(e.parts[1], truth)
            self.known = replace(self.known, positive=known.positive)
            return [*first, *second]
        if changes_something(e):
            return []
        if e.text not in ("<", "<=", ">", ">=", "==", "!="):
            return self._so(self.quiet(e), truth)
        return self._compared(e, truth)

    def _so(self, value: Value, truth: bool) -> list[Sum]:
        """What is not negative where a value is a number other than 0, or is 0."""
        if isinstance(value, Split):
            says = [self._so(part, truth) for part in (value.one, value.two)]
            may = [k for k in range(2) if not any(self.known.most(s) < 0 for s in says[k])]
            if len(may) == 1:
                return [*self.sides[value.number][may[0]], *says[may[0]]]
            return [one for one in says[0] if one in says[1]] if may else [Sum.of(-1)]
        number_ = value.sum.constant if isinstance(value, Whole) else None
        return [Sum.of(-1)] if number_ is not None and bool(number_) != truth else []

    def _compared(self, e: Expr, truth: bool) -> list[Sum]:
        op, (a, b) = e.text, e.parts
        if not truth:
            op = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}[op]
        inner = a.parts[0] if a.kind == "cast" and not a.type.stars else None
        x, y = self.flat(self.quiet(a)), self.flat(self.quiet(b))
        if isinstance(x, Pointer) and isinstance(y, Pointer) and x.memory == y.memory:
            x, y = Whole(x.at), Whole(y.at)
        if not isinstance(x, Whole) or not isinstance(y, Whole):
            return []
        if inner is not None and x.unsigned and op in ("<", "<="):
            signed = self.flat(self.quiet(inner))  # (uint32_t)i < n: i is not negative either
            if isinstance(signed, Whole) and self.is_in(signed.sum, INT32):
                if not self.is_in(y.sum, (0, INT32[1])):
                    return []
                return [signed.sum, y.sum - signed.sum - Sum.of(op == "<")]
        if (x.unsigned or y.unsigned) and not (
            self.known.is_positive(x.sum) and self.known.is_positive(y.sum)
        ):
            return []
        more, one = y.sum - x.sum, Sum.of(1)
        if op in ("<", "<="):
            return [more - one if op == "<" else more]
        if op in (">", ">="):
            return [more.times(-1) - one if op == ">" else more.times(-1)]
        if op == "==":
            return [more, more.times(-1)]
        if self.known.is_positive(more):
            return [more - one]
        return [more.times(-1) - one] if self.known.is_positive(more.times(-1)) else []

    def quiet(self, e: Expr) -> Value:
        """A value, without judging accesses again."""
        self.dry += 1
        try:
            return self.value(e)
        finally:
            self.dry -= 1

    def is_in(self, of: Sum, ends: tuple[int, int]) -> bool:
        low, high = Sum.of(ends[0]), Sum.of(ends[1])
        return self.known.is_positive(of - low) and self.known.is_positive(high - of)

    # Expressions.

    def value(self, e: Expr) -> Value:
        return getattr(self, f"_{e.kind}")(e)  # type: ignore[no-any-return]

    def _number(self, e: Expr) -> Value:
        try:
            value = number(e.text)
        except ValueError:
            return None
        return Whole(Sum.of(value), "u" in e.text.lower() or value > INT32[1])

    def _name(self, e: Expr) -> Value:
        if e.text in self.taken:
            return self.unknown(self.types[e.text])
        return self.values.get(e.text)

    def _sizeof(self, e: Expr) -> Value:
        if not e.parts:
            return Whole(Sum.of(4 if e.type.stars else e.type.bytes), True)
        part = e.parts[0]
        if part.kind == "name":
            value, type_ = self.values.get(part.text), self.types[part.text]
            if isinstance(value, Pointer) and not type_.stars:
                return Whole(Sum.of(self.memories[value.memory].size_bytes), True)
        elif part.kind == "member":
            _, _, type_, extent = self._path(part)
            type_ = replace(type_, stars=0) if not type_.stars else type_
            if extent is not None and not type_.stars:
                return Whole(Sum.of(type_.bytes * extent), True)
        else:
            type_ = self.type_of(part)
        if type_.stars:
            raise UnprovenError("sizeof of an address")
        return Whole(Sum.of(type_.bytes), True)

    def type_of(self, e: Expr) -> Type:
        """Of a variable, a member, or what an address leads to."""
        if e.kind == "name":
            return self.types[e.text]
        if e.kind == "member":
            return self._path(e)[2]
        if e.kind == "index" or (e.kind == "unary" and e.text == "*"):
            inner = self.type_of(e.parts[0])
            return pointed(inner) if inner.stars else inner
        raise UnprovenError(f"the type of a {e.kind}")

    def _list(self, e: Expr) -> Value:
        for part in e.parts:
            self.value(part)
        return None

    def _cast(self, e: Expr) -> Value:
        value = self.value(e.parts[0])
        if e.type.stars:
            return _retyped(value, pointed(e.type))
        return self.converted(e.type, value)

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
        if self.trials or self.is_in(value.sum, range_of(type_)):
            return Whole(value.sum, unsigned)
        return self.unknown(type_)

    def _choice(self, e: Expr) -> Value:
        condition, one, two = e.parts
        self.value(condition)
        known = self.known
        found = []
        for truth, part in ((True, one), (False, two)):
            says = self.says(condition, truth)
            if any(known.most(one) < 0 for one in says):
                continue  # never
            self.known = known.also(says)
            found.append((self.value(part), self.known))
            self.known = known
        if len(found) < 2:
            return found[0][0] if found else None
        (a, ka), (b, kb) = found
        return self.joined(a, ka, b, kb, self.split(ka, kb) if must_part(a, b) else None)

    def _unary(self, e: Expr) -> Value:
        inner = e.parts[0]
        if e.text in ("++", "--"):
            return self._moved(inner, 1 if e.text == "++" else -1)[1]
        if e.text == "&":
            return self._address(inner)
        value = self.value(inner)
        if e.text == "*":
            return self._loaded(value)
        value = self.flat(value)
        if e.text == "!" or not isinstance(value, Whole):
            return Whole(self.known.fresh(0, 1)) if e.text == "!" else None
        if e.text == "+":
            return value
        less = value.sum.times(-1) - Sum.of(e.text == "~")
        return self._kept(less, value.unsigned)

    def _address(self, e: Expr) -> Value:
        if self._is_member(e):
            root, _, type_, extent = self._path(e)
            self.taken.add(root)
            return self._own(root, type_, extent or 1)
        if e.kind == "index":
            return self._element(e)
        if e.kind == "unary" and e.text == "*":
            return self.value(e.parts[0])
        if e.kind != "name":
            raise UnprovenError("an address of no variable")
        self.taken.add(e.text)  # what is done by the address is not followed
        return self._own(e.text, self.types[e.text], 1)

    def _own(self, name: str, type_: Type, count: int) -> Pointer:
        """The address of memory of the function's own."""
        memory = f"{name} of {len(self.memories)}"
        self.memories[memory] = Memory((8 if type_.stars else type_.bytes) * count)
        return Pointer(memory, Sum.of(0), type_)

    # Members of structs, and lanes of vectors.

    def _is_member(self, e: Expr) -> bool:
        """Whether it is a part of a struct that has a name."""
        if e.kind == "member":
            return True
        if e.kind != "index" or e.parts[0].kind != "member":
            return False
        _, _, type_, extent = self._path(e.parts[0])
        return extent is not None or (type_.lanes > 0 and not type_.stars)

    def _path(self, e: Expr) -> tuple[str, str, Type, int | None]:
        """The variable, the member's name as in Record, its type, and its extent if it is an
        array. An element whose number is not known is "?"."""
        if e.kind == "name":
            return e.text, "", self.types[e.text], None
        if e.kind == "member":
            root, path, type_, extent = self._path(e.parts[0])
            if extent is not None or type_.stars:
                raise UnprovenError("a member of no struct")
            member = type_.member(e.text)
            return root, f"{path}.{e.text}" if path else e.text, member.type, member.extent
        if e.kind == "index":
            root, path, type_, extent = self._path(e.parts[0])
            index = self.flat(self.value(e.parts[1]))
            if not isinstance(index, Whole):
                raise UnprovenError(f"an element of '{root}'")
            self._within(root, index.sum, extent or type_.lanes)
            if extent is None:
                return root, f"{path}.?", replace(type_, lanes=0), None
            at = index.sum.constant
            return root, f"{path}.{'?' if at is None else at}", type_, None
        raise UnprovenError(f"a member of a {e.kind}")

    def _within(self, name: str, index: Sum, count: int) -> None:
        if not self.dry and not (
            self.known.is_positive(index) and self.known.is_positive(Sum.of(count - 1) - index)
        ):
            self.fail(f"'{name}' has no such element")

    def _member(self, e: Expr) -> Value:
        root, path, type_, extent = self._path(e)
        if extent is not None:  # its address
            self.taken.add(root)
            return self._own(root, type_, extent)
        record = None if root in self.taken else self.values.get(root)
        if path.endswith("?") and type_.stars:
            raise UnrollError("an address of several")
        if isinstance(record, Record) and path in record.fields:
            return record.fields[path]
        return Record() if _is_struct(type_) else self.unknown(type_)

    def _put_member(self, e: Expr, value: Value) -> None:
        root, path, type_, _ = self._path(e)
        before = self.values.get(root)
        fields = dict(before.fields) if isinstance(before, Record) else {}
        array = path.removesuffix("?")
        fields = {n: v for n, v in fields.items() if not (n == path or n.startswith(array + "."))}
        if path.endswith("?"):
            fields = {n: v for n, v in fields.items() if not n.startswith(array)}
        elif value is not None and not isinstance(value, Record):
            fields[path] = self.converted(type_, value) if not type_.stars else value
        if _is_struct(self.types[root]):
            self.values[root] = Record(fields)

    def _postfix(self, e: Expr) -> Value:
        return self._moved(e.parts[0], 1 if e.text == "++" else -1)[0]

    def _moved(self, e: Expr, by: int) -> tuple[Value, Value]:
        """A variable before and after `++` or `--`."""
        if self._is_member(e):
            before = self.value(e)
            self._put_member(e, self._plus(before, Whole(Sum.of(by)), 1))
            return before, None
        if e.kind != "name":
            self._place(e)
            return None, None
        before = self.value(e)
        after = self._plus(before, Whole(Sum.of(by)), 1)
        self.assign(e.text, after)
        return before, after

    def assign(self, name: str, value: Value) -> None:
        type_ = self.types[name]
        self.truths.pop(name, None)
        if type_.stars and isinstance(self.values.get(name), Pointer) and value is None:
            self.values[name] = None
        elif _is_struct(type_) and not isinstance(value, Record):
            self.values[name] = Record()
        else:
            self.values[name] = value if type_.stars else self.converted(type_, value)

    def _assign(self, e: Expr) -> Value:
        to, source = e.parts
        value = self.value(source)
        if e.text != "=":
            value = self._computed(e.text[:-1], self.value(to), value)
        if to.kind == "name":
            self.assign(to.text, value)
        elif self._is_member(to):
            self._put_member(to, value)
        else:
            self._place(to)
        return value

    def _place(self, e: Expr) -> None:
        """Judges what is written to."""
        if e.kind == "index":
            self._loaded(self._element(e))
        elif e.kind == "unary" and e.text == "*":
            self._loaded(self.value(e.parts[0]))
        else:
            raise UnprovenError(f"an assignment to {e.kind}")

    def _index(self, e: Expr) -> Value:
        if self._is_member(e):
            return self._member(e)
        return self._loaded(self._element(e))

    def _element(self, e: Expr) -> Value:
        base, index = (self.value(part) for part in e.parts)
        if base is None and e.parts[0].kind == "name":
            type_ = self.types.get(e.parts[0].text, VOID)
            if type_.lanes and not type_.stars and isinstance(index, Whole):
                self._within(e.parts[0].text, index.sum, type_.lanes)
                one = replace(type_, lanes=0)
                return replace(self._own(e.parts[0].text, one, type_.lanes), at=Sum.of(0))
        return self._plus(base, index, 1)

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

    def _loaded(self, value: Value) -> Value:
        """What is at an address, which must be inside its memory."""
        found: list[Value] = []
        self.each(value, lambda pointer: found.append(self._loaded_one(pointer)))
        return found[0] if len(found) == 1 or all(f == found[0] for f in found) else None

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
                ends = min(memory.holds), max(memory.holds)
                return self.converted(memory.type, Whole(self.known.fresh(*ends)))
            if 0 <= at // size < len(memory.holds):
                return self.converted(memory.type, Whole(Sum.of(memory.holds[at // size])))
        return self.unknown(pointer.type)

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

    def _binary(self, e: Expr) -> Value:
        a, b = e.parts
        if e.text in ("&&", "||"):
            self.value(a)
            known = self.known
            self.known = known.also(self.says(a, e.text == "&&"))
            self.value(b)
            self.known = known
            return Whole(known.fresh(0, 1))
        x = self.value(a)
        return self._computed(e.text, x, self.value(b))

    def _computed(self, op: str, x: Value, y: Value) -> Value:
        return self.mapped(lambda a, b: self._one_computed(op, a, b), x, y)

    def _one_computed(self, op: str, x: Value, y: Value) -> Value:
        if op == ",":
            return y
        if op in ("==", "!=", "<", "<=", ">", ">="):
            return Whole(self.known.fresh(0, 1))
        if isinstance(x, Pointer) or isinstance(y, Pointer):
            if op not in ("+", "-"):
                return None
            if isinstance(x, Pointer) and isinstance(y, Pointer):
                return self._apart(x, y) if op == "-" else None
            if isinstance(y, Pointer):
                x, y = y, x
            return self._plus(x, y, 1 if op == "+" else -1)
        if not isinstance(x, Whole) or not isinstance(y, Whole):
            return None
        unsigned = x.unsigned or y.unsigned
        if op in ("+", "-"):
            return self._kept(x.sum + y.sum.times(1 if op == "+" else -1), unsigned)
        if op == "*":
            return self._kept(x.sum * y.sum, unsigned)
        return self._parted(op, x.sum, y.sum, unsigned)

    def _parted(self, op: str, x: Sum, y: Sum, unsigned: bool) -> Value:
        """Quotients, remainders, shifts and bits."""
        by = y.constant
        if op in ("/", "%") and by is not None and by > 0 and _divides(by, x):
            exact = Sum({t: f // by for t, f in x.terms.items()})
            return Whole(exact if op == "/" else Sum.of(0), unsigned)
        made = _of_numbers(op, x.constant, by)
        if made is not None:
            return self._kept(Sum.of(made), unsigned)
        positive = self.known.is_positive(x)
        if op == "<<" and by is not None and 0 <= by < 32:
            return self._kept(x.times(1 << by), unsigned)
        if op == ">>" and by is not None and 0 <= by < 32:
            if not positive:
                ends = self.known.least(x) >> by, self.known.most(x) >> by
                return Whole(self.known.fresh(*ends), unsigned)
            op, by = "/", 1 << by
        if op in ("/", "%") and by is not None and by > 0 and positive:
            key = (frozenset(x.terms.items()), by)
            if key not in self._parts:  # its ends hold wherever the same sum is divided again
                self._parts[key] = self.known.fresh(0, max(0, self.known.most(x) // by))
            most = self.known.ceiling(x) // by
            part = self._parts[key] if most > 0 else Sum.of(0)
            rest = x - part.times(by)
            self.known = self.known.also([rest, Sum.of(by - 1) - rest, Sum.of(most) - part])
            return Whole(part if op == "/" else rest, unsigned)
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

    def _kept(self, of: Sum, unsigned: bool) -> Whole:
        """The result of arithmetic, if it wraps around nowhere."""
        if self.trials or self.is_in(of, (0, (1 << 32) - 1) if unsigned else INT32):
            return Whole(of, unsigned)
        return self._anything(unsigned)

    def _plus(self, base: Value, index: Value, sign: int) -> Value:
        return self.mapped(lambda a, b: self._one_plus(a, b, sign), base, index)

    def _one_plus(self, base: Value, index: Value, sign: int) -> Value:
        if isinstance(base, Pointer) and isinstance(index, Whole):
            return replace(base, at=base.at + index.sum.times(sign * base.type.bytes))
        if isinstance(base, Whole) and isinstance(index, Whole):
            return self._kept(base.sum + index.sum.times(sign), base.unsigned)
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
        for end in (a, b):
            for sign in (1, -1):
                more = min(ka.floor((a - end).times(sign)), kb.floor((b - end).times(sign)))
                apart = (made - end).times(sign)
                if more > self.known.least(apart):
                    self.known = self.known.also([apart - Sum.of(more)])
        return made

    def unknown(self, type_: Type) -> Value:
        if not type_.is_integer:
            return None
        return Whole(self.known.fresh(*range_of(type_)), not INTEGERS[type_.name][1])


def _of_numbers(op: str, x: int | None, y: int | None) -> int | None:
    """What shifts and operations on bits give of numbers that are known and not negative."""
    if op not in _OF_NUMBERS or x is None or y is None or x < 0 or y < 0:
        return None
    return _OF_NUMBERS[op](x, y) if y < 32 or op not in ("<<", ">>") else None


def _is_struct(type_: Type) -> bool:
    return bool(type_.members) and not type_.stars


def _retyped(value: Value, type_: Type) -> Value:
    """An address, of elements of another type."""
    if isinstance(value, Split):
        return Split(value.number, _retyped(value.one, type_), _retyped(value.two, type_))
    return replace(value, type=type_) if isinstance(value, Pointer) else None


def _side(value: Value, number: int, side: int) -> Value:
    """A value where a split took a side."""
    if isinstance(value, Split) and value.number == number:
        return value.two if side else value.one
    return value


def must_part(a: Value, b: Value) -> bool:
    """Whether two values can only be kept apart."""
    if isinstance(a, Split) or isinstance(b, Split):
        return a != b
    if isinstance(a, Whole) and isinstance(b, Whole):  # masks
        return a != b and a.sum.constant is not None and b.sum.constant is not None
    return isinstance(a, Pointer) and isinstance(b, Pointer) and a.memory != b.memory


def _divides(by: int, sum_: Sum) -> bool:
    return all(factor % by == 0 for factor in sum_.terms.values())


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


def changes_something(e: Expr) -> bool:
    changing = e.kind in ("assign", "postfix") or (e.kind == "unary" and e.text in ("++", "--"))
    return changing or any(map(changes_something, e.parts))
