"""onnxruntime's static quantisers measure a causal mask of -inf and write an infinite scale. It
runs what they write, so each operator gives its numbers: 0 times infinity is not a number, and what
is not a number is stored as the least integer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from batch import Job, compile_model, run_jobs
from onnx import numpy_helper, parser
from oracle import onnxruntime_float

from mlftool.errors import MlfError

HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>\n'
SHARED = {
    "s": np.float32(0.02),
    "m": np.where(np.tril(np.ones((4, 4))) > 0, 0, -np.inf).astype(np.float32),
    "inf": np.float32(np.inf),
    "w": np.arange(-8, 8, dtype=np.int8).reshape(4, 4),
    "k": np.arange(-8, 8, dtype=np.int8).reshape(4, 4, 1, 1),
    "wz": np.int8(0),
}
LAYERS = {
    "a mask": """a = QuantizeLinear (m, inf, top) b = DequantizeLinear (a, inf, top)
        c = Add (x, b) y = QuantizeLinear (c, inf, top)""",
    "Add": """d = QuantizeLinear (x, s, z) e = DequantizeLinear (d, s, z)
        a = QuantizeLinear (m, inf, top) b = DequantizeLinear (a, inf, top) c = Add (e, b)
        f = QuantizeLinear (c, inf, top) g = DequantizeLinear (f, inf, top)
        h = Softmax (g) y = QuantizeLinear (h, s, z)""",
    "QLinearAdd": """d = QuantizeLinear (x, s, z) a = QuantizeLinear (m, inf, top)
        y = com.microsoft.QLinearAdd (d, s, z, a, inf, top, inf, top)""",
    "MatMul": """d = QuantizeLinear (x, s, z) e = DequantizeLinear (d, s, z)
        b = DequantizeLinear (w, s, wz) c = MatMul (e, b) y = QuantizeLinear (c, inf, top)""",
    "Conv": """d = QuantizeLinear (x, s, z) e = DequantizeLinear (d, s, z)
        b = DequantizeLinear (k, s, wz) shape = Constant <value = int64[4] {1, 4, 4, 1}> ()
        i = Reshape (e, shape) c = Conv (i, b) y = QuantizeLinear (c, inf, top)""",
    "Relu": """d = QuantizeLinear (x, inf, z) e = DequantizeLinear (d, inf, z)
        c = Relu (e) y = QuantizeLinear (c, inf, z)""",
}


@pytest.mark.parametrize("top", [np.uint8(255), np.int8(127)], ids=["uint8", "int8"])
def test_equal(top: np.integer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The mask's zero point is the greatest integer, as the quantiser writes it."""
    values = {**SHARED, "top": top, "z": top.dtype.type(5)}
    jobs = {}
    draw = np.random.default_rng(4)
    feeds = [{"x": draw.normal(size=(4, 4)).astype(np.float32)} for _ in range(2)]
    for name, layer in LAYERS.items():
        model = parser.parse_model(f"{HEAD} g (float[4,4] x) => (float y) {{ {layer} }}")
        read = {i for node in model.graph.node for i in node.input}
        for n in sorted(read & values.keys()):
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(values[n]), n))
        info = model.graph.output[0].type.tensor_type
        info.ClearField("shape")
        info.elem_type = onnx.helper.np_dtype_to_tensor_dtype(top.dtype)
        jobs[name] = Job(model, feeds)
    run_jobs(list(jobs.values()), tmp_path_factory.mktemp("infinite"))
    for name, job in jobs.items():
        assert not job.failure, (name, job.failure)
        for got, want in zip(job.results, onnxruntime_float(job.model, feeds), strict=True):
            np.testing.assert_array_equal(got["y"], want["y"], err_msg=name)


def test_a_softmax_in_operator_format_is_refused() -> None:
    """onnxruntime makes a table of all differences, in which infinite ones are the greatest."""
    model = parser.parse_model(
        f"""{HEAD} g (int8[4,4] x) => (int8[4,4] y)
        <float inf = {{1}}, int8 z = {{127}}, float s = {{0.0039}}, int8 t = {{-128}}> {{
        y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, inf, z, s, t) }}"""
    )
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(SHARED["inf"], "inf"))
    with pytest.raises(MlfError, match="its scale is infinite"):
        compile_model(model)
