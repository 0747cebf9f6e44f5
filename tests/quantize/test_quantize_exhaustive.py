"""The plan that a search chooses, compared with all plans of a small network."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from float_nets import residual, samples

from mlftool.quantize.device import Cost, Device, Prices
from mlftool.quantize.improve import plainest, ranges_of
from mlftool.quantize.metrics import Goal, sqnr
from mlftool.quantize.network import network
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.prepare import prepared
from mlftool.quantize.samples import samples_of
from mlftool.quantize.search import search
from mlftool.quantize.studio import Studio

SIZES = {Precision.INT4: 1, Precision.INT8: 2, Precision.INT16: 2, Precision.FLOAT: 8}


@cache
def opened() -> tuple[Studio, Plan]:
    plain = prepared(residual(), "net")
    net = network(plain, "net")
    studio = Studio(net, samples_of({"x": samples()}, plain, "data"))
    return studio, plainest(net, ranges_of(studio))


@cache
def every() -> tuple[tuple[Plan, float], ...]:
    """All plans, and their SQNR."""
    studio, plan = opened()
    right, found = studio.judged(None), []
    for chosen in product(Precision, repeat=len(plan.precisions)):
        made = plan
        for name, precision in zip(plan.precisions, chosen, strict=True):
            made = made.with_precision(name, precision)
        found.append((made, sqnr(studio.judged(made), right)))
    return tuple(found)


class _Drawn(Prices):
    """Costs at random, and of each change from one type of activations to another."""

    def __init__(self, plan: Plan, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.compiled: set[tuple[Precision, ...]] = set()
        self.costs: dict[tuple[str, Precision], Cost] = {}
        for name in plan.precisions:
            each = int(draw.integers(20, 200))
            for precision, size in SIZES.items():
                self.costs[name, precision] = Cost(float(draw.integers(50, 250)), each * size)
        self.changes = draw.integers(0, 60, len(plan.precisions))

    def layer(self, name: str, precision: Precision) -> Cost:
        return self.costs[name, precision]

    def most_saved(self, name: str) -> float:
        int8, floats = (self.costs[name, p] for p in (Precision.INT8, Precision.FLOAT))
        return int8.instructions - floats.instructions

    def sum(self, plan: Plan) -> Cost:
        return sum((self.costs[x] for x in plan.precisions.items()), Cost(0.0, 0))

    def known(self, plan: Plan) -> bool:
        return tuple(plan.precisions.values()) in self.compiled

    def of(self, plan: Plan) -> Cost:
        kinds = list(plan.precisions.values())
        self.compiled.add(tuple(kinds))
        typed = [k if k in (Precision.INT16, Precision.FLOAT) else Precision.INT8 for k in kinds]
        changes = (c for (a, b), c in zip(pairwise(typed), self.changes, strict=False) if a != b)
        return self.sum(plan) + Cost(float(sum(changes)), 0)


def price(cost: Cost, flash: int | None) -> float:
    """Instructions within a budget; else a per cent of them is worth two per cent of flash."""
    return cost.instructions if flash is not None else cost.instructions**2 * cost.flash


@pytest.mark.parametrize("seed", range(24))
def test_no_plan_that_fits_is_cheaper(seed: int) -> None:
    studio, plan = opened()
    prices = _Drawn(plan, seed)
    accuracy = {tuple(p.precisions.values()): value for p, value in every()}
    draw = np.random.default_rng(seed)
    goal = accuracy[tuple(plan.precisions.values())] + draw.uniform(0.2, 25)
    flash = None if seed % 2 else int(prices.of(plan).flash * draw.uniform(0.8, 3))
    costs = [prices.of(p) for p, value in every() if value >= goal]
    most = prices.of(plan.uniform(Precision.FLOAT)).instructions
    holds = (c.instructions <= most if flash is None else c.flash <= flash for c in costs)
    fitting = [price(c, flash) for c, h in zip(costs, holds, strict=True) if h]
    prices.compiled.clear()
    found = search(
        *(studio, plan, prices, lambda p: accuracy[tuple(p.precisions.values())]),
        *(Goal("sqnr", goal), flash),
    )
    assert found.fits == bool(fitting)
    if fitting:
        assert price(found.chosen.cost, flash) == min(fitting)


def test_plans_that_differ_in_every_layer_are_tried_in_the_end() -> None:
    """Errors do not add up: each plan on the way to this one misses the accuracy."""
    studio, plan = opened()
    kinds = Precision.INT16, Precision.INT8, Precision.INT16

    def judge(plan: Plan) -> float:
        chosen = tuple(plan.precisions.values())
        return float(chosen == kinds or set(chosen) == {Precision.FLOAT})

    prices = Prices(Device(studio.net, "cortex-m4"), plan)
    found = search(studio, plan, prices, judge, Goal("top1", 1.0), None)
    assert found.fits
    assert tuple(found.plan.precisions.values()) == kinds


@pytest.mark.parametrize("floats", [200.0, 99.0, 30.0, 20.0])
def test_where_int8_fits_only_floats_take_more_ram(floats: float) -> None:
    """And these only if they save instructions, and flash is not short."""
    studio, plan = opened()
    prices = _Drawn(plan, 0)
    for name in plan.precisions:
        for precision, instructions in zip(SIZES, (60.0, 100.0, 20.0, floats), strict=True):
            prices.costs[name, precision] = Cost(instructions, SIZES[precision])

    def chosen(goal: Goal | None, wish: Goal | None, flash: int | None = None) -> set[Precision]:
        found = search(studio, plan, prices, lambda _: 0.9, goal, flash, wish)
        return set(found.plan.precisions.values())

    cheap, cheapest = floats < 100, floats < 60
    asked, float_flash = Goal("top1", 0.8), prices.of(plan.uniform(Precision.FLOAT)).flash
    assert chosen(asked, None) == {Precision.FLOAT if cheapest else Precision.INT4}
    assert chosen(asked, None, prices.of(plan).flash) == {Precision.INT4}
    for goal, wish in ((None, None), (asked, Goal("top1", 0.9))):
        assert chosen(goal, wish) == {Precision.FLOAT if cheap else Precision.INT8}
        assert Precision.INT8 in chosen(goal, wish, float_flash - 1)


@pytest.mark.parametrize("kinds", [("int16",) * 3, ("int16", "int4", "float")])
def test_a_plan_that_fits_is_found_where_int4_is_too_large(kinds: tuple[str, ...]) -> None:
    """Wider activations may take less flash than weights of four bits save: tables, say."""
    studio, plan = opened()
    small = tuple(map(Precision, kinds))
    assert len(small) == len(plan.precisions)

    class Tables(_Drawn):
        def of(self, plan: Plan) -> Cost:
            is_small = tuple(plan.precisions.values()) == small
            return Cost(super().of(plan).instructions, 100 if is_small else 10_000)

    found = search(studio, plan, Tables(plan, 0), lambda _: 0.9, Goal("top1", 0.8), 100)
    assert found.fits
    assert tuple(found.plan.precisions.values()) == small


def test_an_accuracy_that_int8_misses_is_not_met_by_chance() -> None:
    """Of a few samples a plan that is further from the float model may get more right."""
    studio, plan = opened()
    prices = _Drawn(plan, 0)

    def judge(plan: Plan) -> float:
        return 0.9 if set(plan.precisions.values()) == {Precision.INT8} else 1.0

    found = search(studio, plan, prices, judge, Goal("top1", 0.95), None)
    base = next(p for p in found.curve if p.what == "all int8")
    assert found.fits
    assert found.chosen.sqnr > base.sqnr


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m4", "rv32imc"])
def test_what_a_plan_costs_is_what_it_compiles_to(target: str) -> None:
    """Between layers of other types more is computed than in each of them."""
    studio, plan = opened()
    device = Device(studio.net, target)
    mixed = plan.with_precision(studio.net.layers[1].name, Precision.INT16)
    made = Prices(device, plan).of(mixed)
    costs = device.costs(mixed).values()
    assert made.instructions == pytest.approx(sum(c.instructions for c in costs))
    assert made.flash == sum(c.flash for c in costs)


def test_floats_are_dear_without_an_fpu() -> None:
    """Each of their operations is a call."""
    studio, plan = opened()
    for target, least, most in (("cortex-m0", 4, 60), ("cortex-m3", 4, 40), ("cortex-m4", 0.5, 4)):
        table = Prices(Device(studio.net, target), plan).table
        name = studio.net.layers[1].name
        dear, plain = (table[p][name].instructions for p in (Precision.FLOAT, Precision.INT8))
        assert least < dear / plain < most
