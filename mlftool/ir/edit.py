"""How passes change a graph: open an Editor, change nodes and values, close it into a new Graph."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, Node, TensorType


class Editor:
    """A graph under change. `finish` drops what is unused and sorts what is left."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.nodes: list[Node] = list(graph.nodes)
        self.types: dict[str, TensorType] = dict(graph.types)
        self.consts: dict[str, Array] = dict(graph.consts)
        self.outputs = graph.outputs
        self._index()

    def _index(self) -> None:
        self._producer = {out: n for n in self.nodes for out in n.outputs if out}
        self._users: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                self._users.setdefault(name, []).append(node)

    def producer(self, name: str) -> Node | None:
        return self._producer.get(name)

    def users(self, name: str) -> list[Node]:
        return self._users.get(name, [])

    def only_user(self, name: str) -> Node | None:
        """The one node that reads `name`, if there is one and the value is not a graph output."""
        users = self.users(name)
        return users[0] if len(users) == 1 and name not in self.outputs else None

    def fresh(self, hint: str, type_: TensorType) -> str:
        """A new value name of the given type."""
        name, k = hint, 0
        while name in self.types:
            k += 1
            name = f"{hint}__{k}"
        self.types[name] = type_
        return name

    def const(self, hint: str, value: Array) -> str:
        """A new constant."""
        name = self.fresh(hint, TensorType(dtype.of(value), tuple(value.shape)))
        self.consts[name] = value
        return name

    def add(
        self,
        op: str,
        inputs: Iterable[str],
        like: Node,
        out: str,
        attrs: Mapping[str, Any] | None = None,
    ) -> Node:
        """A new node named after `like`, not yet placed."""
        return Node(op, tuple(inputs), (out,), dict(attrs or {}), like.name)

    def substitute(self, olds: Iterable[Node], news: Iterable[Node]) -> None:
        """Replace nodes by others; `news` stand where the last of `olds` stood."""
        doomed = list(olds)
        at = max(self._position(n) for n in doomed)
        self.nodes[at + 1 : at + 1] = news
        self.nodes = [n for n in self.nodes if not any(n is d for d in doomed)]
        self._index()

    def _position(self, node: Node) -> int:
        return next(i for i, n in enumerate(self.nodes) if n is node)

    def rename(self, old: str, new: str) -> None:
        """Let every reader of `old`, the graph's outputs included, read `new` instead."""
        self.nodes = [
            replace(n, inputs=tuple(new if i == old else i for i in n.inputs))
            if old in n.inputs
            else n
            for n in self.nodes
        ]
        self.outputs = tuple(new if o == old else o for o in self.outputs)
        self._index()

    def finish(self) -> Graph:
        """The edited graph, without dead nodes and values, in topological order."""
        order = toposort(self.nodes, self.outputs)
        live = {n for node in order for n in (*node.inputs, *node.outputs, *body_values(node))}
        live |= {*self._graph.inputs, *self.outputs}
        return self._graph.replace(
            nodes=tuple(order),
            outputs=self.outputs,
            types={k: v for k, v in self.types.items() if k in live},
            consts={k: v for k, v in self.consts.items() if k in live},
        )


def body_values(node: Node) -> set[str]:
    """Names that live only inside a fused node."""
    return {name for n in node.body for name in (*n.inputs, *n.outputs)}


def toposort(nodes: Iterable[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes that `outputs` need, each after its producers, otherwise in the given order.

    Raises ValueError naming a value on a cycle.
    """
    nodes = list(nodes)
    position = {out: i for i, n in enumerate(nodes) for out in n.outputs if out}
    needed: set[int] = set()
    stack = [position[o] for o in outputs if o in position]
    while stack:
        i = stack.pop()
        if i not in needed:
            needed.add(i)
            stack += [position[name] for name in nodes[i].inputs if name in position]
    waits = {i: {position[n] for n in nodes[i].inputs if n in position} for i in needed}
    readers: dict[int, list[int]] = {}
    for i, producers in waits.items():
        for p in producers:
            readers.setdefault(p, []).append(i)
    # Sweeps in the given order; each takes the nodes it frees where it can.
    sweep = sorted(i for i in needed if not waits[i])
    later: list[int] = []
    order: list[Node] = []
    while sweep or later:
        if not sweep:
            sweep, later = sorted(later), []
        i = heapq.heappop(sweep)
        order.append(nodes[i])
        for reader in readers.get(i, ()):
            waits[reader].discard(i)
            if not waits[reader]:
                heapq.heappush(sweep, reader) if reader > i else later.append(reader)
    if len(order) < len(needed):
        raise ValueError(nodes[min(i for i in needed if waits[i])].outputs[0])
    return order
