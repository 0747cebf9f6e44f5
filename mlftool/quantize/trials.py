"""Plans that a search tries: what each costs, how accurate it is, and what is known beforehand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.quantize.device import Cost, Prices
from mlftool.quantize.metrics import Goal, sqnr
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.studio import Studio

NAMED = 2  # layers that are named one by one
Key = tuple[Precision, ...]
Allowed = Mapping[str, Sequence[Precision]]  # layer -> what may become of it


@frozen
class Point:
    """A plan on the curve of cost against accuracy."""

    what: str
    cost: Cost
    accuracy: float
    sqnr: float


@dataclass
class Trials:
    """Measures plans and remembers them. `instructions` is the most that a plan may take, `least`
    the SQNR in dB that it has to have besides the accuracy; `left` is how many plans may still be
    compiled to make one cheaper."""

    studio: Studio
    prices: Prices
    judge: Callable[[Plan], float]
    goal: Goal | None
    flash: int | None
    left: int
    instructions: float = math.inf
    least: float = -math.inf
    curve: list[Point] = field(default_factory=list)
    _points: dict[Key, Point] = field(default_factory=dict)
    _sqnrs: dict[Key, float] = field(default_factory=dict)
    _accuracies: dict[Key, float] = field(default_factory=dict)
    _wanted: Mapping[str, Array] = field(default_factory=dict)

    def sqnr(self, plan: Plan) -> float:
        key = key_of(plan)
        if key not in self._sqnrs:
            self._wanted = self._wanted or self.studio.judged(None)
            self._sqnrs[key] = sqnr(self.studio.judged(plan), self._wanted)
        return self._sqnrs[key]

    def accuracy(self, plan: Plan) -> float:
        key = key_of(plan)
        if key not in self._accuracies:
            self._accuracies[key] = self.judge(plan)
        return self._accuracies[key]

    def point(self, plan: Plan) -> Point:
        key = key_of(plan)
        if key not in self._points:
            cost = self.prices.of(plan)
            made = Point(_said(plan), cost, self.accuracy(plan), self.sqnr(plan))
            self.curve.append(made)
            self._points[key] = made
        return self._points[key]

    def holds(self, cost: Cost) -> bool:
        small = self.flash is None or cost.flash <= self.flash
        return small and cost.instructions <= self.instructions

    def price(self, cost: Cost) -> tuple[float, float]:
        return price(cost, self.flash)

    def cheaper(self, a: Cost, b: Cost) -> bool:
        return self.price(a) < self.price(b)

    def met(self, plan: Plan) -> bool:
        """Whether the plan is as accurate as it has to be, for which nothing is compiled."""
        if self.goal and not self.goal.met(self.accuracy(plan)):
            return False
        return self.least == -math.inf or self.sqnr(plan) >= self.least

    def fits(self, plan: Plan) -> bool:
        return self.holds(self.point(plan).cost) and self.met(plan)

    def likely(self, plan: Plan, start: Plan) -> float:
        """The SQNR in dB if what layers do to the error of `start` simply added up."""
        base = noise = _noise(self.sqnr(start))
        for name, precision in plan.precisions.items():
            if precision is not start.precisions[name]:
                noise += _noise(self.sqnr(start.with_precision(name, precision))) - base
        return -10 * math.log10(max(noise, 1e-20))

    def missed(self) -> float:
        """The best SQNR in dB of a compiled plan that missed the accuracy."""
        missed = (p.sqnr for p in self.curve if self.goal and not self.goal.met(p.accuracy))
        return max(missed, default=-math.inf)


def price(cost: Cost, flash: int | None) -> tuple[float, float]:
    """What is less for a cheaper plan. Within a budget of flash these are instructions; without one
    a per cent fewer of them is worth two per cent more flash, so that no layer takes four times its
    flash for a few instructions."""
    if flash is not None:
        return cost.instructions, cost.flash
    return cost.instructions**2 * max(cost.flash, 1), cost.instructions


def key_of(plan: Plan) -> Key:
    return tuple(plan.precisions.values())


def every(plan: Plan) -> Allowed:
    """All precisions of all layers."""
    return dict.fromkeys(plan.precisions, tuple(Precision))


def near(plan: Plan, allowed: Allowed | None = None, most: int = 2) -> Iterator[Plan]:
    """Plans with other precisions, of those that are allowed, of at most so many layers."""
    allowed = every(plan) if allowed is None else allowed
    for count in range(1, most + 1):
        for names in combinations(allowed, count):
            for chosen in product(*(allowed[name] for name in names)):
                pairs = tuple(zip(names, chosen, strict=True))
                if all(plan.precisions[name] is not new for name, new in pairs):
                    made = plan
                    for name, new in pairs:
                        made = made.with_precision(name, new)
                    yield made


def _noise(db: float) -> float:
    return float(10 ** (-db / 10))


def _said(plan: Plan) -> str:
    """all int8; int8 but 'conv' int16; 5 int8, 3 int16."""
    counts = Counter(map(str, plan.precisions.values())).most_common()
    (common, most), *others = counts
    if not others:
        return f"all {common}"
    if len(plan.precisions) - most > NAMED:
        return ", ".join(f"{n} {precision}" for precision, n in counts)
    odd = [f"'{name}' {p}" for name, p in plan.precisions.items() if p != common]
    return f"{common} but {', '.join(odd)}"
