"""Offsets of blocks: first fit in several orders, a bounded search, and for few blocks a proof."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType

from mlftool.frozen import frozen
from mlftool.plan.blocks import ALIGNMENT_BYTES, Interval, Overlaps, aligned, may_overlap
from mlftool.plan.exact import search

SEARCH_ROUNDS = 400
SEARCH_STEPS = 2_000_000  # of all rounds: each looks at every pair of blocks


@frozen
class Placement:
    """Offsets by name; `proof` says why no lower placement exists: "liveness" if the bytes alive at
    one step are as many, "search" if all others were ruled out, "" if unknown."""

    offsets: Mapping[str, int]
    proof: str


def place(
    intervals: Sequence[Interval], bound: int, overlaps: Overlaps = MappingProxyType({})
) -> Placement:
    """The lowest placement found, and whether it is the lowest there is."""
    found = best_placement(intervals, bound, overlaps)
    height = _height(intervals, found)
    if height == bound:
        return Placement(found, "liveness")
    outcome = search(intervals, overlaps, height, bound)
    best = outcome.placed or found
    if _height(intervals, best) == bound:
        return Placement(best, "liveness")
    return Placement(best, "search" if outcome.exhausted else "")


def _down(size: int) -> int:
    return size // ALIGNMENT_BYTES * ALIGNMENT_BYTES


def lower_bound(
    intervals: Sequence[Interval], steps: int, overlaps: Overlaps = MappingProxyType({})
) -> tuple[int, int]:
    """The most bytes needed at one step, and that step: no plan for this order can do with less."""
    by_name = {i.name: i for i in intervals}
    totals = [0] * steps
    for i in intervals:
        for step in range(i.first, i.last + 1):
            totals[step] += i.size_bytes
    for (source, out), distance in overlaps.items():
        a, b = by_name[source], by_name[out]
        least, most = distance
        both = max(a.size_bytes, b.size_bytes, a.size_bytes + least, b.size_bytes - most)
        totals[b.first] -= max(0, a.size_bytes + b.size_bytes - both)
    peak = max(totals, default=0)
    return peak, totals.index(peak) if totals else 0


def best_placement(
    intervals: Sequence[Interval], bound: int, overlaps: Overlaps = MappingProxyType({})
) -> dict[str, int]:
    """Offsets by first fit in several orders, then a bounded search towards `bound`."""
    orders = [
        sorted(intervals, key=lambda i: (-i.size_bytes, i.first, i.name)),
        sorted(intervals, key=lambda i: (-i.size_bytes * (i.last - i.first + 1), i.first, i.name)),
        sorted(intervals, key=lambda i: (i.first, -i.size_bytes, i.name)),
    ]
    best = first_fit(orders[0], overlaps)
    for other in orders[1:]:
        if _height(intervals, best) == bound:
            return best
        best = min(best, first_fit(other, overlaps), key=lambda p: _height(intervals, p))
    order = list(orders[0])
    for _ in range(min(SEARCH_ROUNDS, SEARCH_STEPS // max(1, len(order) ** 2))):
        if _height(intervals, best) == bound:
            break
        # Move what sticks out furthest to the front and try again.
        placed = first_fit(order, overlaps)
        top = max(order, key=lambda i: (placed[i.name] + i.size_bytes, i.name))
        order.remove(top)
        order.insert(0, top)
        best = min(best, first_fit(order, overlaps), key=lambda p: _height(intervals, p))
    return best


def _height(intervals: Sequence[Interval], placed: Mapping[str, int]) -> int:
    return max((placed[i.name] + i.size_bytes for i in intervals), default=0)


def first_fit(
    order: Sequence[Interval], overlaps: Overlaps = MappingProxyType({})
) -> dict[str, int]:
    """Each block, in turn, at the lowest offset that is free during its whole life."""
    offsets: dict[str, int] = {}
    done: list[tuple[int, int, int, int, Interval]] = []  # by offset: bytes and steps of each
    partners: dict[str, set[str]] = defaultdict(set)
    for one, other in overlaps:
        partners[one].add(other)
        partners[other].add(one)
    for block in order:
        size, first, last, free = block.size_bytes, block.first, block.last, 0
        for at, end, born, dead, _ in done:
            if born <= last and first <= dead:
                if at - free >= size:
                    break
                if end > free:
                    free = end
        if not partners[block.name].isdisjoint(offsets):
            alive = [o for *_, o in done if o.first <= last and first <= o.last]
            if any(o.name in partners[block.name] for o in alive):
                free = _beside_partner(block, alive, offsets, overlaps)
        offsets[block.name] = free
        insort(done, (free, free + size, first, last, block), key=itemgetter(0))
    return offsets


def _beside_partner(
    block: Interval,
    alive: Sequence[Interval],
    offsets: Mapping[str, int],
    overlaps: Overlaps,
) -> int:
    """The lowest offset for a block that may overlap one of those alive: it can only be the bottom,
    the end of another, or where the overlap begins to be allowed."""
    starts = {0} | {offsets[o.name] + o.size_bytes for o in alive}
    for other in alive:
        at = offsets[other.name]
        if (block.name, other.name) in overlaps:
            least, most = overlaps[block.name, other.name]
            starts |= {aligned(max(0, at + least)), _down(max(0, at + most))}
        elif (other.name, block.name) in overlaps:
            least, most = overlaps[other.name, block.name]
            starts |= {_down(max(0, at - least)), aligned(max(0, at - most))}

    def fits(at: int) -> bool:
        return all(
            at + block.size_bytes <= offsets[o.name]
            or offsets[o.name] + o.size_bytes <= at
            or may_overlap(overlaps, block.name, at, o.name, offsets[o.name])
            for o in alive
        )

    return min(filter(fits, starts))
