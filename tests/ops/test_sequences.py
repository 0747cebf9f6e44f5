"""Sequences and optionals: none of them is left in C. Against onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from cases import Case, Results
from onnx import TensorProto, helper

import mlftool.backend
from mlftool.errors import MlfError


def edited(opset: int) -> Case:
    """Insert and erase at both ends and between, positions counted from either end."""
    net = Net(opset)
    x, y, z = (net.input(n, np.float32, (2, k + 1)) for k, n in enumerate("xyz"))
    s = net.node("SequenceConstruct", x, y)
    s = net.node("SequenceInsert", s, z, net.const(np.int64(-1)))
    s = net.node("SequenceInsert", s, y)
    s = net.node("SequenceErase", s, net.const(np.int64(0)))
    first = net.node("SequenceAt", s, net.const(np.int64(-3)))
    joined = net.node("ConcatFromSequence", s, axis=1)
    return Case(f"edited_{opset}", net.model(first, joined, net.node("SequenceLength", s)),
                "reference")  # fmt: skip


def split(keepdims: int, sizes: Any) -> Case:
    net = Net()
    x = net.input("x", np.int32, (4, 5))
    given = [net.const(np.asarray(sizes, np.int64))] if sizes is not None else []
    s = net.node("SplitToSequence", x, *given, axis=1, keepdims=keepdims)
    last = net.node("SequenceAt", s, net.const(np.int64(-1)))
    model = net.model(last, net.node("SequenceLength", s))
    return Case(f"split_{keepdims}_{sizes}".replace(" ", ""), model, "reference")


def stacked(axis: int) -> Case:
    net = Net()
    x, y = (net.input(n, np.float32, (2, 3)) for n in "xy")
    s = net.node("SequenceInsert", net.node("SequenceEmpty"), x)
    s = net.node("SequenceInsert", s, y)
    return Case(f"stacked_{axis}", net.model(net.node("ConcatFromSequence", s, axis=axis,
                                                      new_axis=1)), "reference")  # fmt: skip


def unrolled() -> Case:
    """A Loop that collects its results in a sequence."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["x", "f"], ["sum"]),
            helper.make_node("SequenceInsert", ["s", "sum"], ["s_out"]),
            helper.make_node("Identity", ["c"], ["c_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("c_out", TensorProto.BOOL, ()),
            helper.make_tensor_sequence_value_info("s_out", TensorProto.FLOAT, None),
        ],
    )
    net = Net()
    net.input("x", np.float32, (2,))
    s = net.node("SequenceEmpty")
    s = net.node("Loop", net.const(np.int64(3)), net.const(np.array(True)), s, body=body)
    return Case("unrolled", net.model(net.node("ConcatFromSequence", s, axis=0)), "reference")


def optional() -> Case:
    net = Net()
    x = net.node("Optional", net.input("x", np.float32, (3,)))
    return Case("optional", net.model(net.node("OptionalGetElement", x)))


CASES = (
    *map(edited, (11, 21)),
    split(1, None),
    split(0, None),
    split(0, 2),
    split(1, [2, 3]),
    *map(stacked, (0, 1, -1)),
    unrolled(),
    optional(),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("sequences"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_reference(case: Case, results: Results) -> None:
    results.check(case)


def _listed(change: Callable[[list[str]], onnx.NodeProto], count: int = 1) -> onnx.ModelProto:
    names = [f"s{k}" for k in range(count)]
    graph = helper.make_graph(
        [change(names)],
        "listed",
        [helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, None) for n in names],
        [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def test_a_backend_takes_and_gives_lists() -> None:
    model = _listed(lambda names: helper.make_node("SequenceErase", names, ["y"]))
    tensors = [np.full((k + 1,), k, np.float32) for k in range(3)]
    prepared = mlftool.backend.prepare(model)
    for given in (tensors, tensors[:2]):
        (got,) = prepared.run([given])
        assert [t.tolist() for t in got] == [t.tolist() for t in given[:-1]]
    assert _refused(model, [tensors[:1]]).startswith("gives no tensors")


def _refused(model: onnx.ModelProto, inputs: Sequence[Any]) -> str:
    with pytest.raises(MlfError) as caught:
        mlftool.backend.prepare(model).run(inputs)
    (problem,) = caught.value.problems
    return problem.message


def test_what_is_known_only_at_run_time_is_refused() -> None:
    net = Net()
    s = net.node("SequenceConstruct", net.input("x", np.float32, (2,)))
    model = net.model(net.node("SequenceAt", s, net.input("at", np.int64, ())))
    inputs = [np.zeros(2, np.float32), np.array(0)]
    assert _refused(model, inputs) == "a position in a sequence is known only at run time"


def test_a_position_outside_of_a_sequence_is_refused() -> None:
    net = Net()
    s = net.node("SequenceConstruct", net.input("x", np.float32, (2,)))
    model = net.model(net.node("SequenceAt", s, net.const(np.int64(1))))
    assert _refused(model, [np.zeros(2, np.float32)]) == "position 1 in a sequence of 1"


def test_whether_an_optional_holds_something_is_a_constant() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    graph = helper.make_graph(
        [helper.make_node("OptionalHasElement", ["x"], ["y"])],
        "has",
        [helper.make_value_info("x", kind)],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, ())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    prepared = mlftool.backend.prepare(model)
    assert [bool(prepared.run([x])[0]) for x in (np.zeros(2, np.float32), None)] == [True, False]
