"""What the planner calls proven is: compared with trying everything, on graphs small enough."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from batch import compile_model
from builders import Net
from hypothesis import given, settings
from hypothesis import strategies as st

from mlftool.ir.graph import Graph
from mlftool.plan import exact, schedule
from mlftool.plan.blocks import Interval, may_overlap
from mlftool.plan.placement import Placement, first_fit, lower_bound, place

Overlaps = dict[tuple[str, str], tuple[int, int]]


@st.composite
def few_blocks(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Interval]:
    result = []
    for k in range(draw(st.integers(1, 6))):
        first = draw(st.integers(0, 4))
        last = draw(st.integers(first, 4))
        result.append(Interval(f"b{k}", 16 * draw(st.integers(1, 9)), first, last))
    return result


def height(blocks: list[Interval], placement: Any) -> int:
    return max(placement[b.name] + b.size_bytes for b in blocks)


def check_apart(blocks: list[Interval], placement: Placement, overlaps: Overlaps) -> None:
    at = placement.offsets
    for k, a in enumerate(blocks):
        assert at[a.name] >= 0
        assert at[a.name] % 16 == 0
        for b in blocks[:k]:
            together = a.first <= b.last and b.first <= a.last
            apart = (
                at[a.name] + a.size_bytes <= at[b.name] or at[b.name] + b.size_bytes <= at[a.name]
            )
            allowed = may_overlap(overlaps, a.name, at[a.name], b.name, at[b.name])
            assert apart or not together or allowed


@settings(max_examples=60)
@given(few_blocks())
def test_proven_is_the_least_of_all(blocks: list[Interval]) -> None:
    bound, _ = lower_bound(blocks, 5)
    placement = place(blocks, bound)
    check_apart(blocks, placement, {})
    least = min(height(blocks, first_fit(order)) for order in permutations(blocks))
    assert placement.proof
    assert height(blocks, placement.offsets) == least >= bound


@settings(max_examples=100)
@given(
    few_blocks(),
    st.lists(st.tuples(st.integers(-160, 16), st.integers(16, 160)), min_size=30, max_size=30),
)
def test_overlaps_are_searched_too(blocks: list[Interval], distances: list[Any]) -> None:
    handovers = [(a, b) for a in blocks for b in blocks if a.last == b.first != a.first]
    overlaps = {
        (a.name, b.name): d for (a, b), d in zip(handovers, distances, strict=False) if a != b
    }
    bound, _ = lower_bound(blocks, 5, overlaps)
    placement = place(blocks, bound, overlaps)
    check_apart(blocks, placement, overlaps)
    assert placement.proof
    for order in permutations(blocks):
        assert height(blocks, placement.offsets) <= height(blocks, first_fit(order, overlaps))


def test_a_search_beats_first_fit_where_it_must() -> None:
    """Seven blocks for which no order of sizes or births reaches what is possible."""
    rng = np.random.default_rng(0)
    better = 0
    for _ in range(200):
        first = rng.integers(0, 5, size=9)
        blocks = [
            Interval(f"b{k}", 16 * int(rng.integers(1, 12)), int(f), int(rng.integers(f, 6)))
            for k, f in enumerate(first)
        ]
        bound, _ = lower_bound(blocks, 6)
        offsets = first_fit(sorted(blocks, key=lambda b: -b.size_bytes))
        outcome = exact.search(blocks, {}, height(blocks, offsets), bound)
        better += outcome.placed is not None
        if outcome.placed:
            check_apart(blocks, Placement(outcome.placed, ""), {})
            assert bound <= height(blocks, outcome.placed) < height(blocks, offsets)
    assert better > 20


def test_nodes_are_counted_not_seconds() -> None:
    rng = np.random.default_rng(1)
    blocks = [
        Interval(f"b{k}", 16 * int(rng.integers(1, 99)), int(f), int(rng.integers(f, 12)))
        for k, f in enumerate(rng.integers(0, 10, size=40))
    ]
    bound, _ = lower_bound(blocks, 12)
    outcome = exact.search(blocks, {}, bound + 16, bound, nodes=50)
    assert outcome.nodes <= 50
    assert outcome == exact.search(blocks, {}, bound + 16, bound, nodes=50)
    assert exact.search([*blocks, *blocks], {}, 1 << 30, 0).nodes == 0  # too many to begin


def least_peak(graph: Graph) -> int:
    """Of all orders that are possible."""
    facts = schedule._Facts(graph)
    orders = (
        order
        for order in permutations(range(len(graph.nodes)))
        if all(facts.before[k] <= set(order[:i]) for i, k in enumerate(order))
    )
    return min(facts.peak(order) for order in orders)


def test_the_order_is_the_best_there_is() -> None:
    """Random trees of Gemms whose leaves are joined; the greedy order misses the best of some."""
    greedy_missed = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        net = Net()
        made = [(net.input("x", np.float32, (1, 8)), 8)]
        leaves = {made[0][0]}
        for _ in range(7):
            source, n = made[int(rng.integers(len(made)))]
            m = int(rng.choice([1, 5, 20, 60]))
            made.append((net.node("Gemm", source, net.const(np.ones((n, m)), np.float32)), m))
            leaves = (leaves - {source}) | {made[-1][0]}
        model = net.model(net.node("Concat", *sorted(leaves), axis=1))
        graph = compile_model(model).program.graph
        facts = schedule._Facts(graph)
        assert facts.peak(range(len(graph.nodes))) == least_peak(graph)
        greedy_missed += facts.peak(facts.greedy()) > least_peak(graph)
    assert greedy_missed
