"""If and Loop whose state or result is a sequence or an optional: both branches are computed, a
Loop is unrolled, and what was wanted is chosen.

    %s = Loop(%n, , %s0) { %s.out = SequenceInsert(%s.in, %x) }
    =>   %s.0 = SequenceInsert(%s0, %x); %s.1 = SequenceInsert(%s.0, %x) ...
         %s has the elements of the last, and Gather([0, 1, 2 ...], %n) is its length
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from mlftool.importer.control_node import branches_give, gives
from mlftool.importer.lists import chosen, joined, listed, same, spliced
from mlftool.importer.protos import place
from mlftool.importer.structure import free_names
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import KEEP, Outcome, Refuse, Scope, Work, stepwise
from mlftool.onnx_rules.steps import standing_for

LONGEST_UNROLLED = 256  # iterations
TOO_LONG = f"its state is a sequence; supported: {LONGEST_UNROLLED} iterations"
EMPTY = np.zeros(0, np.int64)  # the shape of a scalar


def about_lists(scope: Scope, node: NodeProto) -> bool:
    """Whether a branch of an If reads or gives a sequence or an optional."""
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    kinds = ("sequence_type", "optional_type")
    gives = any(o.type.WhichOneof("value") in kinds for body in bodies for o in body.output)
    free = (name for body in bodies for name in free_names(body))
    return gives or any(n in scope.sequences or n in scope.absent for n in free)


@stepwise
def branch(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """Both branches are computed and what they give is chosen, or the only one that can be."""
    attrs, known = attributes(node), scope.consts.get(node.input[0])
    keys = ["else_branch", "then_branch"]
    if known is not None:
        keys = [keys[bool(np.all(known))]]
    branches, where = [], f"{place(node, scope.index)} "
    for key in keys:
        made = yield from spliced(scope, attrs[key], (), f"{node.output[0]}.{key}.", where + key)
        if made is None:
            return KEEP
        branches.append(made)
    branches_give(node, branches)
    index = ""
    if len(keys) > 1:
        flat = scope.new_const(f"{node.output[0]}.shape", EMPTY)
        condition = yield from _node(scope, "Reshape", node.input[0], flat)
        index = yield from _node(scope, "Cast", condition, to=TensorProto.INT32)
    for names, out in zip(zip(*branches, strict=True), node.output, strict=False):
        yield from _choose(scope, index, names, out)
    return KEEP


def _choose(scope: Scope, index: str, names: Sequence[str], out: str) -> Work[None]:
    """`out` is number `index` of `names`, all of which are tensors, or sequences and optionals."""
    if len(set(names)) == 1:
        same(scope, names[0], out)
        return
    if all(name in scope.types for name in names):
        same(scope, chosen(scope, index, names, f"{out}.item"), out)
        return
    if any(name in scope.types or name in scope.lengths for name in names):
        raise Refuse("MLF0302", "chooses at run time between an optional tensor and none")
    lists = [scope.sequences.get(name, ()) for name in names]
    lengths = [-1 if n in scope.absent else len(k) for n, k in zip(names, lists, strict=True)]
    scope.sequences[out] = tuple(listed(scope, index, lists, out))
    if len(set(lengths)) > 1:
        table = scope.new_const(f"{out}.lengths", np.array(lengths, np.int32))
        scope.lengths[out] = yield from _node(scope, "Gather", table, index)


@stepwise
def loop(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """A copy of the body for each iteration. If how many there are is known at run time, for as
    many as a limit says; then the state after the last one that counts is chosen."""
    body: GraphProto = attributes(node)["body"]
    count = scope.consts.get(node.input[0])
    if count is not None and count.size != 1:
        raise Refuse("MLF0303", f"a number of iterations of {count.size} elements; expected one")
    going = node.input[1] or scope.new_const(f"{node.output[0]}.start", np.array(True))
    endless = not node.input[0]  # but for the condition
    # Whether anything is chosen: not while the condition is known to the compiler.
    open_ = (count is None and not endless) or going not in scope.consts
    most = _limit(scope, node) if open_ and count is None else LONGEST_UNROLLED + endless
    most = most if count is None else int(count)
    if most > LONGEST_UNROLLED + endless:
        raise Refuse("MLF0302", TOO_LONG)
    states, where = list(node.input[2:]), f"{place(node, scope.index)} body"
    gives(node, len(body.output) - 1, len(states))
    history, running = [states], []
    scans: list[list[str]] = [[] for _ in body.output[1 + len(states) :]]
    for i in itertools.count():
        if i == most or (not open_ and not np.all(scope.consts[going])):
            break
        number = scope.new_const(f"{node.output[0]}.trip{i}", np.array(i, np.int64))
        if i == LONGEST_UNROLLED:
            raise Refuse("MLF0302", TOO_LONG)
        if open_ and count is None and not endless:
            less = yield from _node(scope, "Less", number, node.input[0])
            going = yield from _node(scope, "And", going, less)
        running.append(going)
        always = scope.new_const(f"{number}.going", np.array(True))
        made = yield from spliced(scope, body, [number, always, *states], f"{number}.", where)
        if made is None:
            return KEEP
        if not open_ and made[0] not in scope.consts:
            open_ = True
            most = _limit(scope, node) if endless else most
        going = (yield from _node(scope, "And", going, made[0])) if open_ else made[0]
        states = made[1 : 1 + len(states)]
        history.append(states)
        for scan, name in zip(scans, made[1 + len(states) :], strict=True):
            scan.append(name)
    yield from _finish(scope, node, history, running if open_ else [], scans)
    return KEEP


def _finish(
    scope: Scope,
    node: NodeProto,
    history: Sequence[Sequence[str]],
    running: Sequence[str],
    scans: Sequence[Sequence[str]],
) -> Work[None]:
    states = len(history[-1])
    if running and scans:
        raise Refuse(
            "MLF0302", "its state is a sequence and how much it scans known only at run time"
        )
    index = (yield from _number(scope, running)) if running else ""
    for k, out in enumerate(node.output[:states]):
        if out and running:
            yield from _choose(scope, index, [names[k] for names in history], out)
        elif out:
            same(scope, history[-1][k], out)
    for scan, out in zip(scans, node.output[states:], strict=False):
        if not scan:
            raise Refuse("MLF0302", "scans no iteration")
        yield joined(scope, scan, out, 0, True)


def _limit(scope: Scope, node: NodeProto) -> int:
    """How many iterations there are at most, as the user says by a limit to a sequence."""
    limits = [n for out in node.output if out for n in scope.limit(out)[:1]]
    if not limits:
        raise Refuse(
            "MLF0302",
            "its state is a sequence and its trip count known only at run time; say how many there "
            f"are at most: --input-shape {node.output[0]}:10",
        )
    return min(limits)


def _node(scope: Scope, op: str, *inputs: str, **attrs: Any) -> Work[str]:
    """The result of one more node."""
    made = scope.fresh(f"{inputs[0]}.{op.lower()}")
    yield standing_for(scope, [helper.make_node(op, inputs, [made], **attrs)])
    return made


def _number(scope: Scope, running: Sequence[str]) -> Work[str]:
    """How many of the conditions hold, as an int32 scalar."""
    total = ""
    for name in running:
        shape = scope.new_const(f"{name}.shape", EMPTY)
        flat = yield from _node(scope, "Reshape", name, shape)
        one = yield from _node(scope, "Cast", flat, to=TensorProto.INT32)
        total = (yield from _node(scope, "Add", total, one)) if total else one
    return total
