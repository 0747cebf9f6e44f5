"""Small questions about ONNX's messages, and how error messages spell their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import op_name

LONGEST_QUOTE = 200  # characters of somebody else's message that we repeat


def type_proto(type_: TensorType, symbols: Sequence[str] = ()) -> onnx.TypeProto:
    """ONNX's form of a type; extents that have a symbol are that instead of their bound."""
    named = symbols or [""] * len(type_.shape)
    dims = [symbol or extent for symbol, extent in zip(named, type_.shape, strict=True)]
    return helper.make_tensor_type_proto(type_.dtype.onnx, dims)


def place(node: NodeProto, index: int) -> str:
    return f"node '{node.name or index}' ({op_name(node)})"


def type_name(code: int) -> str:
    try:
        return str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"number {code}"


def first_line(error: BaseException) -> str:
    """The first line of a library's message, without the name of its error class."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    text = re.sub(r"^\[\w+\] ", "", text)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


def stored_fields(tensor: TensorProto) -> int:
    """How many of the fields that can hold a tensor's data do; the standard allows one."""
    names = ("float", "int32", "int64", "double", "uint64", "string")
    return sum(len(getattr(tensor, f"{name}_data")) > 0 for name in names) + bool(tensor.raw_data)


def bad_text(graph: GraphProto) -> str:
    """Where the graph holds a name that is not UTF-8, which protobuf gives as bytes; else ""."""
    for kind, name in _texts(graph):
        if not isinstance(name, str):
            return f"{kind} {bytes(name[:40])!r}"
    return ""


def _texts(graph: GraphProto) -> Iterator[tuple[str, Any]]:
    yield "graph name", graph.name
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield "tensor name", info.name
        yield from (("dimension", d.dim_param) for d in info.type.tensor_type.shape.dim)
    yield from (("tensor name", t.name) for t in graph.initializer)
    for node in graph.node:
        yield from (("node name", node.name), ("operator", node.op_type), ("domain", node.domain))
        yield from (("tensor name", name) for name in (*node.input, *node.output))
        yield from (("attribute", a.name) for a in node.attribute)
        yield from (("attribute", a.ref_attr_name) for a in node.attribute)
