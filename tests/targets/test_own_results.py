"""Epilogues that read the result of their kernel twice: Add(c, c), when c is in no memory yet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, compile_job, run_jobs
from builders import Net, random_feeds
from oracle import assert_close, onnxruntime_float

OPERATORS = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Pow", "PRelu")
TARGETS = ("x86-64-v3", "cortex-m0", "cortex-m4", "cortex-m55", "rv32imc")


def convolved(net: Net, name: str, group: int = 1) -> str:
    w = np.random.default_rng(3).normal(size=(8, 4 // group, 3, 3))
    x = net.input(name, np.float32, (1, 4, 5, 4))
    return net.node("Conv", x, net.const(w, np.float32), group=group)


def depthwise(net: Net, name: str) -> str:
    return convolved(net, name, 4)


def dense(net: Net, name: str) -> str:
    w = np.random.default_rng(4).normal(size=(12, 8))
    return net.node("MatMul", net.input(name, np.float32, (3, 12)), net.const(w, np.float32))


def quantised(net: Net, name: str) -> str:
    w = np.random.default_rng(3).integers(-127, 128, (8, 4, 3, 3))
    x = net.dq(net.q(net.input(name, np.float32, (1, 4, 5, 4)), 0.05, np.int8(3)), 0.05, np.int8(3))
    y = net.node("Conv", x, net.dq(net.const(w, np.int8), 0.02, np.int8(0)))
    return net.dq(net.q(y, 0.5, np.int8(-3)), 0.5, np.int8(-3))


LAYERS = (convolved, depthwise, dense, quantised)


def model_of(layer: object) -> onnx.ModelProto:
    """An output for each operator, which follows a layer of its own."""
    net = Net()
    # Of quantised numbers many are 0, and what 0 / 0 and its powers become is nobody's business.
    names = [op for op in OPERATORS if layer is not quantised or op not in ("Div", "Pow")]
    made = [(op, layer(net, f"x{k}")) for k, op in enumerate(names)]  # type: ignore[operator]
    outputs = [net.node(op, c, c) for op, c in made]
    if layer is quantised:
        outputs = [net.q(y, 0.5, np.int8(5)) for y in outputs]
    return net.model(*outputs)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda f: f.__name__)
def test_a_result_with_itself(layer: object, tmp_path: Path) -> None:
    model = model_of(layer)
    feeds = random_feeds(model, 3, 1)
    here = Job(model, feeds)
    run_jobs([here], tmp_path)
    assert not here.failure, here.failure
    want = onnxruntime_float(model, feeds)[0]
    if layer is not quantised:
        assert_close(here.results[0], want)
    else:  # one step of the scale, where the two round to either side of a tie
        for name, value in want.items():
            off = here.results[0][name].astype(int) - value.astype(int)
            assert abs(off).max() <= 1, name
    for target in TARGETS:
        job = Job(model, [], target, "m")
        compile_job(job)
        assert not job.failure, f"{target}: {job.failure}"
