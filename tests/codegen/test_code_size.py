"""Generated code grows with the nodes of a model and their operands, never by repeating what an
expression is made of."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
from batch import compile_model
from builders import OPSET, Net

from mlftool.ops import OPS, Trait, has

# Bytes of C for one more operand or node: an expression of the longest, with its operands.
PER_PART = 1500


def operands(op: str, count: int, equal: bool) -> onnx.ModelProto:
    net = Net()
    names = [net.input(f"x{k}", np.float32, (4,)) for k in range(1 if equal else count)]
    return net.model(net.node(op, *(names * count if equal else names)))


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean"])
def test_operands_cost_the_same_each(op: str, equal: bool) -> None:
    sizes = [len(compile_model(operands(op, n, equal)).sources.lib1) for n in (20, 40)]
    assert sizes[1] - sizes[0] <= 20 * PER_PART


def test_six_hundred_operands_take_a_moment() -> None:
    start = time.process_time()
    compile_model(operands("Max", 600, True))
    assert time.process_time() - start < 20


ONE_OPERAND = sorted(
    op
    for op in OPS
    if has(op, Trait.ELEMENTWISE)
    and onnx.defs.has(op)
    and onnx.defs.get_schema(op).min_input == 1
    and onnx.defs.get_schema(op).since_version <= OPSET
)
FLOATS = [op for op in ONE_OPERAND if op not in {"BitwiseNot", "Not", "Cast", "IsInf", "IsNaN"}]
READERS = {
    "none": lambda net, y: y,
    "Softmax": lambda net, y: net.node("Softmax", y),
    "AveragePool": lambda net, y: net.node("AveragePool", y, kernel_shape=[3, 3], pads=[1] * 4),
    "Resize": lambda net, y: net.node(
        "Resize", y, "", net.const([1, 1, 2, 2], np.float32), mode="linear"
    ),
    "ReduceMean": lambda net, y: net.node("ReduceMean", y),
    "LayerNormalization": lambda net, y: net.node(
        "LayerNormalization", y, net.const(np.ones(5), np.float32)
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("op", FLOATS)
def test_chains_cost_the_same_for_each_link(op: str, reader: str) -> None:
    """As prologue of what reads them, too: there each link is an expression in the next."""
    sizes = []
    for count in (12, 24):
        net = Net()
        y = net.input("x", np.float32, (1, 2, 5, 5))
        for _ in range(count):
            y = net.node(op, y)
        sizes.append(len(compile_model(net.model(READERS[reader](net, y))).sources.lib1))
    assert sizes[1] - sizes[0] <= 12 * PER_PART
