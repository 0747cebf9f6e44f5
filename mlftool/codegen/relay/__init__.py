"""`src/<module>.relay`: the imported model in Relay, the language of TVM's models.

Each ONNX operator that Relay has, or that is a few of Relay's, is written in Relay; TVM's parser of
releases 0.9 to 0.18 takes such a text. The others are calls of a dialect, `onnx.<Op>`, and the
second line says which. Constants are parameters of @main, after the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.codegen.relay.writer import Body, Site, attribute, indented, local_names, tensor_type
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops import record

# Element types that TVM of those releases has no name for start so.
_UNKNOWN = ("float8", "float4", "string")


def relay_text(graph: Graph) -> str:
    """One `def @main`, a comment for each node."""
    return relay_function(graph)[0]


def relay_function(graph: Graph) -> tuple[str, dict[str, Array]]:
    """The text, and the values of the parameters that are constants, by their names in it."""
    body = Body.of(graph)
    inner = _block(body)
    params = body.shared.params
    kinds = [(body.names[n], graph.types[n]) for n in graph.inputs]
    kinds += [(name, TensorType(dtype.of(a), a.shape)) for name, a in params.items()]
    parameters = [f"{name}: {tensor_type(t)}" for name, t in kinds]
    names = attribute([_plain(n) for n in graph.outputs])
    parameters.append(f"output_tensor_names={names}")
    lines = [
        '#[version = "0.0.5"]',
        f"/* mlftool: {_purity(graph, body)} */",
        f"def @main({', '.join(parameters)}) -> {_type(graph, graph.outputs)} {inner}",
    ]
    return "\n".join([*lines, ""]), params


def _block(body: Body) -> str:
    """{ the nodes of a graph; its results }"""
    for node in body.graph.nodes:
        _write(body, node)
    results = [body.expression(name) for name in body.graph.outputs]
    lines = [*body.lines, f"  {results[0] if len(results) == 1 else _tuple(results)}"]
    return "{\n" + "\n".join(lines) + "\n}"


def _write(body: Body, node: Node) -> None:
    """The node in Relay where that can be, else in the dialect."""
    site, mark = Site(node, body, _block), body.mark()
    rule = record(node).relay
    made = rule(site) if rule is not None and not site.odd else None
    if made is None:
        body.back_to(mark)
        _call_dialect(body, node)
        return
    results = (made,) if isinstance(made, str) else made
    body.describe(mark, node)
    body.values |= dict(zip(node.outputs, results, strict=True))


def _call_dialect(body: Body, node: Node) -> None:
    """`let` states the type of what TVM does not know; subgraphs are functions."""
    op = f"onnx.{_plain(node.op)}"
    body.shared.dialect.append(op)
    arguments = [body.expression(i) if i else "()" for i in node.inputs]
    arguments += [indented(_function(body, inner)) for inner in node.graphs.values()]
    arguments += [
        f"{_plain(k).replace('.', '_')}={attribute(v)}"
        for k, v in sorted(node.attrs.items())
        if _printable(v)
    ]
    type_ = _type(body.graph, node.outputs)
    remark = f"onnx dialect: {_plain(node.name)}"
    name = body.let(f"{op}({', '.join(arguments)})", type_, remark)
    for k, out in enumerate(node.outputs):
        body.values[out] = name if len(node.outputs) == 1 else f"{name}.{k}"


def _function(body: Body, inner: Graph) -> str:
    formals = local_names(inner.inputs, body.shared.taken)
    parameters = ", ".join(f"{formals[n]}: {tensor_type(inner.types[n])}" for n in inner.inputs)
    block = _block(body.inside(inner, formals))
    return f"fn ({parameters}) -> {_type(inner, inner.outputs)} {block}"


def _type(graph: Graph, names: Sequence[str]) -> str:
    types = [tensor_type(graph.types[n]) if n else "()" for n in names]
    return types[0] if len(types) == 1 else _tuple(types)


def _purity(graph: Graph, body: Body) -> str:
    dialect = body.shared.dialect
    unknown = sorted(t for t in _dtypes(graph) if t.startswith(_UNKNOWN))
    if not dialect and not unknown:
        return "pure Relay"
    parts = []
    if dialect:
        operators = ", ".join(sorted(set(dialect)))
        parts.append(f"calls of the onnx dialect ({len(dialect)}): {operators}")
    if unknown:
        parts.append(f"types that TVM lacks: {', '.join(unknown)}")
    return "Relay with " + "; ".join(parts)


def _dtypes(graph: Graph) -> set[str]:
    """Of everything that nodes read and make."""
    nodes = graph.nodes
    shown = {*graph.inputs, *graph.outputs, *(o for n in nodes for o in (*n.inputs, *n.outputs))}
    inner = (g for n in nodes for g in n.graphs.values())
    return {str(graph.types[n].dtype) for n in shown if n}.union(*map(_dtypes, inner))


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _printable(value: object) -> bool:
    simple = (bool, int, float, str)
    return isinstance(value, simple) or (
        isinstance(value, (list, tuple)) and all(isinstance(v, simple) for v in value)
    )


def _plain(text: str) -> str:
    """Untrusted text inside a comment, a string or a name: nothing that could end them."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.:") else "_" for c in text)
