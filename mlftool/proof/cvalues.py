"""Expressions of C on unknown numbers: what they are, which addresses they touch, and what holds
where a condition is true (indices.py has the statements)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlftool.proof.affine import Known, Sum, Term
from mlftool.proof.ctree import INTEGERS, VOID, Definition, Expr, Stmt, Type, number

ANYTHING = (-(1 << 63), (1 << 64) - 1)
INT32 = (-(1 << 31), (1 << 31) - 1)
MOST_DEPTH = 5  # of helpers that call others
MOST_READ = 3  # statements of a helper of numbers: longer ones compute no index
COPIES = {"memcpy": (1, 1), "memmove": (1, 1), "memset": (1, 0)}  # addresses they write and read


class UnprovenError(Exception):
    """Why an access is not shown to be inside its operand."""


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


Value = Whole | Pointer | None  # None: a float, or not known at all
Find = Callable[[str], Sequence[Definition | None]]


@dataclass(frozen=True)
class Memory:
    """Bytes that a kernel is given, and the integers, of a type, that they hold where those are
    known."""

    size_bytes: int
    holds: tuple[int, ...] = ()
    type: Type = VOID


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
        self._find = find
        self.values: dict[str, Value] = {}
        self.types: dict[str, Type] = {}
        self.truths: dict[str, tuple[tuple[Sum, ...], tuple[Sum, ...]]] = {}  # of bools
        self.taken: set[str] = set()  # variables whose address is taken
        self.dry = 0  # more than 0: accesses are not judged
        self.trials = 0  # loops that are tried to learn what changes: nothing wraps around there
        self.left = [False]  # whether a turn of each open loop may end early
        self.returned: list[Value] = []
        self._depth = 0
        self._parts: dict[tuple[frozenset[tuple[Term, int]], int], Sum] = {}  # quotients

    def declare(self, name: str, type_: Type, value: Value) -> None:
        self.types[name] = type_
        self.truths.pop(name, None)
        self.values[name] = self._as(type_, value) if type_.stars == 0 else value

    def block(self, body: Sequence[Stmt]) -> bool:
        """Runs statements, of a helper here; whether what follows them is never reached."""
        raise NotImplementedError

    # Conditions.

    def says(self, condition: Expr, truth: bool) -> list[Sum]:
        """What is not negative where a condition is true, or false."""
        e = condition
        if e.kind == "unary" and e.text == "!":
            return self.says(e.parts[0], not truth)
        if e.kind == "name" and e.text not in self.taken:
            return list(self.truths.get(e.text, ((), ()))[not truth])
        if e.kind != "binary":
            return []
        if e.text in ("&&", "||"):
            if (e.text == "&&") != truth:
                return []
            first = self.says(e.parts[0], truth)
            known, self.known = self.known, self.known.also(first)
            second = self.says(e.parts[1], truth)
            self.known = replace(self.known, positive=known.positive)
            return [*first, *second]
        if changes_something(e) or e.text not in ("<", "<=", ">", ">=", "==", "!="):
            return []
        return self._compared(e, truth)

    def _compared(self, e: Expr, truth: bool) -> list[Sum]:
        op, (a, b) = e.text, e.parts
        if not truth:
            op = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}[op]
        inner = a.parts[0] if a.kind == "cast" and not a.type.stars else None
        x, y = self.quiet(a), self.quiet(b)
        if isinstance(x, Pointer) and isinstance(y, Pointer) and x.memory == y.memory:
            x, y = Whole(x.at), Whole(y.at)
        if not isinstance(x, Whole) or not isinstance(y, Whole):
            return []
        if inner is not None and x.unsigned and op in ("<", "<="):
            signed = self.quiet(inner)  # (uint32_t)i < n: i is not negative either
            if isinstance(signed, Whole) and self._is_in(signed.sum, INT32):
                if not self._is_in(y.sum, (0, INT32[1])):
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

    def _is_in(self, of: Sum, ends: tuple[int, int]) -> bool:
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
        value, type_ = self.values.get(e.text), self.types[e.text]
        if isinstance(value, Pointer) and not type_.stars:
            return Whole(Sum.of(self.memories[value.memory].size_bytes), True)
        if type_.stars:
            raise UnprovenError("sizeof of an address")
        return Whole(Sum.of(type_.bytes), True)

    def _list(self, e: Expr) -> Value:
        for part in e.parts:
            self.value(part)
        return None

    def _cast(self, e: Expr) -> Value:
        value = self.value(e.parts[0])
        if e.type.stars:
            if not isinstance(value, Pointer):
                return None
            return replace(value, type=pointed(e.type))
        return self._as(e.type, value)

    def _as(self, type_: Type, value: Value) -> Value:
        """A value as a variable of a type has it."""
        if type_.name not in INTEGERS:
            return None
        if not isinstance(value, Whole):
            return self.unknown(type_)
        unsigned = not INTEGERS[type_.name][1]
        if self.trials or self._is_in(value.sum, range_of(type_)):
            return Whole(value.sum, unsigned)
        return self.unknown(type_)

    def _choice(self, e: Expr) -> Value:
        condition, one, two = e.parts
        self.value(condition)
        known = self.known
        found = []
        for truth, part in ((True, one), (False, two)):
            self.known = known.also(self.says(condition, truth))
            found.append((self.value(part), self.known))
        self.known = known
        (a, ka), (b, kb) = found
        return self.joined(a, ka, b, kb)

    def _unary(self, e: Expr) -> Value:
        inner = e.parts[0]
        if e.text in ("++", "--"):
            return self._moved(inner, 1 if e.text == "++" else -1)[1]
        if e.text == "&":
            return self._address(inner)
        value = self.value(inner)
        if e.text == "*":
            return self._loaded(value)
        if e.text == "!" or not isinstance(value, Whole):
            return Whole(self.known.fresh(0, 1)) if e.text == "!" else None
        if e.text == "+":
            return value
        less = value.sum.times(-1) - Sum.of(e.text == "~")
        return self._kept(less, value.unsigned)

    def _address(self, e: Expr) -> Value:
        if e.kind == "index":
            return self._element(e)
        if e.kind != "name":
            raise UnprovenError("an address of no variable")
        type_ = self.types[e.text]
        memory = f"{e.text} of {len(self.memories)}"
        self.memories[memory] = Memory(type_.bytes)
        self.taken.add(e.text)  # what is done by the address is not followed
        return Pointer(memory, Sum.of(0), type_)

    def _postfix(self, e: Expr) -> Value:
        return self._moved(e.parts[0], 1 if e.text == "++" else -1)[0]

    def _moved(self, e: Expr, by: int) -> tuple[Value, Value]:
        """A variable before and after `++` or `--`."""
        if e.kind != "name":
            self._place(e)
            return None, None
        before = self.value(e)
        after = self._plus(before, Whole(Sum.of(by)), 1)
        self._assigned_to(e.text, after)
        return before, after

    def _assigned_to(self, name: str, value: Value) -> None:
        type_ = self.types[name]
        self.truths.pop(name, None)
        self.values[name] = value if type_.stars else self._as(type_, value)

    def _assign(self, e: Expr) -> Value:
        to, source = e.parts
        value = self.value(source)
        if e.text != "=":
            value = self._computed(e.text[:-1], self.value(to), value)
        if to.kind == "name":
            self._assigned_to(to.text, value)
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
        return self._loaded(self._element(e))

    def _element(self, e: Expr) -> Value:
        base, index = (self.value(part) for part in e.parts)
        return self._plus(base, index, 1)

    def _loaded(self, pointer: Value) -> Value:
        """What is at an address, which must be inside its memory."""
        if not isinstance(pointer, Pointer):
            self._fail("an address that is not known")
            return None
        if pointer.type.stars:
            raise UnprovenError("an address of addresses")
        self._inside(pointer, Sum.of(pointer.type.bytes))
        at, memory = pointer.at.constant, self.memories[pointer.memory]
        if at is not None and pointer.type == memory.type and at % memory.type.bytes == 0:
            index = at // memory.type.bytes
            if 0 <= index < len(memory.holds):
                return self._as(memory.type, Whole(Sum.of(memory.holds[index])))
        return self.unknown(pointer.type)

    def _inside(self, pointer: Pointer, size: Sum) -> None:
        if self.dry:
            return
        room = Sum.of(self.memories[pointer.memory].size_bytes) - size - pointer.at
        name = pointer.memory.split(" ")[0]
        if not self.known.is_positive(pointer.at):
            self._fail(f"'{name}' may be read or written before its start")
        if not self.known.is_positive(room):
            self._fail(f"'{name}' may be read or written beyond its end")

    def _fail(self, text: str) -> None:
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
        if op == ",":
            return y
        if op in ("==", "!=", "<", "<=", ">", ">="):
            return Whole(self.known.fresh(0, 1))
        if isinstance(x, Pointer) or isinstance(y, Pointer):
            if op not in ("+", "-"):
                return None
            if isinstance(y, Pointer):
                x, y = y, x
            return None if isinstance(y, Pointer) else self._plus(x, y, 1 if op == "+" else -1)
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
        return Whole(self.known.fresh(*ANYTHING), unsigned)

    def _kept(self, of: Sum, unsigned: bool) -> Whole:
        """The result of arithmetic, if it wraps around nowhere."""
        if self.trials or self._is_in(of, (0, (1 << 32) - 1) if unsigned else INT32):
            return Whole(of, unsigned)
        return Whole(self.known.fresh(*ANYTHING), unsigned)

    def _plus(self, base: Value, index: Value, sign: int) -> Value:
        if isinstance(base, Pointer) and isinstance(index, Whole):
            return replace(base, at=base.at + index.sum.times(sign * base.type.bytes))
        if isinstance(base, Whole) and isinstance(index, Whole):
            return self._kept(base.sum + index.sum.times(sign), base.unsigned)
        return None

    # Calls.

    def _call(self, e: Expr) -> Value:
        if e.text in ("MLF_HIDE", "MLF_LOADS_STAY"):  # of a compiler's knowledge alone
            return None
        values = [self.value(part) for part in e.parts]
        if e.text in ("__builtin_assume_aligned", "INT64_C", "UINT64_C"):
            return values[0]
        if e.text in COPIES:
            return self._copied(e.text, values)
        names = [p.text for p in e.parts if p.kind == "name"]
        addresses = any(isinstance(v, Pointer) for v in values) or any(
            self.types[n].stars for n in names if n in self.types
        )
        if not addresses and e.text.isupper():
            raise UnprovenError(f"the macro {e.text} is not read")
        found = self._find(e.text)
        if addresses and (not found or None in found or self._depth >= MOST_DEPTH):
            raise UnprovenError(f"'{e.text}' is not read")
        if addresses:
            ways = [one for one in found if one]
            results = [self._run(one, values) for one in ways]  # each is read
            return results[0] if len(ways) == 1 else self.unknown(ways[0].returns)
        one = found[0] if len(found) == 1 else None
        if one is not None and len(one.body) <= MOST_READ and None not in values:
            return self._tried(one, values)
        return None

    def _tried(self, one: Definition, values: Sequence[Value]) -> Value:
        """What a helper of numbers gives, or any number of its type."""
        before = self.dry, self.trials, self.known
        if self._depth >= MOST_DEPTH:
            return self.unknown(one.returns)
        try:
            return self._run(one, values)
        except (UnprovenError, ValueError, KeyError):
            self.dry, self.trials, self.known = before
            return self.unknown(one.returns)

    def _copied(self, name: str, values: Sequence[Value]) -> Value:
        size = values[2]
        if not isinstance(size, Whole) or not self.known.is_positive(size.sum):
            raise UnprovenError(f"the size of a {name} is not known")
        for value in values[: sum(COPIES[name])]:
            if not isinstance(value, Pointer):
                self._fail(f"{name} of an address that is not known")
            else:
                self._inside(value, size.sum)
        return values[0]

    def _run(self, one: Definition, values: Sequence[Value]) -> Value:
        """A helper with these arguments."""
        outer = self.values, self.types, self.left, self.returned, self.taken
        truths, self.truths = self.truths, {}
        self.values, self.types, self.left, self.returned = {}, {}, [False], []
        self.taken = set()
        self._depth += 1
        try:
            for parameter, value in zip(one.parameters, values, strict=True):
                self.declare(parameter.name, parameter.type, value)
            self.block(one.body)
            found = self.returned
        finally:
            self._depth -= 1
            self.values, self.types, self.left, self.returned, self.taken = outer
            self.truths = truths
        if len(found) == 1:
            return found[0] if one.returns.stars else self._as(one.returns, found[0])
        return self.unknown(one.returns)

    def joined(self, a: Value, ka: Known, b: Value, kb: Known) -> Value:
        """Either of two values, with what holds of both."""
        if a == b:
            return a
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
            if ka.is_positive(end - a) and kb.is_positive(end - b):
                self.known = self.known.also([end - made])
            if ka.is_positive(a - end) and kb.is_positive(b - end):
                self.known = self.known.also([made - end])
        return made

    def unknown(self, type_: Type) -> Value:
        if type_.stars or type_.name not in INTEGERS:
            return None
        return Whole(self.known.fresh(*range_of(type_)), not INTEGERS[type_.name][1])


def sum_of(value: Value) -> Sum:
    return value.at if isinstance(value, Pointer) else value.sum if value else Sum.of(0)


def changes_something(e: Expr) -> bool:
    changing = e.kind in ("assign", "postfix") or (e.kind == "unary" and e.text in ("++", "--"))
    return changing or any(map(changes_something, e.parts))
