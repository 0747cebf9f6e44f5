"""Elementwise operators that a core computes as it stores: an operand that has one number for each
element of the output's last axis, which is not always the core's innermost loop, or for each of the
axis before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Build, Job, run_jobs
from builders import Array, Net, random_feeds
from oracle import onnxruntime_float, relative_error

Shape = tuple[int, ...]
RNG = np.random.default_rng
# Of products: vectors are matrices of one row or column, which the output lacks.
PRODUCTS: tuple[tuple[Shape, Shape], ...] = (
    ((4, 3), (3,)),
    ((2, 4, 3), (3,)),
    ((2, 1, 4, 3), (3,)),
    ((2, 4, 3), (3, 1)),
    ((3,), (3, 5)),
    ((3,), (2, 3, 5)),
    ((2, 1, 3), (2, 3, 5)),
)
LAYERS: tuple[tuple[str, Shape, tuple[Shape, ...], dict[str, Any]], ...] = (
    ("Gemm", (3, 4), ((5, 3),), {"transA": 1, "transB": 1}),
    ("Conv", (2, 4, 6), ((4, 2, 2),), {"group": 2}),
    ("Conv", (1, 4, 3, 4, 5), ((2, 4, 2, 2, 2),), {}),
    ("ConvTranspose", (1, 4, 3, 5), ((4, 2, 2, 2),), {"strides": [2, 1]}),
    ("MaxPool", (2, 3, 6), (), {"kernel_shape": [3], "pads": [1, 1]}),
    ("AveragePool", (1, 2, 3, 4, 5), (), {"kernel_shape": [2, 2, 2]}),
    ("InstanceNormalization", (2, 3, 4, 5), ((3,), (3,)), {}),
    ("LayerNormalization", (2, 3, 4, 5), ((4, 5),), {"axis": 2}),
    *(("Softmax", (2, 3, 4, 5), (), {"axis": axis}) for axis in range(4)),
)


def then(net: Net, y: str, shape: Shape, dtype: Any, per_row: bool) -> onnx.ModelProto:
    """Reads y twice, once with numbers along its last axis or the one before."""
    extents = (shape[-2], 1) if per_row else shape[-1:]
    given = net.const(np.arange(1, 1 + max(extents)).reshape(extents), dtype)
    return net.model(net.node("Min", net.node("Add", y, y), given))


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    for dtype in (np.float32, np.float64, np.int32, np.int8):
        op = "MatMulInteger" if dtype == np.int8 else "MatMul"
        for a, b in PRODUCTS:
            shape = np.matmul(np.zeros(a), np.zeros(b)).shape
            for constant in (False, True):
                net = Net()
                numbers = RNG(1).integers(-4, 5, b)
                w = net.const(numbers, dtype) if constant else net.input("w", dtype, b)
                y = net.node(op, net.input("x", dtype, a), w)
                kind = np.int32 if dtype == np.int8 else dtype
                for per_row in (False, True)[: len(shape)]:
                    name = f"{op} {np.dtype(dtype)} {a} {b} {constant} {per_row}"
                    yield name, then(net, y, shape, kind, per_row)
    for op, x, weights, attrs in LAYERS:
        net = Net()
        known = [net.const(RNG(2).normal(size=w), np.float32) for w in weights]
        y = net.node(op, net.input("x", np.float32, x), *known, **attrs)
        sample = onnxruntime_float(net.model(y), random_feeds(net.model(y), 1))[0]
        shape = next(iter(sample.values())).shape
        for per_row in (False, True):
            yield f"{op} {x} {attrs} {per_row}", then(net, y, shape, np.float32, per_row)


MODELS = dict(models())


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made = {name: Job(model, random_feeds(model, 1)) for name, model in MODELS.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("last"), Build())
    return made


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(job.model, job.feeds), strict=True):
        for key, value in want.items():
            assert close(got[key], value), (got[key], value)


def close(got: Array, want: Array) -> bool:
    return got.shape == want.shape and relative_error(got, want) <= 1e-5
