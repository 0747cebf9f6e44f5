"""A kernel's first operand may be a constant: nothing says that models are sensible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.host import load_host


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_gemm_of_constants(target: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)

    def const(name: str, value: object, dtype: str) -> onnx.TensorProto:
        return numpy_helper.from_array(np.asarray(value, dtype), name)

    constants = [
        const("a", random.integers(-128, 128, (4, 8)), "int8"),
        const("w", random.integers(-127, 128, (8, 3)), "int8"),
        const("s", 0.05, "float32"), const("z", 3, "int8"),
        const("ws", 0.02, "float32"), const("wz", 0, "int8"),
        const("ys", 0.1, "float32"), const("yz", -5, "int8"),
    ]  # fmt: skip
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["a", "s", "z"], ["fa"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["fw"]),
        node("MatMul", ["fa", "fw"], ["m"]),
        node("QuantizeLinear", ["m", "ys", "yz"], ["q"]),
        node("DequantizeLinear", ["q", "ys", "yz"], ["f"]),
        node("Add", ["f", "x"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, 1, [4, 3]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    sample = {"x": random.normal(size=(4, 3)).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    module = load_host(compile_modules([ModuleSpec(tmp_path / "m.onnx", "m", target)]))
    np.testing.assert_allclose(module(sample)["y"], session.run(None, sample)[0], atol=1e-6)
