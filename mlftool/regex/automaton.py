"""Regular expressions as tables of a deterministic automaton over the bytes of UTF-8.

The syntax is RE2's, of which the standard says that patterns are; what no automaton can do (look
ahead, back references) is not in it. Left out as well: classes of Unicode properties (\\pL).

A state of the automaton is a set of places in the pattern and what the last byte was, because ^, $,
\\b and \\B ask for that and for the byte that follows; so they are settled when a byte is read, or
the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.regex.syntax import Parsed, is_word_byte, parse

MOST_STATES = 4096
START, WORD, OTHER = range(3)  # what stood before a place

Edge = tuple[int, int, int]  # lowest byte, highest byte, next place


@dataclass
class _Places:
    """An automaton with empty steps: of each place the edges, and steps under a condition."""

    edges: list[list[Edge]] = field(default_factory=list)
    steps: list[list[tuple[str, int]]] = field(default_factory=list)

    def new(self) -> int:
        self.edges.append([])
        self.steps.append([])
        return len(self.edges) - 1

    def add(self, tree: Parsed, to: int) -> int:
        """The place from which `tree` leads to `to`."""
        return getattr(self, f"_{tree.kind}")(tree, to)  # type: ignore[no-any-return]

    def _bytes(self, tree: Parsed, to: int) -> int:
        """One character of a set, whose encodings are sequences of ranges of bytes."""
        place = self.new()
        for sequence in tree.sequences:
            after = to
            for low, high in reversed(sequence[1:]):
                before = self.new()
                self.edges[before].append((low, high, after))
                after = before
            self.edges[place].append((*sequence[0], after))
        return place

    def _empty(self, tree: Parsed, to: int) -> int:
        place = self.new()
        self.steps[place].append((tree.condition, to))
        return place

    def _all(self, tree: Parsed, to: int) -> int:
        for part in reversed(tree.parts):
            to = self.add(part, to)
        return to

    def _any(self, tree: Parsed, to: int) -> int:
        place = self.new()
        self.steps[place] += [("", self.add(part, to)) for part in tree.parts]
        return place

    def _repeat(self, tree: Parsed, to: int) -> int:
        part = tree.parts[0]
        if tree.most is None:
            again = self.new()
            self.steps[again] += [("", self.add(part, again)), ("", to)]
            to = again
        else:
            for _ in range(tree.most - tree.least):
                place = self.new()
                self.steps[place] += [("", self.add(part, to)), ("", to)]
                to = place
        for _ in range(tree.least):
            to = self.add(part, to)
        return to


@frozen
class Tables:
    """The automaton: `next[state * columns + column[byte]]`; the last columns say whether it
    matches where the text ends and, of a search, before a byte of a word and before another. State
    0 is where nothing can match any more."""

    column: Array  # 256 x uint8
    next: Array  # states x columns, uint16
    starts: tuple[int, ...]  # at the text's begin and, of a search, after such bytes

    @property
    def columns(self) -> int:
        return int(self.next.shape[1])


def tables(pattern: str, search: bool = False) -> Tables:
    """Of a pattern that must match a whole text, or that is searched for in one. Raises ValueError
    for what is not supported."""
    places = _Places()
    end = places.new()
    first = places.add(parse(pattern), end)
    column, samples = _columns(places)
    states: dict[tuple[frozenset[int], int], int] = {(frozenset(), OTHER): 0}
    befores = (START, WORD, OTHER) if search else (START,)
    afters = (None, WORD, OTHER)[: len(befores)]
    queue = [(frozenset([first]), before) for before in befores]
    states |= {key: k for k, key in enumerate(queue, 1)}
    rows = [[0] * (len(samples) + len(afters))]
    for held, before in queue:  # grows meanwhile
        if len(states) > MOST_STATES:
            raise ValueError(f"its automaton has over {MOST_STATES} states")
        row = []
        for byte in samples:
            after = WORD if is_word_byte(byte) else OTHER
            open_ = _closed(places, held, before, after)
            reached = frozenset(t for p in open_ for a, b, t in places.edges[p] if a <= byte <= b)
            key = (reached, after if reached else OTHER)
            if key not in states:
                states[key] = len(states)
                queue.append(key)
            row.append(states[key])
        rows.append([*row, *(int(end in _closed(places, held, before, a)) for a in afters)])
    return _smallest(column, np.array(rows, np.int64), len(afters))


def _columns(places: _Places) -> tuple[Array, list[int]]:
    """Bytes that no edge and no condition tells apart share a column: the column of each byte, and
    a byte of each column."""
    cuts = {0} | {b for b in range(1, 256) if is_word_byte(b) != is_word_byte(b - 1)}
    for edges in places.edges:
        for low, high, _ in edges:
            cuts |= {low, high + 1}
    starts = sorted(c for c in cuts if c < 256)
    column = np.searchsorted(starts, np.arange(256), side="right") - 1
    return column.astype(np.uint8), starts


def _closed(places: _Places, held: Iterable[int], before: int, after: int | None) -> frozenset[int]:
    """All places reached without reading, between `before` and `after`; None is the end."""
    word = before == WORD
    holds: dict[str, bool] = {
        "": True,
        "^": before == START,
        "$": after is None,
        "b": word != (after == WORD),
        "B": word == (after == WORD),
    }
    reached = set(held)
    open_ = list(reached)
    while open_:
        for condition, to in places.steps[open_.pop()]:
            if holds[condition] and to not in reached:
                reached.add(to)
                open_.append(to)
    return frozenset(reached)


def _smallest(column: Array, rows: Array, ends: int) -> Tables:
    """States that no text tells apart become one, columns with equal entries too. The last columns
    are `ends`; as many states after the first are where it starts."""
    moves, ended = rows[:, :-ends], rows[:, -ends:]
    group, count = np.unique(ended, axis=0, return_inverse=True)[1].reshape(-1), 0
    while count != len(np.unique(group)):
        count = len(np.unique(group))
        moved = np.concatenate([group[:, None], group[moves]], axis=1)
        group = np.unique(moved, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.full(group.max() + 1, -1)
    order[group[0]] = 0  # the dead state is number 0
    rest = iter(range(1, len(order)))
    for g in group:
        if order[g] < 0:
            order[g] = next(rest)
    group = order[group]
    _, first = np.unique(group, return_index=True)
    kinds, joined = np.unique(group[moves[first]], axis=1, return_inverse=True)
    small = np.concatenate([kinds, ended[first]], axis=1).astype(np.uint16)
    column = joined.reshape(-1)[column]
    return Tables(column.astype(np.uint8), small, tuple(map(int, group[1 : ends + 1])))
