"""Branches in branches: names and time grow with their depth, not with powers of two."""

from __future__ import annotations

import time

from bad_corpus import model, node, tensor, value
from batch import compile_model
from onnx import TensorProto, helper

LEVELS = 28  # protobuf reads messages in messages a hundred deep, three for each level


def test_chosen_branches_in_branches_are_inlined_in_little_time() -> None:
    """Each reads what the graph around it makes, and has names of its own."""
    graph = helper.make_graph([node("Add", "x w", "y0")], "g", [], [value("y0")])
    for k in range(1, LEVELS):
        choice = helper.make_tensor("c", TensorProto.BOOL, [], [k % 2 == 0])
        other = helper.make_graph([node("Neg", "x", f"n{k}")], "g", [], [value(f"n{k}")])
        branches = {"then_branch": graph, "else_branch": other}
        if k % 2:
            branches = {"then_branch": other, "else_branch": graph}
        steps = [
            node("Constant", "", f"c{k}", value=choice),
            node("If", f"c{k}", f"y{k}", **branches),
        ]
        graph = helper.make_graph(steps, "g", [], [value(f"y{k}")])
    nested = model(list(graph.node), outputs=list(graph.output), weights=[tensor("w", [1.0] * 4)])
    begin = time.process_time()
    module = compile_model(nested)
    assert time.process_time() - begin < 2
    assert [call.node.op for call in module.program.calls] == ["Add"]
    assert max(map(len, module.imported.types)) < 400
