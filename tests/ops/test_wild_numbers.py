"""Numbers that a model computes may be any: what steers addresses (scales, crops, coordinates,
boxes, steps, indices) never leads outside of a tensor, and no C is undefined."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batch import Job, compile_job, program_of
from onnx import parser
from programs import SANITIZED, run_programs

HEAD = '<ir_version: 10, opset_import: ["": 20]>\n'
WILD = [np.nan, np.inf, -np.inf, 3.4028235e38, -3.4028235e38, 1e30, -1e-30, 0, -1, 3e9, -3e9, 1e15]
MOST = np.iinfo(np.int64).max
INDICES = [MOST, -MOST - 1, 1 << 31, -(1 << 31), (1 << 32) + 1, -1, 0, 1, 1 << 62]
RESIZE = "g (float[1,1,4,5] x, float[4] s) => (float[1,1,3,8] y) { y = Resize <%s> (x, , s) }"
CROP = (
    "g (float[1,1,4,5] x, float[8] s) => (float[1,1,3,8] y) <int64[4] n = {1, 1, 3, 8}> "
    '{ y = Resize <coordinate_transformation_mode = "tf_crop_and_resize", %s> (x, s, , n) }'
)
GRID = "g (float[1,1,4,5] x, float[1,3,2,2] s) => (float[1,1,3,2] y) { y = GridSample <%s> (x, s) }"
FILTERS = {
    "nearest": 'mode = "nearest"',
    "linear": 'mode = "linear"',
    "cubic": 'mode = "cubic"',
    "cubic without what is outside": 'mode = "cubic", exclude_outside = 1',
    "antialiased": 'mode = "linear", antialias = 1',
    "antialiased cubic": 'mode = "cubic", antialias = 1',
}
TRANSFORMS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners")
MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")
# A model whose input `s` steers addresses, and numbers for it.
FLOATS = {
    **{f"Resize, {name}": RESIZE % words for name, words in FILTERS.items()},
    **{
        f"Resize, {t}": RESIZE % f'mode = "linear", coordinate_transformation_mode = "{t}"'
        for t in (*TRANSFORMS, "asymmetric")
    },
    **{f"crop, {name}": CROP % words for name, words in FILTERS.items()},
    **{
        f"GridSample, {m}, {p}": GRID % f'mode = "{m}", padding_mode = "{p}"'
        for m in MODES
        for p in PADDINGS
    },
    **{
        f"RoiAlign, {mode}": (
            "g (float[1,1,4,5] x, float[2,4] s, int64[2] b) => (float[2,1,2,2] y) "
            f'{{ y = RoiAlign <mode = "{mode}", output_height = 2, output_width = 2> (x, s, b) }}'
        )
        for mode in ("avg", "max")
    },
    "MaxRoiPool": "g (float[2,1,4,5] x, float[3,5] s) => (float[3,1,2,2] y) "
    "{ y = MaxRoiPool <pooled_shape = [2, 2]> (x, s) }",
    "DeformConv": "g (float[1,1,4,5] x, float[1,1,2,2] w, float[1,8,3,4] s) => (float[1,1,3,4] y) "
    "{ y = DeformConv (x, w, s) }",
    "OneHot": "g (float[5] s, float[2] x) => (float[5,3] y) <int64 d = {3}> "
    "{ y = OneHot (s, d, x) }",
    "NonMaxSuppression": "g (float[1,6,4] s, float[1,1,6] x, int64[1] b) => (int64[n,3] y) "
    "{ y = NonMaxSuppression (s, x, b) }",
}
INTEGERS = {
    "OneHot": "g (int64[5] s, float[2] x) => (float[5,3] y) <int64 d = {3}> "
    "{ y = OneHot (s, d, x) }",
    "STFT": "g (float[1,32,1] x, int64 s) => (float[1,9,5,2] y) <int64 d = {8}> "
    "{ y = STFT (x, s, , d) }",
    "MelWeightMatrix": "g (int64 s) => (float[5,4] y) <int64 a = {4}, int64 b = {8000}, "
    "float c = {0.0}, float d = {4000.0}> { y = MelWeightMatrix (a, s, b, c, d) }",
    "Gather": "g (float[4,3] x, int64[5] s) => (float[5,3] y) { y = Gather (x, s) }",
    "ScatterND": "g (float[4,3] x, int64[2,1] s, float[2,3] u) => (float[4,3] y) "
    "{ y = ScatterND (x, s, u) }",
    "Slice": "g (float[4,3] x, int64[1] s) => (float[n,3] y) <int64[1] a = {0}, int64[1] b = {4}> "
    "{ y = Slice (x, s, b, a) }",
    "ReverseSequence": "g (float[4,3] x, int64[3] s) => (float[4,3] y) "
    "{ y = ReverseSequence (x, s) }",
    "Trilu": "g (float[4,3] x, int64 s) => (float[4,3] y) { y = Trilu (x, s) }",
}


def _program(text: str, numbers: list[float], dtype: type) -> Job:
    """Each of the numbers everywhere, and all of them mixed."""
    model = parser.parse_model(HEAD + text)
    draw = np.random.default_rng(5)
    types = {np.float32: 1, np.int64: 7}
    feeds = []
    for k in range(len(numbers) + 12):
        feed = {}
        for given in model.graph.input:
            kind = given.type.tensor_type
            shape = [d.dim_value for d in kind.shape.dim]
            value = draw.normal(size=shape).astype(np.float32 if kind.elem_type == 1 else np.int64)
            if given.name == "s":
                assert kind.elem_type == types[dtype]
                pool = numbers[k : k + 1] or numbers
                value = draw.choice(np.array(pool, dtype), shape)
            feed[given.name] = np.asarray(value)
        feeds.append(feed)
    return Job(model, feeds)


def test_numbers_that_steer_addresses_stay_inside(tmp_path: Path) -> None:
    jobs = {name: _program(text, WILD, np.float32) for name, text in FLOATS.items()}
    jobs |= {name: _program(text, INDICES, np.int64) for name, text in INTEGERS.items()}
    for k, job in enumerate(jobs.values()):
        job.name = f"wild{k}"
        compile_job(job)
    programs = [program_of(job.compiled, job.feeds) for job in jobs.values()]
    strict = (*SANITIZED.sanitizers, "-fsanitize=float-cast-overflow")
    ran = run_programs(programs, tmp_path, replace(SANITIZED, sanitizers=strict))
    failed = {name: r.failure for name, r in zip(jobs, ran, strict=True) if r.failure}
    assert not failed


@pytest.mark.parametrize("op", ["MaxPool", "GlobalMaxPool"])
def test_a_nan_wins_wherever_it_is_in_a_window(op: str, tmp_path: Path) -> None:
    """As in Max and ReduceMax; onnxruntime's answer depends on its place."""
    words = "<kernel_shape = [2, 2], strides = [2, 2]>" if op == "MaxPool" else ""
    shape = "[1,6,2,4]", ("[1,6,1,2]" if op == "MaxPool" else "[1,6,1,1]")
    text = f"g (float{shape[0]} x) => (float{shape[1]} y) {{ y = {op} {words} (x) }}"
    x = np.random.default_rng(3).normal(size=(1, 6, 2, 4)).astype(np.float32)
    for k, place in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        x[0, k][place] = np.nan
    job = Job(parser.parse_model(HEAD + text), [{"x": x}], name="nans")
    compile_job(job)
    (ran,) = run_programs([program_of(job.compiled, job.feeds)], tmp_path)
    (found,) = program_of(job.compiled, job.feeds).results(ran.output)
    windows = x.reshape(1, 6, 1, 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(1, 6, 1, 2, 4)
    want = windows.max(-1) if op == "MaxPool" else x.max((2, 3), keepdims=True)
    np.testing.assert_array_equal(found["y"], want)
