"""A control flow node on its way in, and its subgraphs as closed Graphs (see ir.graph.Node)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx import GraphProto, ModelProto, NodeProto

from mlftool.importer.protos import place
from mlftool.importer.structure import check_values, execution_order, free_names, unknown_operators
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, Node, TensorType

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer

Attributes = Mapping[str, Any]


class Control:
    """One control flow node on its way in."""

    def __init__(
        self,
        importer: Importer,
        node: NodeProto,
        index: int,
        bodies: Mapping[str, GraphProto],
        captures: tuple[str, ...],
        attrs: Attributes,
    ) -> None:
        self.importer, self.node, self.bodies, self.attrs = importer, node, bodies, attrs
        self.captures = captures
        self.where = place(node, index)
        self.name = node.name or f"{node.op_type}_{index}"
        self.inputs = list(node.input)

    def problem(self, code: str, text: str, help: str = "") -> None:
        self.importer.problem(code, text, self.where, help)

    def type(self, name: str) -> TensorType:
        return self.importer.types[name]

    def body(self, key: str, formals: Sequence[TensorType]) -> Graph | None:
        """The subgraph under attribute `key`, closed; None after a problem."""
        proto = self.bodies[key]
        if len(proto.input) != len(formals):
            text = f"{key} has {len(proto.input)} inputs; expected {len(formals)}"
            self.problem("MLF0303", text)
            return None
        return import_body(self.importer, proto, formals, self.captures, f"{self.where} {key}: ")

    def keep(
        self, graphs: Mapping[str, Graph], types: Sequence[TensorType], attrs: Attributes
    ) -> list[str]:
        """The node, with names for outputs that the model leaves out; returns those of all."""
        outputs = []
        for k, type_ in enumerate(types):
            name = self.node.output[k] if k < len(self.node.output) else ""
            name = name or self.importer.fresh(f"{self.node.output[0]}.{k}")
            self.importer.types[name] = type_
            outputs.append(name)
        self.importer.nodes.append(
            Node(
                self.node.op_type,
                (*self.inputs, *self.captures),
                tuple(outputs),
                attrs,
                self.name,
                graphs=graphs,
            )
        )
        return outputs

    def is_one(self, what: str, name: str, row: dtype.DType) -> bool:
        """Whether input `name` is one element of a type, or left out."""
        type_ = self.type(name) if name else TensorType(row, ())
        if type_.dtype != row or type_.elements != 1:
            self.problem("MLF0303", f"its {what} is {type_}; expected one {row}")
            return False
        return True

    def gives(self, graph: Graph, fewest: int, extra: int = 0) -> bool:
        """Whether a body has at least `fewest` outputs, and those that the node names; `extra` of
        its own are not the node's."""
        made = len(graph.outputs) - extra
        wanted = max(fewest, len(self.node.output))
        if made < wanted:
            self.problem("MLF0303", f"its subgraph gives {made} outputs; expected {wanted}")
        return made >= wanted

    def same(self, what: str, found: TensorType, wanted: TensorType) -> bool:
        if found != wanted:
            text = f"{what} changes from {wanted} to {found}; supported: one type and shape"
            self.problem("MLF0302", text)
        return found == wanted


def import_body(
    outer: Importer,
    proto: GraphProto,
    formals: Sequence[TensorType],
    captures: Sequence[str],
    where: str,
) -> Graph | None:
    """A subgraph with the types of its formal inputs; it sees constants of `outer` as its own."""
    model = ModelProto(opset_import=outer.model.opset_import, functions=outer.model.functions)
    model.graph.CopyFrom(proto)
    inner = type(outer)(model, outer.file, outer.input_shapes)
    inner.limits_used = outer.limits_used
    inner.where, inner.problems, inner.opsets = outer.where + where, outer.problems, outer.opsets
    before = len(outer.problems)
    inner.add_initializers()
    for name in (*captures, *free_names(proto)):
        inner.types[name] = outer.types[name]
        if name in outer.symbols:
            inner.symbols[name] = outer.symbols[name]
        if name in outer.consts:
            inner.consts[name] = outer.consts[name]
    names = [i.name for i in proto.input]
    inner.types |= dict(zip(names, formals, strict=True))
    visible = inner.types.keys() | inner.spoiled
    check_values(proto, visible, inner.problem)
    if len(outer.problems) > before:
        return None
    order = execution_order(proto, inner.problem)
    unknown_operators(order, inner.opsets, inner.consts, inner.problem)
    if len(outer.problems) > before:
        return None
    for index, node in enumerate(order):
        inner.node(node, index)
    outputs = tuple(o.name for o in proto.output)
    for name in outputs:
        if name in inner.sequences or name in inner.absent:
            outer.problem(
                "MLF0302", f"gives '{name}', a sequence or an optional", where.removesuffix(": ")
            )
        if any(inner.symbols.get(name, ())):  # no place for them outside of the body
            text = f"gives '{name}', whose extents are known only at run time"
            outer.problem("MLF0302", text, where.removesuffix(": "))
    if len(outer.problems) > before or any(o not in inner.types for o in outputs):
        return None
    graph = Graph(
        proto.name, (*names, *captures), outputs, tuple(inner.nodes), inner.types, inner.consts
    )
    return _distinct(graph, inner)


def _distinct(graph: Graph, inner: Importer) -> Graph:
    """Inputs that are outputs, and outputs listed twice, get a copy, so that each output is its own
    storage."""
    outputs: list[str] = []
    nodes = list(graph.nodes)
    for name in graph.outputs:
        if name in graph.inputs or name in outputs:
            copy = inner.fresh(f"{name}.out")
            inner.types[copy] = graph.types[name]
            nodes.append(Node("Identity", (name,), (copy,), {}, f"copy of {name}"))
            name = copy
        outputs.append(name)
    return graph.replace(nodes=tuple(nodes), outputs=tuple(outputs), types=inner.types)
