"""The invariants of a Graph, checked after every pass. A failure is our own bug."""

from __future__ import annotations

from collections.abc import Iterator

from mlftool.ir.graph import Graph, Node


def verify(graph: Graph, after: str) -> Graph:
    """Return `graph` unchanged, or raise AssertionError saying what pass `after` broke."""
    for fault in _faults(graph):
        raise AssertionError(f"after {after}: {fault}")
    return graph


def _faults(graph: Graph) -> Iterator[str]:
    """What does not hold, in the order of the nodes."""
    defined = set(graph.inputs) | set(graph.consts)
    for name, value in graph.consts.items():
        if tuple(value.shape) != graph.types[name].shape:
            yield f"shape of constant '{name}'"
        if value.dtype != graph.types[name].dtype.numpy:
            yield f"dtype of constant '{name}'"
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in defined:
                yield f"{node.label} reads undefined '{name}'"
        for name in filter(None, node.outputs):
            if name in defined:
                yield f"'{name}' is defined twice"
            if name not in graph.types:
                yield f"'{name}' has no type"
            defined.add(name)
        yield from _faults_of_body(graph, node)
        for inner in node.graphs.values():
            # A layer of a band reads places that its node names (ops/patches.py), and no captures.
            if not node.op.startswith("mlf.") and len(inner.inputs) > len(node.inputs) + 1:
                yield f"{node.label}: captures"
            yield from _faults(inner)
    for name in graph.outputs:
        if name not in defined:
            yield f"output '{name}' is never computed"


def _faults_of_body(graph: Graph, node: Node) -> Iterator[str]:
    """A fused node reads and writes exactly what its body does, with at most one core."""
    if not node.body:
        return
    made = {out for n in node.body for out in n.outputs}
    read = {name for n in node.body for name in n.inputs if name and name not in made}
    if read != set(node.inputs):
        yield f"{node.label}: inputs differ from its body's"
    if node.outputs[0] != node.body[-1].outputs[0]:
        yield f"{node.label}: output not last"
    for name in made:
        if name not in graph.types:
            yield f"'{name}' inside {node.label} has no type"
