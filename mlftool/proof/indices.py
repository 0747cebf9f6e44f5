"""Whether every access of a kernel is inside its operand: the kernel's C, run on unknown numbers.

Variables are sums of products of unknowns (affine.py). A loop is run once with the number of its
turn unknown: what changes by the same amount in each turn is a multiple of it. What tensors hold is
not known, so neither is an index that is read from one, except that it has its type and what the
code compares it with. Nothing here is a guess: what is not shown raises UnprovenError.

Helpers of mlf/*.h that take no address are taken at their word; those that do are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlftool.frozen import frozen, replace
from mlftool.proof.affine import Known, Sum
from mlftool.proof.arithmetic import ANYTHING
from mlftool.proof.ccalls import Calls
from mlftool.proof.ctree import Definition, Expr, Member, Stmt, Type, Variable
from mlftool.proof.cvalues import Find, changes_something
from mlftool.proof.unknowns import (
    Memory,
    Pointer,
    Record,
    UnprovenError,
    UnrollError,
    Value,
    Whole,
    leaves,
    moved,
    must_part,
    pointed,
    range_of,
    sum_of,
    with_leaves,
)

__all__ = ["Memory", "UnprovenError", "prove"]
MOST_TURNS = 16  # of a loop whose turns are looked at one by one
MOST_TURNS_OF_ALL = 100
_TRUTHS = ("&&", "||", "==", "!=", "<", "<=", ">", ">=")


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


@frozen
class _State:
    """What a loop that is looked at again starts from."""

    values: Mapping[str, Value]
    known: Known
    dry: int
    trials: int
    left: tuple[bool, ...]
    returned: tuple[Value, ...]


class _Run(Calls):
    """A function from its start to its end."""

    turns_left = MOST_TURNS_OF_ALL  # that may still be looked at one by one

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
            condition = one.exprs[0]
            if condition is None or condition != Expr("number", "0"):
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
            if variable.value:
                self.value(variable.value)
        else:
            value = self._initial(variable)
            self.declare(variable.name, variable.type, value)
            if variable.value and _is_truth(variable):
                says = [tuple(self.says(variable.value, truth)) for truth in (True, False)]
                self.truths[variable.name] = says[0], says[1]

    def _initial(self, variable: Variable) -> Value:
        value, type_ = variable.value, variable.type
        if value is None:
            return None
        if value.kind == "list" and type_.members and not type_.stars:
            return Record(dict(self._fields(value, type_.members)))
        return self.value(value)

    def _fields(self, given: Expr, members: Sequence[Member]) -> Iterator[tuple[str, Value]]:
        for member, part in zip(members, given.parts, strict=False):
            if part.kind != "list":
                yield member.name, self.value(part)
            elif member.extent is not None:
                for k, one in enumerate(part.parts):
                    yield f"{member.name}.{k}", self.value(one)

    def _if(self, one: Stmt) -> bool:
        condition = one.exprs[0]
        assert condition is not None
        self.value(condition)
        before, known = dict(self.values), self.known
        ends, states = [], []
        for truth, body in ((True, one.body), (False, one.other)):
            says = self.says(condition, truth)
            if any(known.most(s) < 0 for s in says):  # never
                ends.append(True)
                states.append((before, known))
                continue
            self.values = dict(before)
            self.known = known.also(says)
            ends.append(self.block(body))
            states.append((self.values, self.known))
            self.known = known
        if all(ends):
            return True
        if any(ends):  # what is known of the other branch goes on being so
            self.values, self.known = states[ends.index(False)]
            return False
        (one_, k1), (two, k2) = states
        self.known = known
        apart = any(must_part(v, two.get(n)) for n, v in one_.items())
        number = self.split(k1, k2) if apart else None
        self.values = {n: self.joined(one_[n], k1, two.get(n), k2, number) for n in one_}
        return False

    def _loop(self, one: Stmt) -> None:
        start = self._state()
        try:
            most = self._at_once(one)
        except UnprovenError as error:
            again = self.turns_left > 0 and not start.dry
            if not again and not isinstance(error, UnrollError):
                raise
            self._back_to(start)
            try:
                self._by_turns(one)
            except UnprovenError:
                raise error from None
        else:
            if most < MOST_TURNS and self.turns_left > 0 and self._has_lost(start.values):
                self._again_by_turns(one, start)

    def _again_by_turns(self, one: Stmt, start: _State) -> None:
        """A loop that is shown, but after which an address is not known; it may be if each turn is
        looked at by itself."""
        after = self._state()
        self._back_to(start)
        try:
            self._by_turns(one)
        except UnprovenError:
            self._back_to(after)

    def _has_lost(self, before: Mapping[str, Value]) -> bool:
        return any(
            v is not None and self.types[n].stars and self.values.get(n) is None
            for n, v in before.items()
        )

    def _state(self) -> _State:
        ends = self.dry, self.trials, tuple(self.left), tuple(self.returned)
        return _State(dict(self.values), self.known, *ends)

    def _back_to(self, state: _State) -> None:
        self.values, self.known = dict(state.values), state.known
        self.dry, self.trials = state.dry, state.trials
        self.left, self.returned = list(state.left), list(state.returned)

    def _by_turns(self, one: Stmt) -> None:
        """A loop of few turns, each for itself."""
        condition = one.exprs[0]
        for _ in range(MOST_TURNS):
            if condition is None:
                break
            self.turns_left -= 1
            self.value(condition)
            if self._never(condition, True):
                return
            if not self._never(condition, False):
                break
            self.left.append(False)
            self.block((*one.body, *one.other))
            if self.left.pop():
                break
        raise UnprovenError("a loop has too many turns, or ends early")

    def _never(self, condition: Expr, truth: bool) -> bool:
        return any(self.known.most(says) < 0 for says in self.says(condition, truth))

    def _at_once(self, one: Stmt, unknown: frozenset[str] = frozenset()) -> int:
        """A loop in a turn whose number is not known; nothing is known of some variables in it.
        Returns after which turn it ends at the latest."""
        condition, steps = one.exprs[0], one.other
        names = [n for n in _assigned((*one.body, *steps), condition) if n in self.values]
        for name in names:  # a number that changes is one number, whatever it starts from
            if all(isinstance(leaf, Whole) for leaf in leaves(self.values[name])):
                self.values[name] = self.flat(self.values[name])
        entry, known = dict(self.values), self.known
        changes, grow, early = self._changes(one, names, unknown)
        turn = known.fresh(0, 1 << 31)
        self._at_turn(entry, names, changes, turn)
        start = {name: sum_of(self.values[name]) for name in grow}
        self.known = inside = known.also(start[name] - sum_of(entry[name]) for name in grow)
        says = self._says(condition, turn) if condition else []
        says = says or self._unequal(condition, turn)
        left, most = self._ended(says, turn)
        known.ends[next(iter(turn.names))] = (0, max(0, most))
        if most >= 0 and not self.dry:
            self.known = inside.also(says)
            if condition:
                self.value(condition)
            self.left.append(False)
            self.block((*one.body, *steps))
            self.left.pop()
            after = self.values
            wrong = {n for n in grow if not self._is_more(after[n], start[n])}
            self._at_turn(entry, list(changes), changes, turn + Sum.of(1))
            wrong |= {n for n in changes if after[n] != self.values[n]}
            if wrong:  # they may wrap around
                self.values, self.known = entry, known
                return self._at_once(one, unknown | wrong)
        self.known = known
        exact = not early and len(says) == 1
        turns = self._turns(condition, left, turn, most) if exact else None
        self._at_turn(entry, names, changes, turns or known.fresh(0, max(0, most + 1)))
        ends = (sum_of(self.values[name]) - sum_of(entry[name]) for name in grow)
        self.known = known.also(ends)
        return most

    def _says(self, condition: Expr, turn: Sum) -> list[Sum]:
        """What a condition says in a turn. Its arithmetic may only be taken to wrap around nowhere
        if it does not until the first turn that is not run."""
        (name,) = turn.names
        self.trials += 1
        says = self.says(condition, True)
        self.trials -= 1
        _, most = self._ended(says, turn)
        self.known.ends[name] = (0, max(0, most + 1))
        again = self.says(condition, True)
        if again == says:
            return says
        self.known.ends[name] = (0, 1 << 31)
        return self.says(condition, True)

    def _ended(self, says: Sequence[Sum], turn: Sum) -> tuple[list[Sum], int]:
        """What ends the loop, and after which turn it does at the latest."""
        left = [one for one in says if one.terms.get(tuple(turn.names), 0) < 0]
        return left, min((self._last(one, turn) for one in left), default=1 << 31)

    def _is_more(self, value: Value, start: Sum) -> bool:
        return isinstance(value, Whole) and self.known.is_positive(value.sum - start)

    def _changes(
        self, one: Stmt, names: Sequence[str], unknown: frozenset[str]
    ) -> tuple[dict[str, tuple[Sum, ...]], list[str], bool]:
        """By how much variables change in each turn, those of which that is known, with a number
        for each value that they may be; which others seem to get no less in any turn, so are not
        less than before; and whether a turn may end early."""
        entry, known = dict(self.values), self.known
        old = set(known.ends)
        marks: dict[str, tuple[Sum, ...]] = {}
        for name in names:
            marks[name] = self._marked(name, known)
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
            by = _by_turn(entry[name], self.values[name], mark)
            if by is not None and name not in unknown and all(s.names <= old for s in by):
                found[name] = by
        rest = (n for n in marks if n not in found and n not in unknown and not early)
        others = [n for n in rest if isinstance(entry[n], Whole)]
        grow = [n for n in others if self._is_more(self.values[n], marks[n][0])]
        self.values, self.known = entry, known
        return found, grow, early

    def _marked(self, name: str, known: Known) -> tuple[Sum, ...]:
        """Gives a variable values of which nothing is known, and returns them."""
        value = self.values[name]
        marks = []
        made: list[Value] = []
        for leaf in leaves(value):
            mark = known.fresh(*ANYTHING)
            if isinstance(leaf, Whole):
                known.ends[next(iter(mark.names))] = range_of(self.types[name])
            marks.append(mark)
            known_leaf = isinstance(leaf, Pointer | Whole)
            made.append(moved(leaf, mark - sum_of(leaf)) if known_leaf else leaf)
        self.values[name] = with_leaves(value, iter(made))
        return tuple(marks)

    def _at_turn(
        self,
        entry: Mapping[str, Value],
        names: Sequence[str],
        by: Mapping[str, tuple[Sum, ...]],
        turn: Sum,
    ) -> None:
        """The variables before a turn."""
        self.values = dict(entry)
        for name in names:
            value = entry[name]
            if name not in by:
                self.assign(name, self.unknown(self.types[name]))
                continue
            each = zip(leaves(value), by[name], strict=True)
            self.values[name] = with_leaves(value, iter([moved(v, f * turn) for v, f in each]))

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
        x, y = (self.flat(self.quiet(part)) for part in condition.parts)
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


def _is_truth(variable: Variable) -> bool:
    """Whether it has what a comparison says."""
    value = variable.value
    if variable.type == Type("bool") or not variable.type.is_integer or value is None:
        return variable.type == Type("bool")
    return value.kind == "binary" and value.text in _TRUTHS


def _by_turn(before: Value, after: Value, marks: Sequence[Sum]) -> tuple[Sum, ...] | None:
    """By how much each of the values that one may be has changed, if it is still of its kind."""
    was, found = list(leaves(before)), list(leaves(after))
    if len(found) != len(was):
        return None
    for one, other in zip(was, found, strict=True):
        if isinstance(one, Pointer) and isinstance(other, Pointer):
            if other != replace(one, at=other.at):
                return None
        elif isinstance(one, Record):
            if one != other:
                return None
        elif not (isinstance(one, Whole) and isinstance(other, Whole)):
            return None
    if with_leaves(before, iter(found)) != after:
        return None
    same = Sum.of(0)
    return tuple(
        same if isinstance(other, Record) else sum_of(other) - mark
        for other, mark in zip(found, marks, strict=True)
    )


def _assigned(body: Sequence[Stmt], *conditions: Expr | None) -> list[str]:
    """Names of variables that statements or conditions may change."""
    found: dict[str, None] = {}

    def look(e: Expr) -> None:
        changed = e.kind in ("assign", "postfix")
        changed |= e.kind == "unary" and e.text in ("++", "--", "&")
        for one in e.parts[:1] if changed else e.parts if e.kind == "changed" else ():
            while one.kind == "member" or (one.kind == "index" and one.parts[0].kind == "member"):
                one = one.parts[0]
            if one.kind == "name":
                found[one.text] = None
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
