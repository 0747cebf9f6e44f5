"""Convolutions and pools of as many items as a run finds, as torchvision's Mask R-CNN has them,
through real C, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, compile_model, run_jobs
from onnx import parser
from oracle import onnxruntime_float

from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'
LAYERS = {
    "Conv": "y = Conv <pads = [1, 1, 1, 1]> (p, w)",
    "grouped Conv": "y = Conv <group = 2, strides = [2, 1]> (p, half)",
    "ConvTranspose": "y = ConvTranspose <strides = [2, 2]> (p, w)",
    "MaxPool": "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (p)",
    "AveragePool": "y = AveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 0]> (p)",
    "ReLU of two": """a = Conv (p, w) r = Relu (a) b = ConvTranspose (r, w)
        axes = Constant <value = int64[1] {0}> () y = ReduceSum <keepdims = 0> (b, axes)""",
}


@pytest.mark.parametrize("name", LAYERS)
def test_equal(name: str, tmp_path: Path) -> None:
    text = f"""g (float[5,4,6,5] x, bool[5] c) => (y) {{ p = Compress <axis = 0> (x, c)
        {LAYERS[name]} }}"""
    text = text.replace(
        "=> (y)", "=> (float[a,b,h,v] y)" if name != "ReLU of two" else "=> (float[b,h,v] y)"
    )
    model = parser.parse_model(HEAD + text)
    draw = np.random.default_rng(2)
    for weights, shape in (("w", (4, 4, 3, 3)), ("half", (6, 2, 3, 3))):
        if f" {weights})" in text:
            value = draw.normal(size=shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, weights))
    feeds = [
        {"x": draw.normal(size=(5, 4, 6, 5)).astype(np.float32), "c": np.array(kept, bool)}
        for kept in ([1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0])
    ]
    job = Job(model, feeds)
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(model, feeds), strict=True):
        assert tuple(got.get("y.shape", want["y"].shape)) == want["y"].shape
        found = got["y"][tuple(map(slice, want["y"].shape))]
        np.testing.assert_allclose(found, want["y"], rtol=1e-5, atol=1e-5)


def test_an_image_of_run_time_extent_is_refused() -> None:
    model = parser.parse_model(
        HEAD
        + """g (float[1,1,6,5] x, bool[6] c) => (float[a,b,h,v] y) {
        p = Compress <axis = 2> (x, c) y = MaxPool <kernel_shape = [2, 2]> (p) }"""
    )
    with pytest.raises(MlfError, match="other than the batch's"):
        compile_model(model)
