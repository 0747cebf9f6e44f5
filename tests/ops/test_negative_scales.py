"""NNCF's symmetric weights have scales of either sign, and onnxruntime takes any scale of a
DequantizeLinear: with a negative one a greater integer is a smaller number, so integers are neither
compared nor added in place of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from batch import Job, run_jobs
from onnx import numpy_helper, parser
from oracle import onnxruntime_float

DRAW = np.random.default_rng(6)
STORE = "q = QuantizeLinear (r, t, z) y = DequantizeLinear (q, t, z)"
INPUT = "p = QuantizeLinear (x, s, z) a = DequantizeLinear (p, s, z)"
NEGATIVE = "p = QuantizeLinear (x, s, z) a = DequantizeLinear (p, m, z)"
VALUES = {
    "s": np.float32(0.02),
    "t": np.float32(0.0973),  # no sum is half-way between two steps
    "m": np.float32(-0.03),
    "z": np.int8(5),
    "w": DRAW.integers(-128, 128, (6, 4, 3, 3)).astype(np.int8),
    "v": DRAW.integers(-128, 128, (8, 6)).astype(np.int8),
    "of_w": np.float32([0.01, -0.02, 0.0, 0.03, -0.01, 0.02]),
    "bias": DRAW.integers(-900, 900, 6).astype(np.int32),
    "of_bias": np.float32([0.01, -0.02, 0.0, 0.03, -0.01, 0.02]) * np.float32(0.02),
    "flat": np.array([-1, 8]),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "least": np.float32(-0.3),
    "most": np.float32(2.0),
}
LAYERS = {
    "Conv": f"{INPUT} b = DequantizeLinear <axis = 0> (w, of_w) r = Conv (a, b) {STORE}",
    "Conv of one scale": f"""{INPUT} b = DequantizeLinear (w, m) c = Conv (a, b)
        r = Relu (c) {STORE}""",
    "Gemm": f"""{INPUT} f = Reshape (a, flat) b = DequantizeLinear <axis = 1> (v, of_w)
        c = DequantizeLinear <axis = 0> (bias, of_bias) r = Gemm (f, b, c) {STORE}""",
    "MatMul": f"""{INPUT} b = DequantizeLinear <axis = 1> (v, of_w) r = MatMul (a, b) {STORE}""",
    "Conv of a negative input": f"{NEGATIVE} b = DequantizeLinear (w, s) r = Conv (a, b) {STORE}",
    "MaxPool": f"{NEGATIVE} r = MaxPool <kernel_shape = [3, 3]> (a) {STORE}",
    "AveragePool": f"{NEGATIVE} r = AveragePool <kernel_shape = [3, 3]> (a) {STORE}",
    "ReduceMax": f"{NEGATIVE} r = ReduceMax (a) {STORE}",
    "Concat": f"{NEGATIVE} r = Concat <axis = 1> (a, a) {STORE}",
    "Pad": f"{NEGATIVE} r = Pad (a, pads) {STORE}",
    "Relu": f"{NEGATIVE} r = Relu (a) {STORE}",
    "Clip": f"{NEGATIVE} r = Clip (a, least, most) {STORE}",
    "Add": f"{NEGATIVE} r = Add (a, a) {STORE}",
    "ArgMax": f"{NEGATIVE} i = ArgMax <axis = 1> (a) y = Cast <to = 1> (i)",
    "QLinearConv": """p = QuantizeLinear (x, s, z) zero = Constant <value = int8 {0}> ()
        q = QLinearConv (p, s, z, w, m, zero, t, z) y = DequantizeLinear (q, t, z)""",
    "QLinearAdd": """p = QuantizeLinear (x, s, z)
        q = com.microsoft.QLinearAdd (p, s, z, p, m, z, t, z) y = DequantizeLinear (q, t, z)""",
}


def test_equal(tmp_path_factory: pytest.TempPathFactory) -> None:
    """To onnxruntime without its optimisations, which compare the integers."""
    jobs = {}
    feeds = [{"x": DRAW.normal(size=(1, 4, 8, 8)).astype(np.float32)}]
    for name, layer in LAYERS.items():
        head = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
        model = parser.parse_model(f"{head} g (float[1,4,8,8] x) => (float y) {{ {layer} }}")
        read = {i for node in model.graph.node for i in node.input}
        for n in sorted(read & VALUES.keys()):
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(VALUES[n]), n))
        model.graph.output[0].type.tensor_type.ClearField("shape")
        jobs[name] = Job(model, feeds)
    run_jobs(list(jobs.values()), tmp_path_factory.mktemp("negative"))
    for name, job in jobs.items():
        assert not job.failure, (name, job.failure)
        (want,) = onnxruntime_float(job.model, feeds)
        np.testing.assert_array_equal(job.results[0]["y"], want["y"], err_msg=name)
