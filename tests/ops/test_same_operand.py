"""Operators that read one tensor twice: C compilers complain of integers compared with
themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import Net, random_feeds
from oracle import onnxruntime_float

PRODUCERS = ("", "Abs", "MatMulInteger", "MaxPool", "ReduceSum")
OPERATORS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "Where")
CASES = [(producer, op) for producer in PRODUCERS for op in OPERATORS]


def model(producer: str, op: str) -> onnx.ModelProto:
    net = Net(21)
    byte = producer in ("MatMulInteger", "MaxPool")
    x = net.input("x", np.int8 if byte else np.int32, (1, 2, 4, 4))
    more: list[str] = []
    attrs: dict[str, Any] = {}
    if producer == "MatMulInteger":
        more = [net.const(np.arange(8).reshape(4, 2).astype(np.int8))]
    elif producer == "ReduceSum":
        more, attrs = [net.const(np.array([3]))], {"keepdims": 1}
    elif producer == "MaxPool":
        attrs = {"kernel_shape": [2, 2]}
    a = net.node(producer, x, *more, **attrs) if producer else x
    if op == "Where":
        return net.model(net.node(op, net.node("Equal", a, a), a, a))
    return net.model(net.node(op, a, a))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Job]:
    made = {}
    for case in CASES:
        net = model(*case)
        made[case] = Job(net, random_feeds(net, 1))
    run_jobs(list(made.values()), tmp_path_factory.mktemp("same"))
    return made


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_equals_onnxruntime(case: tuple[str, str], jobs: dict[tuple[str, str], Job]) -> None:
    job = jobs[case]
    assert not job.failure, job.failure
    for want, got in zip(onnxruntime_float(job.model, job.feeds), job.results, strict=True):
        for key, value in want.items():
            np.testing.assert_array_equal(got[key], value)
