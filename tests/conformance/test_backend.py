"""mlftool.backend as the onnx package calls it: its own runner, single nodes, what it refuses."""

from __future__ import annotations

import unittest
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test
import pytest
from builders import Net
from onnx import TensorProto, helper

import mlftool.backend
from mlftool.errors import MlfError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path))


# The whole suite is test_backend_suite.py.
@pytest.mark.parametrize("name", ["add", "pow", "cast_FLOAT_to_BFLOAT16", "tanh", "quantizelinear"])
def test_passes_in_the_runner_of_onnx_itself(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = onnx.backend.test.BackendTest(mlftool.backend, __name__)
    suite.include(f"test_{name}_cpu")
    case = suite.test_cases["OnnxBackendNodeModelTest"](f"test_{name}_cpu")
    result = unittest.TestResult()
    case.run(result)
    assert result.testsRun == 1
    assert not [*result.skipped, *result.failures, *result.errors]


def test_runs_a_node_alone() -> None:
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([10, 20])
    (y,) = mlftool.backend.run_node(helper.make_node("Add", ["a", "b"], ["y"]), [a, b])
    np.testing.assert_array_equal(y, a + b)


def test_runs_a_node_of_an_older_opset_with_a_declared_output() -> None:
    node = helper.make_node("Clip", ["x"], ["y"], min=0.0, max=1.0)
    x = np.float32([-1, 0.5, 2])
    info = [(np.float32, (3,))]
    (y,) = mlftool.backend.run_node(node, [x], outputs_info=info, opset_version=6)
    np.testing.assert_array_equal(y, np.float32([0, 0.5, 1]))


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.bfloat16, np.bool_])
def test_passes_every_kind_of_element(kind: type) -> None:
    x = np.array([1, 0, 1, 1, 0], kind)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    (y,) = mlftool.backend.run_node(node, [x])
    np.testing.assert_array_equal(y, np.float32([1, 0, 1, 1, 0]))


def test_outputs_have_names_and_inputs_may() -> None:
    net = Net()
    x = net.input("x", np.float32, (2,))
    model = net.model(net.node("Neg", x), net.node("Exp", x))
    prepared = mlftool.backend.prepare(model)
    result = prepared.run({"x": np.float32([0, 1])})
    assert result._fields == ("neg_0", "exp_1")
    np.testing.assert_allclose(result.exp_1, np.exp(np.float32([0, 1])), rtol=1e-6)
    again = prepared.run([np.float32([2, 3])])  # results of one call survive the next
    assert result.neg_0.tolist() == [0, -1]
    assert again.neg_0.tolist() == [-2, -3]


def test_says_what_it_cannot_do() -> None:
    net = Net()
    model = net.model(net.node("RandomNormal", shape=[2]))
    assert not mlftool.backend.is_compatible(model)
    with pytest.raises(MlfError, match="MLF0302"):
        mlftool.backend.prepare(model)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [([], "MLF0601"), ([np.zeros(3)], "MLF0602"), ([np.zeros(4, np.float32)], "MLF0602")],
    ids=["none", "float64", "shape"],
)
def test_refuses_wrong_inputs(inputs: list[np.ndarray], code: str) -> None:
    node = helper.make_node("Neg", ["x"], ["y"])
    info = helper.make_tensor_value_info
    x, y = info("x", TensorProto.FLOAT, [3]), info("y", TensorProto.FLOAT, [3])
    prepared = mlftool.backend.prepare(helper.make_model(helper.make_graph([node], "g", [x], [y])))
    with pytest.raises(MlfError, match=code):
        prepared.run(inputs)


def test_knows_its_device() -> None:
    assert mlftool.backend.supports_device("CPU")
    assert not mlftool.backend.supports_device("CUDA")
    with pytest.raises(MlfError, match="MLF0403"):
        mlftool.backend.prepare(onnx.ModelProto(), "CUDA")
