"""Operators that the standard defines by other operators: a node becomes the nodes of its body.

%y = Mish(%x)   =>   %y.s = Softplus(%x); %y.t = Tanh(%y.s); %y = Mul(%x, %y.t)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, helper

from mlftool.importer.optimisers import body as optimiser
from mlftool.importer.optimisers import is_optimiser, is_whole
from mlftool.onnx_rules.protos import domain_of, names_in, op_name
from mlftool.onnx_rules.scope import Refuse, Scope

_Names = Callable[[str], str]
_Given = Mapping[str, AttributeProto]


def has_body(node: NodeProto, opset: int) -> bool:
    """Whether the operator is defined by others, by the standard or by us."""
    if is_optimiser(node):
        return True
    if not onnx.defs.has(node.op_type, opset, domain_of(node)):
        return False
    return _is_defined(_schema(node, opset))


def _is_defined(schema: Any) -> bool:
    return bool(schema.has_function or schema.has_context_dependent_function)


def _schema(node: NodeProto, opset: int) -> Any:
    """The operator in `opset`; the newest one where only that has a body (DepthToSpace and its
    opposite got theirs long after they were last changed)."""
    schema = onnx.defs.get_schema(node.op_type, opset, domain_of(node))
    newest = onnx.defs.get_schema(node.op_type, domain=domain_of(node))
    return schema if _is_defined(schema) or not _is_defined(newest) else newest


def body_of(
    node: NodeProto, opset: int, input_types: Sequence[onnx.TypeProto]
) -> FunctionProto | None:
    """The function that `node` stands for; types choose it where it depends on them."""
    if is_optimiser(node):
        return optimiser(node) if is_whole(node) else None
    schema = _schema(node, opset)
    fixed = schema.function_opset_versions
    dependent = schema.context_dependent_function_opset_versions
    if fixed:
        version = max((v for v in fixed if v <= opset), default=min(fixed))
        return _parsed(schema.get_function_with_opset_version(version))
    if not dependent:
        return None
    version = max((v for v in dependent if v <= opset), default=min(dependent))
    try:
        data = schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), [t.SerializeToString() for t in input_types]
        )
    except (ValueError, RuntimeError) as error:  # the second of names that onnx cannot read again
        raise Refuse("MLF0303", f"is not valid: {error}") from None
    return _parsed(data) if data else None


def _parsed(data: bytes) -> FunctionProto:
    body = FunctionProto()
    body.ParseFromString(data)
    return body


def with_names_of(
    scope: Scope, node: NodeProto, body: FunctionProto, opset: int = 0, captures: Sequence[str] = ()
) -> list[NodeProto]:
    """The body's nodes with the node's own names and attributes; inner names get a prefix. Of an
    operator of the standard in `opset`, attributes that are left out have its defaults. `captures`
    are what the node's subgraphs read of the graph around them."""
    prefix = _prefix(scope, next(filter(None, node.output)), body)
    names: dict[str, str] = dict(
        zip(body.input, [*node.input, *[""] * len(body.input)], strict=False)
    )
    same = []  # outputs that are inputs, or other outputs
    for k, formal in enumerate(body.output):
        actual = node.output[k] if k < len(node.output) else ""
        if formal in names and actual:
            same.append(helper.make_node("Identity", [names[formal]], [actual], node.name))
        else:
            names.setdefault(formal, actual or f"{prefix}.{formal}")
    attributes = _attributes(node, body, opset)
    for name in captures:
        names.setdefault(name, name)

    def renamed(name: str) -> str:
        return names.get(name, f"{prefix}.{name}" if name else "")

    result = []
    for k, inner in enumerate(body.node):
        copy = renamed_copy(inner, renamed, attributes)
        copy.name = f"{node.name or op_name(node)}/{inner.name or f'{inner.op_type}_{k}'}"
        result.append(copy)
    return result + same


def _prefix(scope: Scope, hint: str, body: FunctionProto) -> str:
    """What no name in the model begins with that the body's names would make."""
    own = names_in(body.node)
    while not scope.names.isdisjoint(made := {f"{hint}.{name}" for name in own}):
        hint += "_"
    scope.names.update(made)
    return hint


def _attributes(node: NodeProto, body: FunctionProto, opset: int) -> _Given:
    """What the body's references to attributes mean: as given, else the defaults."""
    known = _schema(node, opset).attributes if opset else {}
    defaults = {k: a.default_value for k, a in known.items() if a.default_value.name}
    stated = {a.name: a for a in body.attribute_proto}
    return {**defaults, **stated, **{a.name: a for a in node.attribute}}


def renamed_copy(node: NodeProto, renamed: _Names, attributes: _Given | None = None) -> NodeProto:
    """`node` with other names, also inside its subgraphs."""
    copy = NodeProto()
    _renamed_node(copy, node, renamed, attributes or {})
    return copy


def _renamed_node(copy: NodeProto, inner: NodeProto, renamed: _Names, attributes: _Given) -> None:
    """Each message is written where it stays: a copy of a subgraph at each level of nested ones
    would take time and memory with the square of their depth."""
    _fill(copy, inner, ("input", "output", "attribute"))
    copy.input.extend(map(renamed, inner.input))
    copy.output.extend(map(renamed, inner.output))
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            _renamed_graphs(copy.attribute.add(), attribute, renamed, attributes)
        elif attribute.ref_attr_name in attributes:
            given = copy.attribute.add()
            given.CopyFrom(attributes[attribute.ref_attr_name])
            given.name = attribute.name


def _renamed_graphs(
    copy: AttributeProto, attribute: AttributeProto, renamed: _Names, attributes: _Given
) -> None:
    """Names inside a subgraph follow the names outside, so that captures stay captures."""
    _fill(copy, attribute, ("g", "graphs"))
    if attribute.HasField("g"):
        copy.g.SetInParent()  # it may be empty
        _renamed_graph(copy.g, attribute.g, renamed, attributes)
    for graph in attribute.graphs:
        _renamed_graph(copy.graphs.add(), graph, renamed, attributes)


def _renamed_graph(
    copy: GraphProto, graph: GraphProto, renamed: _Names, attributes: _Given
) -> None:
    _fill(copy, graph, ("node",))
    for info in (*copy.input, *copy.output, *copy.value_info, *copy.initializer):
        info.name = renamed(info.name)
    for inner in graph.node:
        _renamed_node(copy.node.add(), inner, renamed, attributes)


def _fill(copy: Message, source: Message, left_out: Sequence[str]) -> None:
    """All fields of a message but some."""
    for field, value in source.ListFields():
        if field.name in left_out:
            continue
        if isinstance(value, bytes) and field.type == field.TYPE_STRING:
            continue  # a comment that is not UTF-8; names are (importer/protos.py)
        if isinstance(value, int | float | str | bytes):
            setattr(copy, field.name, value)
        elif isinstance(value, Message):
            getattr(copy, field.name).CopyFrom(value)
        else:
            getattr(copy, field.name).extend(value)
