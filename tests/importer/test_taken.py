"""Models that onnxruntime runs and that we once refused, or failed at: they give its numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import random_feeds
from onnx import parser
from oracle import onnxruntime_float

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>\n'
MODELS = {
    "wider slopes": "g (float[1,3] x, float[2,3] s) => (float[2,3] y) { y = PRelu (x, s) }",
    "slopes of more axes": "g (float[3] x, float[2,3] s) => (float[2,3] y) { y = PRelu (x, s) }",
    "slopes both ways": "g (float[2,1,3] x, float[4,1] s) => (float[2,4,3] y) { y = PRelu (x, s) }",
    "slopes per channel": "g (float[2,3,4] x, float[3,1] s) => (float[2,3,4] y) {y = PRelu (x, s)}",
    "pool of a constant": """g (float[1,1,2,2] x) => (float[1,1,2,2] y)
        <int8[1,1,4,4] q = {-5,2,3,4,5,6,7,8,9,1,2,3,4,-5,6,7}, float s = {0.5}, int8 z = {0}> {
        d = DequantizeLinear (q, s, z)
        p = MaxPool <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (d)
        r = QuantizeLinear (p, s, z)
        e = DequantizeLinear (r, s, z)
        y = Add (x, e)
    }""",
    "view of a constant": """g (uint8 z) => (uint8[2,2,3] y)
        <uint8[2,2,3] q = {1,2,3,4,5,6,7,8,9,10,11,12}, float s = {0.05}, float t = {0.1},
         uint8 u = {5}, int64[2] flat = {2,6}, int64[3] full = {2,2,3}> {
        d = DequantizeLinear (q, s, z)
        f = Reshape (d, flat)
        g = Softmax (f)
        h = QuantizeLinear (g, t, u)
        y = Reshape (h, full)
    }""",
    "axis in a vector": """g (float[3,4] x) => (float[3,4] y) <int64[1] a = {1}>
        { y = CumSum (x, a) }""",
    "state that is constant": """g (int64[1] n) => (float[3] y)
        <float[3] x = {1,2,3}, int64 six = {6}, bool on = {1}> {
        t = Loop (six, on, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] r)
            { d = Identity (c) r = Add (s, s) }>
        f = Cast <to=1> (n)
        y = Add (t, f)
    }""",
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made = {}
    for name, text in MODELS.items():
        model = parser.parse_model(HEAD + text)
        made[name] = Job(model, random_feeds(model, 1))
    run_jobs(list(made.values()), tmp_path_factory.mktemp("taken"))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_gives_the_numbers_of_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert isinstance(job.model, onnx.ModelProto)
    for got, want in zip(job.results, onnxruntime_float(job.model, job.feeds), strict=True):
        for output, value in want.items():
            np.testing.assert_allclose(got[output], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("executor", ["aot", "graph", "vm"])
def test_outputs_without_elements(executor: str) -> None:
    """Their buffers have no bytes, in a workspace of its own or the module's. The graph executor
    has outputs of calls only."""
    text = """g (float[3] x, float[0,3] z) => (float[3] y, float[0,3] e, float[0] k)
        <float[0] w = {}> { y = Relu (x) e = Relu (z) k = Neg (w) }"""
    model = parser.parse_model(HEAD + text)
    if executor == "graph":
        with pytest.raises(MlfError, match=r"MLF0304.*output 'e' is float32\[0x3\]"):
            compile_modules([ModuleSpec(model, executor=executor)])
        return
    assert compile_modules([ModuleSpec(model, executor=executor)]).files
    if executor == "aot":
        assert compile_modules([ModuleSpec(model, workspace_io=True)]).files
