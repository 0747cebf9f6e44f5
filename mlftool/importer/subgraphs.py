"""If, Loop and Scan: their ONNX subgraphs become closed Graphs (see ir.graph.Node).

What a subgraph reads of the graph around it is captured: a constant moves in, any other value
becomes one more input of the node and of all its subgraphs, behind the formal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, NodeProto, helper

from mlftool.importer.control_node import Attributes, Control
from mlftool.importer.loops import import_loop
from mlftool.importer.old_scan import SINGLE, over_batches
from mlftool.importer.protos import place
from mlftool.importer.structure import free_names
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, Node, TensorType

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer


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
    form(Control(importer, node, index, bodies, captures, attrs))


def _if(c: Control) -> None:
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


def _inline(c: Control, key: str) -> None:
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


def _scan(c: Control) -> None:
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
    c: Control, graph: Graph, types: list[TensorType], attrs: Attributes, states: int
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


def _first_axis(c: Control, name: str, axis: int) -> str:
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
FORMS: Mapping[str, tuple[Callable[[Control], None], tuple[str, ...]]] = {
    "If": (_if, ("then_branch", "else_branch")),
    "Loop": (import_loop, ("body",)),
    "Scan": (_scan, ("body",)),
}
