"""Sequences and optionals: lists of tensors that are known at compile time, so that none is left.

    %s = SequenceConstruct(%a, %b);  %y = SequenceAt(%s, 1)   =>   %y = Identity(%b)

A sequence is a tuple of names here, an optional is what it holds or absent. A Loop whose state is
one of these is unrolled: its trip count must be known, or a limit to it. What depends on values at
run time is in importer/lists.py. Of a graph input `x` that is a sequence, the
elements are inputs `x.0`, `x.1` ..., as many as shapes are given for; an optional one is there if a
shape is given for it. The elements of an output `y` are outputs `y.0`, `y.1` ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from mlftool.errors import Problem
from mlftool.importer.functions import body_of, with_names_of
from mlftool.importer.interface import declared_type
from mlftool.importer.list_control import about_lists, branch, loop
from mlftool.importer.lists import erased, inserted, joined, reshaped, same, split, taken
from mlftool.importer.protos import type_proto
from mlftool.importer.structure import captures
from mlftool.ir.dtype import float32
from mlftool.ir.graph import Node, TensorType, element
from mlftool.ir.values import LENGTH
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import (
    EXTENTS,
    KEEP,
    Next,
    Outcome,
    Refuse,
    Replace,
    Rule,
    Scope,
    Work,
    stepwise,
)
from mlftool.onnx_rules.steps import standing_for
from mlftool.ops.base import Trait, has

# -- graph inputs and outputs --------------------------------------------------------------------


def listed_input(scope: Scope, info: ValueInfoProto) -> list[str] | None:
    """Type the tensors that a graph input of these kinds stands for; None if it is a tensor."""
    kind = info.type.WhichOneof("value")
    if kind not in ("sequence_type", "optional_type"):
        return None
    inner = info.type.optional_type.elem_type if kind == "optional_type" else info.type
    if inner.HasField("tensor_type"):
        if info.name not in scope.input_shapes:
            scope.absent.add(info.name)
            return []
        return _typed(scope, [ValueInfoProto(name=info.name, type=inner)])
    held = inner.sequence_type.elem_type
    names: list[str] = []
    while element(info.name, len(names)) in scope.input_shapes:
        names.append(element(info.name, len(names)))
    scope.sequences[info.name] = tuple(names)
    return _typed(scope, [ValueInfoProto(name=name, type=held) for name in names])


def left_out(scope: Scope, infos: Sequence[ValueInfoProto]) -> Iterator[Problem]:
    """A warning for each graph input that stands for no tensor at all."""
    for info in infos:
        held = (
            info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
        )
        if info.name in scope.absent:
            text, shaped = "is an optional, and taken as absent", info.name
        elif scope.sequences.get(info.name) == ():
            text, shaped = "is a sequence, and taken as empty", element(info.name, 0)
            held = held.sequence_type.elem_type
        else:
            continue
        shape = ",".join(str(d.dim_value or 1) for d in held.tensor_type.shape.dim)
        help = f"if it holds something, give the shape: --input-shape {shaped}:{shape or 1}"
        where = f"input '{info.name}'"
        yield Problem("MLF0319", text, scope.file, path=where, help=help, severity="warning")


def _typed(scope: Scope, infos: Sequence[ValueInfoProto]) -> list[str]:
    for info in infos:
        given = scope.input_shapes.get(info.name)
        type_ = declared_type(info, given, scope.problem)
        if type_ is not None:
            scope.types[info.name] = type_
    return [info.name for info in infos]


def listed_outputs(scope: Scope, names: Sequence[str]) -> tuple[str, ...]:
    """Graph outputs with those that are sequences taken apart."""
    outputs: list[str] = []
    for name in names:
        if name not in scope.sequences:
            outputs += [] if name in scope.absent else [name]
            continue
        for k, source in enumerate(scope.sequences[name]):
            outputs.append(scope.fresh(element(name, k)))
            same(scope, source, outputs[-1])
        if name in scope.lengths:
            outputs.append(scope.fresh(name + LENGTH))
            same(scope, scope.lengths[name], outputs[-1])
    return tuple(outputs)


# -- nodes ---------------------------------------------------------------------------------------


def of_sequences(scope: Scope, node: NodeProto) -> Outcome:
    """A node that is about sequences or optionals."""
    listed = [n for n in node.input if n in scope.sequences or n in scope.absent]
    rule = _rule(node)
    if rule is branch and not about_lists(scope, node):
        return Next(node)
    if not listed and (rule in (None, loop) or node.op_type == "Identity"):
        return Next(node)
    known = (scope.types, scope.sequences, scope.absent)
    if any(name and not any(name in k for k in known) for name in node.input):
        return KEEP  # its producer had a problem, which is listed already
    if rule is not None:
        return rule(scope, node)
    kind = "a sequence" if listed[0] in scope.sequences else "an optional that holds nothing"
    return Refuse("MLF0302", f"reads '{listed[0]}', {kind}")


def _rule(node: NodeProto) -> Rule | None:
    op = op_name(node)
    if has(op, Trait.BRANCH):
        return branch
    return loop if has(op, Trait.LOOP) else RULES.get(node.op_type)


def _by_definition(scope: Scope, node: NodeProto) -> Outcome:
    """SequenceMap: a Loop, whose definition needs no types."""
    opset = scope.opsets[""]
    body = body_of(node, opset, [_type(scope, name) for name in node.input])
    if body is None:
        return Refuse("MLF0302", "has no definition for these inputs")
    return Replace(with_names_of(scope, node, body, opset, captures(node)))


def _type(scope: Scope, name: str) -> TypeProto:
    if name not in scope.sequences:
        return type_proto(scope.types[name])
    held = TypeProto()
    first = scope.sequences[name][:1]
    row = scope.types[first[0]].dtype if first else float32
    held.sequence_type.elem_type.tensor_type.elem_type = row.onnx
    return held


def _elements(scope: Scope, name: str) -> tuple[str, ...]:
    if name not in scope.sequences:
        raise Refuse("MLF0302", "expects a sequence")
    if name in scope.lengths:
        raise Refuse("MLF0302", "reads a sequence whose length is known only at run time")
    return scope.sequences[name]


def _position(scope: Scope, node: NodeProto, k: int, count: int, default: int) -> int | None:
    """The index in input `k`, which may count from the end; None if it is known at run time."""
    name = node.input[k] if k < len(node.input) else ""
    if (value := scope.consts.get(name)) is None:
        return None if name else default
    if value.size != 1:
        raise Refuse("MLF0302", f"a position of {value.size} elements; expected one")
    at = int(value.reshape(-1)[0])
    if not -count <= at < max(count, 1) + (node.op_type == "SequenceInsert"):
        raise Refuse("MLF0302", f"position {at} in a sequence of {count}")
    return at + count if at < 0 else at


def _construct(scope: Scope, node: NodeProto) -> Outcome:
    scope.sequences[node.output[0]] = tuple(node.input)
    return KEEP


@stepwise
def _insert(scope: Scope, node: NodeProto) -> Work[Outcome]:
    held = _elements(scope, node.input[0])
    at = _position(scope, node, 2, len(held), len(held))
    if at is None:
        made = yield from inserted(scope, node, held, node.input[1], node.input[2])
    else:
        made = [*held[:at], node.input[1], *held[at:]]
    scope.sequences[node.output[0]] = tuple(made)
    return KEEP


@stepwise
def _erase(scope: Scope, node: NodeProto) -> Work[Outcome]:
    held = _elements(scope, node.input[0])
    at = _position(scope, node, 1, len(held), len(held) - 1)
    if at is None:
        made = yield from erased(scope, node, held, node.input[1])
    else:
        made = [*held[:at], *held[at + 1 :]]
    scope.sequences[node.output[0]] = tuple(made)
    return KEEP


@stepwise
def _at(scope: Scope, node: NodeProto) -> Work[Outcome]:
    held = _elements(scope, node.input[0])
    at = _position(scope, node, 1, len(held), 0)
    if not held or (at is not None and at >= len(held)):
        raise Refuse("MLF0302", "an element of an empty sequence")
    if at is None:
        found = yield from taken(scope, node, held, node.input[1])
    else:
        found = held[at]
    same(scope, found, node.output[0])
    return KEEP


def _length(scope: Scope, node: NodeProto) -> Outcome:
    if node.input[0] in scope.lengths:
        length, out = scope.lengths[node.input[0]], node.output[0]
        cast = helper.make_node("Cast", [length], [out], to=TensorProto.INT64)
        return standing_for(scope, [cast])
    count = len(_elements(scope, node.input[0]))
    scope.add_const(node.output[0], np.array(count, np.int64))
    return KEEP


def _concat(scope: Scope, node: NodeProto) -> Outcome:
    held, attrs = _elements(scope, node.input[0]), attributes(node)
    if not held:
        raise Refuse("MLF0302", "joins an empty sequence")
    new = bool(attrs.get("new_axis", 0))
    return joined(scope, held, node.output[0], int(attrs["axis"]), new)


def _split(scope: Scope, node: NodeProto) -> Outcome:
    x, out = node.input[0], node.output[0]
    type_, attrs = scope.types[x], attributes(node)
    axis = int(attrs.get("axis", 0))
    if not -len(type_.shape) <= axis < len(type_.shape):
        raise Refuse("MLF0302", f"splits {type_} along axis {axis}")
    axis %= len(type_.shape)
    n, symbols, step = type_.shape[axis], scope.extents_of(x), 1
    sizes = [1] * n
    whole = len(node.input) > 1 and node.input[1] != ""
    if whole:
        given = scope.consts.get(node.input[1])
        if given is None:
            names, count = split(scope, x, node.input[1], axis, out)
            scope.sequences[out] = tuple(names)
            if count:
                scope.lengths[out] = count
            return KEEP
        least = 0 if given.ndim else 1
        if given.ndim > 1 or given.dtype.kind not in "iu" or given.min(initial=least) < least:
            raise Refuse("MLF0303", f"splits {type_} into {given.tolist()}")
        step = int(given) if given.ndim == 0 else 0
        sizes = [min(step, n - at) for at in range(0, n, step)] if step else given.tolist()
    if symbols[axis]:
        raise Refuse("MLF0302", "splits an axis whose extent is known only at run time", EXTENTS)
    names = []
    for k, size in enumerate(sizes):
        names.append(scope.fresh(f"{out}.part{k}"))
        shape = (*type_.shape[:axis], size, *type_.shape[axis + 1 :])
        scope.types[names[-1]] = TensorType(type_.dtype, shape)
        scope.symbols.update({names[-1]: symbols} if any(symbols) else {})
    scope.nodes.append(Node("Split", (x,), tuple(names), {"axis": axis}, node.name or out))
    # The standard ignores `keepdims` beside a split; onnxruntime does not if that is the number 1,
    # which torch writes for `unbind`.
    if step == 1 and not attrs.get("keepdims", 1):
        flat = TensorType(type_.dtype, (*type_.shape[:axis], *type_.shape[axis + 1 :]))
        symbols = (*symbols[:axis], *symbols[axis + 1 :])
        names = [reshaped(scope, name, flat, symbols) for name in names]
    scope.sequences[out] = tuple(names)
    return KEEP


def _identity(scope: Scope, node: NodeProto) -> Outcome:
    """Identity, Optional and OptionalGetElement of anything."""
    if not node.input:
        scope.absent.add(node.output[0])
        return KEEP
    if node.op_type == "OptionalGetElement" and node.input[0] in scope.absent:
        raise Refuse("MLF0302", "takes the element of an optional that is absent")
    same(scope, node.input[0], node.output[0])
    return KEEP


def _has(scope: Scope, node: NodeProto) -> Outcome:
    if node.input and node.input[0] in scope.lengths:
        least = scope.new_const(f"{node.output[0]}.least", np.array(0, np.int32))
        names = [scope.lengths[node.input[0]], least]
        compared = helper.make_node("GreaterOrEqual", names, [node.output[0]])
        return standing_for(scope, [compared])
    there = bool(node.input) and node.input[0] not in ("", *scope.absent)
    scope.add_const(node.output[0], np.array(there))
    return KEEP


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
    "SequenceMap": _by_definition,
}
