"""The order of independent nodes: the one that keeps the least memory alive."""

from __future__ import annotations

from mlftool.ir.graph import Graph, Node
from mlftool.plan.memory import aliases


def schedule(graph: Graph) -> Graph:
    """The graph in the cheaper of two orders: the model's own, and the greedy one."""
    greedy = graph.replace(nodes=tuple(_greedy(graph)))
    return greedy if _peak(greedy) < _peak(graph) else graph


def _peak(graph: Graph) -> int:
    """Most bytes of intermediate tensors alive at any node."""
    alias = aliases(graph)

    def root(name: str) -> str:
        while name in alias:
            name = alias[name]
        return name

    outside = {*graph.inputs, *graph.outputs, *graph.consts}
    last = {root(i): k for k, n in enumerate(graph.nodes) for i in n.inputs}
    live: dict[str, int] = {}
    peak = 0
    for k, node in enumerate(graph.nodes):
        for out in map(root, filter(None, node.outputs)):
            if out not in outside:
                live[out] = graph.types[out].bytes
        peak = max(peak, sum(live.values()))
        for name in [n for n in live if last.get(n, k) <= k]:
            del live[name]
    return peak


def _greedy(graph: Graph) -> list[Node]:
    """Among the nodes that could run, always the one that leaves the least alive."""
    position = {out: k for k, n in enumerate(graph.nodes) for out in n.outputs if out}
    readers: dict[str, int] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(node.inputs):
            readers[name] = readers.get(name, 0) + 1
    outside = {*graph.inputs, *graph.outputs, *graph.consts}
    done: set[int] = set()
    order: list[Node] = []
    pending = list(range(len(graph.nodes)))

    def growth(k: int) -> int:
        node = graph.nodes[k]
        born = sum(graph.types[o].bytes for o in node.outputs if o and o not in outside)
        freed = sum(
            graph.types[i].bytes
            for i in dict.fromkeys(node.inputs)
            if i and i not in outside and readers[i] == 1
        )
        return born - freed

    while pending:
        ready = [
            k
            for k in pending
            if all(position[i] in done for i in graph.nodes[k].inputs if i in position)
        ]
        k = min(ready, key=lambda k: (growth(k), k))
        for name in dict.fromkeys(graph.nodes[k].inputs):
            readers[name] -= 1
        pending.remove(k)
        done.add(k)
        order.append(graph.nodes[k])
    return order
