"""Proving a plan takes time in proportion to its nodes."""

from __future__ import annotations

import cProfile
import pstats
from itertools import pairwise

import onnx
from onnx import TensorProto, helper

from mlftool.compile import ModuleSpec, plan_module
from mlftool.plan.program import Program
from mlftool.proof.programs import layouts, program_faults


def chain(count: int) -> onnx.ModelProto:
    """Pools one after another, which nothing fuses."""
    names = [f"t{k}" for k in range(count + 1)]
    nodes = [
        helper.make_node("MaxPool", [a], [b], kernel_shape=[3], pads=[1, 1])
        for a, b in pairwise(names)
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 8]) for n in names]
    graph = helper.make_graph(nodes, "chain", [ends[0]], [ends[-1]])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def steps(program: Program) -> int:
    """Calls of functions, and steps of generators, that reading the program takes."""
    profile = cProfile.Profile()
    profile.enable()
    faults = [*program_faults(program)]
    layouts(program, ["x"], ["y"])
    profile.disable()
    assert not faults
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_four_times_the_nodes_are_four_times_the_steps() -> None:
    few, many = (plan_module(ModuleSpec(chain(n), "chain")).program for n in (40, 160))
    assert len(many.calls) >= 160
    assert steps(many) < 5 * steps(few)
