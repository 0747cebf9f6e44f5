"""Loops whose body appends to a tensor, as a scripted `torch.cat` in a loop does. The tensor is no
state but what the iterations give, joined after the loop:

    %y = Loop(%n, %c, %y0) { %y.out = Concat(%y.in, %x) }
    =>   %y.parts = Loop(%n, %c) { Concat(%none, %x) };  %y = Concat(%y0, Reshape(%y.parts))

%none has no elements, and says what extents %x has along the other axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper

from mlftool.frozen import frozen
from mlftool.importer.control_node import Control
from mlftool.importer.structure import reads
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import KEEP, Outcome, Scope, Work
from mlftool.onnx_rules.steps import standing_for
from mlftool.ops.base import Trait, known

_PARTS = ".parts"


@frozen
class _Appended:
    """State number `state` of a loop, to which `node` of the body appends along `axis`. `none`: its
    type without elements. `copies`: nodes that only copy the state before that."""

    state: int
    node: NodeProto
    axis: int
    none: TensorType
    copies: tuple[NodeProto, ...]


def appended_states(c: Control) -> list[_Appended]:
    """The states of a Loop that its body only appends to."""
    body = c.bodies["body"]
    count = len(c.inputs) - 2
    if len(body.input) != count + 2 or len(body.output) <= count:
        return []
    makers = {n.output[0]: n for n in body.node if n.output}
    read = Counter(name for node in body.node for name in reads(node))
    read.update(o.name for o in body.output)
    found = []
    for k in range(count):
        state, made = body.input[2 + k].name, body.output[1 + k].name
        node, first = makers.get(made), c.inputs[2 + k]
        if node is None or not _has(node, Trait.JOIN) or len(node.input) < 2:
            continue
        type_, axis = c.type(first), attributes(node).get("axis")
        rank = len(type_.shape)
        copies = _copies(node.input[0], makers, type_)
        begun = copies[-1].input[0] if copies else node.input[0]
        once = [state, made, *(n.output[0] for n in copies)]
        if begun != state or any(read[n] != 1 for n in once) or not isinstance(axis, int):
            continue
        if -rank <= axis < rank and not any(c.scope.symbols_of(first)):
            axis %= rank
            shape = (*type_.shape[:axis], 0, *type_.shape[axis + 1 :])
            found.append(_Appended(k, node, axis, TensorType(type_.dtype, shape), copies))
    return found


def _copies(name: str, makers: Mapping[str, NodeProto], type_: TensorType) -> tuple[NodeProto, ...]:
    """The nodes between a tensor of this type and `name` that change nothing, last one first.
    Scripted torch.cat casts its operands, even to the type that they have."""
    to, found = type_.dtype.onnx, list[NodeProto]()
    while (node := makers.get(name)) and _has(node, Trait.IDENTITY) and node not in found:
        if attributes(node).get("to", to) != to:
            break
        found.append(node)
        name = node.input[0]
    return tuple(found)


def _has(node: NodeProto, trait: Trait) -> bool:
    operator = known(op_name(node))
    return operator is not None and trait in operator.traits


def import_appending(c: Control, appended: Sequence[_Appended]) -> Work[Outcome]:
    """The loop without these states, and their last values after it."""
    scope, outputs = c.scope, [*c.node.output]
    outputs += [""] * (len(c.bodies["body"].output) - 1 - len(outputs))
    made = [outputs[a.state] or scope.fresh(f"{c.name}.{a.state}") for a in appended]
    parts = [scope.fresh(f"{name}{_PARTS}") for name in made]
    nones = [
        scope.new_const(f"{p}.none", np.zeros(a.none.shape, a.none.dtype.numpy))
        for p, a in zip(parts, appended, strict=True)
    ]
    left = [k for k in range(len(c.inputs) - 2) if k not in {a.state for a in appended}]
    scans = outputs[len(c.inputs) - 2 :]
    loop = helper.make_node(
        "Loop",
        [*c.inputs[:2], *(c.inputs[2 + k] for k in left)],
        [*(outputs[k] for k in left), *scans, *parts],
        c.node.name,
        body=_scanning(c.bodies["body"], left, dict(zip(nones, appended, strict=True))),
    )
    limits = {p: scope.limit(m) for p, m in zip(parts, made, strict=True)}
    along = {p: n[a.axis :] for a, (p, n) in zip(appended, limits.items(), strict=True) if n}
    inner = replace(scope, input_shapes={**scope.input_shapes, **along})
    yield replace(standing_for(inner, [loop]), scope=inner)
    for a, name, out in zip(appended, parts, made, strict=True):
        if name in scope.types:  # else a problem is listed
            yield standing_for(scope, _joined(scope, c.inputs[2 + a.state], name, out, a.axis))
    return KEEP


def bounded_by(output: str) -> str:
    """The output of the model's loop whose length bounds this one's."""
    return output.removesuffix(_PARTS)


def _scanning(
    body: GraphProto, left: Sequence[int], appended: Mapping[str, _Appended]
) -> GraphProto:
    """The body with these states left, which gives what it appended, to a constant each."""
    changed = GraphProto()
    changed.CopyFrom(body)
    states = len(left) + len(appended)
    del changed.node[:], changed.input[:], changed.output[:]
    changed.input.extend([*body.input[:2], *(body.input[2 + k] for k in left)])
    ends = [body.output[0], *(body.output[1 + k] for k in left), *body.output[1 + states :]]
    changed.output.extend(ends)
    gone = {n.output[0] for a in appended.values() for n in a.copies}
    changed.node.extend(n for n in body.node if not gone.intersection(n.output))
    firsts = {a.node.output[0]: none for none, a in appended.items()}
    for node in changed.node:
        if node.output and (none := firsts.get(node.output[0])):
            node.input[0] = none
    changed.output.extend(ValueInfoProto(name=name) for name in firsts)
    return changed


def _joined(scope: Scope, first: str, parts: str, out: str, axis: int) -> list[NodeProto]:
    """What stands for the state after the loop: `first`, and all `parts` one after the other."""
    shape = list(scope.types[parts].shape)
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
    turned, flat = (scope.fresh(f"{parts}.{word}") for word in ("turned", "flat"))
    nodes = [helper.make_node("Transpose", [parts], [turned], perm=order)]
    if shape[axis + 1] == 1:  # one place of each iteration: as many as iterations
        gone = scope.new_const(f"{flat}.axes", np.array([axis + 1], np.int64))
        nodes.append(helper.make_node("Squeeze", [turned, gone], [flat]))
    else:
        whole = [*shape[1 : axis + 1], -1, *shape[axis + 2 :]]
        wanted = scope.new_const(f"{flat}.shape", np.array(whole, np.int64))
        nodes.append(helper.make_node("Reshape", [turned, wanted], [flat]))
    return [*nodes, helper.make_node("Concat", [first, flat], [out], axis=axis)]
