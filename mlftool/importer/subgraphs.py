"""If, Loop and Scan: their ONNX subgraphs become closed Graphs (see ir.graph.Node).

What a subgraph reads of the graph around it is captured: a constant moves in, any other value
becomes one more input of the node and of all its subgraphs, behind the formal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

from mlftool.importer.expand import OPSETS
from mlftool.importer.old_scan import SINGLE, over_batches
from mlftool.importer.protos import place
from mlftool.importer.structure import check_values, execution_order, free_names, unknown_operators
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, Node, TensorType

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer

Attributes = Mapping[str, Any]


def import_control(importer: Importer, node: NodeProto, index: int) -> None:
    """Keep an If, Loop or Scan whose inputs are typed; problems go to the importer's list."""
    bodies = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
    free = list(dict.fromkeys(n for body in bodies.values() for n in free_names(body)))
    free += [s for n in free for s in importer.symbols.get(n, ()) if s and s not in free]
    if any(n not in importer.types for n in free):
        return  # its producer had a problem, which is listed already
    captures = tuple(n for n in free if n not in importer.consts)
    attrs = {
        a.name: helper.get_attribute_value(a)
        for a in node.attribute
        if a.type != AttributeProto.GRAPH
    }
    form, keys = FORMS[node.op_type]
    missing = [key for key in keys if key not in bodies]
    if missing:
        importer.problem("MLF0303", f"has no attribute '{missing[0]}'", place(node, index))
        return
    form(_Control(importer, node, index, bodies, captures, attrs))


class _Control:
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


def _if(c: _Control) -> None:
    if not c.is_one("condition", c.node.input[0], dtype.bool_):
        return
    condition = c.importer.consts.get(c.node.input[0])
    if condition is not None:
        _inline(c, "then_branch" if condition.reshape(-1)[0] else "else_branch")
        return
    graphs = {key: c.body(key, ()) for key in ("then_branch", "else_branch")}
    found = {key: g for key, g in graphs.items() if g is not None}
    if len(found) < 2:
        return
    then, other = found["then_branch"], found["else_branch"]
    if len(then.outputs) != len(other.outputs):
        c.problem("MLF0303", f"branches give {len(then.outputs)} and {len(other.outputs)} outputs")
        return
    if not c.gives(then, 1):
        return
    types = [then.types[n] for n in then.outputs]
    others = [other.types[n] for n in other.outputs]
    if all(c.same(f"output {k}", b, a) for k, (a, b) in enumerate(zip(types, others, strict=True))):
        c.keep(found, types, {})


def _inline(c: _Control, key: str) -> None:
    """The nodes of the branch that a constant condition chooses, in place of the If."""
    graph = c.body(key, ())
    if graph is None or not c.gives(graph, 1):
        return
    importer = c.importer
    names = {n: n for n in graph.inputs}
    for name in graph.types:
        names.setdefault(
            name, name if name in importer.consts else importer.fresh(f"{c.name}.{name}")
        )
    for inner, outer in zip(graph.outputs, c.node.output, strict=False):
        if inner in graph.consts:
            importer.types[outer], importer.consts[outer] = graph.types[inner], graph.consts[inner]
        else:
            names[inner] = outer
    importer.types |= {names[n]: t for n, t in graph.types.items()}
    importer.consts |= {names[n]: v for n, v in graph.consts.items()}
    for node in graph.nodes:
        inputs = tuple(names[i] if i else "" for i in node.inputs)
        outputs = tuple(names[o] if o else "" for o in node.outputs)
        importer.nodes.append(replace(node, inputs=inputs, outputs=outputs))


def _scalar(proto: GraphProto, k: int, row: dtype.DType) -> TensorType:
    """Iteration number and condition: scalars, which some models declare with one dimension."""
    rank = len(proto.input[k].type.tensor_type.shape.dim) if k < len(proto.input) else 0
    return TensorType(row, (1,) * min(rank, 1))


def _loop(c: _Control) -> None:
    proto = c.bodies["body"]
    c.inputs += [""] * (2 - len(c.inputs))
    if not (
        c.is_one("trip count", c.inputs[0], dtype.int64)
        and c.is_one("condition", c.inputs[1], dtype.bool_)
    ):
        return
    states = [c.type(n) for n in c.inputs[2:]]
    graph = c.body(
        "body", [_scalar(proto, 0, dtype.int64), _scalar(proto, 1, dtype.bool_), *states]
    )
    if graph is None or not c.gives(graph, len(states), extra=1):
        return
    made = [graph.types[n] for n in graph.outputs[1:]]
    if not all(
        c.same(f"state '{n}'", b, a)
        for n, a, b in zip(c.inputs[2:], states, made[: len(states)], strict=True)
    ):
        return
    scans = made[len(states) :]
    length, exact = _iterations(c, len(states), graph) if scans else (0, True)
    if length is None:
        c.problem(
            "MLF0206",
            "the number of its iterations, and so the length of its scan outputs, is not known "
            "before run time",
            "make the trip count a constant, declare the shape of the outputs in the model, or say "
            f"how large they get at most: --input-shape {c.node.output[len(states)]}:10,...",
        )
        return
    types = [*states, *(TensorType(t.dtype, (length, *t.shape)) for t in scans)]
    if exact:
        c.keep({"body": graph}, types, {"mlf.scans": len(scans)})
        return
    outputs = c.keep({"body": graph}, [*types, COUNT], {"mlf.scans": len(scans), "mlf.counts": 1})
    for name, type_ in zip(outputs[len(states) : -1], scans, strict=True):
        c.importer.symbols[name] = (outputs[-1], *("" for _ in type_.shape))


COUNT = TensorType(dtype.int32, ())


def _iterations(c: _Control, states: int, body: Graph) -> tuple[int | None, bool]:
    """How many times the body runs, and whether always: the trip count, or what the model declares
    of the outputs."""
    count = c.importer.consts.get(c.inputs[0])
    if count is not None:
        start = c.importer.consts.get(c.inputs[1]) if c.inputs[1] else np.array(True)
        always = start is not None and bool(np.all(start)) and _goes_on(body)
        return max(0, int(count.reshape(-1)[0])), always
    limits = [c.importer.limit(name)[:1] for name in c.node.output[states:] if name]
    if any(limits):
        most = min(n for limit in limits for n in limit)
        c.inputs[0] = _at_most(c, c.inputs[0], most)
        return most, False
    for name in c.node.output[states:]:
        declared = c.importer.declared.get(name)
        if declared is not None and declared.tensor_type.shape.dim:
            first = declared.tensor_type.shape.dim[0]
            if first.HasField("dim_value"):
                return int(first.dim_value), True
    return None, False


def _at_most(c: _Control, count: str, most: int) -> str:
    """A trip count that leaves the scan outputs' box whole."""
    given = (count,) if count else ()
    bound, least = (c.importer.fresh(f"{c.node.output[0]}.{part}") for part in ("most", "trips"))
    c.importer.add_const(bound, np.array(most, np.int64))
    made = helper.make_node("Min", [*given, bound], [least])
    c.importer.import_all([made], OPSETS, 0)
    return least


def _goes_on(body: Graph) -> bool:
    """Whether a body's condition is always true, or the one it was given."""
    makers = {n.result: n for n in body.nodes}
    name = body.outputs[0]
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    value = body.consts.get(name)
    return name == body.inputs[1] or (value is not None and bool(np.all(value)))


def _scan(c: _Control) -> None:
    if c.importer.opsets[""] < 9 and SINGLE not in c.attrs:
        if not c.inputs[0]:
            return import_control(c.importer, over_batches(c.node), 0)
        return c.problem("MLF0302", "has sequences of several lengths; supported: all of one")
    sequences = int(c.attrs.get("num_scan_inputs", 0))
    count = len(c.inputs) - sequences
    if not 0 < sequences <= len(c.inputs):
        c.problem("MLF0303", f"scans {sequences} of {len(c.inputs)} inputs")
        return
    states = [c.type(n) for n in c.inputs[:count]]
    axes = list(c.attrs.get("scan_input_axes", [0] * sequences))
    ranks = [len(c.type(n).shape) for n in c.inputs[count:]]
    if len(axes) != sequences or any(not -r <= a < r for a, r in zip(axes, ranks, strict=True)):
        c.problem("MLF0303", f"scans along axes {axes} of inputs with {ranks} dimensions")
        return
    for k, axis in enumerate(axes):
        c.inputs[count + k] = _first_axis(c, c.inputs[count + k], axis)
    read = [c.type(n) for n in c.inputs[count:]]
    if len({t.shape[0] for t in read}) != 1:
        lengths = ", ".join(str(t.shape[0]) for t in read)
        c.problem("MLF0303", f"its sequences have {lengths} elements; expected as many in each")
        return
    graph = c.body("body", [*states, *(TensorType(t.dtype, t.shape[1:]) for t in read)])
    if graph is None or not c.gives(graph, count):
        return
    made = [graph.types[n] for n in graph.outputs]
    if not all(
        c.same(f"state '{n}'", b, a)
        for n, a, b in zip(c.inputs[:count], states, made[:count], strict=True)
    ):
        return
    length = read[0].shape[0]
    scanned = [TensorType(t.dtype, (length, *t.shape)) for t in made[count:]]
    attrs = {
        "num_scan_inputs": sequences,
        "mlf.states": count,
        "scan_input_directions": list(c.attrs.get("scan_input_directions", ())),
        "scan_output_directions": list(c.attrs.get("scan_output_directions", ())),
    }
    _keep_moved(c, graph, [*states, *scanned], attrs, count)


def _keep_moved(
    c: _Control, graph: Graph, types: list[TensorType], attrs: Attributes, states: int
) -> None:
    """The node, and transpositions of scan outputs that do not grow along their first axis."""
    axes = list(c.attrs.get("scan_output_axes", [0] * (len(types) - states)))
    node, moved = NodeProto(), []
    node.CopyFrom(c.node)
    for k, axis in enumerate(axes):
        type_ = types[states + k]
        axis += len(type_.shape) if axis < 0 else 0
        if axis and states + k < len(node.output) and node.output[states + k]:
            name = node.output[states + k]
            node.output[states + k] = c.importer.fresh(f"{name}.first")
            order = list(range(1, len(type_.shape)))
            perm = [*order[:axis], 0, *order[axis:]]
            moved.append((node.output[states + k], name, perm, type_))
    c.node = node
    c.keep({"body": graph}, types, attrs)
    for source, name, perm, type_ in moved:
        shape = tuple(type_.shape[p] for p in perm)
        c.importer.types[name] = TensorType(type_.dtype, shape)
        c.importer.nodes.append(Node("Transpose", (source,), (name,), {"perm": perm}, c.name))


def _first_axis(c: _Control, name: str, axis: int) -> str:
    """`name` with `axis` brought to the front."""
    type_ = c.type(name)
    axis += len(type_.shape) if axis < 0 else 0
    if axis == 0:
        return name
    perm = [axis, *(k for k in range(len(type_.shape)) if k != axis)]
    moved = c.importer.fresh(f"{name}.first")
    value = c.importer.consts.get(name)
    c.importer.types[moved] = TensorType(type_.dtype, tuple(type_.shape[p] for p in perm))
    if value is not None:
        c.importer.consts[moved] = np.ascontiguousarray(value.transpose(perm))
    else:
        c.importer.nodes.append(Node("Transpose", (name,), (moved,), {"perm": perm}, c.name))
    return moved


# What imports each, and the subgraphs it must have.
FORMS: Mapping[str, tuple[Callable[[_Control], None], tuple[str, ...]]] = {
    "If": (_if, ("then_branch", "else_branch")),
    "Loop": (_loop, ("body",)),
    "Scan": (_scan, ("body",)),
}
