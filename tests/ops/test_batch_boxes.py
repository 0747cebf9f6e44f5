"""Layers of as many items as a run finds, as torchvision's Mask R-CNN has them, through real C,
against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from batch import Job, compile_model, run_jobs
from onnx import parser
from oracle import Array, onnxruntime_float

from mlftool.errors import MlfError

HEAD = '<ir_version: 10, opset_import: ["": 23, "com.microsoft": 1]>\n'
DRAW = np.random.default_rng(2)


def normal(*shape: int) -> Array:
    return DRAW.normal(size=shape).astype(np.float32)


PARAMETERS = {
    **{"w": normal(4, 4, 3, 3), "half": normal(6, 2, 3, 3), "s": normal(4), "b": normal(4)},
    **{"v": np.abs(normal(4)), "r": normal(5), "bb": normal(5), "m": normal(5, 3)},
    **{"q": DRAW.integers(-9, 9, (4, 4, 3, 3)).astype(np.int8), "qs": np.float32(0.03)},
    **{"xs": np.float32(0.02), "xz": np.uint8(120), "wz": np.int8(0), "ys": np.float32(0.1)},
    **{"qm": DRAW.integers(-9, 9, (5, 3)).astype(np.int8), "first": np.array([0])},
    **{"pair": normal(5, 3), "one": np.array([1])},
    **{"lw": normal(1, 12, 30), "lr": normal(1, 12, 3)},
}
QUANTISED = "a = QuantizeLinear (p, xs, xz)"
LAYERS = {
    "Conv": "y = Conv <pads = [1, 1, 1, 1]> (p, w)",
    "grouped Conv": "y = Conv <group = 2, strides = [2, 1]> (p, half)",
    "ConvTranspose": "y = ConvTranspose <strides = [2, 2]> (p, w)",
    "MaxPool": "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (p)",
    "AveragePool": "y = AveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 0]> (p)",
    "LpPool": "y = LpPool <kernel_shape = [2, 2]> (p)",
    "GlobalAveragePool": "y = GlobalAveragePool (p)",
    "GlobalMaxPool": "y = GlobalMaxPool (p)",
    "ReLU of two": """a = Conv (p, w) t = Relu (a) c2 = ConvTranspose (t, w)
        y = ReduceSum <keepdims = 0> (c2, first)""",
    "BatchNormalization": "y = BatchNormalization (p, s, b, b, v)",
    "InstanceNormalization": "y = InstanceNormalization (p, s, b)",
    "GroupNormalization": "y = GroupNormalization <num_groups = 2> (p, s, b)",
    "LRN": "y = LRN <size = 3> (p)",
    "LayerNormalization": "y = LayerNormalization (p, r, bb)",
    "RMSNormalization": "y = RMSNormalization <axis = 3> (p, r)",
    "LpNormalization": "y = LpNormalization <axis = 0> (p)",
    "Hardmax": "y = Hardmax <axis = 0> (p)",
    "ReduceLogSum": "a = Abs (p) y = ReduceLogSum <keepdims = 0> (a, first)",
    "ReduceLogSumExp": "y = ReduceLogSumExp <keepdims = 0> (p, first)",
    "MeanVarianceNormalization": "y = MeanVarianceNormalization <axes = [0, 2, 3]> (p)",
    "Einsum of the batch": 'y = Einsum <equation = "nchw,nchw->cw"> (p, p)',
    "Einsum": 'y = Einsum <equation = "nchw,wk->nkh"> (p, m)',
    "Dropout": "a = Dropout (p) y = Neg (a)",
    "CastLike": "a = Cast <to = 6> (p) y = CastLike (a, p)",
    "LSTM": "a = Transpose <perm = [1, 0, 2]> (z) y, h = LSTM <hidden_size = 3> (a, lw, lr)",
    "DynamicQuantizeLinear": """a, sc, ze = DynamicQuantizeLinear (p)
        t = MatMulInteger (a, qm, ze) g = Cast <to = 1> (t) y = Mul (g, sc)""",
    "DynamicQuantizeMatMul": "y = com.microsoft.DynamicQuantizeMatMul (p, qm, qs)",
    "QLinearConv": f"{QUANTISED} y = QLinearConv (a, xs, xz, q, qs, wz, ys, xz)",
    "ConvInteger": f"{QUANTISED} t = ConvInteger (a, q, xz) y = Cast <to = 1> (t)",
    "QDQ": f"""{QUANTISED} c2 = DequantizeLinear (a, xs, xz) d = DequantizeLinear (q, qs, wz)
        e = Conv (c2, d) t = Relu (e) y = QuantizeLinear (t, ys, xz)""",
    "QLinearMatMul": f"{QUANTISED} y = QLinearMatMul (a, xs, xz, qm, qs, wz, ys, xz)",
    "QLinearConcat": f"""{QUANTISED} y = com.microsoft.QLinearConcat <axis = 1>
        (ys, xz, a, xs, xz, a, ys, xz)""",
    "QLinearAdd": f"{QUANTISED} y = com.microsoft.QLinearAdd (a, xs, xz, a, ys, xz, ys, xz)",
    "QLinearGlobalAveragePool": f"""{QUANTISED}
        y = com.microsoft.QLinearGlobalAveragePool (a, xs, xz, xs, xz)""",
    "BiasGelu": "y = com.microsoft.BiasGelu (p, r)",
    "QuickGelu": "y = com.microsoft.QuickGelu (p)",
    "SkipLayerNormalization": """f = ReduceMean <keepdims = 0> (p, one)
        y = com.microsoft.SkipLayerNormalization (f, f, r, bb)""",
    "FusedConv": """y = com.microsoft.FusedConv <activation = "Relu"> (p, w)""",
    "FusedMatMul": "y = com.microsoft.FusedMatMul <alpha = 2.0> (p, pair)",
}


def model_of(layer: str) -> onnx.ModelProto:
    more = "z = Reshape (p, thirty)" if "(z)" in layer else ""
    model = parser.parse_model(
        f"""{HEAD} g (float[5,4,6,5] x, bool[5] c) => (float y) {{
        p = Compress <axis = 0> (x, c) {more} {layer} }}"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    read = {name for node in model.graph.node for name in node.input}
    values = {**PARAMETERS, "thirty": np.array([-1, 4, 30])}
    for name in sorted(read & values.keys()):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(values[name]), name))
    last = model.graph.node[-1].op_type
    if last.startswith(("QLinear", "QuantizeLinear")):
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return model


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    draw = np.random.default_rng(3)
    feeds = [
        {"x": draw.normal(size=(5, 4, 6, 5)).astype(np.float32), "c": np.array(kept, bool)}
        for kept in ([1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0])
    ]
    made = {name: Job(model_of(layer), feeds) for name, layer in LAYERS.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("boxes"))
    return made


@pytest.mark.parametrize("name", LAYERS)
def test_equal(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    for got, want in zip(
        job.results, onnxruntime_float(model_of(LAYERS[name]), job.feeds), strict=True
    ):
        assert got["y"].shape == want["y"].shape
        np.testing.assert_allclose(got["y"], want["y"], rtol=1e-5, atol=1e-5)


ALONG = {
    "pixels": "y = MaxPool <kernel_shape = [2, 2]> (t)",
    "a row": "y = LayerNormalization <axis = 2> (t, r)",
    "a depth": "a, sc, ze = DynamicQuantizeLinear (t) y = MatMulInteger (a, qm, ze)",
}


@pytest.mark.parametrize("name", ALONG)
def test_what_is_computed_along_such_an_extent_is_refused(name: str) -> None:
    perm = "1, 2, 0, 3" if name != "a depth" else "1, 2, 3, 0"
    model = model_of(f"t = Transpose <perm = [{perm}]> (p) {ALONG[name]}")
    with pytest.raises(MlfError, match="along which it computes is known only at run time"):
        compile_model(model)
