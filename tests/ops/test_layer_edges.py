"""Convolutions at the edges of what kernels were written for, against onnxruntime, under
sanitizers and with all warnings as errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import Net, random_feeds
from oracle import onnxruntime_float, relative_error

KINDS = [(np.int8, np.int8), (np.uint8, np.int16), (np.int16, np.int16)]


def quantised(x: Any, w: Any, zero: int) -> onnx.ModelProto:
    """A depthwise layer of weights that reach both ends of their type."""
    net, rng, ends = Net(), np.random.default_rng(1), np.iinfo(w)
    a = net.dq(net.input("x", x, (1, 4, 5, 6)), 0.05 if x != np.int16 else 2e-4, x(7))
    stored = rng.integers(ends.min, ends.max + 1, (4, 1, 3, 3)).astype(w)
    stored[:, 0, 0] = ends.min, ends.max, 0
    scale = np.float32(0.02 if w == np.int8 else 8e-5)
    b = net.dq(net.const(stored), scale, w(zero))
    y = net.node("Conv", a, b, pads=[1, 1, 1, 1], group=4)
    return net.model(net.q(y, 2 / 3, np.int8(5)))


def beside(kind: Any) -> onnx.ModelProto:
    """Each window lies beside the image's only column: all that it reads is padding."""
    net, rng = Net(), np.random.default_rng(2)
    attrs = {"strides": [1, 2], "pads": [0, 1, 0, 1]}
    if kind == np.float32:
        w = net.const(rng.normal(size=(16, 8, 1, 1)).astype(np.float32))
        b = net.const(rng.normal(size=16).astype(np.float32))
        return net.model(net.node("Conv", net.input("x", kind, (1, 8, 6, 1)), w, b, **attrs))
    x = net.dq(net.input("x", kind, (1, 8, 6, 1)), 0.05, kind(-128))
    w = net.dq(net.const(rng.integers(-128, 128, (16, 8, 1, 1)).astype(np.int8)), 0.01, np.int8(0))
    b = net.dq(net.const(rng.integers(-9000, 9000, 16), np.int32), 0.0005, np.int32(0))
    return net.model(net.q(net.node("Conv", x, w, b, **attrs), 0.06, np.int8(1)))


MODELS = {
    **{
        f"depthwise {x.__name__} {w.__name__} {zero}": quantised(x, w, zero)
        for x, w in KINDS
        for zero in (5047 if w == np.int16 else 90, np.iinfo(w).min, np.iinfo(w).max)
    },
    "float32 beside the image": beside(np.float32),
    "int8 beside the image": beside(np.int8),
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made = {name: Job(model, random_feeds(model, 5)) for name, model in MODELS.items()}
    run_jobs([*made.values()], tmp_path_factory.mktemp("edges"))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_of_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(MODELS[name], job.feeds), strict=True):
        for key, value in want.items():
            if value.dtype.kind == "f":
                assert relative_error(got[key], value) <= 1e-5
            else:
                np.testing.assert_array_equal(got[key], value)
