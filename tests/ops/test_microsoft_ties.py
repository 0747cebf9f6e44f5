"""onnxruntime's own quantised operators round as its kernels do: ties, odd zero points and all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Build, Job, compile_model, run_jobs
from hypothesis import given
from hypothesis import strategies as st
from oracle import onnxruntime_float
from test_microsoft import Bench

from mlftool.codegen.origin import quantisation
from mlftool.ir.rounding import multiply_add

NEAT = (0.5, 1.0, 0.25)  # quotients are exact, and many results are ties
DECIMAL = (0.05, 0.1, 0.2)  # they are ties where scales are divided first
UNEVEN = (0.0423, 0.0591, 1.7)  # one is no whole number of them
# Around onnxruntime's vectors of 32, and each way in which one tensor is repeated.
SHAPES: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = (
    *(((n,), (n,)) for n in (1, 31, 32, 67)),
    ((70,), (1,)),
    ((1,), (70,)),
    ((), (3, 33)),
    ((2, 40), (2, 1)),
    ((2, 1), (1, 40)),
    ((3, 40, 1), (3, 1, 1)),
    ((1, 1), (1,)),
)
SINGLES: Sequence[tuple[str, dict[str, Any]]] = (
    ("QLinearAveragePool", {"kernel_shape": [2, 2]}),
    ("QLinearAveragePool", {"kernel_shape": [2, 2], "channels_last": 1}),
    ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]}),
    ("QLinearGlobalAveragePool", {}),
    ("QLinearGlobalAveragePool", {"channels_last": 1}),
    ("QLinearLeakyRelu", {"alpha": 0.5}),
    ("QLinearSigmoid", {}),
    ("QLinearSoftmax", {"axis": -1, "opset": 13}),
)


def pairs(
    rng: np.random.Generator, dtype: Any, before: int, after: int
) -> Iterator[onnx.ModelProto]:
    for op in ("QLinearAdd", "QLinearMul"):
        for k, (left, right) in enumerate(SHAPES):
            kind = (NEAT, DECIMAL, tuple(rng.uniform(0.01, 0.1, 3)))[k % 3]
            x, y, z = rng.permutation(kind)
            for known in (False, True) if k < 4 else (False,):
                net = Bench()
                a = net.input("a", dtype, left)
                b = some(rng, dtype, right)
                other = net.const(b, dtype) if known else net.input("b", dtype, right)
                by = net.by(y, before + 1, dtype)
                rest = (*net.by(x, before, dtype), other, *by, *net.by(z, after, dtype))
                yield net.model(net.ms(op, a, *rest))
        net = Bench()  # scales that are known only at run time
        scales = [net.input(n, np.float32, ()) for n in ("sa", "sb", "sy")]
        zeros = [net.const(z, dtype) for z in (before, before, after)]
        a, b = (net.input(n, dtype, (40,)) for n in "ab")
        sides = (a, scales[0], zeros[0], b, scales[1], zeros[1])
        yield net.model(net.ms(op, *sides, scales[2], zeros[2]))


def others(dtype: Any, before: int, after: int) -> Iterator[onnx.ModelProto]:
    for op, attrs in SINGLES:
        for scale in (NEAT[0], DECIMAL[0], *UNEVEN):
            net = Bench()
            x = net.input("a", dtype, (2, 6, 8, 4)), *net.by(scale, before, dtype)
            yield net.model(net.ms(op, *x, *net.by(scale, after, dtype), **attrs))
    by = (NEAT[0], before, dtype)
    net = Bench()
    a, b = (net.input(n, dtype, s) for n, s in (("a", (20, 4)), ("b", (4, 20))))
    yield net.model(
        net.ms("QGemm", a, *net.by(*by), b, *net.by(*by), "", *net.by(1.0, after, dtype))
    )
    net = Bench()
    a, b = (net.input(n, dtype, (3, 50)) for n in "ab")
    rest = (a, *net.by(*by), b, *net.by(*by))
    yield net.model(net.ms("QLinearConcat", *net.by(1.0, after, dtype), *rest, axis=0))
    net = Bench()
    a, b, which = (net.input(n, t, (70,)) for n, t in (("a", dtype), ("b", dtype), ("w", np.bool_)))
    three = (which, a, *net.by(*by), b, *net.by(*by), *net.by(1.0, after, dtype))
    yield net.model(net.ms("QLinearWhere", *three))


def some(rng: np.random.Generator, dtype: Any, shape: Sequence[int]) -> Any:
    """Near zero: results that are cut off are no ties."""
    if dtype == np.float32:
        return np.asarray(rng.choice((*NEAT, *DECIMAL)), np.float32)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(max(-20, np.iinfo(dtype).min), 40, shape).astype(dtype)


def feed(rng: np.random.Generator, model: onnx.ModelProto) -> dict[str, Any]:
    types = {i.name: i.type.tensor_type for i in model.graph.input}
    return {
        name: some(
            rng,
            onnx.helper.tensor_dtype_to_np_dtype(t.elem_type).type,
            [d.dim_value for d in t.shape.dim],
        )
        for name, t in types.items()
    }


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_ties_fall_as_in_onnxruntime(dtype: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    models = [
        model
        for before, after in ((3, 5), (4, 2))
        for model in (*pairs(rng, dtype, before, after), *others(dtype, before, after))
    ]
    jobs = [Job(m, [feed(rng, m)], name=f"m{k}") for k, m in enumerate(models)]
    run_jobs(jobs, tmp_path, Build("-O0"))
    for job in jobs:
        assert not job.failure, job.failure
        (want,) = onnxruntime_float(job.model, job.feeds)
        for name, value in want.items():
            assert np.array_equal(job.results[0][name], value), job.model.graph.node[-1]


def test_scales_of_inputs_and_outputs_are_known() -> None:
    """The header, `compare` and `inspect` say what integers stand for."""
    net = Bench()
    a, b = (net.input(n, np.int8, (4,)) for n in "ab")
    sides = (a, *net.by(0.5, 3, np.int8), b, *net.by(0.25, 4, np.int8))
    model = net.model(net.ms("QLinearAdd", *sides, *net.by(2.0, 5, np.int8)))
    graph = compile_model(model).imported
    named = ("a", "b", model.graph.output[0].name)
    assert [quantisation(graph, n) for n in named] == [(0.5, 3), (0.25, 4), (2.0, 5)]


numbers = st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60)


@given(numbers, numbers, numbers)
def test_a_product_is_added_with_one_rounding(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = Fraction(float(multiply_add(a, b, c)))
    for way in (-np.inf, np.inf):
        other = np.nextafter(np.float32(float(got)), np.float32(way))
        assert not np.isfinite(other) or abs(exact - got) <= abs(exact - Fraction(float(other)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_halves_of_softmax_fall_as_in_onnxruntime(dtype: Any, tmp_path: Path) -> None:
    """Equal elements share odd steps: ties, which the float32 errors of its table decide. Lines of
    one element get all steps, and the old operator's line may be of several axes."""
    jobs, most = [], np.iinfo(dtype).max
    for first in range(0, most // 2, 30):
        net, outs = Bench(), []
        for k in range(first, min(first + 30, most // 2)):
            x = net.input(f"x{k}", dtype, (1, 2 + k % 3, 2)), *net.by(NEAT[k % 3], 3, dtype)
            scale = net.by(float(np.float32(1 / (2 * k + 1))), 0, dtype)
            axis: dict[str, Any] = {"axis": 1} if k % 5 == 0 else {}
            outs.append(net.ms("QLinearSoftmax", *x, *scale, opset=13 - (k % 4 == 0), **axis))
        model = net.model(*outs)
        feeds = {n: v * 0 + 5 for n, v in feed(np.random.default_rng(1), model).items()}
        jobs.append(Job(model, [feeds], name=f"halves{first}"))
    run_jobs(jobs, tmp_path, Build())
    for job in jobs:
        assert not job.failure, job.failure
        (want,) = onnxruntime_float(job.model, job.feeds)
        for name, value in want.items():
            assert np.array_equal(job.results[0][name], value), name
