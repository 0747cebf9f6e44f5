"""Operators as older opsets spell them: attributes that became inputs, broadcasting that was asked
for, defaults that changed. Each model is compiled as it stands; what it must give is written here.

Before opset 6 shapes cannot be inferred, so models had to declare them, and these do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from batch import Job, run_jobs
from builders import Net
from onnx import helper

from mlftool.compile import ModuleSpec, compile_module

Array = np.ndarray[Any, Any]
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
COLUMN = np.float32([1, 2, -4])
TRUE = np.array([[True, False], [False, True]])


def one(op: str, x: Array = X, **attrs: Any) -> Callable[[Net], str]:
    return lambda net: net.node(op, net.input("x", x.dtype, x.shape), **attrs)


def two(op: str, y: Array, x: Array = X, **attrs: Any) -> Callable[[Net], str]:
    return lambda net: net.node(
        op, net.input("x", x.dtype, x.shape), net.input("y", y.dtype, y.shape), **attrs
    )


def dropout_and_mask(net: Net) -> str:
    """Both outputs, told apart by their types."""
    x = net.input("x", X.dtype, X.shape)
    y = net.node("Dropout", x, ratio=0.3)
    net._nodes[-1].output.append("mask")
    return net.node("Where", "mask", y, net.const(np.float32(9)))


def quantised(net: Net) -> str:
    x = net.input("x", X.dtype, X.shape)
    return net.node("QuantizeLinear", x, net.const(np.float32(0.5)), net.const(np.uint8(128)))


def quantised_per_axis(net: Net) -> str:
    x = net.input("x", X.dtype, X.shape)
    scale, zero = net.const(COLUMN.__abs__()), net.const(np.uint8([1, 2, 3]))
    return net.node("QuantizeLinear", x, scale, zero)


def normalised(net: Net) -> str:
    """Parameters of each element, not of each channel."""
    x, parameters = net.input("x", X.dtype, X.shape), (X[0], X[1], X[0] - 1, X[1])
    return net.node("BatchNormalization", x, *map(net.const, parameters), epsilon=0.5, spatial=0)


def by_axis(values: Array) -> Array:
    """A vector that goes along axis 1 of X."""
    return values.reshape(3, 1)


def round_off(x: Array, scale: Any, zero: Any) -> Array:
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)


# name -> (opset, model, inputs, expected)
CASES: dict[str, tuple[int, Callable[[Net], str], Array, Array | None, Array]] = {
    "clip_6": (6, one("Clip", min=-1.0, max=2.0), X, None, np.clip(X, -1, 2)),
    "clip_6_default": (6, one("Clip", max=2.0), X, None, np.minimum(X, 2)),
    "clip_10": (10, one("Clip", min=0.5), X, None, np.maximum(X, 0.5)),
    "add_6": (6, two("Add", X), X, X, X + X),
    "add_6_axis": (6, two("Add", COLUMN, broadcast=1, axis=1), X, COLUMN, X + by_axis(COLUMN)),
    "sub_6_suffix": (6, two("Sub", X[0], broadcast=1), X, X[0], X - X[0]),
    "mul_6_scalar": (6, two("Mul", X[0, 0, :1], broadcast=1), X, X[0, 0, :1], X * X[0, 0, 0]),
    "div_6_axis": (6, two("Div", COLUMN, broadcast=1, axis=-2), X, COLUMN, X / by_axis(COLUMN)),
    "pow_1": (6, two("Pow", np.float32([2]), broadcast=1), X, np.float32([2]), X**2),
    "and_1": (6, two("And", TRUE[0], TRUE, broadcast=1), TRUE, TRUE[0], TRUE & TRUE[0]),
    "less_1": (6, two("Less", COLUMN, broadcast=1, axis=1), X, COLUMN, by_axis(COLUMN) > X),
    "add_7": (7, two("Add", X[0, 0]), X, X[0, 0], X + X[0, 0]),
    "prelu_6": (6, two("PRelu", COLUMN), X, COLUMN, np.where(X < 0, X * by_axis(COLUMN), X)),
    "prelu_7": (7, two("PRelu", X[0, 0]), X, X[0, 0], np.where(X < 0, X * X[0, 0], X)),
    "cast_1": (5, one("Cast", to="INT32"), X, None, X.astype(np.int32)),
    "cast_6": (6, one("Cast", to=6), X, None, X.astype(np.int32)),
    "dropout_6": (6, one("Dropout", is_test=1, ratio=0.4), X, None, X),
    "dropout_7": (7, one("Dropout", ratio=0.4), X, None, X),
    "dropout_10_mask": (10, dropout_and_mask, X, None, X),
    "max_6": (6, two("Max", -X), X, -X, np.abs(X)),
    "relu_1": (1, one("Relu", consumed_inputs=[0]), X, None, np.maximum(X, 0)),
    "leaky_relu_1": (1, one("LeakyRelu", alpha=0.5), X, None, np.where(X < 0, X / 2, X)),
    "hard_sigmoid_1": (1, one("HardSigmoid"), X, None, np.clip(X * 0.2 + 0.5, 0, 1)),
    "selu_1": (1, one("Selu"), X, None, np.where(X > 0, X, 1.6732 * np.expm1(X)) * 1.0507),
    "elu_1": (1, one("Elu", alpha=2.0), X, None, np.where(X > 0, X, 2 * np.expm1(X))),
    "batchnorm_7": (
        *(7, normalised, X, None),
        (X - X[0] + 1) / np.sqrt(X[1] + np.float32(0.5)) * X[0] + X[1],
    ),
    "quantize_10": (10, quantised, X, None, round_off(X, 0.5, 128)),
    "quantize_13": (
        *(13, quantised_per_axis, X, None),
        round_off(X, by_axis(np.abs(COLUMN)), by_axis(np.array([1, 2, 3]))),
    ),
}


def job(name: str) -> Job:
    opset, build, x, y, expected = CASES[name]
    net = Net(opset)
    feed = {"x": x} if y is None else {"x": x, "y": y}
    model = net.model(build(net))
    if opset < 6:
        code = helper.np_dtype_to_tensor_dtype(expected.dtype)
        made = model.graph.output.pop().name
        model.graph.output.append(helper.make_tensor_value_info(made, code, expected.shape))
    return Job(model, [feed])


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[str, Job]:
    made = {name: job(name) for name in CASES if selected(name)}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("old"))
    return made


@pytest.mark.parametrize("name", CASES)
def test_old_spelling(name: str, jobs: dict[str, Job]) -> None:
    expected = CASES[name][-1]
    assert not jobs[name].failure, jobs[name].failure
    (got,) = jobs[name].results[0].values()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("opset", [6, 7, 9, 10, 12])
def test_a_mask_that_nobody_reads_needs_no_shape(opset: int) -> None:
    text = f'<ir_version: 7, opset_import: ["": {opset}]>'
    text += " g (float[2,3] x) => (float[2,3] y) { d, mask = Dropout(x) y = Neg(d) }"
    module = compile_module(ModuleSpec(onnx.parser.parse_model(text), "m"))
    assert [n.op for n in module.program.graph.nodes] == ["Neg"]
