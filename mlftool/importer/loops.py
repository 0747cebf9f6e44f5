"""Loop: how often its body runs decides how long its scan outputs are."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, helper

from mlftool.frozen import frozen
from mlftool.importer.appended import bounded_by
from mlftool.importer.control_node import Control
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.onnx_rules.scope import KEEP, Outcome, Refuse, Work
from mlftool.onnx_rules.steps import standing_for
from mlftool.ops.base import Trait, is_a
from mlftool.ops.reference import evaluate, knows
from mlftool.ops.shapers import elements

COUNT = TensorType(dtype.int32, ())
MOST_COUNTED = 4096  # iterations that are tried to find how many there are


def _scalar(proto: GraphProto, k: int, row: dtype.DType) -> TensorType:
    """Iteration number and condition: scalars, which some models declare with one dimension."""
    rank = len(proto.input[k].type.tensor_type.shape.dim) if k < len(proto.input) else 0
    return TensorType(row, (1,) * min(rank, 1))


def import_loop(c: Control) -> Work[Outcome]:
    proto = c.bodies["body"]
    c.inputs += [""] * (2 - len(c.inputs))
    c.is_one("trip count", c.inputs[0], dtype.int64)
    c.is_one("condition", c.inputs[1], dtype.bool_)
    states = [c.type(n) for n in c.inputs[2:]]
    scalars = (_scalar(proto, 0, dtype.int64), _scalar(proto, 1, dtype.bool_))
    boxes = [c.scope.symbols_of(n) for n in c.inputs[2:]]
    graph = yield from c.body("body", [*scalars, *states], [(), (), *boxes], [(), *boxes])
    if graph is None:
        return KEEP
    c.gives(graph.outputs, len(states), extra=1)
    made = [graph.types[n] for n in graph.outputs[1:]]
    for n, a, b in zip(c.inputs[2:], states, made[: len(states)], strict=True):
        c.same(f"state '{n}'", b, a)
    scans = made[len(states) :]
    length: int | None = 0
    exact = True
    if scans:
        length, exact = yield from _iterations(c, len(states), graph)
    if length is None:
        return Refuse(
            "MLF0206",
            "the number of its iterations, and so the length of its scan outputs, is not known "
            "before run time",
            "make the trip count a constant, declare the shape of the outputs in the model, or say "
            f"how large they get: --input-shape {_named(c, len(states))}:10,...",
        )
    types = [*states, *(TensorType(t.dtype, (length, *t.shape)) for t in scans)]
    if exact:
        c.sized(c.keep({"body": graph}, types, {"mlf.scans": len(scans)}), boxes)
        return KEEP
    outputs = c.keep({"body": graph}, [*types, COUNT], {"mlf.scans": len(scans), "mlf.counts": 1})
    c.sized(outputs, boxes)
    for name, type_ in zip(outputs[len(states) : -1], scans, strict=True):
        c.scope.symbols[name] = (outputs[-1], *("" for _ in type_.shape))
    return KEEP


def _named(c: Control, states: int) -> str:
    """The first scan output that the node names, which the user may bound."""
    return bounded_by(next(filter(None, c.node.output[states:]), "y"))


def _iterations(c: Control, states: int, body: Graph) -> Work[tuple[int | None, bool]]:
    """How many times the body runs, and whether always: what counting finds, the trip count, or
    what the model declares of the outputs."""
    count = c.scope.consts.get(c.inputs[0])
    counted = _counted(c, states, body)
    if counted is not None:
        return counted, True
    if count is not None:
        start = c.scope.consts.get(c.inputs[1]) if c.inputs[1] else np.array(True)
        always = start is not None and bool(np.all(start)) and _goes_on(body)
        return max(0, int(count.reshape(-1)[0])), always
    limits = [n for name in c.node.output[states:] if name for n in c.scope.limit(name)[:1]]
    if c.inputs[0] and (bound := elements(c.scope, c.inputs[0])[0].most) is not None:
        limits.append(bound)
    if limits:
        most = min(limits)
        c.inputs[0] = yield from _at_most(c, c.inputs[0], most)
        return most, False
    for name in c.node.output[states:]:
        declared = c.scope.declared.get(name)
        if declared is not None and declared.tensor_type.shape.dim:
            first = declared.tensor_type.shape.dim[0]
            if first.HasField("dim_value"):
                return int(first.dim_value), True
    return None, False


def _at_most(c: Control, count: str, most: int) -> Work[str]:
    """A trip count that leaves the scan outputs' box whole."""
    given = (count,) if count else ()
    bound, least = (c.scope.fresh(f"{c.node.output[0]}.{part}") for part in ("most", "trips"))
    c.scope.add_const(bound, np.array(most, np.int64))
    made = helper.make_node("Min", [*given, bound], [least])
    yield standing_for(c.scope, [made])
    return least


def _goes_on(body: Graph) -> bool:
    """Whether a body's condition is always true, or the one it was given."""
    makers = {n.result: n for n in body.nodes}
    name = body.outputs[0]
    while name in makers and is_a(makers[name], Trait.IDENTITY):
        name = makers[name].inputs[0]
    value = body.consts.get(name)
    return name == body.inputs[1] or (value is not None and bool(np.all(value)))


def _counted(c: Control, states: int, body: Graph) -> int | None:
    """How many times the body runs, found by running what its condition depends on: the counters
    that tf2onnx writes start at constants and are compared with constants. None if the condition
    depends on anything else, or after MOST_COUNTED times."""
    consts = c.scope.consts
    if any(name and name not in consts for name in c.inputs[:2]):
        return None
    part = _control(body, states)
    if part is None or any(c.inputs[2 + k] not in consts for k in part.states):
        return None
    trips = int(consts[c.inputs[0]].reshape(-1)[0]) if c.inputs[0] else MOST_COUNTED + 1
    goes_on = not c.inputs[1] or bool(np.all(consts[c.inputs[1]]))
    known = {body.inputs[2 + k]: consts[c.inputs[2 + k]] for k in part.states}
    times = 0
    while goes_on and times < trips and times <= MOST_COUNTED:
        for k, value in ((0, np.int64(times)), (1, np.bool_(True))):
            known[body.inputs[k]] = np.full(body.types[body.inputs[k]].shape, value)
        values = {**body.consts, **known}
        for node in part.nodes:
            values[node.result] = evaluate(node, [values.get(i) for i in node.inputs])
        known = {body.inputs[2 + k]: values[body.outputs[1 + k]] for k in part.states}
        goes_on = bool(np.all(values[body.outputs[0]]))
        times += 1
    return times if times <= MOST_COUNTED else None


@frozen
class _Part:
    """What a body's condition depends on."""

    nodes: tuple[Node, ...]  # in order
    states: tuple[int, ...]


def _control(body: Graph, states: int) -> _Part | None:
    """None where a condition depends on what the loop reads from outside, or is too large."""
    makers = {name: n for n in body.nodes for name in n.outputs}
    places = {name: k for k, name in enumerate(body.inputs)}
    nodes: set[str] = set()
    found: set[int] = set()
    wanted = [body.outputs[0]]
    while wanted:
        name = wanted.pop()
        maker, place = makers.get(name), places.get(name)
        if maker is not None:
            if len(maker.outputs) > 1 or maker.graphs or not knows(maker):
                return None
            if maker.result not in nodes:
                nodes.add(maker.result)
                wanted += [i for i in maker.inputs if i]
        elif name not in body.consts and place is not None:
            if place >= 2 + states:
                return None
            if place >= 2 and place - 2 not in found:
                found.add(place - 2)
                wanted.append(body.outputs[place - 1])
    if sum(body.types[n].elements for n in nodes) > MOST_COUNTED:
        return None
    return _Part(tuple(n for n in body.nodes if n.outputs[0] in nodes), tuple(sorted(found)))
