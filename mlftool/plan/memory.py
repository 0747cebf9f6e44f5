"""The workspace: every intermediate tensor and scratch area gets an offset for its lifetime.

Two things that are alive at the same step never overlap. An output may take over the memory of an
input that dies at that step when the kernel allows it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    intervals, shared = _intervals(graph, calls, alias, workspace_io)
    bound, peak_step = lower_bound(intervals, len(calls))
    placed = best_placement(intervals, bound)
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
) -> tuple[list[Interval], dict[str, str]]:
    """Lifetimes, after in-place reuse: the second result maps a tensor to the one it took over."""
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
    for step, call in enumerate(calls):
        for out in filter(None, call.node.outputs):
            name = _final(alias, out)
            if name in outside:
                continue
            end = last.get(name, step)
            size = aligned(graph.types[name].bytes)
            donor = next(
                (
                    d
                    for d in _donors(call, alias, shared)
                    if d in live and live[d].last == step and live[d].size_bytes >= size
                ),
                None,
            )
            if donor:
                live[donor] = replace(live[donor], last=end)
                shared[name] = donor
            else:
                live[name] = Interval(name, size, step, end)
        areas = [o for o in call.kernel.operands if o.role == "scratch" and not is_local(o)]
        if size := sum(aligned(o.bytes) for o in areas):
            live[scratch_name(step)] = Interval(scratch_name(step), size, step, step)
    return list(live.values()), shared


def is_local(operand: Operand) -> bool:
    """Whether this scratch is an array of the C function, not part of the workspace."""
    small = operand.bytes <= STACK_LIMIT_BYTES
    return operand.role == "scratch" and small and not operand.planned


def scratch_name(step: int) -> str:
    """The block that holds a step's scratch areas, one behind the other, each aligned."""
    return f"scratch of step {step}"


def _donors(call: Call, alias: Mapping[str, str], shared: Mapping[str, str]) -> list[str]:
    """Buffers whose every reader in this call lets the output take them over: the kernel may read
    two views of one buffer, and allow it for one of them only."""

    def block(name: str) -> str:
        return _final(shared, _final(alias, name))

    reads = {o.value for o in call.kernel.operands if o.role == "in"}
    kept = {block(name) for name in reads - set(call.kernel.inplace)}
    return [b for b in map(block, call.kernel.inplace) if b not in kept]


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def lower_bound(intervals: Sequence[Interval], steps: int) -> tuple[int, int]:
    """The most bytes alive at one step, and that step: no plan for this order can do with less."""
    totals = [sum(i.size_bytes for i in intervals if i.first <= s <= i.last) for s in range(steps)]
    peak = max(totals, default=0)
    return peak, totals.index(peak) if totals else 0


def best_placement(intervals: Sequence[Interval], bound: int) -> dict[str, int]:
    """Offsets by first fit in several orders, then a bounded search towards `bound`."""
    orders = [
        sorted(intervals, key=lambda i: (-i.size_bytes, i.first, i.name)),
        sorted(intervals, key=lambda i: (-i.size_bytes * (i.last - i.first + 1), i.first, i.name)),
        sorted(intervals, key=lambda i: (i.first, -i.size_bytes, i.name)),
    ]
    best = min((first_fit(o) for o in orders), key=lambda p: _height(intervals, p))
    order = list(orders[0])
    for _ in range(SEARCH_ROUNDS):
        if _height(intervals, best) == bound:
            break
        # Move what sticks out furthest to the front and try again.
        placed = first_fit(order)
        top = max(order, key=lambda i: (placed[i.name] + i.size_bytes, i.name))
        order.remove(top)
        order.insert(0, top)
        best = min(best, first_fit(order), key=lambda p: _height(intervals, p))
    return best


def _height(intervals: Sequence[Interval], placed: Mapping[str, int]) -> int:
    return max((placed[i.name] + i.size_bytes for i in intervals), default=0)


def first_fit(order: Sequence[Interval]) -> dict[str, int]:
    """Each block, in turn, at the lowest offset that is free during its whole life."""
    offsets: dict[str, int] = {}
    done: list[Interval] = []
    for block in order:
        at = 0
        for other in sorted(
            (o for o in done if o.first <= block.last and block.first <= o.last),
            key=lambda o: offsets[o.name],
        ):
            if offsets[other.name] - at >= block.size_bytes:
                break
            at = max(at, offsets[other.name] + other.size_bytes)
        offsets[block.name] = at
        done.append(block)
    return offsets
