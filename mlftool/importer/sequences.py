"""Sequences and optionals: lists of tensors that are known at compile time, so that none is left.

    %s = SequenceConstruct(%a, %b);  %y = SequenceAt(%s, 1)   =>   %y = Identity(%b)

A sequence is a tuple of names here, an optional is what it holds or absent. A Loop whose state is
one of these is unrolled: its trip count must be known, or a limit to it. What depends on values at
run time is in lists.py. Of a graph input `x` that is a sequence, the
elements are inputs `x.0`, `x.1` ..., as many as shapes are given for; an optional one is there if a
shape is given for it. The elements of an output `y` are outputs `y.0`, `y.1` ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from mlftool.importer.expand import OPSETS
from mlftool.importer.functions import body_of, inlined
from mlftool.importer.interface import declared_type
from mlftool.importer.list_control import about_lists, branch, loop
from mlftool.importer.lists import (
    RefusedError,
    erased,
    inserted,
    joined,
    reshaped,
    same,
    split,
    taken,
)
from mlftool.importer.protos import place, type_proto
from mlftool.ir.dtype import float32
from mlftool.ir.graph import Node, TensorType, element
from mlftool.ir.values import LENGTH

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer

Elements = tuple[str, ...]
Attributes = Mapping[str, Any]
Rule = Callable[["Importer", NodeProto, Attributes], None]


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
            same(importer, source, outputs[-1])
        if name in importer.lengths:
            outputs.append(importer.fresh(name + LENGTH))
            same(importer, importer.lengths[name], outputs[-1])
    return tuple(outputs)


# -- nodes ---------------------------------------------------------------------------------------


def imported(importer: Importer, node: NodeProto, index: int) -> bool:
    """Import `node` if it is about sequences or optionals; else False."""
    listed = [n for n in node.input if n in importer.sequences or n in importer.absent]
    if node.op_type == "If" and not about_lists(importer, node):
        return False
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


def _elements(importer: Importer, name: str) -> Elements:
    if name not in importer.sequences:
        raise RefusedError("expects a sequence")
    if name in importer.lengths:
        raise RefusedError("reads a sequence whose length is known only at run time")
    return importer.sequences[name]


def _position(importer: Importer, node: NodeProto, k: int, count: int, default: int) -> int | None:
    """The index in input `k`, which may count from the end; None if it is known at run time."""
    if k >= len(node.input) or not node.input[k]:
        return default
    value = importer.consts.get(node.input[k])
    if value is None:
        return None
    at = int(value.reshape(-1)[0])
    if not -count <= at < max(count, 1) + (node.op_type == "SequenceInsert"):
        raise RefusedError(f"position {at} in a sequence of {count}")
    return at + count if at < 0 else at


def _construct(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    importer.sequences[node.output[0]] = tuple(node.input)


def _insert(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = _elements(importer, node.input[0])
    at = _position(importer, node, 2, len(held), len(held))
    if at is None:
        made = inserted(importer, node, held, node.input[1], node.input[2])
        importer.sequences[node.output[0]] = tuple(made)
        return
    importer.sequences[node.output[0]] = (*held[:at], node.input[1], *held[at:])


def _erase(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = _elements(importer, node.input[0])
    at = _position(importer, node, 1, len(held), len(held) - 1)
    if at is None:
        made = erased(importer, node, held, node.input[1])
        importer.sequences[node.output[0]] = tuple(made)
        return
    importer.sequences[node.output[0]] = (*held[:at], *held[at + 1 :])


def _at(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = _elements(importer, node.input[0])
    at = _position(importer, node, 1, len(held), 0)
    if not held or (at is not None and at >= len(held)):
        raise RefusedError("an element of an empty sequence")
    if at is None:
        same(importer, taken(importer, node, held, node.input[1]), node.output[0])
        return
    same(importer, held[at], node.output[0])


def _length(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    if node.input[0] in importer.lengths:
        length, out = importer.lengths[node.input[0]], node.output[0]
        cast = helper.make_node("Cast", [length], [out], to=TensorProto.INT64)
        importer.import_all([cast], OPSETS, 0)
        return
    count = len(_elements(importer, node.input[0]))
    importer.add_const(node.output[0], np.array(count, np.int64))


def _concat(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    held = list(_elements(importer, node.input[0]))
    if not held:
        raise RefusedError("joins an empty sequence")
    joined(importer, held, node.output[0], int(attrs["axis"]), bool(attrs.get("new_axis", 0)))


def _split(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    x, out = node.input[0], node.output[0]
    type_ = importer.types[x]
    axis = int(attrs.get("axis", 0))
    if not -len(type_.shape) <= axis < len(type_.shape):
        raise RefusedError(f"splits {type_} along axis {axis}")
    axis %= len(type_.shape)
    n = type_.shape[axis]
    sizes = [1] * n
    whole = len(node.input) > 1 and node.input[1] != ""
    if whole:
        given = importer.consts.get(node.input[1])
        if given is None:
            names, count = split(importer, x, node.input[1], axis, out)
            importer.sequences[out] = tuple(names)
            if count:
                importer.lengths[out] = count
            return
        step = int(given.reshape(-1)[0]) if given.ndim == 0 else 0
        sizes = [min(step, n - at) for at in range(0, n, step)] if step else given.tolist()
    names = []
    for k, size in enumerate(sizes):
        names.append(importer.fresh(f"{out}.part{k}"))
        shape = (*type_.shape[:axis], size, *type_.shape[axis + 1 :])
        importer.types[names[-1]] = TensorType(type_.dtype, shape)
    importer.nodes.append(Node("Split", (x,), tuple(names), {"axis": axis}, node.name or out))
    if not whole and not attrs.get("keepdims", 1):
        flat = TensorType(type_.dtype, (*type_.shape[:axis], *type_.shape[axis + 1 :]))
        names = [reshaped(importer, name, flat) for name in names]
    importer.sequences[out] = tuple(names)


def _identity(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    """Identity, Optional and OptionalGetElement of anything."""
    if not node.input:
        importer.absent.add(node.output[0])
        return
    if node.op_type == "OptionalGetElement" and node.input[0] in importer.absent:
        raise RefusedError("takes the element of an optional that is absent")
    same(importer, node.input[0], node.output[0])


def _has(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    if node.input and node.input[0] in importer.lengths:
        least = importer.fresh(f"{node.output[0]}.least")
        importer.add_const(least, np.array(0, np.int32))
        names = [importer.lengths[node.input[0]], least]
        there = helper.make_node("GreaterOrEqual", names, [node.output[0]])
        importer.import_all([there], OPSETS, 0)
        return
    importer.add_const(
        node.output[0], np.array(bool(node.input) and node.input[0] not in ("", *importer.absent))
    )


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
    "Loop": loop,
    "If": branch,
}
