"""onnxruntime's own quantised operators round as its kernels do: ties, odd zero points and all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Build, Job, run_jobs
from oracle import onnxruntime_float
from test_microsoft import Bench

NEAT = (0.5, 1.0, 0.25)  # quotients are exact, and many results are ties
DECIMAL = (0.05, 0.1, 0.2)  # they are ties where scales are divided first
PAIRS = (("QLinearAdd", NEAT), ("QLinearMul", NEAT), ("QLinearMul", DECIMAL))
SINGLES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("QLinearAveragePool", {"kernel_shape": [2, 2]}),
    ("QLinearAveragePool", {"kernel_shape": [2, 2], "channels_last": 1}),
    ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]}),
    ("QLinearGlobalAveragePool", {}),
    ("QLinearGlobalAveragePool", {"channels_last": 1}),
    ("QLinearLeakyRelu", {"alpha": 0.5}),
    ("QLinearSigmoid", {}),
)


def networks(dtype: Any, before: int, after: int) -> Iterator[onnx.ModelProto]:
    for op, (s_a, s_b, s_y) in PAIRS:
        for shape in ((2, 151), (1, 151)):
            net = Bench()
            a = net.input("a", dtype, (2, 151)), *net.by(s_a, before, dtype)
            b = net.input("b", dtype, shape), *net.by(s_b, before, dtype)
            yield net.model(net.ms(op, *a, *b, *net.by(s_y, after, dtype)))
    for op, attrs in SINGLES:
        for scale in (NEAT[0], DECIMAL[0]):
            net = Bench()
            x = net.input("a", dtype, (2, 6, 8, 4)), *net.by(scale, before, dtype)
            yield net.model(net.ms(op, *x, *net.by(scale, after, dtype), **attrs))
    net = Bench()
    a, b = (net.input(n, dtype, s) for n, s in (("a", (20, 4)), ("b", (4, 20))))
    by = net.by(NEAT[0], before, dtype)
    yield net.model(net.ms("QGemm", a, *by, b, *by, "", *net.by(1.0, after, dtype)))
    net = Bench()
    a, b = (net.input(n, dtype, (3, 50)) for n in "ab")
    by = net.by(NEAT[0], before, dtype)
    yield net.model(net.ms("QLinearConcat", *net.by(1.0, after, dtype), a, *by, b, *by, axis=0))


def some(rng: np.random.Generator, model: onnx.ModelProto, dtype: Any) -> dict[str, Any]:
    """Inputs near zero: results that are cut off are no ties."""
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input
    }
    least = max(-20, np.iinfo(dtype).min)
    return {name: rng.integers(least, 40, shape).astype(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_ties_fall_as_in_onnxruntime(dtype: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    models = [m for zeros in ((3, 5), (2, 4), (4, 3)) for m in networks(dtype, *zeros)]
    jobs = [Job(m, [some(rng, m, dtype)], name=f"m{k}") for k, m in enumerate(models)]
    run_jobs(jobs, tmp_path, Build())
    for job in jobs:
        assert not job.failure, job.failure
        (want,) = onnxruntime_float(job.model, job.feeds)
        for name, value in want.items():
            assert np.array_equal(job.results[0][name], value), job.model.graph.node[-1]
