"""A table of bytes is read in the store of the kernel that makes the bytes, where the target stores
one value at a time and this costs no more than a pass over the tensor.

    %s = QLinearConv(%x, ...); %y = mlf.Table(%s, t)   =>   %y = QLinearConv(%x, ...) { mlf.Table }
"""

from __future__ import annotations

from mlftool.ir.edit import Editor, joined
from mlftool.ir.graph import Graph, Node
from mlftool.ops import Trait, is_a
from mlftool.plan.borders import swapped
from mlftool.plan.select import cost_of
from mlftool.targets import Target

# Features with which it does not: vectors gather from a table, small cores store a row of results
# that a second loop would read, and layers made for size share functions without tables.
ELSEWHERE = {"mve", "vector", "narrow", "registers", "size"}


def with_stored_tables(graph: Graph, target: Target) -> Graph:
    """The graph without the tables that a maker takes over."""
    if target.features & ELSEWHERE:
        return graph
    for node in [n for n in graph.nodes if is_a(n, Trait.TABLE)]:
        e = Editor(graph)
        table = _beside_maker(e, node)
        maker = _only(e, table)
        # What is fused already may have an integer form, as a whole only.
        if not is_a(maker, Trait.EPILOGUE) or len(maker.outputs) > 1 or maker.body:
            continue
        made = joined((maker, table), maker, table)
        e.substitute([maker, table], [made])
        better = e.finish()
        apart = cost_of(graph, maker, target) + cost_of(graph, node, target)
        if cost_of(better, made, target) <= apart:
            graph = better
    return graph


def _beside_maker(e: Editor, table: Node) -> Node:
    """The table before what moves its elements."""
    moved = (Trait.VIEW, Trait.TRANSPOSITION)
    while (maker := _only(e, table)) and any(is_a(maker, t) for t in moved):
        table, _ = swapped(e, maker, table)
    return table


def _only(e: Editor, node: Node) -> Node | None:
    """What makes the first input for nothing else."""
    name = node.inputs[0]
    return e.producer(name) if e.only_user(name) is node else None
