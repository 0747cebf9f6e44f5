"""Extents that turn out to be 1 at run time are repeated, as onnxruntime does it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from batch import Job, run_jobs
from onnx import parser
from oracle import Array, onnxruntime_float

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'
# What is left of x's first axis of 3, and of z's of 4, by the conditions c and d.
LEFT = "a = Compress <axis = 0> (x, c) b = Compress <axis = 0> (z, d)"
SUMS = {
    "a static extent": "y = Sub(a, k)",
    "two extents": "y = Sub(b, a)",
    "three inputs": "y = Max(a, b, k)",
    "a choice": "g = Less(b, h) y = Where(g, a, b)",
    "batches": "l = Unsqueeze(a, mid) r = Unsqueeze(b, mid) s = Transpose <perm = [0, 2, 1]> (r)"
    " y = MatMul(l, s)",
    "a bias": "y = Gemm(k, m, b)",
    "what is read later": "e = Sub(a, b) t = ReduceSum(e, zero) y = Mul(t, e)",
}
CONSTANTS = """k = Constant <value = float[3,2] {5, -6, 7, 8, -9, 10}> ()
    m = Constant <value = float[2,2] {1, 2, 3, -4}> ()
    h = Constant <value = float {0}> () mid = Constant <value = int64[1] {1}> ()
    zero = Constant <value = int64[1] {0}> ()"""
INPUTS = "float[3,2] x, float[4,2] z, bool[3] c, bool[4] d"
SINGLE, SOME = [False, True, False], [True, False, True]


def feeds(name: str) -> list[dict[str, Array]]:
    """Every pair of extents that broadcast."""
    random = np.random.default_rng(3)
    result = []
    for c, d in itertools.product((SINGLE, SOME, [True] * 3), repeat=2):
        counts = {1, sum(c), sum(d)} | (set() if name == "two extents" else {3})
        if len(counts) > 2 or (name == "a bias" and sum(d) == 2):
            continue
        x, z = (random.normal(size=(n, 2)).astype(np.float32) for n in (3, 4))
        result.append({"x": x, "z": z, "c": np.array(c), "d": np.array([*d, False])})
    return result


def test_a_single_slice_is_repeated(tmp_path: Path) -> None:
    jobs = {}
    for name, text in SUMS.items():
        model = parser.parse_model(
            f"{HEAD}g ({INPUTS}) => (float y) {{ {CONSTANTS} {LEFT} {text} }}"
        )
        model.graph.output[0].type.tensor_type.ClearField("shape")
        jobs[name] = Job(model, feeds(name))
    run_jobs(list(jobs.values()), tmp_path)
    for name, job in jobs.items():
        assert not job.failure, f"{name}: {job.failure}"
        for want, got in zip(onnxruntime_float(job.model, job.feeds), job.results, strict=True):
            assert got["y"].shape == want["y"].shape, name
            np.testing.assert_allclose(got["y"], want["y"], rtol=1e-6, err_msg=name)
