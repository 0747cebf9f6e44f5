"""Sums of products of unknown integers, and what is known of the unknowns: whole numbers between
two ends, and sums that are not negative.

A question is whether a sum is never negative. The answer is found by adding multiples of what is
not negative until the ends alone show it; no answer is not a "no".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from mlftool.frozen import frozen

Term = tuple[str, ...]  # a product of unknowns, sorted; () is 1
MOST_STEPS = 60  # of one question
MOST_TERMS = 24


@frozen
class Sum:
    """Coefficients by product; none is 0."""

    terms: Mapping[Term, int]

    @staticmethod
    def of(value: int) -> Sum:
        return Sum({(): value} if value else {})

    @staticmethod
    def unknown(name: str) -> Sum:
        return Sum({(name,): 1})

    @property
    def constant(self) -> int | None:
        if not self.terms:
            return 0
        return self.terms[()] if set(self.terms) == {()} else None

    @property
    def name(self) -> str:
        """Of the unknown that it is, or ""."""
        one = next(iter(self.terms), ())
        return one[0] if len(one) == 1 and self.terms == {one: 1} else ""

    @property
    def names(self) -> set[str]:
        return {name for term in self.terms for name in term}

    def __add__(self, other: Sum) -> Sum:
        made = dict(self.terms)
        for term, factor in other.terms.items():
            made[term] = made.get(term, 0) + factor
        return Sum({t: f for t, f in made.items() if f})

    def times(self, factor: int) -> Sum:
        return Sum({t: f * factor for t, f in self.terms.items()} if factor else {})

    def __sub__(self, other: Sum) -> Sum:
        return self.less(1, other, 1)

    def less(self, factor: int, other: Sum, by: int) -> Sum:
        """factor * self - by * other."""
        made = {t: f * factor for t, f in self.terms.items()}
        for term, f in other.terms.items():
            made[term] = made.get(term, 0) - f * by
        return Sum({t: f for t, f in made.items() if f})

    def __mul__(self, other: Sum) -> Sum:
        """Raises ValueError for a product of too many terms."""
        if len(self.terms) * len(other.terms) > MOST_TERMS:
            raise ValueError("too many terms")
        made: dict[Term, int] = {}
        for one, f in self.terms.items():
            for two, g in other.terms.items():
                term = tuple(sorted((*one, *two)))
                made[term] = made.get(term, 0) + f * g
        return Sum({t: f for t, f in made.items() if f})


@dataclass
class Known:
    """What is known of the unknowns at one place of a program."""

    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    positive: tuple[Sum, ...] = ()  # none is ever negative
    numbers: count[int] = field(default_factory=count)
    _having: dict[tuple[Term, bool], list[Sum]] | None = field(default=None, init=False)

    def also(self, more: Iterable[Sum]) -> Known:
        """With more that is not negative; new unknowns are of both."""
        return Known(self.ends, (*more, *self.positive), self.numbers)

    def fresh(self, low: int, high: int) -> Sum:
        name = f"u{next(self.numbers)}"
        self.ends[name] = (low, high)
        return Sum.unknown(name)

    def least(self, of: Sum) -> int:
        """A number that it is never below, from the ends alone."""
        return sum(f * self._product(t)[f < 0] for t, f in of.terms.items())

    def most(self, of: Sum) -> int:
        return -self.least(of.times(-1))

    def _product(self, term: Term) -> tuple[int, int]:
        if len(term) == 1:
            return self.ends[term[0]]
        low, high = 1, 1
        for name in term:
            a, b = self.ends[name]
            found = [x * y for x in (low, high) for y in (a, b)]
            low, high = min(found), max(found)
        return low, high

    def is_positive(self, of: Sum) -> bool:
        """Whether it is never negative, as far as this can tell."""
        return self.floor(of, 0) >= 0

    def ceiling(self, of: Sum) -> int:
        """A number that it is never above."""
        return -self.floor(of.times(-1))

    def floor(self, of: Sum, enough: int | None = None) -> int:
        """A number that it is never below, from all that is known; the search ends at `enough`."""
        best, seen = self.least(of), {frozenset(of.terms.items())}
        todo = [(-best, 0, of, 1)]  # the nearest to the answer first
        for _ in range(MOST_STEPS):
            if not todo or (enough is not None and best >= enough):
                break
            _, _, one, by = heappop(todo)
            for less, more in self._less(one):
                key = frozenset(less.terms.items())
                if key not in seen and len(less.terms) <= MOST_TERMS:
                    low = -(-self.least(less) // (by * more))
                    heappush(todo, (-low, len(seen), less, by * more))
                    seen.add(key)
                    best = max(best, low)
        return best

    def _less(self, one: Sum) -> Iterator[tuple[Sum, int]]:
        """Sums that are at most a multiple of one, without one of its terms, and which multiple."""
        if self._having is None:  # by a term and its sign
            self._having = {}
            for other in self.positive:
                for term, factor in other.terms.items():
                    if term:
                        self._having.setdefault((term, factor > 0), []).append(other)
        for term, mine in one.terms.items():
            for other in self._having.get((term, mine > 0), ()):
                factor = other.terms[term]
                by = math.gcd(factor, mine)
                made = one.less(abs(factor) // by, other, abs(mine) // by)
                yield made, abs(factor) // by
