"""Whether every access of a kernel is inside its operand: the kernel's C, run on unknown numbers.

Variables are sums of products of unknowns (affine.py). A loop is run once with the number of its
turn unknown: what changes by the same amount in each turn is a multiple of it. What tensors hold is
not known, so neither is an index that is read from one, except that it has its type and what the
code compares it with. Nothing here is a guess: what is not shown raises UnprovenError.

Helpers of mlf/*.h that take no address are taken at their word; those that do are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mlftool.proof.affine import Sum
from mlftool.proof.ctree import Definition, Expr, Stmt, Type, Variable
from mlftool.proof.cvalues import (
    ANYTHING,
    Find,
    Memory,
    Pointer,
    UnprovenError,
    Value,
    Values,
    Whole,
    changes_something,
    pointed,
    range_of,
    sum_of,
)

__all__ = ["Memory", "UnprovenError", "prove"]


def prove(kernel: Definition, given: Sequence[Memory], find: Find) -> None:
    """That the kernel leaves none of its parameters' memories, nor its own arrays. `find` has the
    helpers by name. Raises UnprovenError."""
    if len(kernel.parameters) != len(given):
        raise UnprovenError(f"{kernel.name} has {len(kernel.parameters)} parameters")
    run = _Run(find)
    for parameter, memory in zip(kernel.parameters, given, strict=True):
        if parameter.type.stars != 1:
            raise UnprovenError(f"'{parameter.name}' is not an address")
        run.memories[parameter.name] = memory
        pointer = Pointer(parameter.name, Sum.of(0), pointed(parameter.type))
        run.declare(parameter.name, parameter.type, pointer)
    try:
        run.block(kernel.body)
    except (ValueError, KeyError, RecursionError) as error:
        raise UnprovenError(f"{type(error).__name__} {error}") from error


class _Run(Values):
    """A function from its start to its end."""

    # Statements. Each returns whether what follows it is never reached.

    def block(self, body: Sequence[Stmt]) -> bool:
        names = [v.name for s in body for v in s.variables]
        outer = {n: (self.values.get(n), self.types.get(n)) for n in names}
        ended = any(self._statement(one) for one in body)
        for name, (value, type_) in outer.items():
            if type_ is None:
                self.values.pop(name, None)
                self.types.pop(name, None)
            else:
                self.values[name], self.types[name] = value, type_
        return ended

    def _statement(self, one: Stmt) -> bool:
        if one.kind == "declare":
            for variable in one.variables:
                self._declared(variable)
        elif one.kind == "do":
            assert one.exprs[0] is not None
            self.value(one.exprs[0])
        elif one.kind == "block":
            return self.block(one.body)
        elif one.kind == "if":
            return self._if(one)
        elif one.kind in ("for", "while"):
            self._loop(one)
        elif one.kind == "again":  # once, and then while
            self.left.append(False)
            self.block(one.body)
            if self.left.pop():
                raise UnprovenError("a loop is left before its condition")
            self._loop(replace(one, kind="while"))
        elif one.kind == "return":
            self.returned.append(self.value(one.exprs[0]) if one.exprs[0] else None)
            self.left = [True] * len(self.left)
            return True
        elif one.kind == "leave":
            self.left[-1] = True
            return True
        return False

    def _declared(self, variable: Variable) -> None:
        if variable.extent is not None:
            memory = f"{variable.name} of {len(self.memories)}"
            self.memories[memory] = Memory(variable.extent * variable.type.bytes)
            made = Pointer(memory, Sum.of(0), variable.type)
            self.types[variable.name], self.values[variable.name] = variable.type, made
        else:
            value = self.value(variable.value) if variable.value else None
            self.declare(variable.name, variable.type, value)
            if variable.value and variable.type == Type("bool"):
                says = [tuple(self.says(variable.value, truth)) for truth in (True, False)]
                self.truths[variable.name] = says[0], says[1]

    def _if(self, one: Stmt) -> bool:
        condition = one.exprs[0]
        assert condition is not None
        self.value(condition)
        before, known = dict(self.values), self.known
        ends, states = [], []
        for truth, body in ((True, one.body), (False, one.other)):
            self.values = dict(before)
            self.known = known.also(self.says(condition, truth))
            ends.append(self.block(body))
            states.append((self.values, self.known))
        if all(ends):
            return True
        if any(ends):  # what is known of the other branch goes on being so
            self.values, self.known = states[ends.index(False)]
            return False
        (one_, k1), (two, k2) = states
        self.known = known
        self.values = {n: self.joined(one_[n], k1, two.get(n), k2) for n in one_}
        return False

    def _loop(self, one: Stmt) -> None:
        condition, steps = one.exprs[0], one.other
        names = [n for n in _assigned((*one.body, *steps), condition) if n in self.values]
        entry, known = dict(self.values), self.known
        changes, grow, early = self._changes(one, names)
        turn = known.fresh(0, 1 << 31)
        self._at_turn(entry, names, changes, turn)
        start = {name: sum_of(self.values[name]) for name in grow}
        self.known = inside = known.also(start[name] - sum_of(entry[name]) for name in grow)
        says = self.says(condition, True) if condition else []
        says = says or self._unequal(condition, turn)
        left = [one for one in says if one.terms.get(tuple(turn.names), 0) < 0]
        most = min((self._last(one, turn) for one in left), default=1 << 31)
        known.ends[next(iter(turn.names))] = (0, max(0, most))
        if most >= 0 and not self.dry:
            self.known = inside.also(says)
            if condition:
                self.value(condition)
            self.left.append(False)
            self.block((*one.body, *steps))
            self.left.pop()
            after = self.values
            if not all(self._is_more(after[name], start[name]) for name in grow):
                raise UnprovenError("a variable of a loop may wrap around")
            self._at_turn(entry, list(changes), changes, turn + Sum.of(1))
            if any(after[name] != self.values[name] for name in changes):
                raise UnprovenError("a variable of a loop may wrap around")
        self.known = known
        exact = not early and len(says) == 1
        turns = self._turns(condition, left, turn, most) if exact else None
        self._at_turn(entry, names, changes, turns or known.fresh(0, max(0, most + 1)))
        ends = (sum_of(self.values[name]) - sum_of(entry[name]) for name in grow)
        self.known = known.also(ends)

    def _is_more(self, value: Value, start: Sum) -> bool:
        return isinstance(value, Whole) and self.known.is_positive(value.sum - start)

    def _changes(self, one: Stmt, names: Sequence[str]) -> tuple[dict[str, Sum], list[str], bool]:
        """By how much variables change in each turn, those of which that is known; which others
        seem to get no less in any turn, so are not less than before; and whether a turn may end
        early."""
        entry, known = dict(self.values), self.known
        old = set(known.ends)
        marks: dict[str, Sum] = {}
        for name in names:
            value = self.values[name]
            marks[name] = known.fresh(*ANYTHING)
            if isinstance(value, Pointer):
                self.values[name] = replace(value, at=marks[name])
            elif isinstance(value, Whole):
                low, high = range_of(self.types[name])
                known.ends[next(iter(marks[name].names))] = (low, high)
                self.values[name] = replace(value, sum=marks[name])
        self.dry += 1
        self.trials += 1
        self.left.append(False)
        self.block(one.body)
        early = self.left.pop()
        if early:  # then only the loop's own steps happen in each turn
            for name in _assigned(one.body, one.exprs[0]):
                marks.pop(name, None)
        self.block(one.other)
        self.dry -= 1
        self.trials -= 1
        found = {}
        for name, mark in marks.items():
            before, after = entry[name], self.values[name]
            if type(before) is not type(after) or before is None or after is None:
                continue
            by = sum_of(after) - mark
            same = not isinstance(after, Pointer) or after == replace(before, at=after.at)  # type: ignore[arg-type]
            if same and by.names <= old:
                found[name] = by
        others = [n for n in marks if n not in found and isinstance(entry[n], Whole) and not early]
        grow = [n for n in others if self._is_more(self.values[n], marks[n])]
        self.values, self.known = entry, known
        return found, grow, early

    def _at_turn(
        self, entry: Mapping[str, Value], names: Sequence[str], by: Mapping[str, Sum], turn: Sum
    ) -> None:
        """The variables before a turn."""
        self.values = dict(entry)
        for name in names:
            value = entry[name]
            if name not in by:
                self.values[name] = self.unknown(self.types[name])
            elif isinstance(value, Pointer):
                self.values[name] = replace(value, at=value.at + by[name] * turn)
            elif isinstance(value, Whole):
                self.values[name] = replace(value, sum=value.sum + by[name] * turn)

    def _last(self, rest: Sum, turn: Sum) -> int:
        """The last turn for which `rest` is not negative."""
        term = tuple(turn.names)
        by = -rest.terms[term]
        without = Sum({t: f for t, f in rest.terms.items() if t != term})
        if any(set(t) & turn.names for t in without.terms):
            return 1 << 31
        return self.known.ceiling(without) // by

    def _unequal(self, condition: Expr | None, turn: Sum) -> list[Sum]:
        """What `a != b` says where a comes nearer to b by the same amount in each turn, and meets
        it: that b is not reached yet."""
        if condition is None or condition.text != "!=" or changes_something(condition):
            return []
        x, y = (self.quiet(part) for part in condition.parts)
        pair = isinstance(x, Pointer) and isinstance(y, Pointer) and x.memory == y.memory
        if x is None or y is None or not (pair or type(x) is type(y) is Whole):
            return []
        apart = sum_of(y) - sum_of(x)
        by = apart.terms.get(tuple(turn.names), 0)
        apart = apart if by < 0 else apart.times(-1)
        rest = apart + turn.times(abs(by))
        exact = by and not rest.names & turn.names
        if not exact or any(f % by for f in rest.terms.values()):
            return []
        return [apart - Sum.of(abs(by))] if self.known.is_positive(rest) else []

    def _turns(self, condition: Expr | None, left: list[Sum], turn: Sum, most: int) -> Sum | None:
        """How many there are, where that is one number or sum."""
        if condition is None or condition.text not in ("<", "<=", ">", ">=", "!="):
            return None
        if len(left) != 1:
            return None
        term = tuple(turn.names)
        by = -left[0].terms[term]
        rest = Sum({t: f for t, f in left[0].terms.items() if t != term}) + Sum.of(by)
        if rest.names & turn.names:
            return None
        if rest.constant is not None:
            return Sum.of(max(0, most + 1))
        if any(f % by for f in rest.terms.values()) or not self.known.is_positive(rest):
            return None
        return Sum({t: f // by for t, f in rest.terms.items()})


def _assigned(body: Sequence[Stmt], *conditions: Expr | None) -> list[str]:
    """Names of variables that statements or conditions may change."""
    found: dict[str, None] = {}

    def look(e: Expr) -> None:
        changed = e.kind in ("assign", "postfix")
        changed |= e.kind == "unary" and e.text in ("++", "--", "&")
        if changed and e.parts[0].kind == "name":
            found[e.parts[0].text] = None
        for part in e.parts:
            look(part)

    for e in (*conditions, *_expressions(body)):
        if e is not None:
            look(e)
    return list(found)


def _expressions(body: Sequence[Stmt]) -> Iterator[Expr | None]:
    for one in body:
        yield from one.exprs
        yield from (v.value for v in one.variables)
        yield from _expressions(one.body)
        yield from _expressions(one.other)
