"""Extents known only at run time, through chains of operators, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import parser
from oracle import Array, onnxruntime_float, relative_error

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'
MODELS = {
    "elementwise_on_positions": """g (float[3,4] x) => (float[k,2] y, int64[2] s) {
        p = NonZero(x)
        t = Transpose(p)
        f = Cast <to = 1> (t)
        half = Constant <value = float {0.5}> ()
        m = Mul(f, half)
        y = Neg(m)
        s = Shape(y)
    }""",
    "joined": """g (float[5] x, float[3] z, bool[5] c, bool[3] d) => (float[k] y, int64 n) {
        a = Compress <axis = 0> (x, c)
        b = Compress <axis = 0> (z, d)
        e = Exp(b)
        y = Concat <axis = 0> (a, z, e)
        n = Size(y)
    }""",
    "softmax_over_what_is_there": """g (float[2,6] x, bool[6] c) => (float[2,k] y) {
        a = Compress <axis = 1> (x, c)
        y = Softmax <axis = 1> (a)
    }""",
    "rows_split": """g (float[6,4] x, bool[6] c) => (float[k,2] y) {
        a = Compress <axis = 0> (x, c)
        pairs = Constant <value = int64[2] {-1, 2}> ()
        y = Reshape(a, pairs)
    }""",
    "compress_twice": """g (float[8] x, bool[8] c, bool[8] d) => (float[k] y) {
        a = Compress <axis = 0> (x, c)
        y = Compress <axis = 0> (a, d)
    }""",
    "known_conditions_leave_static_extents": """g (float[3,4] x) => (float[2,2] y, float[7] z) {
        few = Constant <value = bool[3] {1, 0, 1}> ()
        many = Constant <value = bool[9] {1, 1, 1, 0, 1, 1, 1, 0, 1}> ()
        a = Compress <axis = -2> (x, few)
        b = Flatten <axis = 1> (a)
        half = Constant <value = bool[4] {0, 1, 0, 1}> ()
        c = Compress <axis = 1> (b, half)
        y = Softmax <axis = 1> (c)
        z = Compress(x, many)
    }""",
    "boxes_that_are_known": """g (float[2] x) => (float[2] y, int64[k,3] s) {
        b = Constant <value = float[1,2,4] {0, 0, 1, 1, 2, 2, 3, 3}> ()
        w = Constant <value = float[1,1,2] {0.5, 0.75}> ()
        n = Constant <value = int64 {2}> ()
        t = Constant <value = float {0.5}> ()
        s = NonMaxSuppression(b, w, n, t, t)
        y = Neg(x)
    }""",
    "a_loop_that_stops_early": """g (float[2] x, float limit) => (float[2] y, float[k,2] all) {
        ten = Constant <value = int64 {10}> ()
        t = Constant <value = bool {1}> ()
        zero = Constant <value = int64[1] {0}> ()
        y, all = Loop (ten, t, x) <
            body = b (int64 i, bool c, float[2] s) => (bool d, float[2] n, float[2] o) {
                n = Add(s, s)
                o = Neg(n)
                first = Constant <value = float[2,1] {1, 0}> ()
                row = Unsqueeze(n, zero)
                product = MatMul(row, first)
                picked = Squeeze(product)
                d = Less(picked, limit)
            }>
    }""",
    "log_of_softmax": """g (float[6,4] x, bool[6] c) => (float[k,4] z) {
        p = Compress <axis = 0> (x, c)
        z = LogSoftmax <axis = 0> (p)
    }""",
    "sums_so_far": """g (float[6,4] x, bool[6] c) => (float[k,4] y, float[k,4] z) {
        p = Compress <axis = 0> (x, c)
        zero = Constant <value = int64 {0}> ()
        y = CumSum(p, zero)
        z = CumSum <reverse = 1, exclusive = 1> (p, zero)
    }""",
    "windows_from_the_end": """g (float[6,4] x, bool[6] c) => (float[k,4] y, float[k,2] z) {
        p = Compress <axis = 0> (x, c)
        last = Constant <value = int64[2] {-2, 1}> ()
        most = Constant <value = int64[2] {100, 3}> ()
        q = Slice(p, last, most)
        z = Exp(q)
        zero = Constant <value = int64[1] {0}> ()
        front = Constant <value = int64[1] {-1}> ()
        r = Slice(p, zero, front)
        y = Neg(r)
    }""",
    "expanded": """g (float[6] x, float[6,1] r, bool[6] c)
        => (float[k,3] y, float[n] z, float[2,m] w, float[2,l,5] u) {
        p = Compress <axis = 0> (r, c)
        q = Compress <axis = 0> (x, c)
        rows = Shape(q)
        three = Constant <value = int64[1] {3}> ()
        pairs = Concat <axis = 0> (rows, three)
        e = Expand(p, pairs)
        y = Exp(e)
        never = Constant <value = bool[6] {0, 0, 0, 0, 0, 0}> ()
        first = Constant <value = bool[6] {1, 0, 0, 0, 0, 0}> ()
        none = And(c, never)
        a = Or(none, first)
        single = Compress <axis = 0> (x, a)
        many = Expand(single, rows)
        z = Neg(many)
        twice = Constant <value = int64[2] {2, 1}> ()
        w = Expand(q, twice)
        more = Constant <value = int64[3] {2, 1, 5}> ()
        u = Expand(p, more)
    }""",
    "extents_that_go_together": """g (float[6,2,2] x, bool[6] c) => (float[k,4] y) {
        p = Compress <axis = 0> (x, c)
        joined = Concat <axis = 0> (p)
        flat = Flatten(joined)
        shape = Shape(p)
        zero = Constant <value = int64[1] {0}> ()
        rows = Gather(shape, zero)
        four = Constant <value = int64[1] {4}> ()
        asked = Concat <axis = 0> (rows, four)
        none = Constant <value = int64[2] {-1, -1}> ()
        isopen = Equal(asked, none)
        ones = Constant <value = int64[2] {1, 1}> ()
        same = Where(isopen, ones, asked)
        zeros = ConstantOfShape(same)
        y = Add(flat, zeros)
    }""",
    "parts_of_rows": """g (float[6,5] x, bool[6] c) => (float[k,2] y, float[k,3] z) {
        p = Compress <axis = 0> (x, c)
        parts = Constant <value = int64[2] {2, 3}> ()
        q, r = Split <axis = 1> (p, parts)
        y = Exp(q)
        z = Neg(r)
    }""",
    "regions_of_an_image": """g (float[2,3,6,5] x, float[6,4] r, int64[6] n, bool[6] c)
        => (float[k,3,2,2] y) {
        p = Compress <axis = 0> (r, c)
        zero = Constant <value = int64 {0}> ()
        one = Constant <value = int64 {1}> ()
        near = Max(n, zero)
        image = Min(near, one)
        q = Compress <axis = 0> (image, c)
        y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, p, q)
    }""",
    "largest_of_rows": """g (float[6,4] x, bool[6] c) => (float[k,2] y, int64[k,2] i) {
        p = Compress <axis = 0> (x, c)
        two = Constant <value = int64[1] {2}> ()
        y, i = TopK <axis = 1> (p, two)
    }""",
    "marked": """g (float[3,4] x) => (float[2,k,4] y, float[2,k] z) {
        p = NonZero(x)
        four = Constant <value = int64 {4}> ()
        two = Constant <value = float[2] {0, 1}> ()
        y = OneHot(p, four, two)
        f = Cast <to = 1> (p)
        z = Trilu(f)
    }""",
    "reduced": """g (float[6,4] x, bool[6] c) => (float[4] a, float[4] b, float[4] m, float[k] r) {
        p = Compress <axis = 0> (x, c)
        zero = Constant <value = int64[1] {0}> ()
        a = ReduceSum <keepdims = 0> (p, zero)
        b = ReduceMax <axes = [0], keepdims = 0> (p)
        m = ReduceMean <axes = [0], keepdims = 0> (p)
        r = ReduceMin <axes = [1], keepdims = 0> (p)
    }""",
    "sums_of_sizes": """g (float[6,4] x, bool[6] c) => (float[4] a, float[4] b, float[1,1] s) {
        p = Compress <axis = 0> (x, c)
        a = ReduceL1 <axes = [0], keepdims = 0> (p)
        b = ReduceL2 <axes = [0], keepdims = 0> (p)
        s = ReduceSumSquare (p)
    }""",
    "best_of_what_is_there": """g (float[6,4] x, bool[6] c)
        => (int64[4] a, int64[k] b, float[4] v) {
        p = Compress <axis = 0> (x, c)
        a = ArgMax <axis = 0, keepdims = 0> (p)
        b = ArgMin <axis = 1, keepdims = 0> (p)
        one = Constant <value = int64[1] {1}> ()
        t, i = TopK <axis = 0, largest = 0> (p, one)
        zero = Constant <value = int64[1] {0}> ()
        v = Squeeze(t, zero)
    }""",
    "gathered_by_position": """g (float[3,4] x) => (float[k] y, float[k,4] rows) {
        p = NonZero(x)
        t = Transpose(p)
        y = GatherND(x, t)
        zero = Constant <value = int64 {0}> ()
        r = Gather <axis = 0> (p, zero)
        rows = Gather <axis = 0> (x, r)
    }""",
    "gathered_from_the_end": """g (float[6,4] x, bool[6] c, int64[3] i, int32[2] j)
        => (float[3,4] a, float[3,4] b, float[2,4] e, float[2,4] last, float[2] nd) {
        p = Compress <axis = 0> (x, c)
        a = Gather <axis = 0> (p, i)
        four = Constant <value = int64[2] {1, 4}> ()
        zero = Constant <value = int64[1] {1}> ()
        u = Unsqueeze(i, zero)
        all = Tile(u, four)
        b = GatherElements <axis = 0> (p, all)
        e = Gather <axis = 0> (p, j)
        ends = Constant <value = int64[2] {-1, -2}> ()
        last = Gather <axis = 0> (p, ends)
        places = Constant <value = int64[2,2] {-1, -1, -2, 0}> ()
        nd = GatherND(p, places)
    }""",
    "gathered_from_the_end_of_another": """g (float[6,4] x, bool[6] c, int64[3] i)
        => (float[3,2] y) {
        p = Compress <axis = 0> (x, c)
        ij = Constant <value = int64[2] {-1, 0}> ()
        q = Gather <axis = 1> (p, ij)
        y = Gather <axis = 0> (q, i)
    }""",
    "bounds_of_computed_shapes": """g (float[6,4] x, bool[6] c)
        => (float[k,4] a, float[k] b, int64[k] r, float[n,4] t, float[k,4] sum) {
        p = Compress <axis = 0> (x, c)
        s = Shape(p)
        a = ConstantOfShape <value = float[1] {2}> (s)
        zero = Constant <value = int64[1] {0}> ()
        n = Gather(s, zero)
        b = ConstantOfShape <value = float[1] {3}> (n)
        from = Constant <value = int64 {0}> ()
        one = Constant <value = int64 {1}> ()
        m = Squeeze(n, zero)
        r = Range(from, m, one)
        row = Constant <value = float[1,4] {1, 2, 3, 4}> ()
        t = Expand(row, s)
        sum = Add(p, a)
    }""",
    "joins_that_go_together": """g (float[6] x, bool[6] c, bool[6] d) => (float[k] y) {
        p = Compress <axis = 0> (x, c)
        q = Compress <axis = 0> (x, d)
        values = Concat <axis = 0> (p, q)
        sp = Shape(p)
        sq = Shape(q)
        ones = ConstantOfShape <value = float[1] {1}> (sp)
        twos = ConstantOfShape <value = float[1] {2}> (sq)
        classes = Concat <axis = 0> (ones, twos)
        from = Constant <value = int64[1] {0}> ()
        to = Constant <value = int64[1] {9223372036854775807}> ()
        whole = Slice(classes, from, to)
        y = Add(values, whole)
    }""",
    "best_of_at_most_some": """g (float[6,4] x, bool[6] c) => (float[k] v, float[k] w) {
        flat = Constant <value = int64[1] {-1}> ()
        f = Reshape(x, flat)
        p = NonZero(f)
        t = Transpose(p)
        z = GatherND(f, t)
        s = Shape(z)
        five = Constant <value = int64[1] {5}> ()
        m = Concat <axis = 0> (five, s)
        k = ReduceMin <keepdims = 1> (m)
        v, i = TopK(z, k)
        w = Gather(z, i)
    }""",
    "boxes_that_are_there": """g (float[1,6,4] x, bool[6] c, float[1,2,6] z)
        => (int64[k,3] y, int64[n,3] above) {
        p = Compress <axis = 1> (x, c)
        s = Compress <axis = 2> (z, c)
        most = Constant <value = int64[1] {5}> ()
        overlap = Constant <value = float[1] {0.3}> ()
        score = Constant <value = float[1] {0.1}> ()
        y = NonMaxSuppression(p, s, most, overlap)
        above = NonMaxSuppression(p, s, most, overlap, score)
    }""",
    "a_window_of_it": """g (float[8,3] x, bool[8] c) => (float[k,2] y) {
        p = Compress <axis = 0> (x, c)
        from = Constant <value = int64[2] {1, -2}> ()
        to = Constant <value = int64[2] {5, 9}> ()
        y = Slice(p, from, to)
    }""",
    "products": """g (float[5,4] x, float[4,3] w, bool[5] c) => (float[k,3] y, float[4,4] z) {
        p = Compress <axis = 0> (x, c)
        y = MatMul(p, w)
        t = Transpose(p)
        z = MatMul(t, p)
    }""",
    "captured_by_a_branch": """g (float[6] x, bool[6] c, bool a) => (float y) {
        p = Compress <axis = 0> (x, c)
        y = If (a) <
            then_branch = t () => (float ty)
                { s = Shape(p) f = Cast <to = 1> (s) z = Constant <value = int64[1] {0}> ()
                  ty = Squeeze(f, z) },
            else_branch = e () => (float q) { q = Constant <value = float {-1}> () }
        >
    }""",
    "a_branch_captures_an_extent_once": """g (float[6,2] x, bool[6] c, bool a) => (float y) {
        p = Compress <axis = 0> (x, c)
        q = Exp(p)
        y = If (a) <
            then_branch = t () => (float ty)
                { r = Mul(p, q) ty = ReduceSum <keepdims = 0> (r) },
            else_branch = e () => (float ey)
                { s = Sub(p, q) ey = ReduceMax <keepdims = 0> (s) }
        >
    }""",
}


def feeds(name: str, model: onnx.ModelProto) -> list[dict[str, Array]]:
    random = np.random.default_rng(len(name))
    result = []
    for share in (0.5, 0.9, 1.0):
        sample = {}
        for info in model.graph.input:
            type_ = info.type.tensor_type
            shape = [d.dim_value for d in type_.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
            chosen = random.random(shape) < share
            value = chosen if dtype.kind == "b" else random.normal(0, 2, shape) * chosen
            sample[info.name] = np.asarray(value, dtype)
        # Indices, some from the end, of at least three rows.
        for name, row in (("i", [-1, 0, -2]), ("j", [-2, 1])):
            if name in sample and "c" in sample:
                sample[name] = np.array(row, sample[name].dtype)
                sample["c"][:3] = True
        if "limit" in sample:
            sample["x"], sample["limit"] = (
                np.abs(sample["x"]) + 0.1,
                np.asarray(20 * share, np.float32),
            )
        result.append(sample)
    return result


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    models = {name: parser.parse_model(HEAD + text) for name, text in MODELS.items()}
    made = {name: Job(model, feeds(name, model)) for name, model in models.items()}
    made |= {f"{name} by vm": Job(j.model, j.feeds, executor="vm") for name, j in made.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("extents"))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    by_vm = jobs[f"{name} by vm"]
    assert not by_vm.failure, by_vm.failure
    assert by_vm.output == job.output
    for want, got in zip(onnxruntime_float(job.model, job.feeds), job.results, strict=True):
        for key, value in want.items():
            assert got[key].dtype == value.dtype
            assert got[key].shape == value.shape, key
            assert relative_error(got[key], value) <= 1e-5, key


BAD = {
    "a state that shrinks": """g (float[6] x, bool[6] c) => (float[k] y) {
        two = Constant <value = int64 {2}> ()
        t = Constant <value = bool {1}> ()
        y = Loop (two, t, x) <body = b (int64 i, bool g, float[6] s) => (bool d, float[k] n) {
            d = Identity(g) n = Compress <axis = 0> (s, c) }> }""",
    "parts of an axis whose extent is late": """g (float[4] x, bool[4] c)
        => (float[p] y, float[q] z) { a = Compress <axis = 0> (x, c)
        y, z = Split <axis = 0> (a) }""",
    "more parts of an axis than it can have": """g (float[4] x, bool[4] c)
        => (float[2] y, float[3] z) { a = Compress <axis = 0> (x, c)
        parts = Constant <value = int64[2] {2, 3}> () y, z = Split <axis = 0> (a, parts) }""",
    "regions of an image whose extents are late": """g (float[1,2,4,4] x, bool[4] c, float[3,4] r)
        => (float[3,2,1,1] y) { a = Compress <axis = 2> (x, c)
        i = Constant <value = int64[3] {0, 0, 0}> () y = RoiAlign (a, r, i) }""",
    "a determinant of a matrix whose extent is late": """g (float[4,4] x, bool[4] c)
        => (float[k] y) { a = Compress <axis = 0> (x, c) y = Det (a) }""",
}


# What an operator does to its data is a vector whose length is known only at run time.
HOW = {
    "Reshape": "g (float[6] x, int64[3] s, bool[3] c) => (float[a,b] y)",
    "Slice": "g (float[6] x, int64[1] s, bool[1] c) => (float[a] y)",
    "TopK": "g (float[6] x, int64[1] s, bool[1] c) => (float[a] y, int64[a] z)",
    "ReduceSum": "g (float[2,3] x, int64[2] s, bool[2] c) => (float[2,1] y)",
}
HOW_TO = {
    "Slice": "v = Add(t, t) y = Slice(x, t, v)",
    "TopK": "y, z = TopK(x, t)",
}


@pytest.mark.parametrize("op", HOW)
def test_how_many_is_said_is_known(op: str) -> None:
    """onnxruntime computes each of these; here neither a shape nor the sum would be certain."""
    node = HOW_TO.get(op, f"y = {op}(x, t)")
    model = parser.parse_model(f"{HEAD}{HOW[op]} {{ t = Compress <axis = 0> (s, c) {node} }}")
    inputs = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input
    }
    sample = {"x": np.ones(inputs["x"], np.float32)}
    sample["s"] = np.array([2, 3, 7][: inputs["s"][0]] if op != "ReduceSum" else [1, 7])
    sample["c"] = np.array([True, op == "Reshape", False][: inputs["c"][0]])
    (results,) = onnxruntime_float(model, [sample])
    assert results["y"].ndim
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(model))
    assert "MLF0302" in str(caught.value)
    assert "the extents of 't' are known only at run time" in str(caught.value)


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_certain_is_refused(name: str) -> None:
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(parser.parse_model(HEAD + BAD[name])))
    assert "MLF0302" in str(caught.value)
