"""A node of ONNX's messages: its operator and its attributes."""

from __future__ import annotations

from typing import Any

from onnx import NodeProto, TensorProto, helper, numpy_helper


def domain_of(node: NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


def op_name(node: NodeProto) -> str:
    return f"{domain_of(node)}.{node.op_type}" if domain_of(node) else str(node.op_type)


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
