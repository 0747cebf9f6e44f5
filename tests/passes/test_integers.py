"""Quantised sums before and after passes/integers.py, as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from builders import Net
from test_passes import run

from mlftool.passes import canonicalise, integers, layout, qdq

PASSES = (
    canonicalise.canonicalise,
    qdq.sink_and_hoist,
    integers.to_integer,
    integers.average_to_integer,
    integers.settle_weights,
)


def weighted(op: str, *extra: str, zero: int = 0) -> onnx.ModelProto:
    """`op` of a quantised tensor and uint8 weights, a float bias if `extra` has one, no Q."""
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 4)), 0.5, np.int8(3))
    stored = np.full((4, 3), zero + 1, np.uint8)
    w = net.dq(net.const(stored), 0.25, np.uint8(zero))
    bias = [net.const(np.ones(3), np.float32)] if "bias" in extra else []
    return net.model(net.node("Sigmoid", net.node(op, x, w, *bias)))


def test_without_a_quantisation_the_sum_is_scaled_to_float(tmp_path: Path) -> None:
    """Weights are centred: 128 and all that int8 has around it."""
    assert run(weighted("Gemm", zero=128), tmp_path, *PASSES) == [
        "float32[2x3] = com.microsoft.QGemm(%, 0.5, 3, <int8[4x3]>, 0.25, 0, _, _, _)",
        "float32[2x3] = Sigmoid(%)",
    ]


def test_a_float_bias_is_added_to_the_float(tmp_path: Path) -> None:
    assert run(weighted("Gemm", "bias"), tmp_path, *PASSES) == [
        "float32[2x3] = com.microsoft.QGemm(%, 0.5, 3, <int8[4x3]>, 0.25, 0, _, _, _)",
        "float32[2x3] = Add(%, <float32[3]>)",
        "float32[2x3] = Sigmoid(%)",
    ]


def test_weights_that_cannot_be_centred_stay(tmp_path: Path) -> None:
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 4)), 0.5, np.int8(3))
    w = net.dq(net.const(np.array([[0], [255], [9], [7]]), np.uint8), 0.25, np.uint8(100))
    assert run(net.model(net.node("MatMul", x, w)), tmp_path, *PASSES) == [
        "float32[2x1] = com.microsoft.QGemm(%, 0.5, 3, <uint8[4x1]>, 0.25, 100, _, _, _)",
    ]


def test_pad_and_concat_work_on_integers(tmp_path: Path) -> None:
    """A Pad of zeros is one of zero points; Q is hoisted above a Concat whose scales differ."""
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 4)), 0.5, np.int8(3))
    y = net.dq(net.input("y", np.int8, (1, 4)), 0.25, np.int8(1))
    padded = net.node("Pad", x, net.const([0, 1, 0, 0], np.int64))
    model = net.model(net.q(net.node("Concat", padded, y, axis=1), 0.5, np.int8(3)))
    assert run(model, tmp_path, *PASSES) == [
        "float32[1x4] = DequantizeLinear(%, 0.25, 1)",
        "int8[1x5] = Pad(%, <int64[4]>, 3)",
        "int8[1x4] = QuantizeLinear(%, 0.5, 3)",
        "int8[1x9] = Concat(%, %)",
    ]


def test_a_pad_with_another_value_than_integers_have_stays(tmp_path: Path) -> None:
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 4)), 0.5, np.int8(3))
    pads, value = net.const([0, 1, 0, 0], np.int64), net.const(0.3, np.float32)
    lines = run(net.model(net.node("Pad", x, pads, value)), tmp_path, *PASSES)
    assert lines == [
        "float32[1x4] = DequantizeLinear(%, 0.5, 3)",
        "float32[1x5] = Pad(%, <int64[4]>, 0.3)",
    ]


def test_a_mean_becomes_one_of_integers(tmp_path: Path) -> None:
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 4, 5)), 0.5, np.int8(3))
    model = net.model(net.node("ReduceMean", x, net.const([2], np.int64)))
    assert run(model, tmp_path, *PASSES) == [
        "float32[1x4x1] = mlf.QLinearReduceMean(%, 0.5, 3, _, _, 2)"
    ]


def test_the_best_of_integers_is_that_of_floats(tmp_path: Path) -> None:
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 4, 5)), 0.5, np.int8(3))
    assert run(net.model(net.node("ArgMax", x, axis=2)), tmp_path, *PASSES) == [
        "int64[1x4x1] = ArgMax(%)"
    ]


def test_a_bias_joins_a_product_through_a_view(tmp_path: Path) -> None:
    """MatMul of three axes is a Gemm on rows; what is quantised after it follows it there."""
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 2, 4)), 0.5, np.int8(3))
    w = net.dq(net.const(np.ones((4, 3)), np.int8), 0.25, np.int8(0))
    y = net.dq(net.q(net.node("MatMul", x, w), 0.5, np.int8(1)), 0.5, np.int8(1))
    y = net.q(net.node("Add", y, net.const(np.ones(3), np.float32)), 0.5, np.int8(2))
    assert run(net.model(y), tmp_path, *PASSES, layout.cancel_transposes) == [
        "int8[2x4] = Reshape(%)",
        "int8[2x3] = com.microsoft.QGemm(%, 0.5, 3, <int8[4x3]>, 0.25, 0, _, 0.5, 1) "
        "activation=(-128, 127)",
        "float32[2x3] = DequantizeLinear(%, 0.5, 1)",
        "float32[2x3] = Add(%, <float32[3]>)",
        "int8[2x3] = QuantizeLinear(%, 0.5, 2)",
        "int8[1x2x3] = Reshape(%)",
    ]
