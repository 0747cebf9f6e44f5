"""`src/<module>.relay`: the imported model in Relay, the language of TVM's models.

Each ONNX operator that Relay has, or that is a few of Relay's, is written in Relay; TVM's parser of
releases 0.9 to 0.18 takes such a text. The others are calls of a dialect, `onnx.<Op>`, and the
second line says which. Constants are parameters of @main, after the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.codegen.relay.layers import LAYERS
from mlftool.codegen.relay.operators import OPERATORS
from mlftool.codegen.relay.writer import Body, Site, attribute, local_names, tensor_type
from mlftool.ir.graph import Graph, Node

RULES = {**OPERATORS, **LAYERS}
# Element types that TVM of those releases has no name for start so.
_UNKNOWN = ("float8", "float4")


def relay_text(graph: Graph) -> str:
    """One `def @main`, a comment for each node."""
    body = Body(graph, local_names(graph))
    dialect: list[str] = []
    for node in graph.nodes:
        if not _write(body, node):
            dialect.append(f"onnx.{_dialect_name(node)}")
    results = [body.expression(name) for name in graph.outputs]
    types = [tensor_type(graph.types[n]) for n in graph.outputs]
    one = len(results) == 1
    parameters = ", ".join(
        f"{body.names[n]}: {tensor_type(graph.types[n])}" for n in (*graph.inputs, *body.used)
    )
    names = attribute([_plain(n) for n in graph.outputs])
    parameters += f"{', ' if parameters else ''}output_tensor_names={names}"
    lines = [
        '#[version = "0.0.5"]',
        f"/* mlftool: {_purity(graph, body, dialect)} */",
        f"def @main({parameters}) -> {types[0] if one else _tuple(types)} {{",
        *body.lines,
        f"  {results[0] if one else _tuple(results)}",
        "}",
    ]
    return "\n".join([*lines, ""])


def _write(body: Body, node: Node) -> bool:
    """Whether the node could be written in Relay."""
    site, mark = Site(node, body), body.mark()
    rule = RULES.get(node.op)
    made = rule(site) if rule is not None and not site.odd else None
    if made is None:
        body.back_to(mark)
        _call_dialect(body, node)
        return False
    results = (made,) if isinstance(made, str) else made
    body.describe(mark, node)
    body.values |= dict(zip(node.outputs, results, strict=True))
    return True


def _call_dialect(body: Body, node: Node) -> None:
    """`let` states the type of what TVM does not know."""
    arguments = [body.expression(i) if i else "()" for i in node.inputs]
    attributes = [f"{k}={attribute(v)}" for k, v in sorted(node.attrs.items()) if _printable(v)]
    types = [tensor_type(body.graph.types[o]) if o else "()" for o in node.outputs]
    one = len(types) == 1
    name = body.let(
        f"onnx.{_dialect_name(node)}({', '.join([*arguments, *attributes])})",
        types[0] if one else _tuple(types),
        f"onnx dialect: {_plain(node.name)}",
    )
    for k, out in enumerate(node.outputs):
        body.values[out] = name if one else f"{name}.{k}"


def _dialect_name(node: Node) -> str:
    return _plain(node.op)


def _purity(graph: Graph, body: Body, dialect: Sequence[str]) -> str:
    shown = {*graph.inputs, *body.used, *(o for n in graph.nodes for o in n.outputs if o)}
    types = {str(graph.types[n].dtype) for n in shown}
    unknown = sorted(t for t in types if t.startswith(_UNKNOWN))
    if not dialect and not unknown:
        return "pure Relay"
    parts = []
    if dialect:
        operators = ", ".join(sorted(set(dialect)))
        parts.append(f"calls of the onnx dialect ({len(dialect)}): {operators}")
    if unknown:
        parts.append(f"types that TVM lacks: {', '.join(unknown)}")
    return "Relay with " + "; ".join(parts)


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
