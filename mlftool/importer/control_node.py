"""A control flow node on its way in, and its subgraphs as closed Graphs (see ir.graph.Node)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from onnx import GraphProto, NodeProto

from mlftool.frozen import frozen
from mlftool.importer.graphs import add_initializers, declared_in, ordered
from mlftool.importer.protos import place
from mlftool.importer.structure import free_names
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.onnx_rules.scope import EXTENTS, Refuse, Replace, Scope, Symbols, Work

Attributes = Mapping[str, Any]


def gives(node: NodeProto, made: int, fewest: int) -> None:
    """Refuse a subgraph that gives fewer outputs than `fewest`, or than the node names."""
    wanted = max(fewest, len(node.output))
    if made < wanted:
        raise Refuse("MLF0303", f"its subgraph gives {max(0, made)} outputs; expected {wanted}")


def branches_give(node: NodeProto, branches: Sequence[Sequence[str]]) -> None:
    """The same of the outputs of branches, which must be as many in each."""
    counts = [len(outputs) for outputs in branches]
    if len(set(counts)) > 1:
        raise Refuse("MLF0303", f"branches give {' and '.join(map(str, counts))} outputs")
    gives(node, counts[0], 1)


class Control:
    """One control flow node on its way in."""

    def __init__(
        self,
        scope: Scope,
        node: NodeProto,
        bodies: Mapping[str, GraphProto],
        captures: tuple[str, ...],
        attrs: Attributes,
    ) -> None:
        self.scope, self.node, self.bodies, self.attrs = scope, node, bodies, attrs
        self.captures = captures
        self.name = scope.label(node)
        self.inputs = list(node.input)

    def type(self, name: str) -> TensorType:
        return self.scope.types[name]

    def body(
        self,
        key: str,
        formals: Sequence[TensorType],
        given: Sequence[Symbols],
        wanted: Sequence[Symbols],
    ) -> Work[Graph | None]:
        """The subgraph under attribute `key`, closed; None after a problem. Its formal inputs have
        the extents `given`, its outputs must have `wanted`; those that are left out are static."""
        body = yield from self.open_body(key, formals, given)
        if body is None:
            return None
        wrong = [
            (name, found)
            for name, want in zip_longest(body.outputs, wanted, fillvalue=())
            if (found := body.scope.symbols_of(str(name))) != want
        ]
        for name, found in wrong:  # there is no place for them outside of the body
            text = f"gives '{name}', whose extents are known only at run time"
            if not found:
                text = f"gives '{name}' for a state whose extents are known only at run time"
            self.scope.problem("MLF0302", text, self.where(key), EXTENTS)
        return None if wrong else body.graph()

    def open_body(
        self, key: str, formals: Sequence[TensorType], symbols: Sequence[Symbols] = ()
    ) -> Work[Body | None]:
        """The same, whose formal inputs have these extents, and outputs any."""
        proto = self.bodies[key]
        names = [i.name for i in proto.input]
        if not len({*names}) == len(names) == len(formals):
            text = f"{key} has {len({*names})} different inputs; expected {len(formals)}"
            raise Refuse("MLF0303", text)
        boxes = dict(zip(names, symbols, strict=False))
        return (yield from _body(self.scope, proto, formals, boxes, self.captures, self.where(key)))

    def where(self, key: str) -> str:
        return f"{place(self.node, self.scope.index)} {key}"

    def keep(
        self, graphs: Mapping[str, Graph], types: Sequence[TensorType], attrs: Attributes
    ) -> list[str]:
        """The node, with names for outputs that the model leaves out; returns those of all."""
        outputs = []
        for k, type_ in enumerate(types):
            name = self.node.output[k] if k < len(self.node.output) else ""
            name = name or self.scope.fresh(f"{self.node.output[0]}.{k}")
            self.scope.types[name] = type_
            outputs.append(name)
        inputs = (*self.inputs, *self.captures)
        op, made = self.node.op_type, tuple(outputs)
        self.scope.nodes.append(Node(op, inputs, made, attrs, self.name, graphs=graphs))
        return outputs

    def is_one(self, what: str, name: str, row: dtype.DType) -> None:
        """Refuse an input that is there and not one element of a type."""
        type_ = self.type(name) if name else TensorType(row, ())
        if type_.dtype != row or type_.elements != 1:
            raise Refuse("MLF0303", f"its {what} is {type_}; expected one {row}")

    def gives(self, outputs: Sequence[str], fewest: int, extra: int = 0) -> None:
        """Refuse a body without `fewest` outputs, or those that the node names; `extra` of its own
        are not the node's."""
        gives(self.node, len(outputs) - extra, fewest)

    def sized(self, outputs: Sequence[str], states: Sequence[Symbols]) -> None:
        """The last value of each state has the extents of its first."""
        for name, symbols in zip(outputs, states, strict=False):
            if symbols:
                self.scope.symbols[name] = symbols

    def same(self, what: str, found: TensorType, wanted: TensorType) -> None:
        if found != wanted:
            text = f"{what} changes from {wanted} to {found}; supported: one type and shape"
            raise Refuse("MLF0302", text)


@frozen
class Body:
    """A subgraph that is imported: what it computes is in a scope of its own."""

    name: str
    scope: Scope
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def graph(self) -> Graph:
        """Inputs that are outputs, and outputs listed twice, get a copy, so that each output is its
        own storage."""
        scope, outputs = self.scope, list[str]()
        for name in self.outputs:
            if name in self.inputs or name in outputs:
                copy = scope.fresh(f"{name}.out")
                scope.types[copy] = scope.types[name]
                if symbols := scope.symbols_of(name):
                    scope.symbols[copy] = symbols
                scope.nodes.append(Node("Identity", (name,), (copy,), {}, f"copy of {name}"))
                name = copy
            outputs.append(name)
        made = (tuple(outputs), tuple(scope.nodes), scope.types, scope.consts)
        return Graph(self.name, self.inputs, *made)


def _body(
    outer: Scope,
    proto: GraphProto,
    formals: Sequence[TensorType],
    boxes: Mapping[str, Symbols],
    captures: Sequence[str],
    where: str,
) -> Work[Body | None]:
    """A subgraph with the types of its formal inputs; it sees constants of `outer` as its own."""
    before, free = len(outer.problems), (*captures, *free_names(proto))
    inner = declared_in(
        proto,
        Scope(
            outer.file,
            outer.input_shapes,
            outer.opsets,
            outer.functions,
            outer.names,
            f"{outer.where}{where}: ",
            problems=outer.problems,
            limits_used=outer.limits_used,
            unbounded=outer.unbounded,
            symbols={n: s for n in free if (s := outer.symbols_of(n))}
            | {n: s for n, s in boxes.items() if s},
        ),
    )
    add_initializers(inner, proto)
    inner.types.update((n, outer.types[n]) for n in free)
    inner.consts.update((n, outer.consts[n]) for n in free if n in outer.consts)
    names = [i.name for i in proto.input]
    inner.types.update(zip(names, formals, strict=True))
    order = ordered(inner, proto, inner.types.keys() | inner.spoiled, before)
    if order is None:
        return None
    yield Replace(order, inner)
    outputs = tuple(o.name for o in proto.output)
    for name in outputs:
        if name in inner.sequences or name in inner.absent:
            outer.problem("MLF0302", f"gives '{name}', a sequence or an optional", where)
    if len(outer.problems) > before or any(o not in inner.types for o in outputs):
        return None
    return Body(proto.name, inner, (*names, *captures), outputs)
