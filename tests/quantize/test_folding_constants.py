"""What is folded into a layer before quantising leaves the function as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlftool.ir.graph import Array
from mlftool.quantize.prepare import prepared
from mlftool.quantize.runtime import Session

ROWS, COLUMNS, CHANNELS = 4, 8, 6
PER_CHANNEL = (CHANNELS,)

LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    # operator, input, weights, attributes
    "conv1d": ("Conv", (1, 4, 9), (CHANNELS, 4, 3), {}),
    "grouped": ("Conv", (1, 4, 5, 5), (CHANNELS, 2, 3, 3), {"group": 2}),
    "transposed": ("ConvTranspose", (1, 4, 5, 5), (4, 3, 2, 2), {"group": 2}),
    "gemm": ("Gemm", (ROWS, COLUMNS), (COLUMNS, CHANNELS), {"alpha": 0.5, "beta": 2.0}),
    "turned": ("Gemm", (COLUMNS, ROWS), (CHANNELS, COLUMNS), {"transA": 1, "transB": 1}),
}
BIASES: dict[str, list[tuple[int, ...] | None]] = {
    "Conv": [None, PER_CHANNEL],
    "ConvTranspose": [None, PER_CHANNEL],
    "Gemm": [None, (), (1,), PER_CHANNEL, (1, CHANNELS), (ROWS, 1), (ROWS, CHANNELS)],
}
FOLLOWERS = ["Mul", "Div", "Add", "Sub"]


def number(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(0.5, 2.0, shape).astype(np.float32)


def cases() -> list[tuple[str, tuple[int, ...] | None]]:
    return [(name, bias) for name, layer in LAYERS.items() for bias in BIASES[layer[0]]]


def network(name: str, bias: tuple[int, ...] | None, seed: int) -> onnx.ModelProto:
    """The layer, five constants behind it, one of them a normalisation, and a result."""
    rng = np.random.default_rng(seed)
    op, shape, weights, attributes = LAYERS[name]
    ones = (1,) * (len(shape) - 2)
    kept = {"w": number(rng, weights) - 1}
    names = ["x", "w"]
    if bias is not None:
        kept["c"], names = number(rng, bias), ["x", "w", "c"]
    nodes = [helper.make_node(op, names, ["t0"], **attributes)]
    for k, follower in enumerate(FOLLOWERS):
        extent = [(), (1,), (CHANNELS, *ones), (1, CHANNELS, *ones)][rng.integers(4)]
        kept[f"k{k}"] = number(rng, extent)
        inputs = [f"t{k}", f"k{k}"]
        if follower != "Div" and rng.integers(2):
            inputs.reverse()
        nodes.append(helper.make_node(follower, inputs, [f"t{k + 1}"]))
    at, parts = len(FOLLOWERS), ["scale", "shift", "mean", "variance"]
    kept |= {part: number(rng, PER_CHANNEL) for part in parts}
    nodes.append(helper.make_node("BatchNormalization", [f"t{at}", *parts], ["n"]))
    nodes.append(helper.make_node("Relu", ["n"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in kept.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


@pytest.mark.parametrize("case", cases(), ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_folding_keeps_the_function(case: tuple[str, tuple[int, ...] | None], seed: int) -> None:
    model = network(*case, seed)
    x = np.random.default_rng(seed).normal(size=LAYERS[case[0]][1]).astype(np.float32)
    right = Session(model)(["y"], {"x": x})["y"]
    made = Session(prepared(model, "net.onnx"))(["y"], {"x": x})["y"]
    assert np.abs(made - right).max() <= 1e-5 * max(1.0, np.abs(right).max())


def test_a_branch_that_reads_a_result_keeps_it() -> None:
    """A subgraph reads names of the graph around it."""
    rng = np.random.default_rng(0)
    branch = helper.make_graph(
        [helper.make_node("Abs", ["t"], ["b"])],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"]),
        helper.make_node("Mul", ["t", "k"], ["m"]),
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "zero"], ["which"]),
        helper.make_node("If", ["which"], ["c"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    kept = {"w": number(rng, (CHANNELS, 4, 3)), "k": np.float32(3), "zero": np.float32(0)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 9))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in kept.items()],
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    x = rng.normal(size=(1, 4, 9)).astype(np.float32)
    right = Session(model)(["y"], {"x": x})["y"]
    made = Session(prepared(model, "net.onnx"))(["y"], {"x": x})["y"]
    assert np.abs(made - right).max() <= 1e-5 * np.abs(right).max()
