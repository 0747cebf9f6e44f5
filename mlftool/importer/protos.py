"""Small questions about ONNX's messages, and how error messages spell their parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx
from google.protobuf.message import Message
from onnx import NodeProto, TensorProto, helper

from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import op_name

# What a string is, by its field; `name` by the message.
KINDS = {"op_type": "operator", "dim_param": "dimension", "domain": "domain"}
KINDS |= dict.fromkeys(("input", "output"), "tensor name")
KINDS |= dict.fromkeys(("attribute", "ref_attr_name"), "attribute")
NAMED = {"GraphProto": "graph name", "NodeProto": "node name", "FunctionProto": "function"}
NAMED |= {"AttributeProto": "attribute"}
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


def bad_text(message: Message) -> str:
    """Where a model holds a name that is not UTF-8, which protobuf gives as bytes; else ""."""
    kinds = {**KINDS, "name": NAMED.get(message.DESCRIPTOR.name, "tensor name")}
    for field, value in message.ListFields() if message.DESCRIPTOR.name != "TensorProto" else ():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        for item in [value] if isinstance(value, (str, bytes, Message)) else value:
            if isinstance(item, Message):
                if text := bad_text(item):
                    return text
            elif isinstance(item, bytes) and field.name in kinds:
                return f"{kinds[field.name]} {item[:40]!r}"
    # Of a tensor only the name is looked at: its data stays where it is.
    name = getattr(message, "name", "")
    return f"{kinds['name']} {name[:40]!r}" if isinstance(name, bytes) else ""
