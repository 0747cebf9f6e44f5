"""Concat of tensors whose other extents are equal, as the standard demands, though only one part
says so or none does; and masks, of which no more elements are true than there are."""

from __future__ import annotations

import numpy as np
import pytest
from batch import Job, run_models
from onnx import parser
from oracle import Array, assert_equals_onnxruntime

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 18]>\n'
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
CUT = "zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () "


def joined(body: str, inputs: str = "float[3,4] x, int64[1] a, int64[1] b") -> str:
    return f"g ({inputs}) => (float[k,m] y) {{ {CUT} {body} }}"


def ends(*pairs: tuple[int, int]) -> list[dict[str, Array]]:
    return [{"x": X, "a": np.int64([a]), "b": np.int64([b])} for a, b in pairs]


# name -> (model, bounds, samples)
CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], list[dict[str, Array]]]] = {
    "a_static_part_last": (
        joined("p = Slice(x, zero, a, one) c = Slice(x, zero, b, zero) w = Constant"
               " <value = float[1,2] {7, 9}> () y = Concat <axis = 0> (p, w)"),
        {},
        ends((2, 1)),
    ),
    "a_static_part_first_after_two_boxes": (
        joined("p = Slice(x, zero, a, one) q = Slice(x, zero, b, one) w = Constant"
               " <value = float[1,2] {7, 9}> () y = Concat <axis = 0> (w, p, q)"),
        {},
        ends((2, 2)),
    ),
    "boxes_of_one_bound": (
        joined("p = Slice(x, zero, a, one) q = Slice(x, zero, b, one)"
               " y = Concat <axis = 0> (p, q)"),
        {},
        ends((0, 0), (1, 1), (3, 3), (4, 4)),
    ),
    "boxes_of_two_bounds": (
        joined("p = Slice(x, zero, a, one) q = Slice(x, zero, b, one)"
               " y = Concat <axis = 0> (p, q)"),
        {"q": (3, 3)},
        ends((0, 0), (1, 1), (3, 3)),
    ),
    "one_symbol_in_boxes_of_two_bounds": (
        joined("p = Slice(x, zero, a, one) s = Shape <start = 1> (p) t = Concat <axis = 0> (b, s)"
               " f = ConstantOfShape(t) y = Concat <axis = 0> (p, f)"),
        {"f": (2, 9)},
        ends((0, 1), (3, 2), (4, 0)),
    ),
    "joined_along_rows_and_columns": (
        joined("p = Slice(x, zero, a, one) q = Slice(x, zero, b, one) r = Concat <axis = 0> (p, q)"
               " y = Concat <axis = 1> (r, r)"),
        {},
        ends((1, 1), (4, 4)),
    ),
    "what_a_mask_picks": (
        joined("f = Constant <value_float = 0.5> () m = Greater(x, f) i = Cast <to = 7> (m)"
               " n = ReduceSum (i) flat = Reshape(n, one) v = Expand(f, flat) row = Constant"
               " <value_ints = [1, -1]> () y = Reshape(v, row)", "float[3,4] x"),
        {},
        [{"x": X}, {"x": X * 0}, {"x": X + 1}],
    ),
    "a_mask_of_a_box": (
        joined("p = Slice(x, zero, a, one) f = Constant <value_float = 0.5> () m = Greater(p, f)"
               " i = Cast <to = 7> (m) n = ReduceSum <keepdims = 0> (i) flat = Reshape(n, one)"
               " v = Expand(f, flat) row = Constant <value_ints = [1, -1]> () y = Reshape(v, row)",
               "float[3,4] x, int64[1] a"),
        {},
        [{"x": X, "a": np.int64([k])} for k in (0, 2, 4)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    return run_models(HEAD, CASES, tmp_path_factory.mktemp("joined"))


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert_equals_onnxruntime(job.model, job.feeds, job.results)


def test_a_box_that_is_too_small_for_another_part_is_refused() -> None:
    text = joined(
        "p = Slice(x, zero, a, one) w = Constant <value = float[1,4] {7, 9, 9, 9}> () "
        "y = Concat <axis = 0> (p, w)"
    )
    with pytest.raises(MlfError, match="'p' has at most 2 places on axis 1, another part has 4"):
        compile_module(ModuleSpec(parser.parse_model(HEAD + text), input_shapes={"p": (3, 2)}))


@pytest.mark.parametrize("most", [3, 1 << 29, 1 << 31])
def test_a_sum_that_may_wrap_around_bounds_nothing(most: int) -> None:
    """Of twelve int32 that are at most so large; with the first, 36 elements are few enough."""
    text = joined(
        f"f = Constant <value_float = 0.5> () m = Greater(x, f) i = Cast <to = 6> (m) k = Constant"
        f" <value = int32 {{{min(most, 2**31 - 1)}}}> () t = Mul(i, k) n = ReduceSum (t)"
        f" wide = Cast <to = 7> (n) flat = Reshape(wide, one) v = Expand(f, flat) row = Constant"
        f" <value_ints = [1, -1]> () y = Reshape(v, row)",
        "float[3,4] x",
    )
    spec = ModuleSpec(parser.parse_model(HEAD + text))
    if most == 3:
        assert compile_module(spec).program.graph.types["y"].shape == (1, 36)
    else:
        with pytest.raises(MlfError, match=r"--input-shape (v|y)"):
            compile_module(spec)
