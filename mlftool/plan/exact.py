"""The best placement of few blocks, by branch and bound; bounded by nodes, so always the same.

Of two blocks that are alive together, one is above the other, or below it, or at a distance at
which they may overlap. Each of the three is a set of inequalities between two offsets. A node of
the search has decided some pairs; its offsets are the least that the inequalities allow, kept up to
date as they are added. If no pair is then in the way, no placement of this branch is lower; else
the search branches on the pair that overlaps most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlftool.frozen import frozen
from mlftool.plan.blocks import ALIGNMENT_BYTES, Interval, Overlaps, aligned, may_overlap

MOST_NODES = 1500
MOST_BLOCKS = 48

Edge = tuple[int, int, int]  # offset of the second >= offset of the first + bytes
Edges = tuple[Edge, ...]


@frozen
class Outcome:
    """`placed` is lower than what the search began with, or None; `exhausted`: nothing lower than
    that, or else than the beginning, exists."""

    placed: Mapping[str, int] | None
    exhausted: bool
    nodes: int


def search(
    blocks: Sequence[Interval], overlaps: Overlaps, height: int, bound: int, nodes: int = MOST_NODES
) -> Outcome:
    """The lowest placement below `height`, that of a known placement; `bound` ends the search."""
    if len(blocks) > MOST_BLOCKS:
        return Outcome(None, False, 0)
    pairs = [
        (i, j)
        for j in range(len(blocks))
        for i in range(j)
        if blocks[i].first <= blocks[j].last and blocks[j].first <= blocks[i].last
    ]
    best: list[int] | None = None
    open_: list[tuple[list[int], Edges]] = [([0] * len(blocks), ())]
    visited = 0
    while open_ and visited < nodes and height > bound:
        offsets, edges = open_.pop()
        visited += 1
        if _top(blocks, offsets) >= height:
            continue
        pair = _most_in_the_way(blocks, overlaps, pairs, offsets)
        if pair is None:
            best, height = offsets, _top(blocks, offsets)
            continue
        children = []
        for choice in _choices(blocks, overlaps, *pair):
            moved = _with(offsets, edges, choice, height, blocks)
            if moved is not None:
                children.append((moved, (*edges, *choice)))
        # The most promising one is popped first.
        open_ += sorted(children, key=lambda c: (-_top(blocks, c[0]), -sum(c[0])))
    placed = best and {b.name: at for b, at in zip(blocks, best, strict=True)}
    return Outcome(placed or None, not open_ or height <= bound, visited)


def _top(blocks: Sequence[Interval], offsets: Sequence[int]) -> int:
    return max((at + b.size_bytes for b, at in zip(blocks, offsets, strict=True)), default=0)


def _most_in_the_way(
    blocks: Sequence[Interval],
    overlaps: Overlaps,
    pairs: Sequence[tuple[int, int]],
    offsets: Sequence[int],
) -> tuple[int, int] | None:
    """The pair that shares most bytes and may not."""
    worst, found = 0, None
    for i, j in pairs:
        a, b, at, bt = blocks[i], blocks[j], offsets[i], offsets[j]
        common = min(at + a.size_bytes, bt + b.size_bytes) - max(at, bt)
        if common > worst and not may_overlap(overlaps, a.name, at, b.name, bt):
            worst, found = common, (i, j)
    return found


def _choices(blocks: Sequence[Interval], overlaps: Overlaps, i: int, j: int) -> list[Edges]:
    """What the two can do: each choice is one or two inequalities."""
    a, b = blocks[i], blocks[j]
    choices: list[Edges] = [((i, j, a.size_bytes),), ((j, i, b.size_bytes),)]
    for source, out in ((i, j), (j, i)):
        distance = overlaps.get((blocks[source].name, blocks[out].name))
        if distance:
            least = aligned(distance[0])
            most = distance[1] // ALIGNMENT_BYTES * ALIGNMENT_BYTES
            if least <= most:
                choices.append(((out, source, least), (source, out, -most)))
    return choices


def _with(
    offsets: Sequence[int], edges: Edges, added: Edges, height: int, blocks: Sequence[Interval]
) -> list[int] | None:
    """The least offsets with more inequalities, or None if none are below `height`."""
    moved = list(offsets)
    every = (*edges, *added)
    # Each round settles one block more, so more rounds than blocks mean a circle that only grows.
    for _ in range(len(blocks) + 1):
        changed = False
        for u, v, least in every:
            if moved[v] < moved[u] + least:
                moved[v] = moved[u] + least
                if moved[v] + blocks[v].size_bytes >= height:
                    return None
                changed = True
        if not changed:
            return moved
    return None
