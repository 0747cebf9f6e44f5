"""Damaging models at random: edits that know protobuf and ONNX, and a few that know only bytes.

Everything is drawn from one `random.Random`, so a seed names its mutant for as long as the seed
models and the edits stay what they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from mlftool.ops import OPS

NUMBERS = [0, 1, 2, 3, -1, -2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**62, -(2**63)]
SMALL = [0, 1, 2, 3, 4, -1, -2, -3]
FLOATS = [0.0, -0.0, -1.0, 1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e38, 1e-40]
TEXTS = ["", "x", "SAME_UPPER", "NOTSET", "NONE", "SOFTMAX", "linear", "\u00e9", "a\nb", "%s"]
EXTRA = ["MatMul", "BatchNormalization", "Constant", "If", "Loop", "Scan", "Split", "Resize", ""]
OPERATORS = [*sorted(OPS), *EXTRA]
NAMES = ["axis", "axes", "perm", "group", "pads", "to", "x", "mode", "block_size", "keepdims"]

Edit = Callable[[random.Random, ModelProto], None]


def damage(chance: random.Random, made: ModelProto, other: ModelProto) -> bytes:
    """A mutant of `made`; some have a part of `other`."""
    copy = ModelProto()
    copy.CopyFrom(made)
    if chance.random() < 0.1:
        return damage_bytes(chance, copy.SerializeToString())
    if chance.random() < 0.15:
        graft(chance, copy, other)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 4])):
        chance.choice(EDITS)(chance, copy)
    return bytes(copy.SerializeToString())


def damage_bytes(chance: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) or 1)
        if at >= len(out):
            break
        match chance.randrange(5):
            case 0:
                out[at] ^= 1 << chance.randrange(8)
            case 1:
                out[at] = chance.choice(b"\x00\x01\x7f\x80\xff")
            case 2:
                del out[at : at + chance.randint(1, 20)]
            case 3:
                out[at:at] = out[chance.randrange(len(out)) :][: chance.randint(1, 40)]
            case _:
                del out[max(at, 1) :]
    return bytes(out)


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and every one within it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
                yield from graphs(inner)


def some_graph(chance: random.Random, made: ModelProto) -> GraphProto:
    return chance.choice([*graphs(made.graph)])


def edit_dimension(chance: random.Random, made: ModelProto) -> None:
    graph = some_graph(chance, made)
    infos = [*graph.input, *graph.output, *graph.value_info]
    kinds = [i.type.tensor_type for i in infos if i.type.HasField("tensor_type")]
    if not kinds:
        return
    shape = chance.choice(kinds).shape
    match chance.randrange(5):
        case 0:
            shape.dim.add().dim_value = chance.choice([1, 2, 3])
        case 1 if shape.dim:
            del shape.dim[chance.randrange(len(shape.dim))]
        case 2 if shape.dim:
            chance.choice(shape.dim).dim_param = chance.choice("nm")
        case _ if shape.dim:
            chance.choice(shape.dim).dim_value = chance.choice([*SMALL, 5, 8, *NUMBERS])


def edit_weight(chance: random.Random, made: ModelProto) -> None:
    graph = some_graph(chance, made)
    if not graph.initializer:
        return
    weight = chance.choice(graph.initializer)
    match chance.randrange(4):
        case 0:
            weight.data_type = chance.randrange(27)
        case 1 if weight.dims:
            weight.dims[chance.randrange(len(weight.dims))] = chance.choice(NUMBERS)
        case 2:
            weight.dims.append(chance.choice([0, 1, 2]))
        case _:
            size = len(weight.raw_data)
            weight.raw_data = chance.randbytes(size)  # NaN, infinite, tiny and huge values


def edit_value(chance: random.Random, made: ModelProto) -> None:
    """Another value of the right size, or another shape with the same values."""
    graph = some_graph(chance, made)
    if not graph.initializer:
        return
    weight = chance.choice(graph.initializer)
    try:
        array = np.array(_array(weight))
    except Exception:  # damaged before
        return
    match chance.randrange(6):
        case 0:
            array = array[None]
        case 1:
            array = array.reshape(-1)
        case 2 if array.size == 1:
            array = array.reshape(())
        case 3 if array.shape and len(array):
            array = array[: chance.randrange(len(array) + 1)]
        case 4 if array.dtype.kind in "iuf":
            array = np.zeros_like(array)
        case _ if array.size and array.dtype.kind in "iuf":
            numbers = FLOATS if array.dtype.kind == "f" else [*SMALL, *NUMBERS]
            with np.errstate(all="ignore"):
                value = np.array(chance.choice(numbers)).astype(array.dtype)
            array.reshape(-1)[chance.randrange(array.size)] = value
    weight.CopyFrom(helper.make_tensor(weight.name, weight.data_type, array.shape, array.flatten())
                    if array.dtype.kind in "OU" else _tensor(array, weight))  # fmt: skip


def _array(weight: TensorProto) -> Any:
    from onnx import numpy_helper

    return numpy_helper.to_array(weight)


def _tensor(array: Any, like: TensorProto) -> TensorProto:
    from onnx import numpy_helper

    made = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), like.name)
    made.data_type = like.data_type
    return made


def edit_attribute(chance: random.Random, made: ModelProto) -> None:
    attributes = [a for g in graphs(made.graph) for n in g.node for a in n.attribute]
    if not attributes:
        return
    attribute = chance.choice(attributes)
    match chance.randrange(7):
        case 0:
            attribute.i = chance.choice([*SMALL, *NUMBERS])
        case 1 if attribute.ints or attribute.floats or attribute.strings:
            _edit_list(chance, attribute)
        case 2:
            attribute.name = chance.choice(NAMES)
        case 3:
            attribute.s = chance.choice(TEXTS).encode()
        case 4:
            attribute.type = chance.choice(AttributeProto.AttributeType.values())
        case _:
            attribute.f = chance.choice(FLOATS)


def _edit_list(chance: random.Random, attribute: AttributeProto) -> None:
    items: Any = attribute.ints or attribute.floats or attribute.strings
    at = chance.randrange(len(items))
    numbers = [*SMALL, *NUMBERS] if items is attribute.ints else FLOATS
    new = chance.choice(TEXTS).encode() if items is attribute.strings else chance.choice(numbers)
    match chance.randrange(4):
        case 0:
            del items[at]
        case 1:
            items.append(new)
        case 2:
            del items[:]
        case _:
            items[at] = new


def edit_node(chance: random.Random, made: ModelProto) -> None:
    graph = some_graph(chance, made)
    nodes = graph.node
    if not nodes:
        return
    one = chance.choice(nodes)
    names = [n for other in nodes for n in (*other.input, *other.output)]
    names += [i.name for i in graph.input] + [w.name for w in graph.initializer] + ["", "nowhere"]
    match chance.randrange(10):
        case 0:
            one.op_type = chance.choice(OPERATORS)
        case 1 | 2 if one.input:
            one.input[chance.randrange(len(one.input))] = chance.choice(names)
        case 3 if one.output:
            one.output[chance.randrange(len(one.output))] = chance.choice(names)
        case 4 if one.input:
            del one.input[chance.randrange(len(one.input))]
        case 5 if one.attribute:
            del one.attribute[chance.randrange(len(one.attribute))]
        case 6:
            one.input.append(chance.choice(names))
        case 7:
            one.output.append(chance.choice(["more", "", *names]))
        case 8 if one.output:
            del one.output[chance.randrange(len(one.output))]
        case _:
            nodes.remove(one)


def edit_edge(chance: random.Random, made: ModelProto) -> None:
    """A node of one input and one output between a value and those that read it."""
    graph = some_graph(chance, made)
    readers = [n for n in graph.node if n.input]
    if not readers:
        return
    reader = chance.choice(readers)
    at = chance.randrange(len(reader.input))
    kinds = ["Relu", "Identity", "Abs", "Neg", "Transpose", "Sigmoid", "Flatten", "Floor", "Cast"]
    attrs = {"to": chance.choice([1, 2, 3, 6, 7, 9, 10, 11])}
    kind = chance.choice(kinds)
    new = f"edge{len(graph.node)}"
    node = helper.make_node(kind, [reader.input[at]], [new], **(attrs if kind == "Cast" else {}))
    reader.input[at] = new
    graph.node.insert([*graph.node].index(reader), node)


def unfold_constant(chance: random.Random, made: ModelProto) -> None:
    """A parameter that is an input, or computed from one: of a type that is known, no value."""
    graph = made.graph
    if not graph.initializer:
        return
    weight = chance.choice(graph.initializer)
    info = helper.make_tensor_value_info(weight.name, weight.data_type, [*weight.dims])
    if chance.random() < 0.5:
        graph.input.append(info)
        graph.initializer.remove(weight)
        return
    name = weight.name
    for node in graph.node:
        for k, read in enumerate(node.input):
            if read == name:
                node.input[k] = f"{name}_computed"
    info.name = f"{name}_more"
    graph.input.append(info)
    node = helper.make_node("Add", [name, info.name], [f"{name}_computed"])
    graph.node.insert(0, node)


def fold_input(chance: random.Random, made: ModelProto) -> None:
    """An input that is known."""
    graph = made.graph
    known = {w.name for w in graph.initializer}
    inputs = [i for i in graph.input if i.name not in known and i.type.HasField("tensor_type")]
    if not inputs:
        return
    info = chance.choice(inputs)
    kind = info.type.tensor_type.elem_type
    shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
    if kind in (0, TensorProto.STRING) or not all(0 <= d < 100 for d in shape):
        return
    if np.prod(shape, dtype=float) > 10000:
        return
    try:
        zeros = np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError):
        return
    if zeros.size and chance.random() < 0.7:
        zeros = (zeros.astype(np.float32) + chance.choice([1, 2, 3])).astype(zeros.dtype)
    like = TensorProto(name=info.name, data_type=kind)
    graph.initializer.append(_tensor(zeros, like))
    if chance.random() < 0.8:
        graph.input.remove(info)


def edit_outputs(chance: random.Random, made: ModelProto) -> None:
    """A value within is an output too, or an output is none."""
    graph = some_graph(chance, made)
    names = [n for node in graph.node for n in node.output]
    match chance.randrange(3):
        case 0 if len(graph.output) > 1:
            del graph.output[chance.randrange(len(graph.output))]
        case _ if names:
            graph.output.add().name = chance.choice(names)


def edit_model(chance: random.Random, made: ModelProto) -> None:
    match chance.randrange(4):
        case 0 if made.opset_import:
            chance.choice(made.opset_import).version = chance.randrange(1, 30)
        case 1 if made.graph.input:
            kind = chance.choice(made.graph.input).type
            kind.tensor_type.elem_type = chance.randrange(27)
        case 2 if made.graph.input and made.graph.output:
            chance.choice(made.graph.output).type.CopyFrom(chance.choice(made.graph.input).type)
        case _ if made.graph.output:
            chance.choice(made.graph.output).ClearField("type")


def edit_any_field(chance: random.Random, made: ModelProto) -> None:
    """One field of one message, whatever it means."""
    message: Any = made
    while True:
        fields = [(f, v) for f, v in message.ListFields() if f.name not in ("raw_data",)]
        if not fields:
            return
        field, value = chance.choice(fields)
        if hasattr(value, "extend"):
            if not value:
                return
            if chance.random() < 0.1:
                del value[chance.randrange(len(value))]
                return
            if field.message_type is None:
                _edit_scalar(chance, value, chance.randrange(len(value)))
                return
            message = chance.choice(value)
        elif field.message_type is not None:
            message = value
        else:
            if chance.random() < 0.3:
                message.ClearField(field.name)
            elif isinstance(value, (str, bytes)):
                text = chance.choice(TEXTS)
                setattr(message, field.name, text if isinstance(value, str) else text.encode())
            elif isinstance(value, float):
                setattr(message, field.name, chance.choice(FLOATS))
            else:
                number = chance.choice([*SMALL, *NUMBERS])
                try:
                    setattr(message, field.name, number)
                except (ValueError, TypeError):
                    setattr(message, field.name, abs(number) % 2)
            return


def _edit_scalar(chance: random.Random, values: Any, at: int) -> None:
    if isinstance(values[at], str):
        values[at] = chance.choice(TEXTS)
    elif isinstance(values[at], bytes):
        values[at] = chance.choice(TEXTS).encode()
    elif isinstance(values[at], float):
        values[at] = chance.choice(FLOATS)
    else:
        try:
            values[at] = chance.choice([*SMALL, *NUMBERS])
        except ValueError:
            values[at] = chance.choice([0, 1, 2])


def graft(chance: random.Random, made: ModelProto, other: ModelProto) -> None:
    """The nodes of `other` after those of `made`, its first input one of our values."""
    graph, scion = made.graph, GraphProto()
    scion.CopyFrom(other.graph)
    values = [i.name for i in graph.input] + [n for node in graph.node for n in node.output if n]
    known = {w.name for w in scion.initializer}
    inputs = [i for i in scion.input if i.name not in known]
    if not inputs or not values or not scion.node:
        return
    root = chance.choice(inputs)
    names = {root.name: chance.choice(values)}
    for info in inputs:
        if info is not root:
            names[info.name] = f"g_{info.name}"
            graph.input.append(info)
            graph.input[-1].name = names[info.name]
    for weight in scion.initializer:
        names[weight.name] = f"g_{weight.name}"
        graph.initializer.append(weight)
        graph.initializer[-1].name = names[weight.name]
    for node in scion.node:
        names.update({n: f"g_{n}" for n in node.output if n})
    for node in scion.node:
        graph.node.append(renamed(node, names))
    for info in scion.output:
        if info.name in names:
            graph.output.append(info)
            graph.output[-1].name = names[info.name]
    taken = {o.domain for o in made.opset_import}
    made.opset_import.extend(o for o in other.opset_import if o.domain not in taken)
    for function in other.functions:
        made.functions.append(function)


def renamed(node: NodeProto, names: dict[str, str]) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    made.input[:] = [names.get(n, n) for n in node.input]
    made.output[:] = [names.get(n, n) for n in node.output]
    for attribute in made.attribute:
        if attribute.HasField("g"):
            for graph in graphs(attribute.g):
                inner = [renamed(n, names) for n in graph.node]
                del graph.node[:]
                graph.node.extend(inner)
                for info in graph.output:
                    info.name = names.get(info.name, info.name)
    return made


EDITS: Sequence[Edit] = [
    *(edit_dimension, edit_weight, edit_value, edit_value, edit_attribute, edit_attribute),
    *(edit_node, edit_node, edit_edge, unfold_constant, unfold_constant, fold_input),
    *(edit_outputs, edit_model, edit_any_field, edit_any_field),
]
