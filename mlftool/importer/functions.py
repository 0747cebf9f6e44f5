"""Operators that the standard defines by other operators: a node becomes the nodes of its body.

%y = Mish(%x)   =>   %y.s = Softplus(%x); %y.t = Tanh(%y.s); %y = Mul(%x, %y.t)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, helper

from mlftool.importer.optimisers import body as optimiser
from mlftool.importer.optimisers import is_optimiser, is_whole
from mlftool.onnx_rules.protos import domain_of, names_in, op_name
from mlftool.onnx_rules.scope import Refuse, Scope


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
    scope: Scope, node: NodeProto, body: FunctionProto, opset: int = 0
) -> list[NodeProto]:
    """The body's nodes with the node's own names and attributes; inner names get a prefix. Of an
    operator of the standard in `opset`, attributes that are left out have its defaults."""
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

    def renamed(name: str) -> str:
        return names.get(name, f"{prefix}.{name}" if name else "")

    result = []
    for k, inner in enumerate(body.node):
        copy = _copy(inner, renamed, attributes)
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


def _attributes(node: NodeProto, body: FunctionProto, opset: int) -> Mapping[str, AttributeProto]:
    """What the body's references to attributes mean: as given, else the defaults."""
    known = _schema(node, opset).attributes if opset else {}
    defaults = {k: a.default_value for k, a in known.items() if a.default_value.name}
    stated = {a.name: a for a in body.attribute_proto}
    return {**defaults, **stated, **{a.name: a for a in node.attribute}}


def _copy(
    inner: NodeProto, renamed: Callable[[str], str], attributes: Mapping[str, AttributeProto]
) -> NodeProto:
    copy: NodeProto = NodeProto.FromString(inner.SerializeToString())
    copy.input[:] = map(renamed, inner.input)
    copy.output[:] = map(renamed, inner.output)
    del copy.attribute[:]
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.append(_renamed_graphs(attribute, renamed, attributes))
        elif attribute.ref_attr_name in attributes:
            given = AttributeProto()
            given.CopyFrom(attributes[attribute.ref_attr_name])
            given.name = attribute.name
            copy.attribute.append(given)
    return copy


def renamed_copy(node: NodeProto, renamed: Callable[[str], str]) -> NodeProto:
    """`node` with other names, also inside its subgraphs."""
    return _copy(node, renamed, {})


def _renamed_graphs(
    attribute: AttributeProto,
    renamed: Callable[[str], str],
    attributes: Mapping[str, AttributeProto],
) -> AttributeProto:
    """Names inside a subgraph follow the names outside, so that captures stay captures."""
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    for graph in [copy.g] if copy.HasField("g") else copy.graphs:
        _rename_graph(graph, renamed, attributes)
    return copy


def _rename_graph(
    graph: GraphProto, renamed: Callable[[str], str], attributes: Mapping[str, AttributeProto]
) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        info.name = renamed(info.name)
    nodes = [_copy(inner, renamed, attributes) for inner in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
