"""Graph -> Program: order, kernels, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlftool.ir.graph import Graph
from mlftool.ops.base import Operand
from mlftool.plan.borders import without_borders
from mlftool.plan.memory import aliases, plan_memory
from mlftool.plan.program import Call, Program
from mlftool.plan.schedule import schedule
from mlftool.plan.select import Choose, select
from mlftool.plan.tables import with_stored_tables
from mlftool.targets import Target
from mlftool.targets.pools import Pool


def lower(
    graph: Graph,
    target: Target,
    file: str,
    workspace_io: bool = False,
    pools: Sequence[Pool] = (),
    choose: Choose | None = None,
    inside: Choose | None = None,
) -> Program:
    """Decide everything for one target; `choose` has the last word on kernels of the outermost
    graph, `inside` on those of subgraphs. Raises MlfError for nodes that no kernel can compute."""
    graph = schedule(with_stored_tables(without_borders(graph, target), target))
    calls = tuple(_with_parts(c, target, file, inside) for c in select(graph, target, file, choose))
    alias = aliases(graph)
    memory = plan_memory(graph, calls, alias, workspace_io, pools, file)
    return Program(graph, target, calls, memory, alias, workspace_io)


def _with_parts(call: Call, target: Target, file: str, choose: Choose | None) -> Call:
    """The call with its subgraphs planned; one of them runs at a time, so they share memory."""
    if not call.node.graphs:
        return call
    parts = {
        key: lower(inner, target, file, choose=choose, inside=choose)
        for key, inner in call.node.graphs.items()
    }
    size = max(p.memory.size_bytes for p in parts.values())
    turns = call.kernel.turns
    macs = sum(turns.get(k, 1) * c.kernel.macs for k, p in parts.items() for c in p.calls)
    # Of those that run who knows how often: one of them, once.
    often = {k: turns.get(k, 1 / len(parts)) for k in parts}
    inside = sum(often[k] * c.kernel.cost for k, p in parts.items() for c in p.calls)
    arena = (Operand("arena", "uint8_t", "scratch", bytes=size, planned=True),) if size else ()
    kernel = replace(call.kernel, operands=(*call.kernel.operands, *arena), macs=macs)
    kernel = replace(kernel, cost=kernel.cost + inside)
    return replace(call, kernel=kernel, parts=parts)
