"""Models woven together: fragments that read each other, in branches, loops and local functions.

What a network may be wrapped in must not change what it computes, and a fragment that is right by
itself may be wrong where its constants are shared, its results are read on, or its inputs come from
a kernel that stores them elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from mutants import edit_outputs, graphs, renamed, unfold_constant
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx import numpy_helper as nh
from swap import forget_types

Kind = tuple[int, tuple[int, ...]]  # an element type and a shape
REAL = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
DOMAIN = "woven"


def woven(chance: random.Random, made: ModelProto, other: ModelProto) -> bytes:
    copy, more = ModelProto(), ModelProto()
    copy.CopyFrom(made)
    more.CopyFrom(other)
    _drop_defaults(copy)
    _drop_defaults(more)
    for k in range(chance.choice([1, 1, 2, 2, 3])):
        weave = chance.choice(WEAVES)
        if copy.graph.node and len(copy.graph.node) < 60:
            weave(chance, copy, more, f"{weave.__name__}{k}")
    forget_types(copy)
    copy.ir_version = max(copy.ir_version, 8)
    return bytes(copy.SerializeToString())


def _drop_defaults(made: ModelProto) -> None:
    """Inputs that initializers give a default are no inputs."""
    known = {w.name for w in made.graph.initializer}
    kept = [i for i in made.graph.input if i.name not in known]
    del made.graph.input[:]
    made.graph.input.extend(kept)


def kinds_of(made: ModelProto) -> dict[str, Kind]:
    """Types of all values that onnx can tell; what a model declares may be broken by its values."""
    forget_types(made)
    try:
        graph = onnx.shape_inference.infer_shapes(made).graph
    except Exception:
        graph = made.graph
    found: dict[str, Kind] = {w.name: (w.data_type, tuple(w.dims)) for w in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        kind = info.type.tensor_type
        known = kind.elem_type and kind.HasField("shape")
        if known and all(d.HasField("dim_value") for d in kind.shape.dim):
            found[info.name] = kind.elem_type, tuple(d.dim_value for d in kind.shape.dim)
    return found


def opset_of(made: ModelProto) -> int:
    return next((o.version for o in made.opset_import if not o.domain), 0)


def made_by(nodes: Iterable[NodeProto]) -> list[str]:
    return [o for n in nodes for o in n.output if o]


def read_by(nodes: Sequence[NodeProto]) -> list[str]:
    """What nodes and their subgraphs read from outside."""
    names, inner = [], set(made_by(nodes))
    for node in nodes:
        names += [i for i in node.input if i]
        for graph in (g for a in node.attribute if a.HasField("g") for g in graphs(a.g)):
            names += [i for n in graph.node for i in n.input if i]
            names += [o.name for o in graph.output]
            inner |= {*made_by(graph.node), *(i.name for i in graph.input)}
            inner |= {w.name for w in graph.initializer}
    return [n for n in dict.fromkeys(names) if n not in inner]


def _copied(nodes: Iterable[NodeProto], prefix: str, extra: dict[str, str]) -> list[NodeProto]:
    """The nodes with other names for what they make, and for `extra`."""
    nodes = [*nodes]
    names = {n: f"{prefix}_{n}" for n in made_by(nodes)} | extra
    copies = [renamed(n, names) for n in nodes]
    for k, node in enumerate(copies):
        node.name = f"{prefix}_{k}"
    return copies


def _made_outputs(graph: GraphProto) -> list[str]:
    made = {*made_by(graph.node)}
    return list(dict.fromkeys(o.name for o in graph.output if o.name in made))


def _initializer(graph: GraphProto, name: str, value: object, dtype: object) -> str:
    graph.initializer.append(nh.from_array(np.asarray(value, dtype), name))  # type: ignore[arg-type]
    return name


def _output(graph: GraphProto, name: str) -> None:
    graph.output.append(helper.make_empty_tensor_value_info(name))


def branches(chance: random.Random, made: ModelProto, _: ModelProto, name: str) -> None:
    """All nodes in both branches of an If, of which one negates what is real."""
    graph, kinds = made.graph, kinds_of(made)
    outputs, nodes = _made_outputs(graph), [*graph.node]
    if not outputs:
        return
    found = {}
    for side in ("then", "else"):
        prefix = f"{name}_{side}"
        part = _copied(nodes, prefix, {})
        ends = [f"{prefix}_{o}" for o in outputs]
        if side == "else":
            for k, o in enumerate(outputs):
                if kinds.get(o, (0, ()))[0] in REAL:
                    part.append(helper.make_node("Neg", [ends[k]], [f"{ends[k]}_neg"]))
                    ends[k] += "_neg"
        infos = [helper.make_empty_tensor_value_info(e) for e in ends]
        found[f"{side}_branch"] = helper.make_graph(part, prefix, [], infos)
    condition = f"{name}_condition"
    if chance.random() < 0.75:
        shape = chance.choice([[], [], [1]])
        graph.input.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, shape))
    else:
        _initializer(graph, condition, chance.random() < 0.5, np.bool_)
    del graph.node[:]
    graph.node.append(helper.make_node("If", [condition], outputs, name=name, **found))


def loop(chance: random.Random, made: ModelProto, _: ModelProto, name: str) -> None:
    """All nodes in a Loop; an output may be the next step's input, the others are stacked."""
    graph, kinds = made.graph, kinds_of(made)
    outputs = _made_outputs(graph)
    states: dict[str, str] = {}  # outputs and the inputs that they replace
    for o in outputs:
        fits = [
            i.name
            for i in graph.input
            if o in kinds and kinds.get(i.name) == kinds[o] and i.name not in states.values()
        ]
        if fits and chance.random() < 0.8:
            states[o] = chance.choice(fits)
    if not outputs:
        return
    outputs = [*states, *(o for o in outputs if o not in states)]
    body = _copied(graph.node, name, {i: f"{name}_state_{i}" for i in states.values()})
    going = f"{name}_going"
    body.append(helper.make_node("Identity", [f"{name}_on"], [going]))
    inputs = [
        helper.make_tensor_value_info(f"{name}_step", TensorProto.INT64, []),
        helper.make_tensor_value_info(f"{name}_on", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(f"{name}_state_{i}", *kinds[i]) for i in states.values()),
    ]
    ends = [helper.make_tensor_value_info(going, TensorProto.BOOL, [])]
    ends += [
        helper.make_tensor_value_info(f"{name}_{o}", *kinds[o])
        if o in kinds
        else helper.make_empty_tensor_value_info(f"{name}_{o}")
        for o in outputs
    ]
    # onnxruntime's stack of no steps has one axis where it does not know the shape of a step.
    least = 0 if all(o in kinds for o in outputs) else 1
    trips = _initializer(graph, f"{name}_trips", chance.choice([least, 1, 2, 2, 3]), np.int64)
    inner = helper.make_graph(body, name, inputs, ends)
    del graph.node[:]
    graph.node.append(
        helper.make_node("Loop", [trips, "", *states.values()], outputs, name=name, body=inner)
    )


def function(chance: random.Random, made: ModelProto, _: ModelProto, name: str) -> None:
    """All nodes in a local function, called once or twice; one attribute may be its parameter."""
    graph, kinds = made.graph, kinds_of(made)
    outputs, nodes = _made_outputs(graph), [*graph.node]
    inputs = read_by(nodes)
    if not outputs or not inputs:
        return
    body = [renamed(n, {}) for n in nodes]
    known = [(n, a) for n in body for a in n.attribute if a.type in (1, 2, 3, 6, 7)]
    parameters: list[AttributeProto] = []
    if known and chance.random() < 0.4:
        _, attribute = chance.choice(known)
        parameters.append(AttributeProto())
        parameters[0].CopyFrom(attribute)
        parameters[0].name = "given"
        attribute.CopyFrom(
            AttributeProto(name=attribute.name, type=attribute.type, ref_attr_name="given")
        )
    made.functions.append(
        helper.make_function(
            DOMAIN, name, inputs, outputs, body, made.opset_import, [p.name for p in parameters]
        )
    )
    if DOMAIN not in {o.domain for o in made.opset_import}:
        made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    del graph.node[:]
    _call(graph, name, inputs, outputs, parameters)
    if chance.random() < 0.5:
        again = list(inputs)
        alike = [
            (a, b)
            for a in range(len(inputs))
            for b in range(a)
            if inputs[a] in kinds and kinds[inputs[a]] == kinds.get(inputs[b])
        ]
        if alike:
            a, b = chance.choice(alike)
            again[a], again[b] = again[b], again[a]
        _call(graph, name, again, [f"{name}_{o}" for o in outputs], parameters)
        for o in outputs:
            _output(graph, f"{name}_{o}")


def _call(
    graph: GraphProto,
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    parameters: Sequence[AttributeProto],
) -> None:
    node = helper.make_node(name, inputs, outputs, domain=DOMAIN)
    node.attribute.extend(parameters)
    graph.node.append(node)


def twice(chance: random.Random, made: ModelProto, _: ModelProto, name: str) -> None:
    """All nodes once more, with inputs of their own and the same constants."""
    graph, kinds = made.graph, kinds_of(made)
    outputs = _made_outputs(graph)
    others: dict[str, str] = {}
    for info in [*graph.input]:
        if chance.random() < 0.7:
            others[info.name] = f"{name}_{info.name}"
            graph.input.append(info)
            graph.input[-1].name = others[info.name]
    graph.node.extend(_copied([*graph.node], name, others))
    for o in outputs:
        kind, joined = kinds.get(o, (0, ()))[0], f"{name}_{o}"
        if kind in REAL and chance.random() < 0.5:
            graph.node.append(helper.make_node("Sub", [o, joined], [f"{joined}_less"]))
            joined += "_less"
        _output(graph, joined)


def chain(chance: random.Random, made: ModelProto, other: ModelProto, name: str) -> None:
    """The other fragment after this one, some of its inputs our values, fitted by Gather."""
    graph, kinds = made.graph, kinds_of(made)
    scion = _in_opset(other, opset_of(made))
    if scion is None or len(scion.graph.node) > 40:
        return
    mine = [n for n in (*(i.name for i in graph.input), *made_by(graph.node)) if n in kinds]
    wanted, names = kinds_of(scion), {}
    for weight in scion.graph.initializer:
        names[weight.name] = f"{name}_{weight.name}"
        graph.initializer.append(weight)
        graph.initializer[-1].name = names[weight.name]
    for info in scion.graph.input:
        names[info.name] = f"{name}_{info.name}"
        sources = [n for n in mine if 0 not in kinds[n][1]]
        if sources and info.name in wanted and chance.random() < 0.7:
            source = chance.choice(sources[-3:])
            fitted = _fitted(graph, source, kinds[source], wanted[info.name], names[info.name])
            names[info.name] = fitted
        else:
            graph.input.append(info)
            graph.input[-1].name = names[info.name]
    graph.node.extend(_copied(scion.graph.node, name, names))
    for o in _made_outputs(scion.graph):
        _output(graph, f"{name}_{o}")
    taken = {o.domain for o in made.opset_import}
    made.opset_import.extend(o for o in scion.opset_import if o.domain not in taken)
    have = {f.name for f in made.functions}
    made.functions.extend(f for f in scion.functions if f.name not in have)


def _fitted(graph: GraphProto, source: str, kind: Kind, wanted: Kind, name: str) -> str:
    """Our value with the type and the shape that are wanted, its elements as often as it takes."""
    strings = TensorProto.STRING in (kind[0], wanted[0])
    if kind[0] != wanted[0]:
        graph.node.append(helper.make_node("Cast", [source], [f"{name}_cast"], to=wanted[0]))
        source = f"{name}_cast"
    if kind[1] == wanted[1] and not strings:
        return source
    count, size = int(np.prod(wanted[1])), int(np.prod(kind[1]))
    at = (np.arange(count) % size).reshape(wanted[1])
    flat = _initializer(graph, f"{name}_flat", [-1], np.int64)
    places = _initializer(graph, f"{name}_places", at, np.int64)
    graph.node.append(helper.make_node("Reshape", [source, flat], [f"{name}_row"]))
    graph.node.append(helper.make_node("Gather", [f"{name}_row", places], [name], axis=0))
    return name


def _in_opset(made: ModelProto, opset: int) -> ModelProto | None:
    if opset_of(made) in (0, opset):
        return made
    try:
        return onnx.version_converter.convert_version(made, opset)
    except Exception:  # it knows few of the ways
        return None


def outputs_read(chance: random.Random, made: ModelProto, _: ModelProto, name: str) -> None:
    """Outputs that elementwise nodes read on, and values within that are outputs, too."""
    graph = made.graph
    for o in _made_outputs(graph):
        end = f"{name}_{o}"
        op = chance.choice(["Identity", "Add", "Mul", "Relu", "Neg", "Transpose"])
        graph.node.append(helper.make_node(op, [o] * (2 if op in ("Add", "Mul") else 1), [end]))
        _output(graph, end)
    if chance.random() < 0.5:
        edit_outputs(chance, made)


def constant_as_input(chance: random.Random, made: ModelProto, _: ModelProto, __: str) -> None:
    unfold_constant(chance, made)


WEAVES = (branches, loop, loop, function, function, twice, chain, chain, chain, outputs_read,
          constant_as_input)  # fmt: skip
