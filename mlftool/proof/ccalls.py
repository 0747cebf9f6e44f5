"""Calls of C on unknown numbers: of helpers, whose C is read, and of what touches.py has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from mlftool.proof.affine import Sum
from mlftool.proof.ctree import Definition, Expr, Stmt, Type
from mlftool.proof.cvalues import Values
from mlftool.proof.touches import (
    BYTES,
    CONTRACTS,
    COPIES,
    PREDICATED,
    PREDICATES,
    SAME,
    ContractError,
    Given,
    numbers,
)
from mlftool.proof.unknowns import (
    Lanes,
    Offsets,
    Pointer,
    Record,
    Split,
    UnprovenError,
    Value,
    Whole,
    leaves,
    moved,
    pointed,
)
from mlftool.proof.vectors import AT_OFFSETS, OPERATIONS, Vector, active, computed

MOST_DEPTH = 8  # of helpers that call others
MOST_READ = 3  # statements of a helper of numbers that may compute an index
_OF_DATA = {"*", "&", "|", "^", "<<"}  # no index is computed so in a helper
MOST_LANES = 16


class Calls(Values):
    """Expressions with calls."""

    def _call(self, e: Expr) -> Value:
        if e.text == "mlf_needs":
            return self._needed(e.parts[0])
        found = self.find(e.text)
        outer = self._by_address(e, found)
        values = [None if k in outer else self.value(part) for k, part in enumerate(e.parts)]
        if e.text in SAME:
            return values[0]
        if e.text == "__builtin_clz":
            return self._zeros_above(values[0])
        if e.text in COPIES:
            return self._copied(e.text, values)
        if e.text in PREDICATES:
            count = self.flat(values[0])
            return Lanes(count.sum) if isinstance(count, Whole) else None
        if e.text in BYTES or e.text in PREDICATED:
            return self._vector(e.text, values)
        if e.text in OPERATIONS:
            lanes = computed(e.text, list(map(self._lanes_of, values)), self.is_in)
            return Offsets(lanes) if lanes is not None else None
        if e.text in AT_OFFSETS:
            return self._at_offsets(e.text, values)
        if e.text == "mlf_touches":
            return self._touched(values[0], values[1])
        names = [p.text for p in e.parts if p.kind == "name"]
        addresses = any(self.types[n].stars for n in names if n in self.types)
        if not outer and not addresses and not any(map(_has_address, values)):
            return self._number_of(e, found, values)
        if found is None or self.depth >= MOST_DEPTH:
            raise UnprovenError(f"'{e.text}' is not read")
        if e.text in CONTRACTS:
            return self._agreed(found, values)
        return self._run(found, values, outer)

    def _changed(self, e: Expr) -> Value:
        """What instructions write to, of which nothing is known then."""
        for part in e.parts:
            self.assign(part.text, self.unknown(self.types[part.text]))
        return None

    def _number_of(self, e: Expr, found: Definition | None, values: Sequence[Value]) -> Value:
        """What a call without addresses gives."""
        if found is None and e.text.isupper():
            raise UnprovenError(f"the macro {e.text} is not read")
        if found is None:
            return None
        if (self._may_be_index(found) or _computes_offsets(found)) and None not in values:
            return self._tried(found, values)
        return self._unknown_of(found.returns)

    def _may_be_index(self, one: Definition, depth: int = 0) -> bool:
        """Whether a helper and those that it calls look as if they compute a part of an index."""
        if depth >= MOST_DEPTH or not _computes_index(one):
            return False
        called = (self.find(name) for name in _called(one) if name != "__builtin_clz")
        return all(found is not None and self._may_be_index(found, depth + 1) for found in called)

    def _unknown_of(self, type_: Type) -> Value:
        return Record() if type_.members and not type_.stars else self.unknown(type_)

    def _tried(self, one: Definition, values: Sequence[Value]) -> Value:
        """What a helper of numbers gives, or any number of its type."""
        before = self.dry, self.trials, self.known
        if self.depth >= MOST_DEPTH:
            return self._unknown_of(one.returns)
        try:
            return self._run(one, [self.flat(value) for value in values], {})
        except (UnprovenError, ValueError, KeyError):
            self.dry, self.trials, self.known = before
            return self._unknown_of(one.returns)

    def _needed(self, condition: Expr) -> Value:
        """What a header demands of those who call its functions, all of whose parts must hold."""
        if condition.kind == "choice":
            first = self.quiet(condition.parts[0])
            if isinstance(first, Whole) and first.sum.constant is not None:
                return self._needed(condition.parts[1 if first.sum.constant else 2])
        if condition.kind == "binary" and condition.text == "&&":
            for part in condition.parts:
                self._needed(part)
            return None
        if self.dry:
            return None
        says = self.says(condition, True)
        if not says or not all(self.known.is_positive(one) for one in says):
            raise UnprovenError("a helper is not called as its header demands")
        return None

    def _touched(self, value: Value, size: Value) -> Value:
        """An access that a header declares of its assembly."""
        if not isinstance(size, Whole):
            self.fail("the size of an access is not known")
            self.written(None)
            return None
        bytes_ = size.sum
        self.each(value, lambda pointer: self._all_inside(pointer, bytes_))
        return None

    def _all_inside(self, pointer: Value, size: Sum) -> None:
        self.written(pointer, size)  # or read
        if isinstance(pointer, Pointer):
            self.inside(pointer, size)
        else:
            self.fail("an address that is not known")

    def _copied(self, name: str, values: Sequence[Value]) -> Value:
        size = self.flat(values[2])
        if not isinstance(size, Whole) or not self.known.is_positive(size.sum):
            self.fail(f"the size of a {name} is not known")
            self.written(None)
            return values[0]
        for value in values[: COPIES[name]]:
            self._touched(value, size)
        return values[0]

    def _zeros_above(self, value: Value) -> Value:
        """How many bits of 32 are 0 above the first that is 1."""
        value = self.flat(value)
        ends = (0, 31)
        if isinstance(value, Whole):
            least, most = self.known.floor(value.sum), self.known.ceiling(value.sum)
            if 0 < least <= most < 1 << 32:
                ends = 32 - most.bit_length(), 32 - least.bit_length()
        return Whole(self.known.fresh(*ends))

    def _vector(self, name: str, values: Sequence[Value]) -> Value:
        """A load or a store of a vector."""
        if name in BYTES:
            return self._touched(values[0], Whole(Sum.of(BYTES[name])))
        size, argument = PREDICATED[name]
        lanes = values[argument]
        count = Sum.of(MOST_LANES // (int(name.rsplit("_s", 1)[1]) // 8))
        if isinstance(lanes, Lanes) and self.known.is_positive(lanes.count):
            few = self.known.is_positive(count - lanes.count)
            count = lanes.count if few else count
        return self._touched(values[0], Whole(count.times(size)))

    def _lanes_of(self, value: Value) -> Vector | Sum | None:
        if isinstance(value, Offsets):
            return value.lanes
        value = self.flat(value)
        return value.sum if isinstance(value, Whole) else None

    def _at_offsets(self, name: str, values: Sequence[Value]) -> Value:
        """A load or a store of lanes that have an offset each."""
        base, offsets = values[:2]
        masked = name.rpartition("_")[0].endswith(("_z", "_p"))
        if not isinstance(offsets, Offsets):
            self.fail("the offsets of a vector are not known")
            self.written(None)
            return None
        lanes, size = offsets.lanes, Sum.of(AT_OFFSETS[name])

        def touched(mask: Value) -> None:
            bits = mask.sum.constant if isinstance(mask, Whole) else None
            for at in active(lanes, bits):
                self.each(base, partial(self._inside_from, at, size))

        self.each(values[-1] if masked else None, touched)
        return None

    def _inside_from(self, at: Sum, size: Sum, base: Value) -> None:
        self._all_inside(moved(base, at), size)

    # Functions with a contract.

    def _agreed(self, one: Definition, values: Sequence[Value]) -> Value:
        names = [parameter.name for parameter in one.parameters]
        known = self.known
        for way, facts in self._ways(values):
            self.known = known.also(facts)
            self._agreed_one(one, dict(zip(names, way, strict=True)))
        self.known = known
        return self.unknown(one.returns)

    def _agreed_one(self, one: Definition, given: Mapping[str, Value]) -> None:
        seen = {name: self._given(name, given) for name in given}
        if self.dry:
            self.written(None)
            return
        try:
            touched = CONTRACTS[one.name](seen)
        except ContractError as error:
            raise UnprovenError(f"'{one.name}': {error}") from error
        types = {parameter.name: pointed(parameter.type) for parameter in one.parameters}
        for name, count in touched:
            size = 1 if types[name].name == "void" else types[name].bytes
            self._all_inside(given[name], Sum.of(size * count))

    def _ways(self, values: Sequence[Value]) -> Iterator[tuple[tuple[Value, ...], list[Sum]]]:
        """The arguments with one side of each split, and what is not negative on these sides."""
        splits = {v.number for v in values if isinstance(v, Split)}
        if not splits:
            yield tuple(values), []
            return
        number = min(splits)
        for side in range(2):
            sided = [
                (v.two if side else v.one) if isinstance(v, Split) and v.number == number else v
                for v in values
            ]
            for way, facts in self._ways(sided):
                yield way, [*self.sides[number][side], *facts]

    def _given(self, name: str, given: Mapping[str, Value]) -> Given:
        value = given[name]
        if isinstance(value, Whole):
            return Given(value.sum.constant)
        if not isinstance(value, Pointer):
            return Given()
        size = 1 if value.type.name == "void" else value.type.bytes
        apart = {}
        for other, end in given.items():
            if isinstance(end, Pointer) and end.memory == value.memory:
                distance = (end.at - value.at).constant
                if distance is not None and distance % size == 0:
                    apart[other] = distance // size
        memory, at = self.memories[value.memory], value.at.constant
        known: Sequence[int] = ()
        if at is not None and at >= 0 and at % size == 0 and memory.type == value.type:
            known = (memory.holds or numbers(memory.source))[at // size :]
        return Given(None, apart, known)

    # Helpers.

    def _by_address(self, e: Expr, found: Definition | None) -> Mapping[int, str]:
        """Which arguments are addresses of variables that a helper may change: the number of a
        parameter, and the variable."""
        if found is None or len(found.parameters) != len(e.parts) or found.name in CONTRACTS:
            return {}
        outer = {}
        for k, (part, parameter) in enumerate(zip(e.parts, found.parameters, strict=True)):
            if part.kind == "unary" and part.text == "&" and part.parts[0].kind == "name":
                name = part.parts[0].text
                type_ = self.types.get(name)
                own = isinstance(self.values.get(name), Pointer) and type_ and not type_.stars
                if type_ and not own and parameter.type.stars == type_.stars + 1:
                    outer[k] = name
        return outer

    def _run(self, one: Definition, values: Sequence[Value], by: Mapping[int, str]) -> Value:
        """A helper with these arguments; `by` has the variables whose addresses are given."""
        parameters = one.parameters
        names = {k: parameters[k].name for k in by}
        body = _referenced(one, frozenset(names.values())) if by else one.body
        given = {k: (self.types[n], self._name(Expr("name", n))) for k, n in by.items()}
        outer = self.values, self.types, self.left, self.returned, self.taken
        truths, self.truths = self.truths, {}
        self.values, self.types, self.left, self.returned = {}, {}, [False], []
        self.taken = set()
        self.depth += 1
        try:
            for k, (parameter, value) in enumerate(zip(parameters, values, strict=True)):
                if k in by:
                    type_, value = given[k]
                    self.declare(f"*{parameter.name}", type_, value)
                else:
                    self.declare(
                        parameter.name, parameter.type, _as_parameter(value, parameter.type)
                    )
            self.block(body)
            found, early = self.returned, any(_returns(s) for s in body[:-1])
            after = {k: self._name(Expr("name", f"*{names[k]}")) for k in by}
        finally:
            self.depth -= 1
            self.values, self.types, self.left, self.returned, self.taken = outer
            self.truths = truths
        for k, name in by.items():
            self.assign(name, None if early else after[k])
            if early and self.types[name].is_integer:
                self.values[name] = self.unknown(self.types[name])
        if len(found) == 1:
            return found[0] if one.returns.stars else self.converted(one.returns, found[0])
        return self._unknown_of(one.returns)


@lru_cache(maxsize=256)
def _computes_index(one: Definition) -> bool:
    """Whether a helper of numbers looks as if its result might be part of an index."""

    kinds = {(e.kind, e.text) for e in _parts_of(one.body)}
    return len(one.body) <= MOST_READ and kinds.isdisjoint(("binary", op) for op in _OF_DATA)


@lru_cache(maxsize=256)
def _called(one: Definition) -> tuple[str, ...]:
    return tuple(sorted({e.text for e in _parts_of(one.body) if e.kind == "call"}))


def _parts_of(body: Sequence[Stmt]) -> Iterator[Expr]:
    """All expressions of statements, and their parts."""

    def parts(e: Expr) -> Iterator[Expr]:
        yield e
        for part in e.parts:
            yield from parts(part)

    for one in body:
        for e in (*one.exprs, *(v.value for v in one.variables)):
            if e is not None:
                yield from parts(e)
        yield from _parts_of((*one.body, *one.other))


@lru_cache(maxsize=256)
def _computes_offsets(one: Definition) -> bool:
    """Whether a helper of numbers gives offsets of a vector, or what it needs to make them."""
    integers = any(m.type.is_integer and m.extent is None for m in one.returns.members)
    if not integers and not one.returns.lanes:
        return False

    def expression(e: Expr) -> bool:
        return (e.kind != "call" or e.text in OPERATIONS) and all(map(expression, e.parts))

    def statement(s: Stmt) -> bool:
        own = (*s.exprs, *(v.value for v in s.variables))
        straight = s.kind in ("declare", "return")
        return straight and all(e is None or expression(e) for e in own)

    return all(map(statement, one.body))


def _has_address(value: Value) -> bool:
    if isinstance(value, Record):
        return any(map(_has_address, value.fields.values()))
    return any(isinstance(one, Pointer) for one in leaves(value))


def _as_parameter(value: Value, type_: Type) -> Value:
    """An address as one of what the parameter says."""
    if not type_.stars or pointed(type_).name == "void":
        return value
    if isinstance(value, Split):
        one, two = _as_parameter(value.one, type_), _as_parameter(value.two, type_)
        return Split(value.number, one, two)
    return replace(value, type=pointed(type_)) if isinstance(value, Pointer) else value


def _returns(one: Stmt) -> bool:
    return one.kind == "return" or any(map(_returns, (*one.body, *one.other)))


@lru_cache(maxsize=256)
def _referenced(one: Definition, names: frozenset[str]) -> tuple[Stmt, ...]:
    """The body in which `*p` is a variable of that name."""

    def expression(e: Expr) -> Expr:
        inner = e.parts[0].text if e.parts and e.parts[0].kind == "name" else ""
        if e.kind == "unary" and e.text == "*" and inner in names:
            return Expr("name", f"*{inner}")
        if e.kind == "name" and e.text in names:
            return Expr("unary", "&", (Expr("name", f"*{e.text}"),))
        return replace(e, parts=tuple(map(expression, e.parts)))

    def statement(s: Stmt) -> Stmt:
        variables = tuple(replace(v, value=v.value and expression(v.value)) for v in s.variables)
        exprs = tuple(e and expression(e) for e in s.exprs)
        body, other = (tuple(map(statement, part)) for part in (s.body, s.other))
        return Stmt(s.kind, exprs, body, other, variables)

    return tuple(map(statement, one.body))
