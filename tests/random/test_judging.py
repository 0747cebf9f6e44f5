"""What the judge of random networks takes for right, and what no generator draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from grow import Array, Grower, NotThisError, fit
from judge import Judge
from other import Maker
from theirs import otherwise

F32, F16, I8, U8 = np.float32, np.float16, np.int8, np.uint8


def grown(x: Array, *ops: str) -> tuple[Judge, str]:
    """The judge of operators one after the other on one sample, and the name of their result."""
    g = Grower(np.random.default_rng(1))
    value = g.input(x.dtype, x.shape)
    value.array[...] = x
    for op in ops:
        value = g.add(op, value)
    return Judge(g.network("one", samples=1)), value.name


@pytest.mark.parametrize(
    ("op", "shape", "weights", "attrs"),
    [
        ("InstanceNormalization", (3, 2, 1), (1, 1), {}),
        ("GroupNormalization", (2, 3, 1), (1, 1), {"num_groups": 3}),
        ("LayerNormalization", (2, 3, 1), (2,), {}),
        ("MeanVarianceNormalization", (1, 3, 1, 1), (), {}),
        ("LpNormalization", (2, 1, 3), (), {"axis": 1}),
    ],
)
def test_nothing_is_normalised_alone(
    op: str, shape: tuple[int, ...], weights: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    """No generator has a mean over one element; over two, each takes the same operator. `weights`:
    the axis of x that each further operand is along."""

    def grows(shape: tuple[int, ...]) -> None:
        g = Grower(np.random.default_rng(1))
        g.add(op, g.input(np.float32, shape), *(g.normal(shape[a]) for a in weights), **attrs)

    def makes(shape: tuple[int, ...]) -> None:
        m = Maker(np.random.default_rng(1))
        m.opset = 21
        m.do(op, m.input(shape), *(m.weights(shape[a]) for a in weights), **attrs)

    for generate in (grows, makes):
        generate(tuple(max(n, 2) for n in shape))
        with pytest.raises(NotThisError):
            generate(shape)


def test_samples_that_are_normalised_have_noise() -> None:
    """Two equal elements: onnxruntime's result has a rounding of a product as large as they are,
    whether they come from a node or are a sample."""
    g = Grower(np.random.default_rng(1))
    x = g.input(np.float32, (1, 1, 2))
    x.array[:] = 12.345678
    g.add("InstanceNormalization", x, g.normal(1), g.normal(1))
    network = g.network("alike", samples=1)
    assert Judge(network).spread(0, 4)[network.model.graph.output[0].name].min() > 1e-4


def test_what_a_rounding_parts_may_be_equal() -> None:
    """As what it joins may differ: onnxruntime's tanh of a small x is x or the float beside it."""
    g = Grower(np.random.default_rng(1))
    x = g.input(np.float32, (2, 3))
    x.array[:] = [[1e-7, 1e-3, 0.5], [2, 4, 4]]
    g.add("Equal", x, g.add("Add", x, g.const(np.float32([[3e-7, 0, 1e-3], [1e-6, 0, 5]]))))
    network = g.network("beside", samples=1)
    (spread,) = Judge(network).spread(0, 16).values()
    assert spread.astype(bool).tolist() == [[True, True, False], [True, True, False]]


@pytest.mark.parametrize(
    ("x", "ops", "off", "fault"),
    [
        (F32([1e4, 3333.3, -1e4, -3333.0]), ("ReduceSum",), 4e-4, 2),
        (F32([1e4, 3333.3, -1e4, -3333.0]), ("ReduceMean", "Softsign"), 1e-4, 0.6),
        (np.float64([1.1, 2.2, -3.3]), ("ReduceSum", "Sign"), 1, 30),
        (F32([-14, 2]), ("Sigmoid", "Log"), 0.08, 30),
        (F32([-12, 2]), ("Softplus", "Log"), 0.03, 30),
    ],
)
def test_what_roundings_of_terms_leave(
    x: Array, ops: tuple[str, ...], off: float, fault: float
) -> None:
    """Of samples, which are exact: terms that cancel, and what is small beside 1."""
    judge, name = grown(x, *ops)
    (want,) = judge.expected
    for much, found in ((off, False), (fault, True)):
        got = {**want, name: want[name] + x.dtype.type(much) * (np.arange(want[name].size) == 0)}
        assert bool(judge.wrong([got])) == found


def test_float16_may_be_beside_only_at_a_tie() -> None:
    """Mish of 0.302734375 is 0.2101440206, just below the middle of two float16."""
    judge, name = grown(F16([0.302734375, 0.5, 2, 0.7, -1]), "Mish")
    want = judge.expected[0][name]
    for either in (0.21008301, 0.21020508):
        assert not judge.wrong([{name: np.r_[F16(either), want[1:]]}])
    for k in range(1, 5):
        beside = np.where(np.arange(5) == k, np.nextafter(want, F16(9)), want)
        assert judge.wrong([{name: beside}])


def test_float16_between_nodes_may_be_rounded() -> None:
    """Tan of -0.006992 is that again as a float16; onnxruntime compares a float32 with it. A large
    element beside it has no noise for it."""
    g = Grower(np.random.default_rng(1))
    x = g.input(F16, (2,))
    x.array[:] = [-0.006992, 1.5703]
    equal = g.add("Equal", x, g.add("Tan", x))
    judge = Judge(g.network("equal", samples=1))
    (want,) = judge.expected
    for k, found in ((0, False), (1, True)):
        got = {**want, equal.name: np.arange(2) == k}
        assert bool(judge.wrong([got])) == found


def test_extents_that_a_rounding_decides() -> None:
    """What a NonZero finds of a sum next to 0 may be there or not; what is far from 0 is there."""
    g = Grower(np.random.default_rng(1))
    x = g.input(F32, (2, 2))
    x.array[:] = [[0.1 + 0.2, -0.3], [3, 4]]
    y = g.add("NonZero", g.add("ReduceSum", x, g.const([1], np.int64), keepdims=0))
    judge = Judge(g.network("found", samples=1))
    (want,) = judge.expected[0].values()
    for count, found in ((1, False), (2, False), (0, True)):
        got = np.arange(2 - count, 2).reshape(1, count) if count else want[:, :0]
        assert bool(judge.wrong([{y.name: got}])) == found, count


IMAGE, TALL = np.zeros((1, 1, 4, 3), F32), np.zeros((1, 1, 25, 4), F32)
CROP = {"coordinate_transformation_mode": "tf_crop_and_resize"}
CORNERS = {"coordinate_transformation_mode": b"align_corners"}
POLICY = {"keep_aspect_ratio_policy": "not_larger", "axes": [2, 3]}
ROI, NONE = F32([0, 0.1, 1, 0.9]), None
LAST, CHANNELS = {"axes": [2, 3]}, {"axes": [1, 2]}
GAPS = {"kernel_shape": [2, 2], "strides": [3, 1], "auto_pad": "SAME_LOWER"}
BEYOND = {"kernel_shape": [5, 1], "strides": [2, 1], "count_include_pad": 1}
BACK = [np.int64([n]) for n in (3, 2**31 - 1, 2, -1)]
ON = [np.int64([n]) for n in (0, 2**31 - 1, 2, 2)]


@pytest.mark.parametrize(
    ("op", "opset", "operands", "attrs", "beside"),
    [
        # An extent stays, by a scale, a crop or a policy; another does not, or nothing moves.
        ("Resize", 19, (IMAGE, NONE, F32([1, 1, 1, 1.3])), {}, (IMAGE, NONE, F32([1, 1, 1, 1.4]))),
        ("Resize", 10, (IMAGE, F32([1, 1, 1.2, 1])), {}, (IMAGE, F32([1, 1, 1.3, 1]))),
        (
            *("Resize", 19, (IMAGE, ROI, NONE, np.int64([8, 3])), {**CROP, **LAST}),
            (IMAGE, ROI, NONE, np.int64([4, 5])),
        ),
        (
            *("Resize", 19, (TALL, NONE, NONE, np.int64([28, 9])), POLICY),
            (TALL, NONE, NONE, np.int64([50, 9])),
        ),
        # Corners of a fractional extent.
        (
            *("Resize", 19, (IMAGE, NONE, F32([1, 1, 0.7, 1])), CORNERS),
            (IMAGE, NONE, F32([1, 1, 0.5, 1])),
        ),
        (
            *("Resize", 19, (IMAGE.astype(I8), NONE, F32([1, 1, 2, 2])), {"antialias": 1}),
            (IMAGE, NONE, F32([1, 1, 2, 2])),
        ),
        (
            *("Resize", 19, (IMAGE, ROI, F32([2, 2])), {**CROP, **CHANNELS, "antialias": 1}),
            (IMAGE, F32([0, 0, 1, 1]), F32([2, 2])),
        ),
        (
            *("Resize", 19, (IMAGE, NONE, F32([2, 2])), {**CHANNELS, "mode": "cubic"}),
            (IMAGE, NONE, F32([1, 2])),
        ),
        ("MaxPool", 19, (IMAGE,), GAPS, ()),
        ("AveragePool", 18, (IMAGE,), BEYOND, (np.zeros((1, 1, 5, 3), F32),)),
        ("Slice", 13, (IMAGE, *BACK), {}, (IMAGE, *ON)),
        ("ReduceSum", 13, (np.int32([2**30, 2**30]),), {}, (np.int32([2**30, 2**29]),)),
        ("ReduceSumSquare", 13, (np.int32([50000]),), {}, (np.int32([40000]),)),
        (
            *("Mod", 13, (np.uint64([2**64 - 1]), np.uint64(15)), {"fmod": 1}),
            (np.uint64([2**53]), np.uint64(15)),
        ),
        ("MatMulInteger", 10, (U8([[255]]), I8([[65]])), {}, (U8([[255]]), I8([[64]]))),
        ("QLinearConv", 10, (U8([1]), NONE, NONE, I8([-128])), {}, (I8([1]), 0, 0, I8([-128]))),
        ("Cast", 13, (F32([-1, 3]),), {"to": 2}, (F32([-0.9, 255.9]),)),
        ("Cast", 13, (F32([2**31]),), {"to": 6}, (F32([-(2**31)]),)),
    ],
)
def test_what_no_generator_draws(
    op: str, opset: int, operands: Any, attrs: Any, beside: Any
) -> None:
    assert otherwise(op, opset, operands, attrs)
    assert not (beside and otherwise(op, opset, beside, attrs))


def test_further_samples_are_as_the_first() -> None:
    """None that makes an infinity, or numbers that a Cast cannot have."""
    g = Grower(np.random.default_rng(1))
    x = g.input(F32, (2,))
    x.array[:] = [1, 2]
    g.add("Clip", g.add("Cast", g.add("Exp", x), to=6), g.const(1, np.int32))
    model = g.network("one", samples=1).model
    feeds = [{x.name: F32(v)} for v in ([1, 2], [3, 4], [1, 100], [1, 30], [1, 11])]
    assert [f[x.name][1] for f in fit(model, feeds)] == [2, 4, 11]
