"""Factors and addends per channel after a contraction, in every spelling that exporters have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import Net, random_feeds
from oracle import onnxruntime_float, relative_error

from mlftool.frontends.models import imported
from mlftool.ir.graph import Graph
from mlftool.ir.verify import verify
from mlftool.passes import batchnorm, canonicalise

C = 6
RNG = np.random.default_rng
# Operator -> shape of x, shape of weights, attributes.
PRODUCERS = {
    "Conv": ((2, 4, 5, 5), (C, 4, 3, 3), {}),
    "Conv 1d": ((1, 4, 9), (C, 4, 3), {}),
    "depthwise": ((1, C, 5, 5), (C, 1, 3, 3), {"group": C}),
    "grouped": ((1, 4, 5, 5), (C, 2, 3, 3), {"group": 2}),
    "ConvTranspose": ((1, 4, 3, 3), (4, C, 2, 2), {"strides": [2, 2]}),
    "ConvTranspose grouped": ((1, 4, 3, 3), (4, C // 2, 2, 2), {"group": 2}),
    "Gemm": ((3, 5), (5, C), {"alpha": 0.5}),
    "Gemm transB": ((3, 5), (C, 5), {"transB": 1, "beta": 2.0}),
    "MatMul": ((3, 5), (5, C), {}),
    "MatMul stacked": ((2, 3, 5), (5, C), {}),
}
SPELLINGS = ("mul add", "mul sub", "div add", "add mul", "sub div", "mul", "add", "swapped", "norm")
TOO_MANY = {"Mul", "Div", "Add", "Sub", "BatchNormalization"}


def contraction(net: Net, kind: str, bias: bool) -> str:
    x_shape, w_shape, attrs = PRODUCERS[kind]
    op = kind.split()[0].replace("depthwise", "Conv").replace("grouped", "Conv")
    w = net.const(RNG(1).normal(size=w_shape), np.float32)
    inputs = [net.input("x", np.float32, x_shape), w]
    if bias and op != "MatMul":
        inputs.append(net.const(RNG(2).normal(size=C), np.float32))
    return net.node(op, *inputs, **attrs)


def shapes(kind: str) -> list[tuple[int, ...]]:
    """Of constants that are one number or one for each channel."""
    rank = len(PRODUCERS[kind][0])
    if kind.startswith(("Gemm", "MatMul")):
        return [(C,), (1, C), (), (1,)]
    tail = (1,) * (rank - 2)
    return [(C, *tail), (1, C, *tail), (), (1,), (1,) * rank]


def model(kind: str, spelling: str, shape: tuple[int, ...], bias: bool) -> onnx.ModelProto:
    net = Net()
    y = contraction(net, kind, bias)
    if spelling == "norm":
        values = [RNG(k).uniform(0.5, 2, C) for k in range(3, 7)]
        y = net.node("BatchNormalization", y, *(net.const(v, np.float32) for v in values))
        return net.model(net.node("Relu", y))
    words = ["sub", "mul"] if spelling == "swapped" else spelling.split()
    for k, word in enumerate(words):
        value = net.const(RNG(7 + k).uniform(0.5, 2, shape), np.float32)
        operands = (value, y) if spelling == "swapped" else (y, value)
        y = net.node(word.capitalize(), *operands)
    return net.model(net.node("Relu", y))


def operators(graph: Graph) -> set[str]:
    nodes = [m for n in graph.nodes for m in (n.body or (n,))]
    return {n.op for n in nodes}


def folded(proto: onnx.ModelProto) -> Graph:
    graph = imported(proto, "m")[0]
    for rewrite in (canonicalise.canonicalise, batchnorm.fold_batchnorm):
        graph = verify(rewrite(graph), rewrite.__name__)
    return graph


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", PRODUCERS)
def test_nothing_is_left_behind_the_contraction(kind: str, tmp_path: Path) -> None:
    """And the numbers are onnxruntime's."""
    jobs = []
    for k, spelling in enumerate(SPELLINGS):
        if spelling == "norm" and kind == "MatMul stacked":
            continue  # its channels are not the columns
        forms = shapes(kind)
        protos = [model(kind, spelling, shape, bias=k % 2 == 0) for shape in forms]
        for shape, proto in zip(forms, protos, strict=True):
            left = operators(folded(proto)) & TOO_MANY
            assert not left, (spelling, shape, left)
        chosen = [protos[k % len(protos)]]
        if spelling == "add":  # takes the place of a C, if there is none
            chosen = [model(kind, spelling, forms[0], bias) for bias in (True, False)]
        jobs += [Job(proto, random_feeds(proto, 1)) for proto in chosen]
    run_jobs(jobs, tmp_path)
    for job in jobs:
        assert not job.failure, job.failure
        for got, want in zip(job.results, onnxruntime_float(job.model, job.feeds), strict=True):
            for name, value in want.items():
                assert relative_error(got[name], value) <= 1e-5


def kept(name: str) -> onnx.ModelProto:
    net = Net()
    if name.endswith("rows"):  # a normalisation's channels are axis 1
        rows = C if name == "as many rows" else C - 1
        stack = net.input("x", np.float32, (2, rows, 5))
        y = net.node("MatMul", stack, net.const(RNG(1).normal(size=(5, C)), np.float32))
        values = [RNG(k).uniform(0.5, 2, rows) for k in range(3, 7)]
        return net.model(
            net.node("BatchNormalization", y, *(net.const(v, np.float32) for v in values))
        )
    y = contraction(net, "depthwise", True)
    factor = net.const(RNG(3).uniform(0.5, 2, (C, 1, 1)), np.float32)
    if name == "read twice":
        return net.model(net.node("Mul", y, factor), net.node("Relu", y))
    if name == "is an output":
        return net.model(net.node("Mul", y, factor), y)
    if name == "by row":
        return net.model(net.node("Mul", y, net.const(RNG(3).uniform(1, 2, (3, 1)), np.float32)))
    if name == "makes it larger":
        grown = RNG(3).uniform(1, 2, (2, C, 1, 1))
        return net.model(net.node("Mul", y, net.const(grown, np.float32)))
    if name == "divides by it":
        return net.model(net.node("Div", factor, y))
    if name == "overflows":
        y = net.node("Mul", y, net.const(np.full((C, 1, 1), 3e38), np.float32))
        return net.model(net.node("Mul", y, net.const(np.full((C, 1, 1), 1e38), np.float32)))
    if name == "underflows":
        return net.model(net.node("Mul", y, net.const(np.full((C, 1, 1), 1e-38), np.float32)))
    raise AssertionError(name)


@pytest.mark.parametrize(
    "name",
    [
        *("read twice", "is an output", "by row", "makes it larger", "divides by it"),
        *("overflows", "underflows", "as many rows", "fewer rows"),
    ],
)
def test_what_cannot_go_into_weights_stays(name: str, tmp_path: Path) -> None:
    proto = kept(name)
    assert operators(folded(proto)) & {"Mul", "Div", "BatchNormalization"}
    job = Job(proto, random_feeds(proto, 1))
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(proto, job.feeds), strict=True):
        for output, value in want.items():
            finite = np.isfinite(value)
            assert np.array_equal(np.isfinite(got[output]), finite)
            assert relative_error(got[output][finite], value[finite]) <= 1e-5


def test_division_by_zero_stays(tmp_path: Path) -> None:
    net = Net()
    y = contraction(net, "Conv", False)
    zero = np.array([0, 1, 2, 3, 4, 5.0]).reshape(C, 1, 1)
    assert "Div" in operators(folded(net.model(net.node("Div", y, net.const(zero, np.float32)))))


def test_doubles_keep_their_digits(tmp_path: Path) -> None:
    """Where there is no contraction that takes the factor and the addend."""
    net = Net()
    values = [net.const(RNG(k).uniform(0.5, 2, C), np.float64) for k in range(3, 7)]
    x = net.input("x", np.float64, (2, C, 3))
    proto = net.model(net.node("BatchNormalization", x, *values))
    job = Job(proto, random_feeds(proto, 1))
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(proto, job.feeds), strict=True):
        for name, value in want.items():
            assert relative_error(got[name], value) <= 1e-12  # epsilon is a float
