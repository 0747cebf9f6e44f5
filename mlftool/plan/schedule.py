"""The order of independent nodes: the one that keeps the least memory alive."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from mlftool.ir.graph import Graph, Node
from mlftool.plan.memory import aliases

MOST_NODES = 200  # of a graph whose orders are searched
MOST_STATES = 1000  # of that search; a chain of nodes has one for each


def schedule(graph: Graph) -> Graph:
    """The graph in the cheapest of three orders: its own, the greedy one, and the result of a
    bounded search if neither is known to be the best."""
    facts = _Facts(graph)
    own = list(range(len(graph.nodes)))
    best = min(own, facts.greedy(), key=facts.peak)
    if facts.peak(best) > facts.least() and len(own) <= MOST_NODES:
        best = facts.search(facts.peak(best)) or best
    return graph if best == own else graph.replace(nodes=tuple(graph.nodes[k] for k in best))


class _Facts:
    """Nodes by their numbers, and which intermediate tensors they make and read."""

    def __init__(self, graph: Graph) -> None:
        alias = aliases(graph)

        def root(name: str) -> str:
            while name in alias:
                name = alias[name]
            return name

        outside = {*graph.inputs, *graph.outputs, *graph.consts}
        nodes: Sequence[Node] = graph.nodes
        self.bytes = {n: t.bytes for n, t in graph.types.items()}
        position = {out: k for k, n in enumerate(nodes) for out in n.outputs if out}
        self.before = [{position[i] for i in n.inputs if i in position} for n in nodes]
        self.makes = [
            [t for t in dict.fromkeys(map(root, filter(None, n.outputs))) if t not in outside]
            for n in nodes
        ]
        self.reads = [
            [t for t in dict.fromkeys(map(root, filter(None, n.inputs))) if t not in outside]
            for n in nodes
        ]
        self.users: dict[str, set[int]] = {}
        for k in range(len(nodes)):
            for t in (*self.makes[k], *self.reads[k]):
                self.users.setdefault(t, set()).add(k)

    def least(self) -> int:
        """No order needs less: the most that one node makes and reads."""
        return max(
            (
                sum(self.bytes[t] for t in {*made, *read})
                for made, read in zip(self.makes, self.reads, strict=True)
            ),
            default=0,
        )

    def peak(self, order: Sequence[int]) -> int:
        """Most bytes of intermediate tensors alive at any node."""
        waiting = {t: len(users) for t, users in self.users.items()}
        alive = most = 0
        for k in order:
            alive += sum(self.bytes[t] for t in self.makes[k])
            most = max(most, alive)
            for t in (*self.makes[k], *self.reads[k]):
                waiting[t] -= 1
                alive -= 0 if waiting[t] else self.bytes[t]
        return most

    def greedy(self) -> list[int]:
        """Among the nodes that could run, always the one that leaves the least alive."""
        waiting = {t: len(users) for t, users in self.users.items()}
        missing = [len(before) for before in self.before]
        after: list[list[int]] = [[] for _ in missing]
        for k, before in enumerate(self.before):
            for j in before:
                after[j].append(k)

        def growth(k: int) -> int:
            freed = sum(self.bytes[t] for t in self.reads[k] if waiting[t] == 1)
            return sum(self.bytes[t] for t in self.makes[k]) - freed

        ready = [k for k, n in enumerate(missing) if not n]
        order: list[int] = []
        while ready:
            k = min(ready, key=lambda k: (growth(k), k))
            ready.remove(k)
            order.append(k)
            for t in (*self.makes[k], *self.reads[k]):
                waiting[t] -= 1
            for j in after[k]:
                missing[j] -= 1
                if not missing[j]:
                    ready.append(j)
        return order

    def search(self, limit: int) -> list[int] | None:
        """An order with a lower peak than `limit`, the lowest there is; None if there is none, or
        if it was not found among the first states. What is alive depends only on which nodes have
        run, so the search goes over sets of nodes, that of the lowest peak so far first."""
        every = len(self.before)
        open_: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
        seen: set[frozenset[int]] = set()
        while open_ and len(seen) < MOST_STATES:
            peak, _, order = heapq.heappop(open_)
            done = frozenset(order)
            if len(done) == every:
                return list(order)
            if done in seen:
                continue
            seen.add(done)
            alive = self._alive(done)
            for k in range(every):
                if k not in done and self.before[k] <= done:
                    now = sum(self.bytes[t] for t in alive | set(self.makes[k]))
                    if max(peak, now) < limit:
                        heapq.heappush(open_, (max(peak, now), -len(order), (*order, k)))
        return None

    def _alive(self, done: frozenset[int]) -> set[str]:
        """The tensors that a node has made or read and another has still to read."""
        return {t for k in done for t in self.makes[k] if not self.users[t] <= done}
