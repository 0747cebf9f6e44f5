"""Loops of C on unknown numbers: one turn whose number is not known, or a few one by one.

What changes by the same amount in each turn is a multiple of the turn's number. Whatever a turn is
taken to do is verified in that same turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlftool.frozen import frozen, replace
from mlftool.proof.affine import Known, Sum
from mlftool.proof.arithmetic import ANYTHING
from mlftool.proof.ccalls import Calls
from mlftool.proof.ctree import Expr, Stmt
from mlftool.proof.cvalues import changes_something
from mlftool.proof.maxima import Bound, Search, search, spared
from mlftool.proof.statements import assigned, leading
from mlftool.proof.unknowns import (
    Pointer,
    Record,
    UnprovenError,
    UnrollError,
    Value,
    Whole,
    leaves,
    moved,
    range_of,
    sum_of,
    with_leaves,
)

MOST_TURNS = 24  # of a loop whose turns are looked at one by one
MOST_TURNS_OF_ALL = 100
MOST_STEPS = 300  # of a loop that constants lead through memory
MOST_STEPS_OF_ALL = 4000


@frozen
class Between:
    """A number is never below or above these."""

    low: int
    high: int


Change = tuple[Sum, ...] | Record | Between  # of a variable, in each turn of a loop


@frozen
class _State:
    """What a loop that is looked at again starts from."""

    values: Mapping[str, Value]
    known: Known
    dry: int
    trials: int
    left: tuple[bool, ...]
    returned: tuple[Value, ...]


class Loops(Calls):
    """Loops; statements are a subclass's."""

    turns_left = MOST_TURNS_OF_ALL  # that may still be looked at one by one
    steps_left = MOST_STEPS_OF_ALL  # of those that constants lead
    led = 0  # such loops are open, in turns one by one

    def _loop(self, one: Stmt) -> None:
        start = self._state()
        led = not self.dry and self._is_led(one)
        if led and self.led:
            return self._by_turns(one, led)
        try:
            most = self._at_once(one)
        except UnprovenError as error:
            again = (led or self.turns_left > 0) and not start.dry
            if not again and not isinstance(error, UnrollError):
                raise
            self._back_to(start)
            try:
                self._by_turns(one, led)
            except UnprovenError:
                raise error from None
        else:
            if most < MOST_TURNS and self.turns_left > 0 and self._has_lost(start.values):
                self._again_by_turns(one, start)
        looks = search(one)
        if looks is not None:
            self._learn(looks, start.values)

    def _is_led(self, one: Stmt) -> bool:
        """Whether a loop, or one in it, moves an address by what it reads from constants whose
        values are known."""
        places = map(self.values.get, leading((*one.body, *one.other)))
        return any(isinstance(p, Pointer) and self.memories[p.memory].holds for p in places)

    def _learn(self, looks: Search, before: Mapping[str, Value]) -> None:
        """What a loop that looked for the greatest element has found."""
        first, most = before.get(looks.index), self.values.get(looks.found)
        start = first.sum.constant if isinstance(first, Whole) else None
        used = {looks.index, looks.found}
        if not isinstance(most, Whole) or start is None or used & self.taken:
            return
        index = self.known.fresh(start, max(start, looks.end - 1))
        after, self.values[looks.index] = self.values[looks.index], Whole(index)
        self.dry += 1
        place = self._element(looks.element)
        self.dry -= 1
        self.values[looks.index] = after
        if start >= looks.end or not isinstance(place, Pointer) or not place.type.is_integer:
            return
        (term,) = index.terms
        step = place.at.terms.get(term, 0)
        at = place.at - index.times(step) + Sum.of(step * start)
        last = at + Sum.of(step * (looks.end - start - 1))
        wide = _wider(range_of(self.types[looks.found]), range_of(place.type))
        if step <= 0 or at.names & index.names or not wide or self._shares(place):
            return
        was = before[looks.found]
        if isinstance(was, Whole):
            high = Sum.of(max(self.known.ceiling(was.sum), range_of(place.type)[1]))
            self.known = self.known.also([most.sum - was.sum, high - most.sum])
            one = self.read.get(was.sum.name)
            if one == replace(place, at=at - Sum.of(step)):
                at -= Sum.of(step)
        self.bounds.append(Bound(place.memory, place.type, at, step, last, most.sum))

    def _shares(self, place: Pointer) -> bool:
        """Whether the place may be written by another name."""
        return self.memories[place.memory].shared or " " in place.memory

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

    def _by_turns(self, one: Stmt, led: bool = False) -> None:
        """A loop of few turns, each for itself."""
        condition = one.exprs[0]
        for _ in range(MOST_STEPS if led else MOST_TURNS):
            if condition is None or (led and self.steps_left < 0):
                break
            self.turns_left -= not led
            self.steps_left -= led
            truth = self.flat(self.value(condition))
            number = truth.sum.constant if isinstance(truth, Whole) else None
            if number == 0 or (number is None and self._never(condition, True)):
                return
            if number is None and not self._never(condition, False):
                break
            self.left.append(False)
            self.led += led
            try:
                self.block((*one.body, *one.other))
            finally:
                self.led -= led
            if self.left.pop():
                break
        raise UnprovenError("a loop has too many turns, or ends early")

    def _never(self, condition: Expr, truth: bool) -> bool:
        return any(self.known.most(says) < 0 for says in self.says(condition, truth))

    def _at_once(self, one: Stmt, unknown: frozenset[str] = frozenset()) -> int:
        """A loop in a turn whose number is not known; nothing is known of some variables in it.
        Returns after which turn it ends at the latest."""
        condition, steps = one.exprs[0], one.other
        names = [n for n in assigned((*one.body, *steps), condition) if n in self.values]
        for name in names:  # a number that changes is one number, whatever it starts from
            if all(isinstance(leaf, Whole) for leaf in leaves(self.values[name])):
                self.values[name] = self.flat(self.values[name])
        entry, known, bounds = dict(self.values), self.known, self.bounds
        changes, grow, early = self._changes(one, names, unknown)
        lost = [b for b in bounds if b not in self.bounds]
        self.bounds = [b for b in bounds if b not in lost]  # and none that the trial has learnt
        turn = known.fresh(0, 1 << 31)
        self._at_turn(entry, names, changes, turn)
        start = {name: sum_of(self.values[name]) for name in grow}
        self.known = known.also(start[name] - sum_of(entry[name]) for name in grow)
        says = self._says(condition, turn) if condition else []
        says = says or self._unequal(condition, turn)
        left, most = self._ended(says, turn)
        known.ends[next(iter(turn.names))] = (0, max(0, most))
        if most >= 0 and not self.dry:
            self.known = self.known.also(says)
            self._turn(one, lost, turn)
            after = self.values
            wrong = {n for n in grow if not self._is_more(after[n], start[n])}
            self._at_turn(entry, list(changes), changes, turn + Sum.of(1))
            wrong |= {n for n in changes if not self._is_as(after[n], changes[n], self.values[n])}
            if wrong:  # they may wrap around
                self.values, self.known = entry, known
                return self._at_once(one, unknown | wrong)
        self.known = known
        exact = not early and len(says) == 1
        turns = self._turns(condition, left, turn, most) if exact else None
        self._at_turn(entry, names, changes, turns or known.fresh(0, max(0, most + 1)))
        ends = (sum_of(self.values[name]) - sum_of(entry[name]) for name in grow)
        self.known = known.also(ends)
        if condition and turns is None and not early:
            self.known = self.known.also(self.says(condition, False))
        return most

    def _turn(self, one: Stmt, lost: Sequence[Bound], turn: Sum) -> None:
        """A turn. A loop loses bounds of elements that it overwrites, unless it does so one after
        the other."""
        before, bounds, writes = self._state(), self.bounds, self.writes
        for left in (tuple(b.from_turn(turn) for b in lost), ()):
            self.bounds, self.writes = [*bounds, *left], []
            if one.exprs[0]:
                self.value(one.exprs[0])
            self.left.append(False)
            self.block((*one.body, *one.other))
            self.left.pop()
            self.bounds = [b for b in self.bounds if b not in left]
            if spared(left, self.writes, self.known):
                break
            self._back_to(before)
        self.writes = [*writes, *self.writes]

    def _says(self, condition: Expr, turn: Sum) -> list[Sum]:
        """What a condition says in a turn. Its arithmetic may only be taken to wrap around nowhere
        if it does not until the first turn that is not run."""
        (name,) = turn.names
        known = self.known
        self.trials += 1
        says = self.says(condition, True)
        self.trials -= 1
        self.known = known  # what a trial finds need not be so
        _, most = self._ended(says, turn)
        self.known.ends[name] = (0, max(0, most + 1))
        again = self.says(condition, True)
        if again == says:
            return says
        self.known, self.known.ends[name] = known, (0, 1 << 31)
        return self.says(condition, True)

    def _ended(self, says: Sequence[Sum], turn: Sum) -> tuple[list[Sum], int]:
        """What ends the loop, and after which turn it does at the latest."""
        left = [one for one in says if one.terms.get(tuple(turn.names), 0) < 0]
        return left, min((self._last(one, turn) for one in left), default=1 << 31)

    def _is_more(self, value: Value, start: Sum) -> bool:
        return isinstance(value, Whole) and self.known.is_positive(value.sum - start)

    def _changes(
        self, one: Stmt, names: Sequence[str], unknown: frozenset[str]
    ) -> tuple[dict[str, Change], list[str], bool]:
        """By how much variables change in each turn, those of which that is known, with a number
        for each value that they may be, and of structs the members that stay; which others seem to
        get no less in any turn, so are not less than before; and whether a turn may end early."""
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
            for name in assigned(one.body, one.exprs[0]):
                marks.pop(name, None)
        self.block(one.other)
        self.dry -= 1
        self.trials -= 1
        found: dict[str, Change] = {}
        for name, mark in marks.items():
            by = _by_turn(entry[name], self.values[name], mark)
            if by is None or name in unknown:
                continue
            if isinstance(by, Record) or all(s.names <= old for s in by):
                found[name] = by
        rest = (n for n in marks if n not in found and n not in unknown and not early)
        others = [n for n in rest if isinstance(entry[n], Whole)]
        grow = [n for n in others if self._is_more(self.values[n], marks[n][0])]
        for name in others:
            between = None if name in grow else self._between(name, entry[name])
            if between is not None:
                found[name] = between
        self.values, self.known = entry, known
        return found, grow, early

    def _is_as(self, after: Value, change: Change, wanted: Value) -> bool:
        """Whether a turn has left a value as it was to."""
        if isinstance(change, Between):
            ends = change.low, change.high
            return isinstance(after, Whole) and self.is_in(after.sum, ends)
        if isinstance(after, Record) and isinstance(change, Record):
            return all(after.fields.get(name) == value for name, value in change.fields.items())
        return after == wanted

    def _between(self, name: str, before: Value) -> Between | None:
        """What a variable seems to stay between: what it was, and what a turn leaves."""
        after, known = self.values[name], self.known
        if not isinstance(before, Whole) or not isinstance(after, Whole):
            return None
        low, high = range_of(self.types[name])
        least = max(low, min(known.least(before.sum), known.least(after.sum)))
        most = min(high, max(known.most(before.sum), known.most(after.sum)))
        return Between(least, most) if (least, most) != (low, high) else None

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
        by: Mapping[str, Change],
        turn: Sum,
    ) -> None:
        """The variables before a turn."""
        self.values = dict(entry)
        for name in names:
            value, change = entry[name], by.get(name)
            if change is None:
                self.assign(name, self.unknown(self.types[name]))
                continue
            if isinstance(change, Record):
                self.values[name] = change
                continue
            if isinstance(change, Between):
                number = self.known.fresh(change.low, change.high)
                self.values[name] = Whole(number, isinstance(value, Whole) and value.unsigned)
                continue
            each = zip(leaves(value), change, strict=True)
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


def _wider(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[0] and other[1] <= one[1]


def _by_turn(before: Value, after: Value, marks: Sequence[Sum]) -> tuple[Sum, ...] | Record | None:
    """By how much each of the values that one may be has changed, if it is still of its kind, or
    the members of a struct that have not."""
    if isinstance(before, Record) and isinstance(after, Record) and before != after:
        return Record({n: v for n, v in before.fields.items() if after.fields.get(n) == v})
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
