"""ScatterElements and ScatterND of tensors whose extents are known only at run time, as
torchvision's detectors have it, through real C, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import parser
from oracle import onnxruntime_float

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'
SETUP = """
        p = Compress <axis = 0> (x, c)
        q = Compress <axis = 0> (u, d)
        found = NonZero (d)
        first = Constant <value = int64 {0}> ()
        flat = Gather (found, first)
        last = Constant <value = int64[1] {1}> ()
        column = Unsqueeze (flat, last)
        size = Shape (q)
        at = Expand (column, size)"""
MODELS = {
    "updates": f"""g (float[6,3] x, float[6,3] u, bool[6] c, bool[6] d) => (float[6,3] y) {{{SETUP}
        y = ScatterElements <axis = 0> (x, at, q) }}""",
    "sums of updates": f"""g (float[6,3] x, float[6,3] u, bool[6] c, bool[6] d)
        => (float[6,3] y) {{{SETUP}
        y = ScatterElements <axis = 0, reduction = "add"> (x, at, q) }}""",
    "indices from the end": f"""g (float[6,3] x, float[6,3] u, bool[6] c, bool[6] d)
        => (float[6,3] y) {{{SETUP}
        six = Constant <value = int64 {{6}}> ()
        back = Sub (at, six)
        y = ScatterElements <axis = 0> (x, back, q) }}""",
    "data, from its true end": """g (float[6,3] x, bool[6] c, float[1,3] u)
        => (float[k,3] y, float[3] s) <int64[1,3] i = {-1, -1, -1}, int64[1] axes = {0}> {
        p = Compress <axis = 0> (x, c)
        y = ScatterElements <axis = 0> (p, i, u)
        s = ReduceSum <keepdims = 0> (y, axes) }""",
    "data, indices and updates along another axis": """g (float[6,3] x, bool[6] c, float[6,3] u)
        => (float[k,3] y, float[3] s) <int64[1] i = {2}, int64[1] axes = {0}> {
        p = Compress <axis = 0> (x, c)
        q = Compress <axis = 0> (u, c)
        size = Shape (q)
        at = Expand (i, size)
        y = ScatterElements <axis = 1> (p, at, q)
        s = ReduceSum <keepdims = 0> (y, axes) }""",
    "rows": f"""g (float[6,3] x, float[6,3] u, bool[6] c, bool[6] d) => (float[6,3] y) {{{SETUP}
        y = ScatterND (x, column, q) }}""",
    "rows, from the end": f"""g (float[6,3] x, float[6,3] u, bool[6] c, bool[6] d)
        => (float[6,3] y) {{{SETUP}
        six = Constant <value = int64 {{6}}> ()
        back = Sub (column, six)
        y = ScatterND <reduction = "add"> (x, back, q) }}""",
    "rows of data, from its true end": """g (float[6,3] x, bool[6] c, float[1,3] u)
        => (float[k,3] y, float[3] s) <int64[1,1] i = {-1}, int64[1] axes = {0}> {
        p = Compress <axis = 0> (x, c)
        y = ScatterND (p, i, u)
        s = ReduceSum <keepdims = 0> (y, axes) }""",
    "elements, as many as are found": """g (float[6,6] x, bool[6,6] m) => (float[6,6] y) {
        found = NonZero (m)
        at = Transpose <perm = [1, 0]> (found)
        old = GatherND (x, at)
        new = Neg (old)
        y = ScatterND (x, at, new) }""",
    # As torch's masked_scatter: of another tensor's first elements as many as are found.
    "elements of a longer list": """g (float[6,6] x, bool[6,6] m, float[40] u) => (float[6,6] y) {
        found = NonZero (m)
        at = Transpose <perm = [1, 0]> (found)
        size = Shape (at)
        first = Constant <value = int64[1] {0}> ()
        count = Gather (size, first)
        new = Slice (u, first, count, first)
        y = ScatterND (x, at, new) }""",
    "elements of a shorter list": """g (float[6,6] x, bool[6,6] m, float[17] u)
        => (float[6,6] y) {
        three = Constant <value = int64 {3}> ()
        few = Trilu (m, three)
        found = NonZero (few)
        at = Transpose <perm = [1, 0]> (found)
        size = Shape (at)
        first = Constant <value = int64[1] {0}> ()
        count = Gather (size, first)
        new = Slice (u, first, count, first)
        y = ScatterND (x, at, new) }""",
    "elements of rows of data": """g (float[6,3] x, bool[6] c) => (float[k,3] y) {
        p = Compress <axis = 0> (x, c)
        zero = Constant <value = float {0}> ()
        less = Less (p, zero)
        found = NonZero (less)
        at = Transpose <perm = [1, 0]> (found)
        old = GatherND (p, at)
        new = Neg (old)
        y = ScatterND (p, at, new) }""",
}
KEPT = ([1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made = {}
    random = np.random.default_rng(5)
    for name, text in MODELS.items():
        model = parser.parse_model(HEAD + text)
        feeds = []
        for kept in KEPT:
            feed = {"c": np.array(kept, bool), "d": np.array(kept[::-1], bool)}
            feed["m"] = np.outer(feed["c"], feed["d"])
            for info in model.graph.input:
                shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
                feed.setdefault(info.name, random.normal(size=shape).astype(np.float32))
            feeds.append({i.name: feed[i.name] for i in model.graph.input})
        made[name] = Job(model, feeds)
    run_jobs(list(made.values()), tmp_path_factory.mktemp("scattered"))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_equal(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert isinstance(job.model, onnx.ModelProto)
    for got, want in zip(job.results, onnxruntime_float(job.model, job.feeds), strict=True):
        for output, value in want.items():
            assert got[output].shape == value.shape
            np.testing.assert_allclose(got[output], value, rtol=1e-6, atol=1e-6)
