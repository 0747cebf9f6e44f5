"""The workspace: every intermediate tensor and scratch area gets an offset for its lifetime.

Two things that are alive at the same step never overlap, with two exceptions for an input that dies
at the step and the output: the output may start where the input does if the kernel works in place,
and at certain distances if the kernel is known to write only what it has read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from mlftool.ir.graph import Graph
from mlftool.ops import Operand, Trait, has
from mlftool.plan.program import Buffer, Call, MemoryPlan
from mlftool.targets import debug_level

ALIGNMENT_BYTES = 16  # TVM's workspace-byte-alignment
STACK_LIMIT_BYTES = 1024  # scratch up to here is a local array, as TVM's generated kernels do
SEARCH_ROUNDS = 400


@dataclass(frozen=True)
class Interval:
    """A block of bytes that must stay in place from `first` to `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int


Distances = tuple[int, int]  # least and most bytes from an output's start to an input's
Overlaps = Mapping[tuple[str, str], Distances]  # (input's block, output's block)
TOGETHER = (0, 0)


def aliases(graph: Graph) -> dict[str, str]:
    """view -> viewed; the other way round where the view is a graph output, which is storage."""
    result: dict[str, str] = {}
    for node in reversed(graph.nodes):
        if has(node.op, Trait.VIEW):
            source, out = node.inputs[0], node.outputs[0]
            if _final(result, out) in graph.outputs:
                result[source] = out
            else:
                result[out] = source
    return result


def _final(table: Mapping[str, str], name: str) -> str:
    while name in table:
        name = table[name]
    return name


def plan_memory(
    graph: Graph, calls: Sequence[Call], alias: Mapping[str, str], workspace_io: bool
) -> MemoryPlan:
    """Offsets for everything between the graph's inputs and outputs; for those too if asked."""
    intervals, shared, overlaps = _intervals(graph, calls, alias, workspace_io)
    bound, peak_step = lower_bound(intervals, len(calls), overlaps)
    placed = best_placement(intervals, bound, overlaps)
    buffers = tuple(
        Buffer(i.name, placed[i.name], i.size_bytes, i.first, i.last) for i in intervals
    )
    by_name = {b.name: b for b in buffers}
    place = {name: by_name[_final(shared, name)] for name in (*by_name, *shared)}
    size = max((b.offset_bytes + b.size_bytes for b in buffers), default=0)
    plan = MemoryPlan(size, bound, peak_step, buffers, place)
    if debug_level() >= 2:
        for b in sorted(buffers, key=lambda b: (b.first_step, b.offset_bytes)):
            print(
                f"mlftool: memory {b.offset_bytes:8d} +{b.size_bytes:<8d} steps {b.first_step}-"
                f"{b.last_step} {b.name}",
                file=sys.stderr,
            )
    return plan


def _intervals(
    graph: Graph,
    calls: Sequence[Call],
    alias: Mapping[str, str],
    workspace_io: bool,
) -> tuple[list[Interval], dict[str, str], dict[tuple[str, str], Distances]]:
    """Lifetimes, after in-place reuse: the second result maps a tensor to the one it took over, the
    third tells which others may overlap."""
    outside = {*graph.consts} if workspace_io else {*graph.inputs, *graph.outputs, *graph.consts}
    last: dict[str, int] = {}
    for step, call in enumerate(calls):
        for name in call.node.inputs:
            last[_final(alias, name)] = step
    if workspace_io:
        last |= dict.fromkeys(graph.outputs, len(calls) - 1)
    live = {
        name: Interval(name, aligned(graph.types[name].bytes), 0, last.get(name, 0))
        for name in graph.inputs
        if name not in outside
    }
    shared: dict[str, str] = {}
    overlaps: dict[tuple[str, str], Distances] = {}
    for step, call in enumerate(calls):
        for out in filter(None, call.node.outputs):
            name = _final(alias, out)
            if name in outside:
                continue
            end = last.get(name, step)
            size = aligned(graph.types[name].bytes)
            dying = {
                d: distance
                for d, distance in _donors(call, alias, shared).items()
                if d in live and live[d].last == step
            }
            same = [d for d, n in dying.items() if n == TOGETHER and live[d].size_bytes == size]
            if same:
                live[same[0]] = replace(live[same[0]], last=end)
                shared[name] = same[0]
                continue
            live[name] = Interval(name, size, step, end)
            for d, distance in dying.items():
                if distance != TOGETHER or live[d].size_bytes > size:
                    overlaps[d, name] = distance
                    break
        areas = [o for o in call.kernel.operands if o.role == "scratch" and not is_local(o)]
        if size := sum(aligned(o.bytes) for o in areas):
            live[scratch_name(step)] = Interval(scratch_name(step), size, step, step)
    return list(live.values()), shared, overlaps


def is_local(operand: Operand) -> bool:
    """Whether this scratch is an array of the C function, not part of the workspace."""
    small = operand.bytes <= STACK_LIMIT_BYTES
    return operand.role == "scratch" and small and not operand.planned


def scratch_name(step: int) -> str:
    """The block that holds a step's scratch areas, one behind the other, each aligned."""
    return f"scratch of step {step}"


def _donors(
    call: Call, alias: Mapping[str, str], shared: Mapping[str, str]
) -> dict[str, Distances]:
    """Buffers whose every reader in this call lets the output overlap them, and how: the kernel may
    read two views of one buffer, and allow it for one of them only."""

    def block(name: str) -> str:
        return _final(shared, _final(alias, name))

    if len([o for o in call.node.outputs if o]) > 1:
        allowed: dict[str, Distances] = dict.fromkeys(call.kernel.inplace, TOGETHER)
    else:
        allowed = {**call.kernel.overlap, **dict.fromkeys(call.kernel.inplace, TOGETHER)}
    reads = {o.value for o in call.kernel.operands if o.role == "in"}
    kept = {block(name) for name in reads - set(allowed)}
    return {block(n): distance for n, distance in allowed.items() if block(n) not in kept}


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


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
    best = min((first_fit(o, overlaps) for o in orders), key=lambda p: _height(intervals, p))
    order = list(orders[0])
    for _ in range(SEARCH_ROUNDS):
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
    done: list[Interval] = []
    for block in order:
        alive = sorted(
            (o for o in done if o.first <= block.last and block.first <= o.last),
            key=lambda o: offsets[o.name],
        )
        if any((o.name, block.name) in overlaps or (block.name, o.name) in overlaps for o in alive):
            offsets[block.name] = _beside_partner(block, alive, offsets, overlaps)
        else:
            at = 0
            for other in alive:
                if offsets[other.name] - at >= block.size_bytes:
                    break
                at = max(at, offsets[other.name] + other.size_bytes)
            offsets[block.name] = at
        done.append(block)
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


def may_overlap(overlaps: Overlaps, a: str, a_at: int, b: str, b_at: int) -> bool:
    """Whether two blocks that are alive together may share bytes when they start there."""
    if (a, b) in overlaps:
        least, most = overlaps[a, b]
        return least <= a_at - b_at <= most
    return (b, a) in overlaps and may_overlap(overlaps, b, b_at, a, a_at)
