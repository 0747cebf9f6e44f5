"""If whose branches give tensors of different extents, through real C, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import parser
from oracle import Array, onnxruntime_float, relative_error

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'
MODELS = {
    # What torchvision's detectors export: nothing where there are no boxes, else those that stay.
    "nothing_or_what_suppression_keeps": """g (float[6,4] x, float[6] z, bool[6] c)
        => (float[k,4] y, float[k] scores) {
        zero = Constant <value = int64 {0}> ()
        p = Compress <axis = 0> (x, c)
        q = Compress <axis = 0> (z, c)
        size = Size(p)
        none = Equal(size, zero)
        kept = If (none) <
            then_branch = t () => (int64[0] n) { n = Constant <value = int64[0] {}> () },
            else_branch = e () => (int64[m] o) {
                first = Constant <value = int64[1] {0}> ()
                boxes = Unsqueeze(p, first)
                axes = Constant <value = int64[2] {0, 1}> ()
                all = Unsqueeze(q, axes)
                most = Constant <value = int64[1] {5}> ()
                overlap = Constant <value = float[1] {0.5}> ()
                found = NonMaxSuppression(boxes, all, most, overlap)
                two = Constant <value = int64 {2}> ()
                o = Gather <axis = 1> (found, two)
            }>
        start = Constant <value = int64[1] {0}> ()
        end = Constant <value = int64[1] {3}> ()
        best = Slice(kept, start, end)
        y = Gather(p, best)
        scores = Gather(q, best)
    }""",
    "a_part_or_the_whole": """g (float[6,2] x, bool a) => (float[k,2] y, float[2] total) {
        y = If (a) <
            then_branch = t () => (float[3,2] p) {
                start = Constant <value = int64[1] {1}> ()
                end = Constant <value = int64[1] {4}> ()
                p = Slice(x, start, end) },
            else_branch = e () => (float[6,2] q) { q = Identity(x) }>
        zero = Constant <value = int64[1] {0}> ()
        total = ReduceSum <keepdims = 0> (y, zero)
    }""",
    "a_part_of_a_box_or_the_whole": """g (float[6,2] x, bool[6] c, bool a) => (float[k,2] y) {
        b = Compress <axis = 0> (x, c)
        i = If (a) <
            then_branch = t () => (float[m,2] p) {
                start = Constant <value = int64[1] {0}> ()
                end = Constant <value = int64[1] {3}> ()
                p = Slice(b, start, end) },
            else_branch = e () => (float[n,2] q) { q = Identity(b) }>
        y = Neg(i)
    }""",
    "the_same_box": """g (float[6] x, bool[6] c, bool a) => (float[k] y) {
        b = Compress <axis = 0> (x, c)
        i = If (a) <then_branch = t () => (float[m] p) { p = Neg(b) },
            else_branch = e () => (float[n] q) { q = Exp(b) }>
        y = Add(i, b)
    }""",
    "extents_of_each": """g (float[6] x, bool[6] c, bool a) => (float[k] y) {
        y = If (a) <then_branch = t () => (float[m] p) { p = Compress <axis = 0> (x, c) },
            else_branch = e () => (float[n] q) { z = Neg(x) q = Compress <axis = 0> (z, c) }>
    }""",
    "two_that_go_together": """g (float[5,3] x, float[5] z, bool[5] c, bool a)
        => (float[k,3] y, int64[2] s) {
        b, w = If (a) <
            then_branch = t () => (float[m,3] p, float[m,1] r) {
                one = Constant <value = int64[1] {1}> ()
                both = Unsqueeze(z, one)
                wide = Concat <axis = 1> (x, both)
                rows = Compress <axis = 0> (wide, c)
                start = Constant <value = int64[1] {0}> ()
                end = Constant <value = int64[1] {3}> ()
                p = Slice(rows, start, end, one)
                last = Constant <value = int64[1] {4}> ()
                r = Slice(rows, end, last, one) },
            else_branch = e () => (float[2,3] q, float[2,1] u) {
                q = Constant <value = float[2,3] {1, 2, 3, 4, 5, 6}> ()
                u = Constant <value = float[2,1] {7, 8}> () }>
        y = Mul(b, w)
        s = Shape(y)
    }""",
    "both_axes": """g (float[2,5] x, float[4,3] z, bool a) => (float[k,l] y, float[k] most) {
        y = If (a) <then_branch = t () => (float[2,5] p) { p = Neg(x) },
            else_branch = e () => (float[4,3] q) { q = Neg(z) }>
        most = ReduceMax <axes = [1], keepdims = 0> (y)
    }""",
    "within_another": """g (float[5] x, bool a) => (float[k] y) {
        zero = Constant <value = int64[1] {0}> ()
        y = If (a) <
            then_branch = t () => (float[m] p) {
                s = ReduceSum <keepdims = 0> (x)
                none = Constant <value = float {0}> ()
                more = Greater(s, none)
                p = If (more) <
                    then_branch = tt () => (float[2] pp) {
                        end = Constant <value = int64[1] {2}> ()
                        pp = Slice(x, zero, end) },
                    else_branch = te () => (float[3] pq) {
                        end2 = Constant <value = int64[1] {3}> ()
                        pq = Slice(x, zero, end2) }> },
            else_branch = e () => (float[5] q) { q = Neg(x) }>
    }""",
    "known_before": """g (float[6] x, bool[6] c) => (float[k] y, float[k] z) {
        yes = Constant <value = bool {1}> ()
        y = If (yes) <then_branch = t () => (float[m] p) { p = Compress <axis = 0> (x, c) },
            else_branch = e () => (float[2] q) { q = Constant <value = float[2] {1, 2}> () }>
        z = Neg(y)
    }""",
}


def feeds(model: onnx.ModelProto) -> list[dict[str, Array]]:
    """Each branch with masks that choose nothing, some and all."""
    random = np.random.default_rng(7)
    result = []
    for k, share in enumerate((0.0, 0.5, 0.5, 1.0, 1.0, 0.0)):
        sample = {}
        for info in model.graph.input:
            type_ = info.type.tensor_type
            shape = [d.dim_value for d in type_.shape.dim]
            value = random.normal(0, 2, shape)
            if info.name == "c":
                value = random.random(shape) < share
            elif info.name == "a":
                value = np.array(k % 2 == 0)
            sample[info.name] = value.astype(onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type))
        result.append(sample)
    return result


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    models = {name: parser.parse_model(HEAD + text) for name, text in MODELS.items()}
    made = {name: Job(model, feeds(model)) for name, model in models.items()}
    made |= {f"{name} by vm": Job(j.model, j.feeds, executor="vm") for name, j in made.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("branches"))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job, by_vm = jobs[name], jobs[f"{name} by vm"]
    assert not job.failure, job.failure
    assert not by_vm.failure, by_vm.failure
    assert by_vm.output == job.output
    for want, got in zip(onnxruntime_float(job.model, job.feeds), job.results, strict=True):
        for key, value in want.items():
            assert got[key].dtype == value.dtype
            assert got[key].shape == value.shape, key
            assert relative_error(got[key], value) <= 1e-5, key
