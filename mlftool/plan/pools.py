"""Several memories instead of one workspace: which blocks go to which.

Pools come fastest first. The blocks with the most accesses per byte go to the first pool that has
room, the rest to the next ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.graph import Graph
from mlftool.plan.blocks import Interval, Overlaps
from mlftool.plan.placement import Placement, lower_bound, place
from mlftool.plan.program import Call
from mlftool.targets.pools import Pool


@frozen
class Filled:
    """A pool and the blocks in it."""

    pool: Pool
    blocks: tuple[Interval, ...]
    placement: Placement
    bound: int
    peak_step: int

    @property
    def size_bytes(self) -> int:
        at = self.placement.offsets
        return max((at[b.name] + b.size_bytes for b in self.blocks), default=0)


def accesses(
    graph: Graph, calls: Sequence[Call], blocks: Sequence[Callable[[str], str]]
) -> dict[str, int]:
    """How often each block is read or written in one inference, as kernels are built: each product
    reads its scratch once, or its input if it has no scratch; a store writes each element once.
    `blocks` are the names of a call's blocks by those of its tensors and, for "", its scratch."""
    counts: dict[str, int] = {}
    for call, block in zip(calls, blocks, strict=True):
        out = graph.types[call.node.result]
        reused = call.kernel.macs // max(1, out.shape[-1] if out.shape else 1)
        scratch = any(o.role == "scratch" for o in call.kernel.operands)
        for o in call.kernel.operands:
            if o.role == "const":
                continue
            name = block(o.value)
            elements = math.prod(graph.types[o.value].shape) if o.value else o.bytes
            reads = call.kernel.macs if o.role == "scratch" else 0 if scratch else reused
            counts[name] = counts.get(name, 0) + max(elements, reads)
    return counts


def fill(
    pools: Sequence[Pool],
    blocks: Sequence[Interval],
    overlaps: Overlaps,
    heat: Mapping[str, int],
    steps: int,
    file: str = "",
) -> tuple[Filled, ...]:
    """Every block in one of `pools`. Raises MlfError if one does not fit."""
    hottest = sorted(
        blocks, key=lambda b: (-heat.get(b.name, 0) / max(1, b.size_bytes), b.first, b.name)
    )
    # Where the hottest blocks leave no room for large ones, the large ones go first.
    largest = sorted(blocks, key=lambda b: (-b.size_bytes, b.first, b.name))
    for order in (hottest, largest):
        left = list(order)
        filled = []
        for pool in pools:
            taken = _take(pool, left, overlaps, steps)
            left = [b for b in left if b not in taken.blocks]
            filled.append(taken)
        if not left:
            return tuple(filled)
    bound, _ = lower_bound(blocks, steps, overlaps)
    sizes = " + ".join(f"{p.name} {p.size_bytes}" for p in pools)
    text = (
        f"'{left[0].name}' of {left[0].size_bytes} bytes finds no place in the memory pools; "
        f"got {sizes} bytes, and {bound} are alive at once"
    )
    raise MlfError(Problem("MLF0305", text, file, help="give the last pool more bytes"))


def _take(pool: Pool, order: Sequence[Interval], overlaps: Overlaps, steps: int) -> Filled:
    """The first of `order` that fit together."""
    chosen: list[Interval] = []
    best = _placed(pool, chosen, overlaps, steps)
    for block in order:
        more = _placed(pool, [*chosen, block], overlaps, steps)
        if more.size_bytes <= pool.size_bytes:
            chosen.append(block)
            best = more
    return best


def _placed(pool: Pool, blocks: Sequence[Interval], overlaps: Overlaps, steps: int) -> Filled:
    names = {b.name for b in blocks}
    inside = {pair: d for pair, d in overlaps.items() if names.issuperset(pair)}
    bound, peak = lower_bound(blocks, steps, inside)
    if bound > pool.size_bytes:  # no need to look for a placement
        stacked = dict.fromkeys(names, pool.size_bytes)
        return Filled(pool, tuple(blocks), Placement(stacked, ""), bound, peak)
    return Filled(pool, tuple(blocks), place(blocks, bound, inside), bound, peak)
