"""The workspace: every intermediate tensor and scratch area gets an offset for its lifetime.

Two things that are alive at the same step never overlap, with two exceptions for an input that dies
at the step and the output: the output may start where the input does if the kernel works in place,
and at certain distances if the kernel is known to write only what it has read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mlftool.ir.graph import Graph
from mlftool.ops import Trait, is_a
from mlftool.plan.blocks import Distances, Interval, aligned
from mlftool.plan.placement import lower_bound, place
from mlftool.plan.pools import Filled, accesses, fill
from mlftool.plan.program import Buffer, Call, MemoryPlan, Region
from mlftool.targets import debug_level
from mlftool.targets.pools import Pool

TOGETHER = (0, 0)


def aliases(graph: Graph) -> dict[str, str]:
    """view -> viewed; the other way round where the view is a graph output, which is storage."""
    result: dict[str, str] = {}
    for node in reversed(graph.nodes):
        if is_a(node, Trait.VIEW):
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
    graph: Graph,
    calls: Sequence[Call],
    alias: Mapping[str, str],
    workspace_io: bool,
    pools: Sequence[Pool] = (),
    file: str = "",
) -> MemoryPlan:
    """Offsets for everything between the graph's inputs and outputs; for those too if asked. In the
    workspace or, if there are any, in `pools`. Raises MlfError if these are too small."""
    intervals, shared, overlaps = _intervals(graph, calls, alias, workspace_io)
    steps = len(calls) + 1  # the last is the caller's, who reads the outputs
    bound, peak_step = lower_bound(intervals, steps, overlaps)
    if pools:
        heat = accesses(graph, calls, [_blocks(k, alias, shared) for k in range(len(calls))])
        filled = fill(pools, intervals, overlaps, heat, steps, file)
    else:
        workspace = Pool("", 0)
        placement = place(intervals, bound, overlaps)
        filled = (Filled(workspace, tuple(intervals), placement, bound, peak_step),)
    buffers = tuple(_buffer(i, f, max(0, len(calls) - 1)) for f in filled for i in f.blocks)
    by_name = {b.name: b for b in buffers}
    where = {name: by_name[_final(shared, name)] for name in (*by_name, *shared)}
    regions = tuple(
        Region(f.pool, f.size_bytes, f.bound, f.peak_step, f.placement.proof) for f in filled
    )
    size = sum(r.size_bytes for r in regions)
    proof = "" if pools else regions[0].proof
    plan = MemoryPlan(size, bound, peak_step, buffers, where, proof, regions)
    _tell(buffers)
    return plan


def _buffer(block: Interval, filled: Filled, end: int) -> Buffer:
    """A block at its place; steps are the program's, so that an output's last is `end`."""
    at, last = filled.placement.offsets[block.name], min(block.last, end)
    return Buffer(block.name, at, block.size_bytes, block.first, last, filled.pool.name)


def _blocks(step: int, alias: Mapping[str, str], shared: Mapping[str, str]) -> Callable[[str], str]:
    """The block of each tensor of a step, and of its scratch, which has no name."""
    return lambda name: _final(shared, _final(alias, name)) if name else scratch_name(step)


def _tell(buffers: Sequence[Buffer]) -> None:
    if debug_level() >= 2:
        for b in sorted(buffers, key=lambda b: (b.first_step, b.offset_bytes)):
            print(
                f"mlftool: memory {b.offset_bytes:8d} +{b.size_bytes:<8d} steps {b.first_step}-"
                f"{b.last_step} {b.pool} {b.name}",
                file=sys.stderr,
            )


def _intervals(
    graph: Graph,
    calls: Sequence[Call],
    alias: Mapping[str, str],
    workspace_io: bool,
) -> tuple[list[Interval], dict[str, str], dict[tuple[str, str], Distances]]:
    """Lifetimes, after in-place reuse: the second result maps a tensor to the one it took over, the
    third tells which others may overlap. Outputs live until the step after the last: a node that
    reads one is never its last reader."""
    outside = {*graph.consts} if workspace_io else {*graph.inputs, *graph.outputs, *graph.consts}
    last: dict[str, int] = {}
    for step, call in enumerate(calls):
        for name in call.node.inputs:
            last[_final(alias, name)] = step
    if workspace_io:
        last |= {_final(alias, name): len(calls) for name in graph.outputs}
    # What has no elements has an address of its own, where one is passed: C compilers warn of a
    # call that is given an address twice.
    passed = {_final(alias, o.value) for c in calls for o in c.kernel.operands if o.value}
    passed |= {*graph.inputs, *graph.outputs}

    def room(name: str) -> int:
        return aligned(max(name in passed, graph.types[name].bytes))

    # Nothing stores an output without elements, but it has an address.
    given = [*graph.inputs, *(n for n in graph.outputs if n in graph.consts)] * workspace_io
    live = {name: Interval(name, room(name), 0, last.get(name, 0)) for name in given}
    shared: dict[str, str] = {}
    overlaps: dict[tuple[str, str], Distances] = {}
    for step, call in enumerate(calls):
        for out in filter(None, call.node.outputs):
            name = _final(alias, out)
            if name in outside:
                continue
            end, size = last.get(name, step), room(name)
            donors = _donors(call, alias, shared)
            dying = {d: n for d, n in donors.items() if d in live and live[d].last == step}
            same = [d for d, n in dying.items() if n == TOGETHER and live[d].size_bytes == size]
            if same:
                live[same[0]] = replace(live[same[0]], last=end)
                shared[name] = same[0]
                continue
            live[name] = Interval(name, size, step, end)
            for d, distance in dying.items():
                if distance != TOGETHER or live[d].size_bytes > size:
                    overlaps[d, name] = distance
        areas = [o for o in call.kernel.operands if o.role == "scratch" and not o.local]
        if size := sum(aligned(o.bytes) for o in areas):
            live[scratch_name(step)] = Interval(scratch_name(step), size, step, step)
    return list(live.values()), shared, overlaps


def scratch_name(step: int) -> str:
    """The block that holds a step's scratch areas in sequence, each aligned."""
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
