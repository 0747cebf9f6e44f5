"""Graph -> Program: order, kernels, memory."""

from __future__ import annotations

from mlftool.ir.graph import Graph
from mlftool.plan.memory import aliases, plan_memory
from mlftool.plan.program import Program
from mlftool.plan.schedule import schedule
from mlftool.plan.select import select
from mlftool.targets import Target


def lower(graph: Graph, target: Target, file: str, workspace_io: bool = False) -> Program:
    """Decide everything for one target. Raises MlfError for nodes that no kernel can compute."""
    graph = schedule(graph)
    calls = select(graph, target, file)
    alias = aliases(graph)
    memory = plan_memory(graph, calls, alias, workspace_io)
    return Program(graph, target, calls, memory, alias, workspace_io)
