"""Expressions of C on unknown numbers: what they are, which addresses they touch, and what holds
where a condition is true (indices.py has the statements, ccalls.py the calls)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlftool.proof.affine import Sum
from mlftool.proof.arithmetic import Arithmetic
from mlftool.proof.ctree import VOID, Definition, Expr, Stmt, Type, number
from mlftool.proof.unknowns import (
    INT32,
    Memory,
    Pointer,
    Record,
    Split,
    UnprovenError,
    UnrollError,
    Value,
    Whole,
    must_part,
    pointed,
)

Find = Callable[[str], Definition | None]


class Values(Arithmetic):
    """The state at one place of a function, and the expressions there."""

    def __init__(self, find: Find) -> None:
        super().__init__()
        self.find = find
        self.values: dict[str, Value] = {}
        self.types: dict[str, Type] = {}
        self.truths: dict[str, tuple[tuple[Sum, ...], tuple[Sum, ...]]] = {}  # of bools
        self.taken: set[str] = set()  # variables whose address is taken
        self.left = [False]  # whether a turn of each open loop may end early
        self.returned: list[Value] = []
        self.depth = 0

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
        if not isinstance(value, Whole):
            return []
        if value.sum.constant is not None:
            return [Sum.of(-1)] if bool(value.sum.constant) != truth else []
        if not truth:
            return [value.sum, value.sum.times(-1)]
        signs = (one for one in (value.sum, value.sum.times(-1)) if self.known.is_positive(one))
        return [one - Sum.of(1) for one in signs][:1]

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
            return self.loaded(value)
        value = self.flat(value)
        if e.text == "!" or not isinstance(value, Whole):
            return Whole(self.known.fresh(0, 1)) if e.text == "!" else None
        if e.text == "+":
            return value
        less = value.sum.times(-1) - Sum.of(e.text == "~")
        return self.kept(less, value.unsigned)

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
            self._put_member(e, self.plus(before, Whole(Sum.of(by)), 1))
            return before, None
        if e.kind != "name":
            self._place(e)
            return None, None
        before = self.value(e)
        after = self.plus(before, Whole(Sum.of(by)), 1)
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
            value = self.computed(e.text[:-1], self.value(to), value)
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
            address = self._element(e)
        elif e.kind == "unary" and e.text == "*":
            address = self.value(e.parts[0])
        else:
            raise UnprovenError(f"an assignment to {e.kind}")
        self.loaded(address)
        self.written(address)

    def _index(self, e: Expr) -> Value:
        if self._is_member(e):
            return self._member(e)
        return self.loaded(self._element(e))

    def _element(self, e: Expr) -> Value:
        base, index = (self.value(part) for part in e.parts)
        if base is None and e.parts[0].kind == "name":
            type_ = self.types.get(e.parts[0].text, VOID)
            if type_.lanes and not type_.stars and isinstance(index, Whole):
                self._within(e.parts[0].text, index.sum, type_.lanes)
                one = replace(type_, lanes=0)
                return replace(self._own(e.parts[0].text, one, type_.lanes), at=Sum.of(0))
        return self.plus(base, index, 1)

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
        return self.computed(e.text, x, self.value(b))


def _is_struct(type_: Type) -> bool:
    return bool(type_.members) and not type_.stars


def _retyped(value: Value, type_: Type) -> Value:
    """An address, of elements of another type."""
    if isinstance(value, Split):
        return Split(value.number, _retyped(value.one, type_), _retyped(value.two, type_))
    return replace(value, type=type_) if isinstance(value, Pointer) else None


def changes_something(e: Expr) -> bool:
    changing = e.kind in ("assign", "postfix") or (e.kind == "unary" and e.text in ("++", "--"))
    return changing or any(map(changes_something, e.parts))
