"""What a network may be grown with that has subgraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from grow import Grower, Value
from onnx import TensorProto, helper


def _branch(g: Grower, name: str, x: Value, length: int) -> Any:
    """A subgraph that reads x from outside and keeps its shape."""
    nodes, at = [], x.name
    for _ in range(length):
        out = g.name("i")
        op = g.one("Relu", "Sigmoid", "Neg", "Tanh", "Add")
        nodes.append(helper.make_node(op, [at, x.name] if op == "Add" else [at], [out]))
        at = out
    result = helper.make_tensor_value_info(at, TensorProto.FLOAT, x.shape)
    return helper.make_graph(nodes, name, [], [result])


def choose(g: Grower) -> None:
    """An If whose condition is computed."""
    x = g.floats()
    total = g.add("ReduceSum", x, keepdims=0)
    condition = g.add("Greater", total, g.const(0.0, np.float32))
    y = g.value(lambda v: v.array.dtype == np.float32 and v.shape == x.shape)
    then, other = _branch(g, "then", x, g.whole(1, 3)), _branch(g, "other", y, g.whole(1, 3))
    g.add("If", condition, then_branch=then, else_branch=other)


def repeat(g: Grower) -> None:
    """A Loop with one state, whose body reads a tensor from outside and stacks another."""
    x = g.floats()
    state, bound = g.name("s"), g.name("s")
    names = [g.name("i") for _ in range(4)]
    nodes = [
        helper.make_node("Identity", [bound], [names[0]]),
        helper.make_node(g.one("Tanh", "Sigmoid", "Relu"), [state], [names[1]]),
        helper.make_node(g.one("Add", "Sub", "Max"), [names[1], x.name], [names[2]]),
        helper.make_node("Neg", [names[2]], [names[3]]),
    ]
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes,
        "body",
        [
            info(g.name("k"), TensorProto.INT64, ()),
            info(bound, TensorProto.BOOL, ()),
            info(state, TensorProto.FLOAT, x.shape),
        ],
        [
            info(names[0], TensorProto.BOOL, ()),
            info(names[2], TensorProto.FLOAT, x.shape),
            info(names[3], TensorProto.FLOAT, x.shape),
        ],
    )
    trips = g.const(g.whole(1, 4), np.int64)
    g.parts("Loop", trips, g.const(True, np.bool_), x, outputs=2, body=body)
