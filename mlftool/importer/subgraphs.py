"""If, Loop and Scan: their ONNX subgraphs become closed Graphs (see ir.graph.Node).

What a subgraph reads of the graph around it is captured: a constant moves in, any other value
becomes one more input of the node and of all its subgraphs, after the formal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper

from mlftool.importer.appended import appended_states, import_appending
from mlftool.importer.branches import keep_branches
from mlftool.importer.control_node import Attributes, Control, branches_give
from mlftool.importer.lists import same, spliced
from mlftool.importer.loops import import_loop
from mlftool.importer.structure import SINGLE, free_names
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import (
    EXTENTS,
    KEEP,
    Next,
    Outcome,
    Refuse,
    Replace,
    Scope,
    Symbols,
    Work,
    resumed,
)
from mlftool.ops.base import Trait, known


def control(scope: Scope, node: NodeProto) -> Outcome:
    """Keep an If, Loop or Scan whose inputs are typed."""
    op = known(op_name(node))
    if op is None or not op.graphs:
        return Next(node)
    bodies = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
    free = [n for body in bodies.values() for n in free_names(body)]
    boxes = (s for n in (*free, *node.input) for s in scope.symbols_of(n) if s)
    free = list(dict.fromkeys((*free, *boxes)))
    if any(n not in scope.types for n in free):
        return KEEP  # its producer had a problem, which is listed already
    captures = tuple(n for n in free if n not in scope.consts)
    attrs = {name: value for name, value in attributes(node).items() if name not in bodies}
    missing = [key for key in op.graphs if key not in bodies]
    if missing:
        return Refuse("MLF0303", f"has no attribute '{missing[0]}'")
    form = next(form for trait, form in FORMS.items() if trait in op.traits)
    return resumed(form(Control(scope, node, bodies, captures, attrs)))


def _if(c: Control) -> Work[Outcome]:
    c.is_one("condition", c.node.input[0], dtype.bool_)
    condition = c.scope.consts.get(c.node.input[0])
    if condition is not None:
        key = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        return (yield from _inline(c, key))
    then = yield from c.open_body("then_branch", ())
    other = yield from c.open_body("else_branch", ())
    if then is None or other is None:
        return KEEP
    branches_give(c.node, (then.outputs, other.outputs))
    keep_branches(c, {"then_branch": then, "else_branch": other})
    return KEEP


def _inline(c: Control, key: str) -> Work[Outcome]:
    """The nodes of the branch that a constant condition chooses, in place of the If."""
    own = next(filter(None, c.node.output), c.name)  # labels need not differ
    made = yield from spliced(c.scope, c.bodies[key], (), f"{own}.{key}.", c.where(key))
    if made is not None:
        c.gives(made, 1)
        for inner, outer in zip(made, c.node.output, strict=False):
            same(c.scope, inner, outer)
    return KEEP


def _loop(c: Control) -> Work[Outcome]:
    appended = appended_states(c)
    return (yield from import_appending(c, appended) if appended else import_loop(c))


def _scan(c: Control) -> Work[Outcome]:
    if c.scope.opsets[""] < 9 and SINGLE not in c.attrs:
        if not c.inputs[0]:
            return Replace([_over_batches(c.node)])
        return Refuse("MLF0302", "has sequences of several lengths; supported: all of one")
    sequences = int(c.attrs.get("num_scan_inputs", 0))
    count = len(c.inputs) - sequences
    if not 0 < sequences <= len(c.inputs):
        return Refuse("MLF0303", f"scans {sequences} of {len(c.inputs)} inputs")
    states = [c.type(n) for n in c.inputs[:count]]
    if any(any(c.scope.symbols_of(n)) for n in c.inputs[count:]):
        return Refuse("MLF0302", "scans a tensor whose extents are known only at run time", EXTENTS)
    boxes = [c.scope.symbols_of(n) for n in c.inputs[:count]]
    axes = list(c.attrs.get("scan_input_axes", [0] * sequences))
    ranks = [len(c.type(n).shape) for n in c.inputs[count:]]
    if len(axes) != sequences or any(not -r <= a < r for a, r in zip(axes, ranks, strict=True)):
        return Refuse("MLF0303", f"scans along axes {axes} of inputs with {ranks} dimensions")
    for k, axis in enumerate(axes):
        c.inputs[count + k] = _first_axis(c, c.inputs[count + k], axis)
    read = [c.type(n) for n in c.inputs[count:]]
    if len({t.shape[0] for t in read}) != 1:
        lengths = ", ".join(str(t.shape[0]) for t in read)
        return Refuse("MLF0303", f"its sequences have {lengths} elements; expected as many in each")
    parts = [TensorType(t.dtype, t.shape[1:]) for t in read]
    graph = yield from c.body("body", [*states, *parts], boxes, boxes)
    if graph is None:
        return KEEP
    c.gives(graph.outputs, count)
    made = [graph.types[n] for n in graph.outputs]
    for n, a, b in zip(c.inputs[:count], states, made[:count], strict=True):
        c.same(f"state '{n}'", b, a)
    for name in ("input_directions", "output_directions", "output_axes"):
        wanted = sequences if name[0] == "i" else len(made) - count
        given = c.attrs.get(f"scan_{name}")
        if given is not None and len(given) != wanted:
            return Refuse("MLF0303", f"scan_{name} has {len(given)} numbers; expected {wanted}")
    length = read[0].shape[0]
    scanned = [TensorType(t.dtype, (length, *t.shape)) for t in made[count:]]
    attrs = {
        "num_scan_inputs": sequences,
        "mlf.states": count,
        "scan_input_directions": list(c.attrs.get("scan_input_directions", ())),
        "scan_output_directions": list(c.attrs.get("scan_output_directions", ())),
    }
    _keep_moved(c, graph, [*states, *scanned], attrs, boxes)
    return KEEP


def _keep_moved(
    c: Control, graph: Graph, types: list[TensorType], attrs: Attributes, boxes: Sequence[Symbols]
) -> None:
    """The node, whose states have these extents, and transpositions of scan outputs that do not
    grow along their first axis."""
    states = len(boxes)
    axes = list(c.attrs.get("scan_output_axes", [0] * (len(types) - states)))
    node, moved = NodeProto(), []
    node.CopyFrom(c.node)
    for k, axis in enumerate(axes):
        type_ = types[states + k]
        axis += len(type_.shape) if axis < 0 else 0
        if axis and states + k < len(node.output) and node.output[states + k]:
            name = node.output[states + k]
            node.output[states + k] = c.scope.fresh(f"{name}.first")
            order = list(range(1, len(type_.shape)))
            perm = [*order[:axis], 0, *order[axis:]]
            moved.append((node.output[states + k], name, perm, type_))
    c.node = node
    c.sized(c.keep({"body": graph}, types, attrs), boxes)
    for source, name, perm, type_ in moved:
        shape = tuple(type_.shape[p] for p in perm)
        c.scope.types[name] = TensorType(type_.dtype, shape)
        c.scope.nodes.append(Node("Transpose", (source,), (name,), {"perm": perm}, c.name))


def _over_batches(node: NodeProto) -> NodeProto:
    """A Scan as opset 8 had it, with a batch axis and no lengths, in terms of newer ones:

    %y = Scan("", %a[B, ...], %x[B, T, ...])   =>   Scan(%a, %x) { Scan(%a_b[...], %x_b[T, ...]) }

    Types of the outer body are left open: a subgraph gets them from what it is given."""
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    body = attrs["body"]
    prefix = f"{next(filter(None, node.output))}.batch."
    inputs = [f"{prefix}{k}" for k in range(len(body.input))]
    outputs = [f"{prefix}y{k}" for k in range(len(body.output))]
    single: dict[str, Any] = {SINGLE: 1}
    turned = {"scan_input_directions": attrs["directions"]} if "directions" in attrs else {}
    inner = helper.make_node(
        "Scan", inputs, outputs, node.name, body=body, num_scan_inputs=attrs["num_scan_inputs"],
        **turned, **single
    )  # fmt: skip
    graph = helper.make_graph(
        [inner],
        f"{prefix}body",
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in inputs],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
    )
    return helper.make_node(
        "Scan", list(node.input[1:]), list(node.output), node.name, body=graph,
        num_scan_inputs=len(inputs), **single
    )  # fmt: skip


def _first_axis(c: Control, name: str, axis: int) -> str:
    """`name` with `axis` brought to the front."""
    type_ = c.type(name)
    axis += len(type_.shape) if axis < 0 else 0
    if axis == 0:
        return name
    perm = [axis, *(k for k in range(len(type_.shape)) if k != axis)]
    moved = c.scope.fresh(f"{name}.first")
    value = c.scope.consts.get(name)
    c.scope.types[moved] = TensorType(type_.dtype, tuple(type_.shape[p] for p in perm))
    if value is not None:
        c.scope.consts[moved] = np.ascontiguousarray(value.transpose(perm))
    else:
        c.scope.nodes.append(Node("Transpose", (name,), (moved,), {"perm": perm}, c.name))
    return moved


# What imports each.
FORMS: Mapping[Trait, Callable[[Control], Work[Outcome]]] = {
    Trait.BRANCH: _if,
    Trait.LOOP: _loop,
    Trait.SCAN: _scan,
}
