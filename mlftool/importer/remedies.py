"""Which inputs of a model decide an extent: what the help of a message names as a remedy."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import NodeProto

from mlftool.ir.graph import Node
from mlftool.onnx_rules.scope import Refuse, Scope

_BY_HAND = 8  # elements of an input, at most, that a user gives on a command line


def constants(scope: Scope, names: Iterable[str]) -> str:
    """`--input-value` for the inputs of the model that the tensors `names` are computed from; ""
    unless all of those are integers that a user gives by hand."""
    found = _sources(scope, [n for n in names if n])
    types = [scope.types[n] for n in found]
    by_hand = all(t.dtype.numpy.kind in "iub" and t.elements <= _BY_HAND for t in types)
    # A subgraph's inputs are tensors of the graph around it.
    if scope.where or not found or not by_hand:
        return ""
    options = " ".join(f"--input-value {n}:VALUE" for n in found)
    return f"if it never changes, make what decides it a constant: {options}"


def integers(scope: Scope, node: NodeProto) -> list[str]:
    """The inputs of a node that are integers."""
    known = [n for n in node.input if n in scope.types]
    return [n for n in known if scope.types[n].dtype.numpy.kind in "iu"]


def for_extents(scope: Scope, node: NodeProto, refused: Refuse) -> str:
    """The help for a refusal that gives none, where the node reads a tensor whose extents are
    known at run time only: they count as large as they may get, so they need not fit."""
    open_ = [n for n in node.input if n and n in scope.types and any(scope.symbols_of(n))]
    if refused.help or refused.code != "MLF0303" or not open_:
        return refused.help
    symbols = [s for n in open_ for s in scope.symbols_of(n)]
    text = "sizes that are known only at run time count as large as they may get"
    return "; ".join(filter(None, (text, constants(scope, symbols))))


def _sources(scope: Scope, names: list[str]) -> list[str]:
    """The inputs of the graph that tensors are computed from, in the order of their names."""
    makers = {out: node for node in scope.nodes for out in node.outputs}
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name and name not in seen and name not in scope.consts:
            seen.add(name)
            todo += _read(makers[name], name) if name in makers else ()
    return sorted(seen - makers.keys())


def _read(node: Node, name: str) -> tuple[str, ...]:
    """What of a node's inputs an output is computed from."""
    # The extent of joined tensors is the sum of their extents, the inputs after them.
    extents = node.attrs.get("extents") if name != node.outputs[0] else None
    return node.inputs if extents is None else node.inputs[len(extents) :]
