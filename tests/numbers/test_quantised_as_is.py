"""A float model put through onnxruntime's quantiser as it is, with nothing tidied up before.

What such files have and cleaner ones do not: BatchNormalization with quantised parameters, zero
points whose shape is not their scale's, activations between two quantisations, float inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.host import load_host

SHAPES = {"audio": (1, 1, 31, 20), "context": (1, 5)}


def float_model() -> onnx.ModelProto:
    """A strided convolution, a dilated depthwise one, a residual Add, two inputs that meet."""
    random = np.random.default_rng(5)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array((random.normal(size=shape) * 0.3).astype(np.float32), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["audio", "w0", "b0"], ["c0"], strides=[2, 1], auto_pad="SAME_UPPER"),
        node("BatchNormalization", ["c0", "s", "o", "m", "v"], ["n0"]),
        node("HardSwish", ["n0"], ["a0"]),
        node("Conv", ["a0", "w1"], ["d0"], group=12, pads=[2, 2, 2, 2], dilations=[2, 2]),
        node("Relu", ["d0"], ["d1"]),
        node("Add", ["d1", "a0"], ["res"]),
        node("GlobalAveragePool", ["res"], ["gap"]),
        node("Flatten", ["gap"], ["f"]),
        node("Concat", ["f", "context"], ["cat"], axis=1),
        node("Gemm", ["cat", "wf", "bf"], ["logit"], transB=1),
        node("Sigmoid", ["logit"], ["score"]),
    ]
    variance = numpy_helper.from_array(np.abs(random.normal(size=12)).astype(np.float32) + 0.5, "v")
    constants = [
        weights("w0", 12, 1, 5, 3), weights("b0", 12), weights("w1", 12, 1, 3, 3),
        weights("s", 12), weights("o", 12), weights("m", 12), variance,
        weights("wf", 3, 17), weights("bf", 3),
    ]  # fmt: skip
    inputs = [helper.make_tensor_value_info(n, 1, s) for n, s in SHAPES.items()]
    outputs = [helper.make_tensor_value_info("score", 1, [1, 3])]
    graph = helper.make_graph(nodes, "wake", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def samples(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    return [
        {n: random.normal(size=s).astype(np.float32) for n, s in SHAPES.items()}
        for _ in range(count)
    ]


class Calibration(CalibrationDataReader):
    def __init__(self) -> None:
        self._samples: Iterator[dict[str, np.ndarray]] = iter(samples(20, seed=1))

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_every_output_is_onnxruntimes(target: str, tmp_path: Path) -> None:
    onnx.save(float_model(), tmp_path / "float.onnx")
    quantised = tmp_path / "int8.onnx"
    quantize_static(
        tmp_path / "float.onnx", quantised, Calibration(), quant_format=QuantFormat.QDQ,
        per_channel=True, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(str(quantised), options)
    module = load_host(compile_modules([ModuleSpec(quantised, "wake", target)]))
    for sample in samples(50, seed=2):
        (expected,) = session.run(None, sample)
        np.testing.assert_array_equal(module(sample)["score"], expected)
