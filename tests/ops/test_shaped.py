"""Shapes that are computed, within bounds that are worked out or given, against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from batch import Job, run_jobs
from onnx import parser
from oracle import Array, onnxruntime_float, relative_error

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 20]>\n'
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


def i(*values: int) -> Array:
    return np.array(values, np.int64)


def n(value: int, kind: Any = np.int64) -> Array:
    return np.array(value, kind)


def ends(*feeds: tuple[Array, Array]) -> list[dict[str, Array]]:
    return [{"x": X, "a": a, "b": b} for a, b in feeds]


# name -> (model, bounds, samples)
CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], list[dict[str, Array]]]] = {
    "reshape": (
        "g (float[3,4] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }",
        {"y": (12, 12)},
        [{"x": X, "s": s} for s in (i(2, 6), i(-1, 3), i(0, 4), i(12, 1), i(3, -1))],
    ),
    "reshape_of_a_scalar": (
        "g (float x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }",
        {"y": (2, 3)},
        [{"x": n(7, np.float32), "s": i(1, 1)}],
    ),
    "expand": (
        "g (float[3,1] x, int64[3] s) => (float[a,b,c] y) { y = Expand(x, s) }",
        {"y": (5, 3, 6)},
        [{"x": X[:, :1], "s": s} for s in (i(2, 3, 6), i(5, 1, 4), i(1, 1, 1))],
    ),
    "tile": (
        "g (float[3,4] x, int64[2] s) => (float[a,b] y) { y = Tile(x, s) }",
        {"y": (9, 8)},
        [{"x": X, "s": s} for s in (i(2, 1), i(3, 2), i(1, 1))],
    ),
    "range": (
        "g (int64 a, int64 b, int64 c) => (int64[k] y) { y = Range(a, b, c) }",
        {"y": (20,)},
        [
            {"a": n(a), "b": n(b), "c": n(c)}
            for a, b, c in ((1, 10, 2), (10, -5, -3), (3, 3, 1), (5, 1, 1), (0, 7, 7))
        ],
    ),
    # 0.3 / 0.1 is above 3 of floats in a double, and 3 in a float; the span of shorts is an int.
    "range_of_tenths": (
        "g (float a, float b, float c) => (float[k] y) { y = Range(a, b, c) }",
        {"y": (20,)},
        [
            {k: n(v, np.float32) for k, v in zip("abc", each, strict=True)}
            for each in ((0, 0.3, 0.1), (1, 0, -0.3), (0.1, 0.8, 0.1))
        ],
    ),
    "range_of_shorts": (
        "g (int16 a, int16 b, int16 c) => (int16[k] y) { y = Range(a, b, c) }",
        {"y": (9,)},
        [{"a": n(-30000, np.int16), "b": n(30000, np.int16), "c": n(9000, np.int16)}],
    ),
    # No row of a mask has more than it is long; as Longformer's exports have it.
    "range_to_the_fullest_row": (
        """g (bool[3,5] m) => (int64[k] y, float[3,q] z) {
            c = Cast <to = 7> (m) axis = Constant <value = int64[1] {1}> ()
            counts = ReduceSum <keepdims = 0> (c, axis) most = ReduceMax <keepdims = 0> (counts)
            zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
            three = Constant <value = int64[1] {3}> () first = Constant <value = int64[1] {0}> ()
            y = Range(zero, most, one)
            width = Unsqueeze(most, first) shape = Concat <axis = 0> (three, width)
            z = ConstantOfShape <value = float[1] {2.5}> (shape) }""",
        {},
        [{"m": X[:, :1] > np.arange(5) * k} for k in (0.5, 1.0, 100.0)],
    ),
    # Experts of a mixture that have tokens: as many as the exporter saw, of a box of them all.
    "parts_as_many_as_were_traced": (
        """g (bool[5] m, float[3,4] x) => (int64[1,1] y, float[3,2] z, float[3,1] u, int64[1] v) {
            t = NonZero(m) p = Transpose <perm = [1, 0]> (t)
            sizes = Constant <value = int64[3] {1, 1, 1}> ()
            y, q, r = Split <axis = 0> (p, sizes)
            last = Constant <value = int64[1] {-1}> () flat = Reshape(p, last)
            few = Gather <axis = 1> (x, flat)
            two = Constant <value = int64[2] {2, 1}> ()
            z, u = Split <axis = -1> (few, two) v = Reshape(r, last) }""",
        {},
        [{"m": np.isin(np.arange(5), at), "x": X} for at in ((0, 2, 3), (1, 2, 3))],
    ),
    # As torch's `chunk` is exported: half of a static axis of a box, computed of its shape.
    "halves_of_a_static_axis": (
        """g (float[3,4] x, bool[3] c) => (float[k,3] z) {
            t = Compress <axis = 0> (x, c) s = Shape(t)
            last = Constant <value = int64[1] {-1}> () one = Constant <value = int64[1] {1}> ()
            two = Constant <value = int64[1] {2}> () zero = Constant <value = int64[1] {0}> ()
            n = Gather(s, last) m = Add(n, one) half = Div(m, two) whole = Mul(half, two)
            a = Slice(t, zero, half, last) b = Slice(t, half, whole, last) y = Mul(a, b)
            w = Constant <value = float[2,3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> ()
            z = MatMul(y, w) }""",
        {},
        [{"x": X, "c": np.array(kept, bool)} for kept in ([1, 0, 1], [0, 0, 0], [1, 1, 1])],
    ),
    "range_of_floats": (
        "g (float a, float b, float c) => (float[k] y) { y = Range(a, b, c) }",
        {"y": (20,)},
        [
            {"a": n(a, np.float32), "b": n(b, np.float32), "c": n(c, np.float32)}
            for a, b, c in ((1, 10, 2), (10, -5, -3), (3, 3, 1))
        ],
    ),
    "constant_of_shape": (
        """g (int64[2] s) => (float[a,b] y) {
            y = ConstantOfShape <value = float[1] {2.5}> (s) }""",
        {"y": (4, 4)},
        [{"s": i(2, 3)}, {"s": i(0, 3)}, {"s": i(4, 4)}],
    ),
    "slice": (  # no longer than its input: needs no bound
        "g (float[3,4] x, int64[2] a, int64[2] b) => (float[p,q] y) { y = Slice(x, a, b) }",
        {},
        ends((i(0, 1), i(2, 4)), (i(-2, -3), i(100, -1)), (i(2, 3), i(1, 1))),
    ),
    "slice_backwards": (
        """g (float[3,4] x, int64[1] a, int64[1] b) => (float[p,q] y) {
            axis = Constant <value = int64[1] {1}> () step = Constant <value = int64[1] {-2}> ()
            y = Slice(x, a, b, axis, step) }""",
        {},
        ends((i(3), i(0)), (i(-1), i(-100)), (i(1), i(2))),
    ),
    "pad": (
        "g (float[3,4] x, int64[4] p) => (float[a,b] y) { y = Pad(x, p) }",
        {"y": (8, 8)},
        [{"x": X, "p": p} for p in (i(1, 2, 0, 1), i(0, 0, 0, 0), i(2, 1, 1, 1), i(-1, 0, 0, -2))],
    ),
    "pad_with_the_edge": (
        """g (float[3,4] x, int64[2] p) => (float[a,b] y) {
            axis = Constant <value = int64[1] {1}> ()
            y = Pad <mode = "edge"> (x, p, , axis) }""",
        {"y": (3, 9)},
        [{"x": X, "p": p} for p in (i(1, 2), i(0, 0), i(0, 5))],
    ),
    "a_chain": (
        """g (float[3,4] x, int64[2] a, int64[2] b) => (float[q] y, float[p,q] t, int64[2] s) {
            t = Slice(x, a, b) u = Exp(t) axis = Constant <value = int64[1] {0}> ()
            y = ReduceSum <keepdims = 0> (u, axis) s = Shape(t) }""",
        {},
        ends((i(0, 1), i(2, 4)), (i(1, 0), i(3, 3))),
    ),
    # What a box holds stands in other places than the same elements in a tensor.
    "reshape_of_a_box": (
        """g (float[3,4] x, int64[2] s) => (int64[a,b] y) { t = NonZero(x) y = Reshape(t, s) }""",
        {"y": (11, 22)},
        [{"x": X, "s": s} for s in (i(-1, 2), i(11, 2), i(1, -1), i(0, -1))],
    ),
    "rows_of_a_box": (
        """g (float[3,4] x) => (int64[a,2] y) {
            t = NonZero(x) s = Constant <value = int64[2] {-1, 2}> () y = Reshape(t, s) }""",
        {},
        [{"x": X}, {"x": X * (X > 1)}],
    ),
    "flat_box": (
        """g (float[3,4] x, int64[2] a, int64[2] b) => (float[k] y, float[1,k] z, float[p,q] w) {
            t = Slice(x, a, b) s = Constant <value = int64[1] {-1}> () y = Reshape(t, s)
            z = Flatten <axis = 0> (t) w = Flatten(t) }""",
        {},
        ends((i(0, 1), i(2, 4)), (i(1, 1), i(3, 2))),
    ),
    "by_its_size": (
        """g (float[3,4] x, int64[2] a, int64[2] b) => (float[k,1] y) {
            t = Slice(x, a, b) n = Size(t) zero = Constant <value = int64[1] {0}> ()
            one = Constant <value = int64[1] {1}> () m = Unsqueeze(n, zero)
            s = Concat <axis = 0> (m, one) y = Reshape(t, s) }""",
        {},
        ends((i(0, 1), i(2, 4)), (i(1, 1), i(3, 2))),
    ),
    "heads": (
        """g (float[2,3,6] x, int64[1] k) => (float[2,a,3,2] y, float[2,a,6] z) {
            zero = Constant <value = int64[1] {0}> () one = Constant <value = int64[1] {1}> ()
            t = Slice(x, zero, k, one) s = Constant <value = int64[4] {2, -1, 3, 2}> ()
            y = Reshape(t, s) u = Transpose <perm = [0, 2, 1, 3]> (y)
            v = Transpose <perm = [0, 2, 1, 3]> (u) r = Constant <value = int64[3] {0, 0, -1}> ()
            z = Reshape(v, r) }""",
        {},
        [{"x": np.arange(36, dtype=np.float32).reshape(2, 3, 6), "k": i(k)} for k in (1, 2, 3)],
    ),
    "tile_of_a_box": (
        """g (float[3,4] x, int64[2] a, int64[2] b, int64[2] s) => (float[p,q] y) {
            t = Slice(x, a, b) y = Tile(t, s) }""",
        {"y": (9, 9)},
        [{"x": X, "a": i(0, 1), "b": i(2, 4), "s": s} for s in (i(2, 2), i(4, 1))],
    ),
    "pad_of_a_box": (
        """g (float[3,4] x, int64[2] a, int64[2] b, int64[4] s) => (float[p,q] y, float[p,q] z) {
            t = Slice(x, a, b) y = Pad(t, s) z = Pad <mode = "edge"> (t, s) }""",
        {"y": (6, 7), "z": (6, 7)},
        [{"x": X, "a": i(0, 1), "b": i(2, 4), "s": s} for s in (i(1, 1, 0, 2), i(0, 0, 2, 0))],
    ),
    "a_loop_of_computed_length": (
        """g (int64 m, float[2] x) => (float[2] y, float[k,2] all) {
            t = Constant <value = bool {1}> ()
            y, all = Loop (m, t, x) <
                body = b (int64 i, bool c, float[2] s) => (bool d, float[2] v, float[2] o) {
                    d = Identity(c) v = Add(s, s) o = Neg(v) }> }""",
        {"all": (6, 2)},
        [{"m": n(m), "x": X[0, :2]} for m in (3, 6, 1)],
    ),
}
IMAGE = np.random.default_rng(0).normal(size=(1, 2, 4, 5)).astype(np.float32)


def resized(mode: str, transform: str, nearest: str, more: str = "") -> str:
    """The last two axes, by sizes that are an input."""
    return f"""g (float[1,2,4,5] x, int64[2] s) => (float[1,2,a,b] y) {{
        front = Constant <value_ints = [1, 2]> () sizes = Concat <axis = 0> (front, s)
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "{transform}",
            {more} nearest_mode = "{nearest}"> (x, , , sizes) }}"""


TRANSFORMS = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
SIZES = [{"x": IMAGE, "s": s} for s in (i(8, 10), i(3, 2), i(1, 7), i(4, 5), i(9, 1))]
for transform in TRANSFORMS:
    text = resized("linear", transform, "floor")
    CASES[f"resize_linear_{transform}"] = (text, {"y": (1, 2, 9, 10)}, SIZES)
for k, nearest in enumerate(ROUNDINGS):
    text = resized("nearest", TRANSFORMS[k], nearest)
    CASES[f"resize_nearest_{nearest}"] = (text, {"y": (1, 2, 9, 10)}, SIZES)
for k, more in enumerate(("", "exclude_outside = 1,", "cubic_coeff_a = -0.5,")):
    text = resized("cubic", TRANSFORMS[k + 2], "floor", more)
    CASES[f"resize_cubic_{k}"] = (text, {"y": (1, 2, 9, 10)}, SIZES)
# Masks of detectors: each is stretched to its own box, and put into an image.
CASES["resize_in_a_loop"] = (
    """g (float[3,1,4,4] x, int64[3,2] s) => (float[3,6,6] y) {
        n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
        y = Loop (n, t) <body = b (int64 i, bool c) => (bool d, float[6,6] o) {
            d = Identity(c) front = Constant <value_ints = [1]> ()
            mask = Gather(x, i) box = Gather(s, i) sizes = Concat <axis = 0> (front, box)
            r = Resize <mode = "linear"> (mask, , , sizes)
            whole = Constant <value_ints = [1, 6, 6]> () after = Sub(whole, sizes)
            before = Constant <value_ints = [0, 0, 0]> () p = Concat <axis = 0> (before, after)
            q = Pad(r, p) shape = Constant <value_ints = [6, 6]> () o = Reshape(q, shape) }> }""",
    {"r": (1, 6, 6), "q": (1, 6, 6)},
    [{"x": np.resize(IMAGE, (3, 1, 4, 4)), "s": np.array([[2, 3], [6, 6], [5, 1]])}],
)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Job]:
    made: dict[tuple[str, str], Job] = {}
    for name, (text, shapes, feeds) in CASES.items():
        model = parser.parse_model(HEAD + text)
        for executor in ("aot", "vm"):
            job = Job(model, feeds, name=f"{name}_{executor}", executor=executor, shapes=shapes)
            made[name, executor] = job
    run_jobs(list(made.values()), tmp_path_factory.mktemp("shaped"))
    return made


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str, jobs: dict[tuple[str, str], Job]) -> None:
    job, by_vm = jobs[name, "aot"], jobs[name, "vm"]
    assert not job.failure, job.failure
    assert not by_vm.failure, by_vm.failure
    assert by_vm.output == job.output
    for want, got in zip(onnxruntime_float(job.model, job.feeds), job.results, strict=True):
        for key, value in want.items():
            assert got[key].dtype == value.dtype
            assert got[key].shape == value.shape, key
            assert relative_error(got[key], value) <= 1e-5, key


def test_nothing_is_written_beyond_a_bound_that_is_too_small(tmp_path: Any) -> None:
    model = parser.parse_model(HEAD + CASES["range"][0])
    feed = {"a": n(0), "b": n(1000), "c": n(1)}
    job = Job(model, [feed], shapes={"y": (5,)})
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    assert job.results[0]["y"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("case", "shapes", "says"),
    [
        ("reshape", {}, "--input-shape y:4,6"),
        ("reshape", {"y": (4, 4, 4)}, "--input-shape y:4,6"),
        ("resize_linear_half_pixel", {}, "--input-shape y:4,6"),
        ("a_chain", {"u": (3, 4)}, "'u', which is not an input and has a known shape"),
        ("slice", {"nothing": (3, 4)}, "'nothing', which is not an input"),
        ("a_loop_of_computed_length", {}, "--input-shape all:10,..."),
    ],
)
def test_what_a_bound_must_be(case: str, shapes: dict[str, tuple[int, ...]], says: str) -> None:
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(parser.parse_model(HEAD + CASES[case][0]), input_shapes=shapes))
    assert says in str(caught.value)


def test_all_that_need_a_limit_are_named_at_once() -> None:
    body = """g (float[4] v, int64 k, int64 n) => (float[M] z)
        <bool t = {1}, int64 one = {1}, int64[1] all = {-1}> {
        z = Loop (one, t) <body = b (int64 i, bool c) => (bool d, float[P] o) {
            d = Identity(c) r = Range(i, k, one) a = Cast <to = 1> (r)
            w = Range(i, n, one) e = Cast <to = 1> (w)
            m = Reshape(n, all) p = Expand(e, m) q = ReduceSum <keepdims = 0> (p)
            s = ReduceSum <keepdims = 0> (a) o = Add(s, q) }> }"""
    model = parser.parse_model(HEAD + body)
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(model))
    asked = [re.findall(r"--input-shape (\w+):", p.help) for p in caught.value.problems]
    assert asked == [["r"], ["w"], ["p"]]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("antialias = 1", "antialias; supported: none"),
        ('keep_aspect_ratio_policy = "not_larger"', "'not_larger'; supported: stretch"),
    ],
)
def test_computed_sizes_that_are_refused(what: str, says: str) -> None:
    text = CASES["resize_linear_half_pixel"][0].replace('mode = "linear"', what, 1)
    with pytest.raises(MlfError) as caught:
        compile_module(
            ModuleSpec(parser.parse_model(HEAD + text), input_shapes={"y": (1, 2, 9, 10)})
        )
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("(float[6,4] x, int64[1] n, int64[1] b, int64[1] s) => (float[M,N] z)"
         " { z = Slice(x, n, b, s) }", (0,)),
        ("(float[2,2] x, int64[1] s) => (float[M,N] z) { z = ReduceSum(x, s) }", (1,)),
    ],
)  # fmt: skip
def test_a_remedy_that_works(body: str, value: tuple[int, ...]) -> None:
    model = parser.parse_model(HEAD + "g " + body)
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(model))
    assert "--input-value" in str(caught.value)
    compile_module(ModuleSpec(model, input_values={"s": value}))
