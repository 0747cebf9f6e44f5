"""Loop: how often its body runs decides how long its scan outputs are."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, helper

from mlftool.importer.control_node import Control
from mlftool.importer.expand import OPSETS
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, TensorType

COUNT = TensorType(dtype.int32, ())


def _scalar(proto: GraphProto, k: int, row: dtype.DType) -> TensorType:
    """Iteration number and condition: scalars, which some models declare with one dimension."""
    rank = len(proto.input[k].type.tensor_type.shape.dim) if k < len(proto.input) else 0
    return TensorType(row, (1,) * min(rank, 1))


def import_loop(c: Control) -> None:
    proto = c.bodies["body"]
    c.inputs += [""] * (2 - len(c.inputs))
    if not (
        c.is_one("trip count", c.inputs[0], dtype.int64)
        and c.is_one("condition", c.inputs[1], dtype.bool_)
    ):
        return
    states = [c.type(n) for n in c.inputs[2:]]
    graph = c.body(
        "body", [_scalar(proto, 0, dtype.int64), _scalar(proto, 1, dtype.bool_), *states]
    )
    if graph is None or not c.gives(graph, len(states), extra=1):
        return
    made = [graph.types[n] for n in graph.outputs[1:]]
    if not all(
        c.same(f"state '{n}'", b, a)
        for n, a, b in zip(c.inputs[2:], states, made[: len(states)], strict=True)
    ):
        return
    scans = made[len(states) :]
    length, exact = _iterations(c, len(states), graph) if scans else (0, True)
    if length is None:
        c.problem(
            "MLF0206",
            "the number of its iterations, and so the length of its scan outputs, is not known "
            "before run time",
            "make the trip count a constant, declare the shape of the outputs in the model, or say "
            f"how large they get at most: --input-shape {c.node.output[len(states)]}:10,...",
        )
        return
    types = [*states, *(TensorType(t.dtype, (length, *t.shape)) for t in scans)]
    if exact:
        c.keep({"body": graph}, types, {"mlf.scans": len(scans)})
        return
    outputs = c.keep({"body": graph}, [*types, COUNT], {"mlf.scans": len(scans), "mlf.counts": 1})
    for name, type_ in zip(outputs[len(states) : -1], scans, strict=True):
        c.importer.symbols[name] = (outputs[-1], *("" for _ in type_.shape))


def _iterations(c: Control, states: int, body: Graph) -> tuple[int | None, bool]:
    """How many times the body runs, and whether always: the trip count, or what the model declares
    of the outputs."""
    count = c.importer.consts.get(c.inputs[0])
    if count is not None:
        start = c.importer.consts.get(c.inputs[1]) if c.inputs[1] else np.array(True)
        always = start is not None and bool(np.all(start)) and _goes_on(body)
        return max(0, int(count.reshape(-1)[0])), always
    limits = [c.importer.limit(name)[:1] for name in c.node.output[states:] if name]
    if any(limits):
        most = min(n for limit in limits for n in limit)
        c.inputs[0] = _at_most(c, c.inputs[0], most)
        return most, False
    for name in c.node.output[states:]:
        declared = c.importer.declared.get(name)
        if declared is not None and declared.tensor_type.shape.dim:
            first = declared.tensor_type.shape.dim[0]
            if first.HasField("dim_value"):
                return int(first.dim_value), True
    return None, False


def _at_most(c: Control, count: str, most: int) -> str:
    """A trip count that leaves the scan outputs' box whole."""
    given = (count,) if count else ()
    bound, least = (c.importer.fresh(f"{c.node.output[0]}.{part}") for part in ("most", "trips"))
    c.importer.add_const(bound, np.array(most, np.int64))
    made = helper.make_node("Min", [*given, bound], [least])
    c.importer.import_all([made], OPSETS, 0)
    return least


def _goes_on(body: Graph) -> bool:
    """Whether a body's condition is always true, or the one it was given."""
    makers = {n.result: n for n in body.nodes}
    name = body.outputs[0]
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    value = body.consts.get(name)
    return name == body.inputs[1] or (value is not None and bool(np.all(value)))
