"""A node of ONNX's messages: its operator and its attributes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper


def domain_of(node: NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


def op_name(node: NodeProto) -> str:
    return f"{domain_of(node)}.{node.op_type}" if domain_of(node) else str(node.op_type)


def called_name(it: NodeProto | FunctionProto) -> str:
    """How messages call one of the model's functions: all that tells it from others."""
    name = it.op_type if isinstance(it, NodeProto) else it.name
    domain = "" if it.domain == "ai.onnx" else it.domain
    return ".".join(filter(None, (domain, name, it.overload)))


def subgraphs(node: NodeProto) -> list[GraphProto]:
    return [g for a in node.attribute for g in ([a.g] if a.HasField("g") else a.graphs)]


def names_in(nodes: Iterable[NodeProto]) -> set[str]:
    """The names of all values that nodes and their subgraphs read and make."""
    found: set[str] = set()
    for node in nodes:
        found.update(node.input, node.output)
        for graph in subgraphs(node):
            found |= names_in(graph.node).union(i.name for i in (*graph.input, *graph.initializer))
    return found


def attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def plain_attributes(node: NodeProto) -> dict[str, Any]:
    """Attributes in Python's own types."""
    return {name: plain(value) for name, value in attributes(node).items()}


def plain(value: Any) -> Any:
    """An attribute's value in Python's own types."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)) or (
        hasattr(value, "__iter__") and not isinstance(value, str)
    ):
        return [plain(v) for v in value]
    return value
