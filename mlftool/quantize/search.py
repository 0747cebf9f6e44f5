"""Mixed precision by search: the cheapest plan on the target that keeps the accuracy asked for.

From int8, weights of the layers that mind least go to four bits until the flash budget holds; then,
while the accuracy is missed, the layers that gain most for their cost get 16-bit activations or
stay in float. From what was found, and from each plan of one precision that fits, other precisions
of one layer or two are tried as long as that makes the plan cheaper; in the end, of networks of few
layers, all plans. Where int8 fits, weights may get fewer bits, and what is cheaper in float stays
in float; 16 bits take more RAM. Without a budget no plan takes more instructions than floats, as
integers of recurrent layers may beside their gates in float. In the same way a little more is paid
for the float model's accuracy, if that is wished for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter

from mlftool.frozen import frozen, replace
from mlftool.quantize.device import Cost, Device, Prices, total
from mlftool.quantize.metrics import Goal, sqnr
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.studio import Studio
from mlftool.quantize.trials import Allowed, Point, Trials, every, near, price

LITTLE = 0.2  # of the instructions, for what is only wished for
UPGRADES = (Precision.INT16, Precision.FLOAT)  # of equal gains the first
NARROW = (Precision.INT8, Precision.INT4)  # what takes no more RAM than int8
TRIED = 600  # layers of all plans that are compiled to make one cheaper
EVERY = 4096  # plans of a network of so few layers that all are tried in the end
SLACK = 3.0  # dB that the sum of the layers' errors may be off, and accuracy does not follow
CHEAPER = "takes fewer instructions in float than with conversions to integers"
NEAR = 1.1  # times the price: what a sum of the layers' prices may be off


@frozen
class Found:
    """The plan that was chosen; `fits` if it keeps the accuracy within the budget. `why` has, for
    each layer that is not int8, the reason; `curve` every plan that was measured."""

    plan: Plan
    chosen: Point
    fits: bool
    why: Mapping[str, str]
    curve: tuple[Point, ...]


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
    reached where that takes LITTLE more than `goal` does; then, or without a goal, weights keep
    eight bits where int8 fits."""
    s = Trials(studio, prices, judge, goal, flash, TRIED // len(plan.precisions))
    for precision in (Precision.FLOAT, Precision.INT16, Precision.INT4, Precision.INT8):
        s.point(plan.uniform(precision))
    found, floats = plan, plan.uniform(Precision.FLOAT)
    if flash is None:
        s.instructions = s.point(floats).cost.instructions  # what is dearer saves flash only
    elif not s.holds(s.point(found).cost):
        found = _shrunk(s, found)
    if found is plan and goal and goal.counts and not s.met(found):
        s.least = s.sqnr(found)  # a worse plan may have the accuracy by chance of a few samples
    if not s.met(found):
        found = _refined(s, found)
    if flash is not None and not s.fits(found):
        found = _rescued(s, found)
    if s.fits(plan) or (flash is None and s.met(plan)):
        allowed = _narrow(s, plan, NARROW if goal and not wish else (Precision.INT8,))
        dear = not s.fits(plan) or _price(s, floats) < _price(s, plan)
        found = _cheapest_of(s, [plan, floats] if dear else [plan], allowed)
    else:
        found = _cheapest_of(s, [found, *map(plan.uniform, Precision)], every(plan))
        if len(Precision) ** len(plan.precisions) <= EVERY:
            found = _cheapest_of_all(s, found)
    if wish and s.fits(found) and not wish.met(s.accuracy(found)):
        found = _wished(s, found, wish)
    why = _reasons(s, plan, found)
    return Found(found, s.point(found), s.fits(found), why, tuple(s.curve))


def paying_tables(
    plan: Plan,
    device: Device,
    studio: Studio,
    judge: Callable[[Plan], float],
    goals: Sequence[Goal | None],
    flash: int | None,
) -> frozenset[str]:
    """Those of the plan's tables that are cheaper than gates in float, but for as many as the first
    of the goals needs in float, those first that cost the most SQNR; or the last of the goals, if
    that takes no more than LITTLE. Without goals tables may cost SLACK."""

    if not plan.tables:
        return plan.tables

    def cost(p: Plan) -> Cost:
        return total(device.costs(p).values())

    wanted = studio.judged(None)
    value = {p: sqnr(studio.judged(_in_float(plan, [p])), wanted) for p in sorted(plan.tables)}
    order = sorted(value, key=lambda p: -value[p])
    for name in order:
        narrow, other = cost(plan), _in_float(plan, [name])
        wide = cost(other)
        fits = flash is not None and wide.flash <= flash < narrow.flash
        plan = other if fits or price(wide, flash) <= price(narrow, flash) else plan
    order = [name for name in order if name in plan.tables]
    chain = [_in_float(plan, order[:k]) for k in range(len(order) + 1)]
    goal, wish = goals
    if goal is None:
        least = sqnr(studio.judged(chain[-1]), wanted) - SLACK
        return next(p for p in chain if sqnr(studio.judged(p), wanted) >= least).tables
    met = (p for p in chain if goal.met(judge(p)))
    first = next(met, chain[-1])
    if wish is None or wish.met(judge(first)):
        return first.tables
    most = (1 + LITTLE) * cost(first).instructions
    better = (p for p in met if wish.met(judge(p)) and cost(p).instructions <= most)
    return next(better, first).tables


def _in_float(plan: Plan, names: Iterable[str]) -> Plan:
    return replace(plan, tables=plan.tables.difference(names))


def _narrow(s: Trials, plan: Plan, narrow: Sequence[Precision]) -> Allowed:
    """Layer -> precisions that take no more RAM, and float where that may be cheaper."""
    may = {name: s.prices.most_saved(name) > 0 for name in plan.precisions}
    return {n: (*narrow, Precision.FLOAT) if may[n] else narrow for n in plan.precisions}


def _cheapest_of(s: Trials, starts: Sequence[Plan], allowed: Allowed) -> Plan:
    """The cheapest plan to which those that fit lead, the cheapest of them first; the first of the
    starts if none fits."""
    fitting = [p for p in starts if s.fits(p)]
    ends = [_cheapest(s, p, allowed) for p in sorted(fitting, key=lambda p: _price(s, p))]
    return min(ends, key=lambda p: _price(s, p)) if ends else starts[0]


def _cheapest_of_all(s: Trials, plan: Plan) -> Plan:
    """The cheapest of all plans that fit, or `plan` if none does. Those that likely hold and are
    likely cheap are tried first. What a plan computes is told sooner than what it costs, so only
    those that are accurate enough are compiled."""
    others = [(s.prices.sum(p), p) for p in near(plan, most=len(plan.precisions))]
    others.sort(key=lambda x: (not s.holds(x[0]), s.price(x[0])))
    most = _price(s, plan) if s.fits(plan) else (math.inf, 0)
    for summed, other in others:
        if s.left and s.price(summed)[0] <= NEAR * most[0] and s.met(other):
            s.left -= not s.prices.known(other)
            cost = s.prices.of(other)
            if s.holds(cost) and s.price(cost) < most:
                plan, most = other, s.price(cost)
    return plan


def _price(s: Trials, plan: Plan) -> tuple[float, float]:
    return s.price(s.point(plan).cost)


def _wished(s: Trials, plan: Plan, wish: Goal) -> Plan:
    """The plan that a little more makes as good as is wished for, or the same plan again. It is
    closer to the float model: a worse plan may have the accuracy by chance of a few samples."""
    asked, least, s.goal = s.goal, s.least, wish
    s.least = s.sqnr(plan)
    s.instructions = min(s.instructions, s.point(plan).cost.instructions * (1 + LITTLE))
    better = _refined(s, plan)
    if s.fits(better):
        return _cheapest(s, better, every(plan))
    s.goal, s.least = asked, least
    return plan


def _shrunk(s: Trials, plan: Plan) -> Plan:
    """Weights to four bits, those first that cost least SQNR for the bytes they save."""
    base, order = s.sqnr(plan), []
    for name in plan.precisions:
        saved = s.prices.layer(name, Precision.INT8) - s.prices.layer(name, Precision.INT4)
        if saved.flash > 0:
            lost = base - s.sqnr(plan.with_precision(name, Precision.INT4))
            order.append((max(lost, 1e-3) / saved.flash, name))
    for _, name in sorted(order):
        if s.holds(s.prices.of(plan)):
            break
        plan = plan.with_precision(name, Precision.INT4)
    return plan


def _refined(s: Trials, plan: Plan) -> Plan:
    """Layers to 16 bits or floats by what they gain, until the accuracy is reached."""
    chosen: set[str] = set()
    start = plan
    for name, precision in _gains(s, plan):
        wider = plan.with_precision(name, precision)
        if name in chosen or not s.holds(s.prices.of(wider)):
            continue
        plan = wider
        chosen.add(name)
        s.point(plan)
        if s.met(plan):
            return plan
    for precision in UPGRADES:  # where single layers were not enough
        wider = start.uniform(precision)
        if s.fits(wider):
            return wider
    return plan


def _gains(s: Trials, plan: Plan) -> list[tuple[str, Precision]]:
    """Layers in wider precisions, the best bargain of SQNR for instructions first."""
    base, found = s.sqnr(plan), []
    for name, now in plan.precisions.items():
        for precision in UPGRADES:
            gain = s.sqnr(plan.with_precision(name, precision)) - base
            extra = s.prices.layer(name, precision) - s.prices.layer(name, now)
            if gain > 0:
                found.append((gain / max(extra.instructions, 1.0), name, precision))
    found.sort(key=lambda f: (-f[0], f[1], f[2]))
    return [(name, precision) for _, name, precision in found]


def _rescued(s: Trials, plan: Plan) -> Plan:
    """Where no layer alone can be widened: others of one layer or two, likely good ones first."""
    while s.left and not s.fits(plan):
        affordable = [p for p in near(plan) if s.holds(s.prices.sum(p))]
        affordable.sort(key=lambda p: s.likely(p, plan), reverse=True)
        for other in affordable[: s.left]:
            s.left -= 1
            if s.holds(s.prices.of(other)) and s.sqnr(other) > s.sqnr(plan):
                plan = other
                break
        else:
            break
    return plan


def _cheapest(s: Trials, plan: Plan, allowed: Allowed) -> Plan:
    """From a plan that fits, others of one layer or two as long as they are cheaper and fit."""
    better: Plan | None = plan
    while better:
        plan = better
        better = _cheaper(s, plan, near(plan, allowed), s.missed() - SLACK)
    return plan


def _cheaper(s: Trials, plan: Plan, others: Iterable[Plan], floor: float) -> Plan | None:
    """The first of the others that is cheaper and fits, of those that likely have so many dB."""
    now = s.point(plan).cost
    summed = [(s.price(s.prices.sum(p))[0], p) for p in others]
    affordable = (x for x in summed if x[0] <= NEAR * s.price(now)[0])
    for _, other in sorted(affordable, key=itemgetter(0)):
        if not s.left:
            break
        if s.likely(other, plan) < floor:
            continue
        s.left -= not s.prices.known(other)
        cost = s.prices.of(other)
        if s.holds(cost) and s.cheaper(cost, now) and s.fits(other):
            return other
    return None


def _reasons(s: Trials, base: Plan, plan: Plan) -> dict[str, str]:
    """Why a layer is not int8 as in `base`: what it gains or saves, were it alone."""
    why = {}
    saves = s.fits(base) and _price(s, plan) < _price(s, base)
    for name, precision in plan.precisions.items():
        if precision is Precision.INT8:
            continue
        gain = s.sqnr(base.with_precision(name, precision)) - s.sqnr(base)
        extra = s.prices.layer(name, precision) - s.prices.layer(name, Precision.INT8)
        if saves and precision is Precision.FLOAT:
            why[name] = CHEAPER
        elif precision is Precision.INT4:
            why[name] = f"saves {-extra.flash:,} B, alone costs {max(-gain, 0):.2f} dB"
        else:
            why[name] = f"alone gains {gain:.2f} dB for {extra.instructions:,.0f} instructions"
    return why
