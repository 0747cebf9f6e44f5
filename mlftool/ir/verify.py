"""The invariants of a Graph, checked after every pass. A failure is our own bug."""

from __future__ import annotations

from mlftool.ir.graph import Graph, Node


def verify(graph: Graph, after: str) -> Graph:
    """Return `graph` unchanged, or raise AssertionError saying what pass `after` broke."""
    defined = set(graph.inputs) | set(graph.consts)
    for name, value in graph.consts.items():
        _check(tuple(value.shape) == graph.types[name].shape, after, f"shape of constant '{name}'")
        _check(value.dtype == graph.types[name].dtype.numpy, after, f"dtype of constant '{name}'")
    for node in graph.nodes:
        for name in node.inputs:
            _check(not name or name in defined, after, f"{node.label} reads undefined '{name}'")
        for name in filter(None, node.outputs):
            _check(name not in defined, after, f"'{name}' is defined twice")
            _check(name in graph.types, after, f"'{name}' has no type")
            defined.add(name)
        _verify_body(graph, node, after)
        for inner in node.graphs.values():
            # A layer of a band reads places that its node names (ops/patches.py), and no captures.
            is_ours = node.op.startswith("mlf.")
            is_fed = is_ours or len(inner.inputs) <= len(node.inputs) + 1
            _check(is_fed, after, f"{node.label}: captures")
            verify(inner, after)
    for name in graph.outputs:
        _check(name in defined, after, f"output '{name}' is never computed")
    return graph


def _verify_body(graph: Graph, node: Node, after: str) -> None:
    """A fused node reads and writes exactly what its body does, with at most one core."""
    if not node.body:
        return
    made = {out for n in node.body for out in n.outputs}
    read = {name for n in node.body for name in n.inputs if name and name not in made}
    _check(read == set(node.inputs), after, f"{node.label}: inputs differ from its body's")
    _check(node.outputs[0] == node.body[-1].outputs[0], after, f"{node.label}: output not last")
    for name in made:
        _check(name in graph.types, after, f"'{name}' inside {node.label} has no type")


def _check(holds: bool, after: str, what: str) -> None:
    if not holds:
        raise AssertionError(f"after {after}: {what}")
