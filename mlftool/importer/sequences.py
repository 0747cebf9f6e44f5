"""Sequences and optionals: lists of tensors that are known at compile time, so that none is left.

    %s = SequenceConstruct(%a, %b);  %y = SequenceAt(%s, 1)   =>   %y = Identity(%b)

A sequence is a tuple of names here, an optional is what it holds or absent. A Loop whose state is
one of these is unrolled: its trip count must be known. Of a graph input `x` that is a sequence, the
elements are inputs `x.0`, `x.1` ..., as many as shapes are given for; an optional one is there if a
shape is given for it. The elements of an output `y` are outputs `y.0`, `y.1` ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import GraphProto, NodeProto, TypeProto, ValueInfoProto, helper

from mlftool.importer.functions import body_of, inlined, renamed_copy
from mlftool.importer.interface import declared_type
from mlftool.importer.protos import place, type_proto
from mlftool.ir.dtype import float32
from mlftool.ir.graph import Node, TensorType, element

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer

Elements = tuple[str, ...]
Attributes = Mapping[str, Any]
Rule = Callable[["Importer", NodeProto, Attributes], None]
LONGEST_UNROLLED = 256  # iterations


class RefusedError(Exception):
    """Why a node cannot be imported."""


# -- graph inputs and outputs --------------------------------------------------------------------


def listed_input(importer: Importer, info: ValueInfoProto) -> list[str] | None:
    """Type the tensors that a graph input of these kinds stands for; None if it is a tensor."""
    kind = info.type.WhichOneof("value")
    if kind not in ("sequence_type", "optional_type"):
        return None
    inner = info.type.optional_type.elem_type if kind == "optional_type" else info.type
    if inner.HasField("tensor_type"):
        if info.name not in importer.input_shapes:
            importer.absent.add(info.name)
            return []
        return _typed(importer, [ValueInfoProto(name=info.name, type=inner)])
    held = inner.sequence_type.elem_type
    names: list[str] = []
    while element(info.name, len(names)) in importer.input_shapes:
        names.append(element(info.name, len(names)))
    importer.sequences[info.name] = tuple(names)
    return _typed(importer, [ValueInfoProto(name=name, type=held) for name in names])


def _typed(importer: Importer, infos: Sequence[ValueInfoProto]) -> list[str]:
    for info in infos:
        given = importer.input_shapes.get(info.name)
        type_ = declared_type(info, given, importer.problem)
        if type_ is not None:
            importer.types[info.name] = type_
    return [info.name for info in infos]


def listed_outputs(importer: Importer, names: Sequence[str]) -> tuple[str, ...]:
    """Graph outputs with those that are sequences taken apart."""
    outputs: list[str] = []
    for name in names:
        if name not in importer.sequences:
            outputs += [] if name in importer.absent else [name]
            continue
        for k, source in enumerate(importer.sequences[name]):
            outputs.append(importer.fresh(element(name, k)))
            _same(importer, source, outputs[-1])
    return tuple(outputs)


# -- nodes ---------------------------------------------------------------------------------------


def imported(importer: Importer, node: NodeProto, index: int) -> bool:
    """Import `node` if it is about sequences or optionals; else False."""
    listed = [n for n in node.input if n in importer.sequences or n in importer.absent]
    if not listed and (node.op_type not in RULES or node.op_type in ("Identity", "Loop")):
        return False
    known = (importer.types, importer.sequences, importer.absent)
    if any(name and not any(name in k for k in known) for name in node.input):
        return True  # its producer had a problem, which is listed already
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    try:
        _rule(importer, node, index)(importer, node, attrs)
    except RefusedError as error:
        importer.problem("MLF0302", str(error), place(node, index))
    return True


def _rule(importer: Importer, node: NodeProto, index: int) -> Rule:
    if node.op_type in RULES:
        return RULES[node.op_type]
    if node.op_type == "SequenceMap":
        return _by_definition
    name = next(n for n in node.input if n in importer.sequences or n in importer.absent)
    kind = "a sequence" if name in importer.sequences else "an optional that holds nothing"
    raise RefusedError(f"reads '{name}', {kind}")


def _by_definition(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    """SequenceMap: a Loop, whose definition needs no types."""
    opset = importer.opsets[""]
    body = body_of(node, opset, [_type(importer, name) for name in node.input])
    if body is None:
        raise RefusedError("has no definition for these inputs")
    for k, inner in enumerate(inlined(node, body, opset)):
        importer.node(inner, k)


def _type(importer: Importer, name: str) -> TypeProto:
    if name not in importer.sequences:
        return type_proto(importer.types[name])
    held = TypeProto()
    first = importer.sequences[name][:1]
    row = importer.types[first[0]].dtype if first else float32
    held.sequence_type.elem_type.tensor_type.elem_type = row.onnx
    return held


def _same(importer: Importer, source: str, out: str) -> None:
    """`out` is what `source` is."""
    if source in importer.sequences:
        importer.sequences[out] = importer.sequences[source]
    elif source in importer.absent:
        importer.absent.add(out)
    elif source in importer.consts:
        importer.add_const(out, importer.consts[source])
    else:
        importer.types[out] = importer.types[source]
        if source in importer.symbols:
            importer.symbols[out] = importer.symbols[source]
        importer.nodes.append(Node("Identity", (source,), (out,), {}, out))


def _elements(importer: Importer, name: str) -> Elements:
    if name not in importer.sequences:
        raise RefusedError("expects a sequence")
    return importer.sequences[name]


def _position(importer: Importer, node: NodeProto, k: int, count: int, default: int) -> int:
    """The index in input `k`, which may count from the end."""
    if k >= len(node.input) or not node.input[k]:
        return default
    value = importer.consts.get(node.input[k])
    if value is None:
        raise RefusedError("a position in a sequence is known only at run time")
    at = int(value.reshape(-1)[0])
    if not -count <= at < max(count, 1) + (node.op_type == "SequenceInsert"):
        raise RefusedError(f"position {at} in a sequence of {count}")
    return at + count if at < 0 else at


def _construct(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    importer.sequences[node.output[0]] = tuple(node.input)


def _insert(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = _elements(importer, node.input[0])
    at = _position(importer, node, 2, len(held), len(held))
    importer.sequences[node.output[0]] = (*held[:at], node.input[1], *held[at:])


def _erase(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = _elements(importer, node.input[0])
    at = _position(importer, node, 1, len(held), len(held) - 1)
    importer.sequences[node.output[0]] = (*held[:at], *held[at + 1 :])


def _at(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = _elements(importer, node.input[0])
    at = _position(importer, node, 1, len(held), 0)
    if at >= len(held):
        raise RefusedError("an element of an empty sequence")
    _same(importer, held[at], node.output[0])


def _length(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    count = len(_elements(importer, node.input[0]))
    importer.add_const(node.output[0], np.array(count, np.int64))


def _concat(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = list(_elements(importer, node.input[0]))
    if not held:
        raise RefusedError("joins an empty sequence")
    joined(importer, held, node.output[0], int(attrs["axis"]), bool(attrs.get("new_axis", 0)))


def joined(importer: Importer, held: Sequence[str], out: str, axis: int, new: bool) -> None:
    """Concat along an axis of the elements, or along a new one."""
    parts = list(held)
    if new:
        for k, name in enumerate(held):
            type_ = importer.types[name]
            at = axis % (len(type_.shape) + 1)
            grown = TensorType(type_.dtype, (*type_.shape[:at], 1, *type_.shape[at:]))
            parts[k] = _reshaped(importer, name, grown)
    importer.node(helper.make_node("Concat", parts, [out], axis=axis), 0)


def _reshaped(importer: Importer, name: str, type_: TensorType) -> str:
    made = importer.fresh(f"{name}.view")
    if name in importer.consts:
        importer.add_const(made, importer.consts[name].reshape(type_.shape))
    else:
        importer.types[made] = type_
        importer.nodes.append(Node("Reshape", (name,), (made,), {}, made))
    return made


def _split(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    x, out = node.input[0], node.output[0]
    type_ = importer.types[x]
    axis = int(attrs.get("axis", 0)) % max(1, len(type_.shape))
    n = type_.shape[axis]
    sizes = [1] * n
    whole = len(node.input) > 1 and node.input[1] != ""
    if whole:
        given = importer.consts.get(node.input[1])
        if given is None:
            raise RefusedError("the sizes of the parts are known only at run time")
        step = int(given.reshape(-1)[0]) if given.ndim == 0 else 0
        sizes = [min(step, n - at) for at in range(0, n, step)] if step else given.tolist()
    names = []
    for k, size in enumerate(sizes):
        names.append(importer.fresh(element(out, k)))
        shape = (*type_.shape[:axis], size, *type_.shape[axis + 1 :])
        importer.types[names[-1]] = TensorType(type_.dtype, shape)
    importer.nodes.append(Node("Split", (x,), tuple(names), {"axis": axis}, node.name or out))
    if not whole and not attrs.get("keepdims", 1):
        flat = TensorType(type_.dtype, (*type_.shape[:axis], *type_.shape[axis + 1 :]))
        names = [_reshaped(importer, name, flat) for name in names]
    importer.sequences[out] = tuple(names)


def _identity(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    """Identity, Optional and OptionalGetElement of anything."""
    if not node.input:
        importer.absent.add(node.output[0])
        return
    if node.op_type == "OptionalGetElement" and node.input[0] in importer.absent:
        raise RefusedError("takes the element of an optional that is absent")
    _same(importer, node.input[0], node.output[0])


def _has(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    there = bool(node.input) and node.input[0] not in ("", *importer.absent)
    importer.add_const(node.output[0], np.array(there))


def _loop(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    """A copy of the body for each iteration."""
    body: GraphProto = attrs["body"]
    count = importer.consts.get(node.input[0])
    goes_on = importer.consts.get(node.input[1]) if node.input[1] else np.array(True)
    if count is None or goes_on is None:
        raise RefusedError("its state is a sequence and its trip count known only at run time")
    if int(count) > LONGEST_UNROLLED:
        raise RefusedError(f"its state is a sequence; supported: {LONGEST_UNROLLED} iterations")
    states = list(node.input[2:])
    scans: list[list[str]] = [[] for _ in body.output[1 + len(states) :]]
    for i in range(int(count)):
        if not np.all(goes_on):
            break
        number = importer.fresh(f"{node.output[0]}.{i}")
        importer.add_const(number, np.array(i, np.int64))
        going = importer.fresh(f"{number}.going")
        importer.add_const(going, np.array(True))
        made = _spliced(importer, body, [number, going, *states], f"{number}.")
        if made is None:
            return
        goes_on = importer.consts.get(made[0])
        if goes_on is None:
            raise RefusedError("its state is a sequence and when it ends known only at run time")
        states = made[1 : 1 + len(states)]
        for scan, name in zip(scans, made[1 + len(states) :], strict=True):
            scan.append(name)
    for name, out in zip(states, node.output, strict=False):
        if out:
            _same(importer, name, out)
    for scan, out in zip(scans, node.output[len(states) :], strict=False):
        if not scan:
            raise RefusedError("scans no iteration")
        joined(importer, scan, out, 0, True)


def _spliced(
    importer: Importer, body: GraphProto, inputs: Sequence[str], prefix: str
) -> list[str] | None:
    """Import the nodes of a subgraph as if they stood here; the names of its outputs, None after a
    problem."""
    names = dict(zip((i.name for i in body.input), inputs, strict=True))
    own = [t.name for t in body.initializer] + [n for node in body.node for n in node.output]
    names |= {name: f"{prefix}{name}" for name in own if name}
    before = len(importer.problems)
    for tensor in body.initializer:
        importer.constant(names[tensor.name], tensor)
    for k, inner in enumerate(body.node):
        importer.node(renamed_copy(inner, lambda name: names.get(name, name)), k)
    return None if len(importer.problems) > before else [names[o.name] for o in body.output]


RULES: Mapping[str, Rule] = {
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
    "Optional": _identity,
    "OptionalGetElement": _identity,
    "OptionalHasElement": _has,
    "Identity": _identity,
    "Loop": _loop,
}
