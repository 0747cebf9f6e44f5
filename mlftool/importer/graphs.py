"""A graph or subgraph before its nodes are imported: what it declares and stores, and the order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from onnx import GraphProto, NodeProto, TensorProto

from mlftool.importer.interface import declare_sources
from mlftool.importer.structure import (
    check_values,
    execution_order,
    unknown_operators,
    unread_names,
)
from mlftool.importer.tensors import checked_value
from mlftool.onnx_rules.scope import Scope


def declared_in(graph: GraphProto, scope: Scope) -> Scope:
    """`scope`, in which nothing is declared yet, with what the graph says of its results."""
    declared = {info.name: info.type for info in (*graph.value_info, *graph.output)}
    kinds = ((i.name, i.type.tensor_type) for i in graph.input)
    flat = {n for n, t in kinds if t.HasField("shape") and not t.shape.dim}
    declare_sources(graph.node, declared, flat)
    return replace(scope, declared=declared, unread=unread_names(graph))


def add_initializers(scope: Scope, graph: GraphProto) -> None:
    for tensor in graph.initializer:
        add_initializer(scope, tensor.name, tensor)
    if graph.sparse_initializer:
        scope.problem("MLF0205", "sparse initialisers; expected dense ones")
        scope.spoiled.update(s.values.name for s in graph.sparse_initializer)


def add_initializer(scope: Scope, name: str, tensor: TensorProto) -> None:
    if not name:  # which stands for what an operator is not given
        scope.problem("MLF0207", "has no name", "an initialiser")
        return
    scope.spoiled.add(name)
    if name in scope.consts:
        scope.problem("MLF0207", "is defined twice", f"tensor '{name}'")
    value = checked_value(name, tensor, scope.problem)
    if value is not None:
        scope.spoiled.discard(name)
        scope.add_const(name, value)


def ordered(
    scope: Scope,
    graph: GraphProto,
    defined: Collection[str],
    before: int,
    given: Collection[str] | None = None,
) -> list[NodeProto] | None:
    """The nodes as they will be imported. None where there are more than `before` problems. Of a
    function's body, `given` names the attributes of the function."""
    check_values(graph, defined, scope.problem)
    if len(scope.problems) > before:
        return None
    order = execution_order(graph, scope.problem)
    unknown_operators(order, scope, given)
    return None if len(scope.problems) > before else order
