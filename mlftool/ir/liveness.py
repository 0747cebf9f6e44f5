"""How much is alive while each node runs, in the order of the graph's nodes: what kernels may ask
before memory is planned. What callers hold, inputs and outputs, does not count."""

from __future__ import annotations

from mlftool.frozen import frozen
from mlftool.ir.graph import Graph, Node


@frozen
class Live:
    """`total` bytes with a node's outputs apart from its inputs; of these a result could save
    `over` in the place of any input that is not read again, `beside` of one that is not the
    core's."""

    total: int
    over: int
    beside: int


def live(graph: Graph) -> tuple[Live, ...]:
    """One for each node."""
    outside = {"", *graph.inputs, *graph.outputs, *graph.consts}
    last = {name: k for k, node in enumerate(graph.nodes) for name in node.inputs}
    alive: set[str] = set()
    found = []
    for k, node in enumerate(graph.nodes):
        made = {name for name in node.outputs if name not in outside}
        ending = {name for name in node.inputs if name in alive and last[name] == k}
        found.append(_live(graph, node, alive | made, ending, made))
        alive = (alive - ending) | {name for name in made if last.get(name, k) > k}
    return tuple(found)


def _live(graph: Graph, node: Node, alive: set[str], ending: set[str], made: set[str]) -> Live:
    def most(names: set[str]) -> int:
        return max((graph.types[n].bytes for n in names), default=0)

    total = sum(graph.types[n].bytes for n in alive)
    beside = ending - {*node.core.inputs}
    return Live(total, min(most(ending), most(made)), min(most(beside), most(made)))
