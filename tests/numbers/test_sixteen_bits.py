"""Operators between 16-bit activations, as onnxruntime's quantiser writes them: every element is
the exact result's rounding, but within float's precision of a tie. onnxruntime, whose sums are
floats, is less than a step away: 0.9 of one in sums of 1,500 products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import random_array, random_feeds
from oracle import onnxruntime_float
from qdq_forms import Kind, Quantised
from steps import NEAR, beyond_ties, with_steps

STEPS = 2.0**-15
Case = Callable[["Sixteen"], str]


class Sixteen(Quantised):
    """Chains of operators, each between DequantizeLinear and QuantizeLinear."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kind: Kind = (np.int16, np.uint16)[seed % 2]

    def zero(self) -> Kind:
        low = np.iinfo(self.kind).min
        return self.kind(low + int(self.random.integers(0, 65536)))

    def extents(self, *most: int) -> tuple[int, ...]:
        return tuple(int(self.random.integers(1, n + 1)) for n in most)

    def given(self, *shape: int) -> str:
        name = self.input(f"x{len(self._inputs)}", self.kind, shape)
        return self.dq(name, self.random.uniform(0.5, 2) * 4 * STEPS, self.zero())

    def stored(self, value: str, most: float = 4.0) -> str:
        scale = self.random.uniform(0.5, 2) * most * STEPS
        zero = self.zero()
        return self.dq(self.q(value, scale, zero), scale, zero)

    def filters(self, *shape: int, axis: int) -> str:
        """Per tensor or per channel, int8, uint8 or int16."""
        kind = (np.int8, np.uint8, np.int16)[int(self.random.integers(3))]
        stored = random_array(self.random, kind, shape)
        count = shape[axis] if self.random.integers(2) else 1
        fan = stored.size // shape[axis]
        scale = self.random.uniform(0.5, 1.5, count) * 2.0 / np.sqrt(fan)
        scale = (scale / (32768 if kind is np.int16 else 128)).astype(np.float32)
        zero = np.full(count, 128 if kind is np.uint8 else 0, kind)
        if count == 1:
            return self.dq(self.const(stored), scale[0], zero[0])
        return self.dq(self.const(stored), scale, zero, axis)


def hard_swish(n: Sixteen, x: str) -> str:
    """As torch's exporter writes it, with the quantiser's steps between."""
    gate = n.stored(n.node("HardSigmoid", x, alpha=1 / 6, beta=0.5), 0.5)
    return n.node("Mul", x, gate)


def after(n: Sixteen, x: str) -> str:
    kind = int(n.random.integers(4))
    if kind == 0:
        return n.node("Clip", x, n.const(-0.3, np.float32), n.const(1.7, np.float32))
    return n.node("Relu", x) if kind == 1 else hard_swish(n, n.stored(x)) if kind == 2 else x


def convolution(n: Sixteen) -> str:
    ic, oc, h, w = n.extents(9, 9, 8, 8)
    kernel = n.extents(min(h, 3), min(w, 3))
    attrs = {"strides": n.extents(2, 2), "pads": [k // 2 for k in kernel] * 2}
    return after(
        n, n.node("Conv", n.given(1, ic, h, w), n.filters(oc, ic, *kernel, axis=0), **attrs)
    )


def depthwise(n: Sixteen) -> str:
    c, h, w = n.extents(9, 8, 8)
    weights = n.filters(c, 1, 3, 3, axis=0)
    return after(n, n.node("Conv", n.given(1, c, h, w), weights, group=c, pads=[1] * 4))


def deep(n: Sixteen) -> str:
    """Sums that leave 32 bits."""
    rows, columns = n.extents(3, 5)
    return n.node("MatMul", n.given(rows, 1500), n.filters(1500, columns, axis=1))


def dense(n: Sixteen) -> str:
    rows, depth, columns = n.extents(5, 70, 9)
    bias = n.const(n.random.normal(size=columns), np.float32)
    return after(
        n, n.node("Gemm", n.given(rows, depth), n.filters(columns, depth, axis=0), bias, transB=1)
    )


def attention(n: Sixteen) -> str:
    h, rows, depth, columns = n.extents(3, 6, 40, 6)
    scores = n.node("MatMul", n.given(h, rows, depth), n.given(h, depth, columns))
    return n.node("Softmax", n.stored(scores, 40.0), axis=-1)


def binary(op: str) -> Case:
    def build(n: Sixteen) -> str:
        shape = n.extents(3, 5, 6)
        other = shape if n.random.integers(2) else (shape[1], 1)
        return n.node(op, n.given(*shape), n.given(*other))

    return build


def unary(op: str) -> Case:
    return lambda n: n.node(op, n.given(*n.extents(4, 30)))


def pooled(op: str) -> Case:
    def build(n: Sixteen) -> str:
        c, h, w = n.extents(7, 9, 9)
        x = n.given(1, c, h, w)
        if op.startswith("Global"):
            return n.node(op, x)
        return n.node(op, x, kernel_shape=list(n.extents(min(h, 3), min(w, 3))))

    return build


def joined(n: Sixteen) -> str:
    shape = n.extents(3, 5, 6)
    return n.node("Concat", n.given(*shape), n.given(*shape), axis=1)


def wider(n: Sixteen) -> str:
    x = n.given(1, *n.extents(4, 5, 5))
    return n.node("Resize", x, "", n.const([1, 1, 2, 2], np.float32), mode="linear")


CASES: dict[str, Case] = {
    **{f.__name__: f for f in (convolution, depthwise, deep, dense, attention, joined, wider)},
    **{op: binary(op) for op in ("Add", "Sub", "Mul")},
    **{op: unary(op) for op in ("Relu", "HardSwish", "HardSigmoid", "Sigmoid", "Tanh", "Gelu")},
    **{op: pooled(op) for op in ("AveragePool", "MaxPool", "GlobalAveragePool")},
}
SEEDS = 4
NETWORKS = [f"{name}_{seed}" for name in CASES for seed in range(SEEDS)]


def network(name: str, seed: int) -> onnx.ModelProto:
    n = Sixteen(seed)
    return with_steps(n.model(n.stored(CASES[name](n))))


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[str, Job]:
    made = {}
    for name in filter(selected, NETWORKS):
        case, seed = name.rsplit("_", 1)
        model = network(case, int(seed))
        made[name] = Job(model, random_feeds(model, int(seed)))
    run_jobs(list(made.values()), tmp_path_factory.mktemp("sixteen"))
    return made


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_step_is_exact(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert isinstance(job.model, onnx.ModelProto)
    theirs = onnxruntime_float(job.model, job.feeds)
    for feed, ours, wanted in zip(job.feeds, job.results, theirs, strict=True):
        for results, most in ((ours, NEAR), (wanted, 0.5)):
            for step, beyond in beyond_ties(job.model, feed, results):
                assert beyond <= most, step
