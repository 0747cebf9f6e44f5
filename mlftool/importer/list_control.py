"""If and Loop whose state or result is a sequence or an optional: both branches are computed, a
Loop is unrolled, and what was wanted is chosen.

    %s = Loop(%n, , %s0) { %s.out = SequenceInsert(%s.in, %x) }
    =>   %s.0 = SequenceInsert(%s0, %x); %s.1 = SequenceInsert(%s.0, %x) ...
         %s has the elements of the last, and Gather([0, 1, 2 ...], %n) is its length
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from mlftool.importer.expand import OPSETS
from mlftool.importer.lists import RefusedError, chosen, joined, listed, same, spliced
from mlftool.importer.structure import free_names

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer

Attributes = Mapping[str, Any]
LONGEST_UNROLLED = 256  # iterations
EMPTY = np.zeros(0, np.int64)  # the shape of a scalar


def about_lists(importer: Importer, node: NodeProto) -> bool:
    """Whether a branch of an If reads or gives a sequence or an optional."""
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    kinds = ("sequence_type", "optional_type")
    gives = any(o.type.WhichOneof("value") in kinds for body in bodies for o in body.output)
    free = (name for body in bodies for name in free_names(body))
    return gives or any(n in importer.sequences or n in importer.absent for n in free)


def branch(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    """Both branches are computed and what they give is chosen, or the only one that can be."""
    known = importer.consts.get(node.input[0])
    keys = ["else_branch", "then_branch"]
    if known is not None:
        keys = [keys[bool(np.all(known))]]
    branches = []
    for key in keys:
        made = spliced(importer, attrs[key], (), f"{node.output[0]}.{key}.")
        if made is None:
            return
        branches.append(made)
    index = ""
    if len(keys) > 1:
        flat = _constant(importer, f"{node.output[0]}.shape", EMPTY)
        condition = _node(importer, "Reshape", node.input[0], flat)
        index = _node(importer, "Cast", condition, to=TensorProto.INT32)
    for names, out in zip(zip(*branches, strict=True), node.output, strict=False):
        _choose(importer, index, names, out)


def _choose(importer: Importer, index: str, names: Sequence[str], out: str) -> None:
    """`out` is number `index` of `names`, all of which are tensors, or sequences and optionals."""
    if len(set(names)) == 1:
        same(importer, names[0], out)
        return
    if all(name in importer.types for name in names):
        same(importer, chosen(importer, index, names, f"{out}.item"), out)
        return
    if any(name in importer.types or name in importer.lengths for name in names):
        raise RefusedError("chooses at run time between an optional tensor and none")
    lists = [importer.sequences.get(name, ()) for name in names]
    lengths = [-1 if n in importer.absent else len(k) for n, k in zip(names, lists, strict=True)]
    importer.sequences[out] = tuple(listed(importer, index, lists, out))
    if len(set(lengths)) > 1:
        table = _constant(importer, f"{out}.lengths", np.array(lengths, np.int32))
        importer.lengths[out] = _node(importer, "Gather", table, index)


def loop(importer: Importer, node: NodeProto, attrs: Attributes) -> None:
    """A copy of the body for each iteration. If how many there are is known at run time, for as
    many as a limit says; then the state behind the last one that counts is chosen."""
    body: GraphProto = attrs["body"]
    count = importer.consts.get(node.input[0])
    going = node.input[1] or _constant(importer, f"{node.output[0]}.start", True)
    open_ = count is None or going not in importer.consts  # whether anything is chosen
    most = _limit(importer, node) if count is None else int(count)
    if most > LONGEST_UNROLLED:
        raise RefusedError(f"its state is a sequence; supported: {LONGEST_UNROLLED} iterations")
    states = list(node.input[2:])
    history, running = [states], []
    scans: list[list[str]] = [[] for _ in body.output[1 + len(states) :]]
    for i in range(most):
        if not open_ and not np.all(importer.consts[going]):
            break
        number = _constant(importer, f"{node.output[0]}.trip{i}", np.int64(i))
        if open_ and count is None:
            going = _node(importer, "And", going, _node(importer, "Less", number, node.input[0]))
        running.append(going)
        always = _constant(importer, f"{number}.going", True)
        made = spliced(importer, body, [number, always, *states], f"{number}.")
        if made is None:
            return
        open_ = open_ or made[0] not in importer.consts
        going = _node(importer, "And", going, made[0]) if open_ else made[0]
        states = made[1 : 1 + len(states)]
        history.append(states)
        for scan, name in zip(scans, made[1 + len(states) :], strict=True):
            scan.append(name)
    _finish(importer, node, history, running if open_ else [], scans)


def _finish(
    importer: Importer,
    node: NodeProto,
    history: Sequence[Sequence[str]],
    running: Sequence[str],
    scans: Sequence[Sequence[str]],
) -> None:
    states = len(history[-1])
    if running and scans:
        raise RefusedError("its state is a sequence and how much it scans known only at run time")
    index = _number(importer, running) if running else ""
    for k, out in enumerate(node.output[:states]):
        if out and running:
            _choose(importer, index, [names[k] for names in history], out)
        elif out:
            same(importer, history[-1][k], out)
    for scan, out in zip(scans, node.output[states:], strict=False):
        if not scan:
            raise RefusedError("scans no iteration")
        joined(importer, scan, out, 0, True)


def _limit(importer: Importer, node: NodeProto) -> int:
    """How many iterations there are at most, as the user says by a limit to a sequence."""
    limits = [n for out in node.output if out for n in importer.limit(out)[:1]]
    if not limits:
        raise RefusedError(
            "its state is a sequence and its trip count known only at run time; say how many there "
            f"are at most: --input-shape {node.output[0]}:10"
        )
    return min(limits)


def _constant(importer: Importer, hint: str, value: Any) -> str:
    name = importer.fresh(hint)
    importer.add_const(name, np.array(value))
    return name


def _node(importer: Importer, op: str, *inputs: str, **attrs: Any) -> str:
    """The result of one more node."""
    made = importer.fresh(f"{inputs[0]}.{op.lower()}")
    importer.import_all([helper.make_node(op, inputs, [made], **attrs)], OPSETS, 0)
    return made


def _number(importer: Importer, running: Sequence[str]) -> str:
    """How many of the conditions hold, as an int32 scalar."""
    total = ""
    for name in running:
        flat = _node(importer, "Reshape", name, _constant(importer, f"{name}.shape", EMPTY))
        one = _node(importer, "Cast", flat, to=TensorProto.INT32)
        total = _node(importer, "Add", total, one) if total else one
    return total
