"""How passes change a graph: open an Editor, change nodes and values, close it into a new Graph."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, Node, TensorType


def unused(hint: str, taken: Container[str]) -> str:
    """`hint`, or with the first number after it that makes a new name."""
    name, k = hint, 0
    while name in taken:
        k += 1
        name = f"{hint}__{k}"
    return name


class Editor:
    """A graph under change. `finish` drops what is unused and sorts what is left."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.types: dict[str, TensorType] = dict(graph.types)
        self.consts: dict[str, Array] = dict(graph.consts)
        self.inputs = graph.inputs
        self.outputs = graph.outputs
        # The nodes in order: what replaces a node stands in its slot, so that no edit is slower
        # in a large graph.
        self._slots: list[list[Node]] = [[] for _ in graph.nodes]
        self._slot_of: dict[int, int] = {}
        self._producer: dict[str, Node] = {}
        self._users: dict[str, dict[int, Node]] = {}
        for slot, node in enumerate(graph.nodes):
            self._slots[slot].append(node)
            self._slot_of[id(node)] = slot
            self._link(node)

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in order."""
        return [n for slot in self._slots for n in slot]

    def holds(self, node: Node) -> bool:
        """Whether this very node is still part of the graph."""
        return id(node) in self._slot_of

    def position(self, node: Node) -> tuple[int, int]:
        """Sorts nodes by their order."""
        slot = self._slot_of[id(node)]
        return slot, next(i for i, n in enumerate(self._slots[slot]) if n is node)

    def _link(self, node: Node) -> None:
        self._producer |= {out: node for out in node.outputs if out}
        for name in node.inputs:
            self._users.setdefault(name, {})[id(node)] = node

    def remove(self, node: Node) -> None:
        """Remove a node. Readers of its outputs must be given another tensor."""
        slot, index = self.position(node)
        del self._slots[slot][index], self._slot_of[id(node)]
        for out in node.outputs:
            if self._producer.get(out) is node:
                del self._producer[out]
        for name in dict.fromkeys(node.inputs):
            del self._users[name][id(node)]

    def producer(self, name: str) -> Node | None:
        return self._producer.get(name)

    def users(self, name: str) -> list[Node]:
        return list(self._users.get(name, {}).values())

    def only_user(self, name: str) -> Node | None:
        """The one node that reads `name`, if there is one and the value is not a graph output."""
        users = self.users(name)
        return users[0] if len(users) == 1 and name not in self.outputs else None

    def fresh(self, hint: str, type_: TensorType) -> str:
        """A new value name of the given type."""
        name = unused(hint, self.types)
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
        slot, index = max(self.position(n) for n in doomed)
        fresh = list(news)
        for k, node in enumerate(fresh):
            self._slots[slot].insert(index + 1 + k, node)
            self._slot_of[id(node)] = slot
        for node in doomed:
            self.remove(node)
        for node in fresh:
            self._link(node)

    def rename(self, old: str, new: str) -> None:
        """Let every reader of `old`, the graph's outputs included, read `new` instead."""
        for node in self.users(old):
            inputs = tuple(new if i == old else i for i in node.inputs)
            self.substitute([node], [replace(node, inputs=inputs)])
        self.outputs = tuple(new if o == old else o for o in self.outputs)

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


def _external_inputs(body: tuple[Node, ...]) -> tuple[str, ...]:
    made = {out for n in body for out in n.outputs}
    return tuple(dict.fromkeys(i for n in body for i in n.inputs if i and i not in made))


def joined(parts: tuple[Node, ...], core: Node, out: Node) -> Node:
    """One node for `parts`, which computes `core` and stores the output of `out`."""
    return Node(core.op, _external_inputs(parts), out.outputs, core.attrs, core.name, parts)


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
