"""Mixed precision by search: the cheapest plan on the target that keeps the accuracy asked for.

From int8, weights of the layers that mind least go to four bits until the flash budget holds; then,
while the accuracy is missed, the layers that gain most for their cost get 16-bit activations or
stay in float; what turns out not to be needed is taken back. In the same way a little more is paid
for the float model's accuracy, if that is wished for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlftool.ir.graph import Array
from mlftool.quantize.device import Cost, Prices
from mlftool.quantize.metrics import Goal, sqnr
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.studio import Studio

LITTLE = 0.2  # of the instructions, for what is only wished for
UPGRADES = (Precision.INT16, Precision.FLOAT)  # of equal gains the first


@dataclass(frozen=True)
class Point:
    """A plan on the curve of cost against accuracy."""

    what: str
    cost: Cost
    accuracy: float
    sqnr: float


@dataclass(frozen=True)
class Found:
    """The plan that was chosen; `fits` if it keeps the accuracy within the budget. `why` has, for
    each layer that is not int8, the reason; `curve` every plan that was measured."""

    plan: Plan
    chosen: Point
    fits: bool
    why: Mapping[str, str]
    curve: tuple[Point, ...]


@dataclass
class _Search:
    """Measures plans and remembers them."""

    studio: Studio
    wanted: Mapping[str, Array]
    prices: Prices
    judge: Callable[[Plan], float]
    goal: Goal | None
    flash: int | None
    instructions: float = math.inf  # that a plan may take

    def __post_init__(self) -> None:
        self.curve: list[Point] = []
        self.why: dict[str, str] = {}

    def sqnr(self, plan: Plan) -> float:
        return sqnr(self.studio.judged(plan), self.wanted)

    def point(self, what: str, plan: Plan) -> Point:
        made = Point(what, self.prices.of(plan), self.judge(plan), self.sqnr(plan))
        self.curve.append(made)
        return made

    def holds(self, cost: Cost) -> bool:
        small = self.flash is None or cost.flash <= self.flash
        return small and cost.instructions <= self.instructions

    def met(self, point: Point) -> bool:
        return self.goal is None or self.goal.met(point.accuracy)


def search(
    studio: Studio,
    plan: Plan,
    prices: Prices,
    judge: Callable[[Plan], float],
    goal: Goal | None,
    flash: int | None,
    wish: Goal | None = None,
) -> Found:
    """`judge` gives the accuracy of a plan on what judges; `studio` has what calibrates. `wish` is
    reached where that takes LITTLE more than `goal` does."""
    s = _Search(studio, studio.judged(None), prices, judge, goal, flash)
    for precision in (Precision.FLOAT, Precision.INT16, Precision.INT4):
        s.point(f"all {precision}", plan.uniform(precision))
    last = s.point("all int8", plan)
    if not s.holds(last.cost):
        plan, last = _shrink(s, plan, last)
    if not s.met(last):
        plan, last = _refine(s, plan, last)
    fits = s.holds(last.cost) and s.met(last)
    if fits and wish and not wish.met(last.accuracy):
        plan, last = _wished(s, plan, last, wish)
    return Found(plan, last, fits, s.why, tuple(s.curve))


def _wished(s: _Search, plan: Plan, last: Point, wish: Goal) -> tuple[Plan, Point]:
    """The plan that a little more makes as good as is wished for, or the same plan again."""
    s.goal, s.instructions = wish, last.cost.instructions * (1 + LITTLE)
    known = dict(s.why)
    better, made = _refine(s, plan, last)
    if s.met(made):
        return better, made
    s.why = known
    return plan, last


def _shrink(s: _Search, plan: Plan, last: Point) -> tuple[Plan, Point]:
    """Weights to four bits, those first that cost least SQNR for the bytes they save."""
    base, order = s.sqnr(plan), []
    for name in plan.precisions:
        saved = s.prices.layer(name, Precision.INT8) - s.prices.layer(name, Precision.INT4)
        if saved.flash > 0:
            lost = base - s.sqnr(plan.with_precision(name, Precision.INT4))
            order.append((max(lost, 1e-3) / saved.flash, lost, saved.flash, name))
    for _, lost, bytes_saved, name in sorted(order):
        if s.holds(s.prices.of(plan)):
            break
        plan = plan.with_precision(name, Precision.INT4)
        s.why[name] = f"saves {bytes_saved:,} B, alone costs {max(lost, 0):.2f} dB"
    count = list(plan.precisions.values()).count(Precision.INT4)
    last = s.point(f"{count} layer{'s' * (count > 1)} int4", plan)
    return plan, last


def _refine(s: _Search, plan: Plan, last: Point) -> tuple[Plan, Point]:
    """Layers to 16 bits or floats by what they gain; then back where that holds, too."""
    chosen: list[str] = []
    for gain, extra, name, precision in _gains(s, plan):
        wider = plan.with_precision(name, precision)
        if name in chosen or not s.holds(s.prices.of(wider)):
            continue
        plan, s.why[name] = wider, f"alone gains {gain:.2f} dB for {extra:,.0f} instructions"
        chosen.append(name)
        last = s.point(f"'{name}' {precision}", plan)
        if s.met(last):
            return _take_back(s, plan, last, chosen)
    for precision in UPGRADES:  # where single layers were not enough
        wider = plan.uniform(precision)
        if s.holds(s.prices.of(wider)):
            last = s.point(f"all {precision}", wider)
            if s.met(last):
                s.why.update(dict.fromkeys(plan.precisions, "fewer layers were not enough"))
                return _take_back(s, wider, last, list(plan.precisions))
    return plan, last


def _gains(s: _Search, plan: Plan) -> list[tuple[float, float, str, Precision]]:
    """What each layer gains alone, for how many instructions; the best bargain first."""
    base, found = s.sqnr(plan), []
    for name, now in plan.precisions.items():
        for precision in UPGRADES:
            gain = s.sqnr(plan.with_precision(name, precision)) - base
            extra = s.prices.layer(name, precision) - s.prices.layer(name, now)
            if gain > 0:
                cost = max(extra.instructions, 1.0)
                found.append((gain / cost, gain, cost, name, precision))
    found.sort(key=lambda f: (-f[0], f[3], f[4]))
    return [(gain, cost, name, precision) for _, gain, cost, name, precision in found]


def _take_back(s: _Search, plan: Plan, last: Point, chosen: Sequence[str]) -> tuple[Plan, Point]:
    """Layers back to int8, the dearest first, where the accuracy holds without them."""
    dear = sorted(
        chosen,
        key=lambda n: (
            s.prices.layer(n, Precision.INT8).instructions
            - s.prices.layer(n, plan.precisions[n]).instructions
        ),
    )
    for name in dear:
        less = plan.with_precision(name, Precision.INT8)
        if not s.holds(s.prices.of(less)):
            continue
        made = s.point(f"'{name}' int8 again", less)
        if s.met(made) and made.cost.instructions <= last.cost.instructions:
            plan, last = less, made
            s.why.pop(name, None)
    return plan, last
