"""States of Loop and Scan whose extents are known only at run time, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from batch import Job, run_jobs
from oracle import assert_close, onnxruntime_float

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["" : 15]>\n'
GIVEN = (
    """float h = {0.5}, int64 m = {3}, float k = {1}, float[2] v = {2, 3}, int64[2] f = {3, 4}"""
)
# Of `u`, which has as many elements as `x` has different ones.
RUN = {
    "loop": """y, w = Loop (m, "", u, k) <body = b (int64 i, bool on, float[n] s, float z)
        => (bool o, float[n] r, float q) { r = Mul (s, h) q = Identity (z) o = Identity (on) }>""",
    "read in the body": """y, w = Loop (m, "", u, k)
        <body = b (int64 i, bool on, float[n] s, float z) => (bool o, float[n] r, float q)
        { r = Mul (s, h) a = ReduceSum <keepdims = 0> (r) q = Add (z, a) o = Identity (on) }>""",
    "two states": """y, w = Loop (m, "", u, u) <body = b (int64 i, bool on, float[n] s, float[n] z)
        => (bool o, float[n] r, float[n] q) { r = Mul (s, h) q = Add (z, r) o = Identity (on) }>""",
    "no turns": """y, w = Loop (f0, "", u, k) <body = b (int64 i, bool on, float[n] s, float z)
        => (bool o, float[n] r, float q) { r = Mul (s, h) q = Identity (z) o = Identity (on) }>""",
    "scan": """y, w = Scan <num_scan_inputs = 1, body = b (float[n] s, float e)
        => (float[n] r, float q) { r = Mul (s, e) q = ReduceSum <keepdims = 0> (r) }> (u, v)""",
    "loop in a loop": """y, w = Loop (m, "", u, k) <body = b (int64 i, bool on, float[n] s, float z)
        => (bool o, float[n] r, float q) { r, q = Loop (m, "", s, z)
        <body = c (int64 j, bool in, float[n] t, float p) => (bool l, float[n] d, float g)
        { d = Mul (t, h) e = ReduceMax <keepdims = 0> (d) g = Add (p, e) l = Identity (in) }>
        o = Identity (on) }>""",
}
REFUSED = {
    "grows": (
        """y, w = Loop (m, "", u, k) <body = b (int64 i, bool on, float[n] s, float z)
        => (bool o, float[l] r, float q)
        { r = Concat <axis = 0> (s, s) q = Identity (z) o = Identity (on) }>""",
        "gives 'r', whose extents are known only at run time",
    ),
    "becomes whole": (
        """y, w = Loop (m, "", u, k) <body = b (int64 i, bool on, float[n] s, float z)
        => (bool o, float[5] r, float q)
        { r = Identity (x) q = Identity (z) o = Identity (on) }>""",
        "gives 'r' for a state whose extents are known only at run time",
    ),
    "was whole": (
        """y, w = Loop (m, "", x, k) <body = b (int64 i, bool on, float[5] s, float z)
        => (bool o, float[n] r, float q)
        { r = Identity (u) q = Identity (z) o = Identity (on) }>""",
        "gives 'r', whose extents are known only at run time",
    ),
    "a stack": (
        """w, y = Loop (m, "", k) <body = b (int64 i, bool on, float z)
        => (bool o, float q, float[n] r) { q = Identity (z) r = Neg (u) o = Identity (on) }>""",
        "gives 'r', whose extents are known only at run time",
    ),
    "scanned": (
        """w, y = Scan <num_scan_inputs = 1, body = b (float s, float e)
        => (float r, float q) { r = Add (s, e) q = Mul (r, e) }> (k, u)""",
        "scans a tensor whose extents are known only at run time",
    ),
}


def model(nodes: str) -> onnx.ModelProto:
    text = f"g (float[5] x) => (float y, float w) <{GIVEN}, int64 f0 = {{0}}> {{ u = Unique (x) "
    made = onnx.parser.parse_model(f"{HEAD}{text}{nodes} }}")
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def test_as_onnxruntime(tmp_path: Path) -> None:
    """Only the elements inside the extents are computed with, and given."""
    rows = ([1, 2, 2, 3, 1], [7, 7, 7, 7, 7], [5, 4, 3, 2, 1])
    feeds = [{"x": np.array(row, np.float32)} for row in rows]
    models = [model(nodes) for nodes in RUN.values()]
    jobs = [Job(one, feeds, executor=e) for one in models for e in ("aot", "vm")]
    run_jobs(jobs, tmp_path)
    for job in jobs:
        assert not job.failure, job.failure
        assert isinstance(job.model, onnx.ModelProto)
        for got, want in zip(job.results, onnxruntime_float(job.model, feeds), strict=True):
            assert {n: a.shape for n, a in got.items()} == {n: a.shape for n, a in want.items()}
            assert_close(got, want)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    nodes, text = REFUSED[name]
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(model(nodes)))
    assert f"error[MLF0302]: node '1' ({'Scan' if 'Scan' in nodes else 'Loop'})" in str(
        refused.value
    )
    assert text in str(refused.value)
