"""Networks of uint8 run as those of int8: the same kernels, and the bits that onnxruntime gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Build, Job, build_jobs, compile_model, run_jobs
from builders import Net
from onnx import TensorProto
from oracle import onnxruntime_float, onnxruntime_integer

from mlftool.compile import ModuleSpec, compile_module

Array = np.ndarray[Any, Any]
SEEDS = range(12)
MS = "com.microsoft"


@dataclass(frozen=True)
class Value:
    """A stored tensor; its zero point is that of uint8."""

    name: str
    shape: tuple[int, ...]
    scale: float
    zero: int


class Grown(Net):
    """A network of random layers whose activations are uint8, or its twin of int8."""

    def __init__(self, seed: int, kind: Any, operators: bool) -> None:
        super().__init__(17)
        self.rng, self.kind, self.operators = np.random.default_rng(seed), kind, operators
        self.seen: list[Value] = []

    def zero(self, value: int) -> Array:
        return np.asarray(value - 128 if self.kind is np.int8 else value, self.kind)

    def numbers(self, v: Value) -> tuple[str, str]:
        return self.const(v.scale, np.float32), self.const(self.zero(v.zero))

    def made(self, name: str, shape: tuple[int, ...], scale: float, zero: int) -> Value:
        value = Value(name, shape, scale, zero)
        self.seen.append(value)
        return value

    def next(self, scale: float) -> tuple[float, int]:
        return float(scale * self.rng.uniform(0.7, 1.3)), int(self.rng.integers(0, 256))

    def stored(self, real: str, scale: float, shape: tuple[int, ...]) -> Value:
        by = self.next(scale)
        return self.made(self.q(real, by[0], self.zero(by[1])), shape, *by)

    def real(self, v: Value) -> str:
        return self.dq(v.name, v.scale, self.zero(v.zero))

    def weights(self, *shape: int) -> tuple[Array, Array, Array]:
        """With their scale and zero point, as int8, or, for uint8, now and then as that."""
        stored = self.rng.integers(-100, 101, shape).astype(np.int8)
        zero, unsigned = np.int8(self.rng.choice([0, 0, 3])), self.rng.random() < 0.4
        scale = np.full((), 0.01, np.float32)
        if unsigned and self.kind is np.uint8:
            return stored.view(np.uint8) ^ 128, scale, np.asarray(int(zero) + 128, np.uint8)
        return stored, scale, np.asarray(zero)

    def conv(self, x: Value) -> Value:
        channels, deep = x.shape[1], bool(self.rng.random() < 0.3)
        out = channels if deep else int(self.rng.integers(1, 4)) * 4
        k, stride = (int(self.rng.integers(1, n)) for n in (4, 3))
        pad, group = int(self.rng.integers(0, k)), channels if deep else 1
        w, ws, wz = self.weights(out, channels // group, k, k)
        size = [(n + 2 * pad - k) // stride + 1 for n in x.shape[2:]]
        attrs = {"pads": [pad] * 4, "strides": [stride] * 2, "group": group}
        bias = self.rng.integers(-2000, 2000, out).astype(np.int32)
        scale, shape = 0.01 * x.scale * 40 * k, (1, out, *size)
        if self.operators:
            args = (*self.const_of(w, ws, wz),)
            y_scale, zero = self.next(scale)
            ends = (self.const(y_scale, np.float32), self.const(self.zero(zero)), self.const(bias))
            name = self.node("QLinearConv", x.name, *self.numbers(x), *args, *ends, **attrs)
            return self.made(name, shape, y_scale, zero)
        unit = np.float32(x.scale) * ws
        b = self.dq(self.const(bias), unit, np.int32(0))
        y = self.node("Conv", self.real(x), self.dq(self.const(w), ws, wz), b, **attrs)
        limited = self.rng.random() < 0.5
        return self.stored(self.node("Relu", y) if limited else y, scale, shape)

    def const_of(self, *arrays: Any) -> list[str]:
        return [self.const(a) for a in arrays]

    def pool(self, x: Value) -> Value:
        pad = int(self.rng.integers(0, 2))
        attrs = {"kernel_shape": [2, 2], "strides": [1, 1], "pads": [pad, 0, 0, pad]}
        shape = (*x.shape[:2], *(n - 1 + pad for n in x.shape[2:]))
        if self.rng.random() < 0.5:
            return self.made(self.node("MaxPool", x.name, **attrs), shape, x.scale, x.zero)
        if self.operators:
            y = self.next(x.scale)
            ends = self.const(y[0], np.float32), self.const(self.zero(y[1]))
            args = (x.name, *self.numbers(x), *ends)
            return self.made(
                self.node("QLinearAveragePool", *args, domain=MS, **attrs), x.shape, *y
            )
        y = self.node("AveragePool", self.real(x), **attrs)
        return self.stored(y, x.scale, shape)

    def pair(self, x: Value) -> Value:
        other = next(v for v in [*self.seen, x] if v.shape == x.shape)
        op = str(self.rng.choice(["Add", "Mul"]))
        scale = x.scale + other.scale if op == "Add" else x.scale * other.scale * 60
        if self.operators:
            y = self.next(scale)
            ends = self.const(y[0], np.float32), self.const(self.zero(y[1]))
            args = (x.name, *self.numbers(x), other.name, *self.numbers(other), *ends)
            return self.made(self.node(f"QLinear{op}", *args, domain=MS), x.shape, *y)
        return self.stored(self.node(op, self.real(x), self.real(other)), scale, x.shape)

    def joined(self, x: Value) -> Value:
        other = next(v for v in [*self.seen, x] if v.shape[2:] == x.shape[2:])
        shape = (1, x.shape[1] + other.shape[1], *x.shape[2:])
        if self.operators:
            y = self.next(max(x.scale, other.scale))
            ends = self.const(y[0], np.float32), self.const(self.zero(y[1]))
            args = (*ends, x.name, *self.numbers(x), other.name, *self.numbers(other))
            return self.made(self.node("QLinearConcat", *args, domain=MS, axis=1), shape, *y)
        real = self.node("Concat", self.real(x), self.real(other), axis=1)
        return self.stored(real, max(x.scale, other.scale), shape)

    def curve(self, x: Value) -> Value:
        if self.operators:
            y = (1 / 256, 0)
            ends = self.const(y[0], np.float32), self.const(self.zero(y[1]))
            args = (x.name, *self.numbers(x), *ends)
            return self.made(self.node("QLinearSigmoid", *args, domain=MS), x.shape, *y)
        op = str(self.rng.choice(["Sigmoid", "HardSwish", "LeakyRelu"]))
        return self.stored(self.node(op, self.real(x)), x.scale, x.shape)

    def moved(self, x: Value) -> Value:
        """A Pad with a value, then every other row."""
        pads = self.const([0, 0, 1, 1, 0, 0, 2, 0], np.int64)
        if self.operators:
            padded = self.node("Pad", x.name, pads, self.const(self.zero(200)))
        else:
            fill = self.const((200 - x.zero) * np.float32(x.scale), np.float32)
            real = self.node("Pad", self.real(x), pads, fill)
            padded = self.q(real, x.scale, self.zero(x.zero))
        ends = [self.const([n], np.int64) for n in (0, 1000, 2, 2)]
        y = self.node("Slice", padded, ends[0], ends[1], ends[2], ends[3])
        return self.made(y, (*x.shape[:2], (x.shape[2] + 4) // 2, x.shape[3] + 1), x.scale, x.zero)

    def grow(self) -> onnx.ModelProto:
        x = self.input("x", self.kind, (1, 4, 9, 8))
        v = self.made(x, (1, 4, 9, 8), 0.05, 131)
        v = self.conv(v)
        layers = [self.conv, self.conv, self.pool, self.pair, self.joined, self.curve, self.moved]
        for _ in range(6):
            v = layers[int(self.rng.integers(len(layers)))](v)
        return self.model(self.conv(v).name)


def grown(seed: int, kind: Any) -> onnx.ModelProto:
    return Grown(seed, kind, operators=seed % 2 == 1).grow()


def feed(seed: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).integers(0, 256, (1, 4, 9, 8)).astype(np.uint8)}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Job, Job]]:
    pairs = [
        (
            Job(grown(seed, np.uint8), [feed(seed)]),
            Job(grown(seed, np.int8), [{"x": (feed(seed)["x"] ^ 128).view(np.int8)}]),
        )
        for seed in SEEDS
    ]
    run_jobs([j for pair in pairs for j in pair], tmp_path_factory.mktemp("signed"), Build())
    return pairs


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_those_of_the_twin_and_of_onnxruntime(
    seed: int, jobs: list[tuple[Job, Job]]
) -> None:
    unsigned, twin = jobs[seed]
    assert [unsigned.failure, twin.failure] == ["", ""]
    (got,), (other,) = (list(j.results[0].values()) for j in (unsigned, twin))
    np.testing.assert_array_equal(got, other.view(np.uint8) ^ 128)
    ways = [w(unsigned.model, [feed(seed)])[0] for w in (onnxruntime_float, onnxruntime_integer)]
    assert any(np.array_equal(got, next(iter(w.values()))) for w in ways), [
        (got.astype(int) - next(iter(w.values()))).ravel()[:80] for w in ways
    ]


TARGETS = ["cortex-m4", "cortex-m55", "cortex-m0", "rv32imc"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", [0, 1])
def test_kernels_are_those_of_the_twin(seed: int, target: str) -> None:
    """But for those at the model's input and output."""
    names = []
    for kind in (np.uint8, np.int8):
        calls = compile_model(grown(seed, kind), target=target).program.calls
        names.append([c.kernel.name for c in calls if "top_bit" not in c.kernel.name])
    assert names[0] == names[1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_that_get_uint8_give_the_same_bits(
    target: str, jobs: list[tuple[Job, Job]], tmp_path: Path
) -> None:
    """Where nothing becomes int8, no kernel takes one type for the other."""
    others = []
    for seed in SEEDS:
        other = Job(grown(seed, np.uint8), [feed(seed)], name=f"m{seed}")
        spec = ModuleSpec(other.model, other.name, target, disabled_pass=("to_signed",))
        other.module = compile_module(spec)
        others.append(other)
    build_jobs(others, tmp_path, Build())
    for other, (unsigned, _) in zip(others, jobs, strict=True):
        (got,), (wanted,) = (list(j.results[0].values()) for j in (other, unsigned))
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_that_meet_uint8_give_the_same_bits(
    target: str, jobs: list[tuple[Job, Job]], tmp_path: Path
) -> None:
    """Dense and convolutional layers that read the model's input, or make its output."""
    others = [Job(grown(s, np.uint8), [feed(s)], target, f"m{s}") for s in SEEDS]
    run_jobs(others, tmp_path, Build())
    for other, (unsigned, _) in zip(others, jobs, strict=True):
        (got,), (wanted,) = (list(j.results[0].values()) for j in (other, unsigned))
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_dense_layers_read_uint8_where_it_is(target: str, tmp_path: Path) -> None:
    """Weights of either sign, sums from the least to the largest."""
    net, rng = Net(17), np.random.default_rng(5)
    x = net.dq(net.input("x", np.uint8, (1, 640)), 0.02, np.uint8(7))
    w = rng.integers(-127, 128, (640, 24)).astype(np.int8)
    w[:, 0], w[:, 1], w[:200, 2], w[200:, 2] = 51, -51, 127, -127 // 3
    b = net.dq(net.const(rng.integers(-9000, 9000, 24), np.int32), 0.0002, np.int32(0))
    y = net.node("Add", net.node("MatMul", x, net.dq(net.const(w), 0.01, np.int8(0))), b)
    model = net.model(net.q(y, 1.3, np.uint8(99)))
    feeds = [{"x": rng.integers(0, 256, (1, 640)).astype(np.uint8)} for _ in range(2)]
    feeds += [{"x": np.full((1, 640), n, np.uint8)} for n in (0, 255)]
    job = Job(model, feeds, target)
    run_jobs([job], tmp_path, Build())
    assert job.compiled.program.memory.size_bytes == 0
    for got, wanted in zip(job.results, onnxruntime_integer(model, feeds), strict=True):
        np.testing.assert_array_equal(*(next(iter(d.values())) for d in (got, wanted)))


@pytest.mark.parametrize("target", TARGETS)
def test_a_mean_of_uint8_alone(target: str, tmp_path: Path) -> None:
    """Around and beyond what sums of int8 hold in 16 bits."""
    jobs = []
    for size in (2, 7, 15):
        net = Net(17)
        x = net.dq(net.input("x", np.uint8, (1, 8, 15, 15)), 0.02, np.uint8(7))
        y = net.node("AveragePool", x, kernel_shape=[size] * 2, strides=[size] * 2)
        feeds = [{"x": np.full((1, 8, 15, 15), n, np.uint8)} for n in (0, 127, 128, 255)]
        jobs.append(Job(net.model(net.q(y, 0.019, np.uint8(9))), feeds, target, f"m{size}"))
    run_jobs(jobs, tmp_path, Build())
    for job in jobs:
        for got, wanted in zip(job.results, onnxruntime_integer(job.model, feeds), strict=True):
            np.testing.assert_array_equal(*(next(iter(d.values())) for d in (got, wanted)))


def uint8_weights() -> onnx.ModelProto:
    """The weights of all layers are uint8, of which int8 cannot hold the differences to their zero
    point."""
    net, rng = Net(17), np.random.default_rng(6)

    def w(*shape: int) -> str:
        values = np.clip(rng.normal(119, 40, shape), 0, 254).astype(np.uint8)
        values.flat[:2] = 255, 0
        return net.dq(net.const(values), 0.01, np.uint8(119))

    def stored(real: str, scale: float) -> str:
        return net.dq(net.q(real, scale, np.uint8(99)), scale, np.uint8(99))

    x = net.dq(net.input("x", np.uint8, (1, 8, 7, 6)), 0.02, np.uint8(7))
    y = stored(net.node("Conv", x, w(9, 8, 3, 3), pads=[1] * 4), 0.2)
    y = stored(net.node("Conv", y, w(9, 1, 3, 3), pads=[1] * 4, group=9), 0.3)
    y = stored(net.node("Conv", y, w(5, 9, 1, 1)), 1.0)
    y = net.node("Reshape", y, net.const([1, 210], np.int64))
    y = stored(net.node("Gemm", y, w(210, 12)), 9.0)
    return net.model(net.q(net.node("MatMul", y, w(12, 3)), 20.0, np.uint8(128)))


@pytest.mark.parametrize("target", TARGETS)
def test_weights_of_uint8_take_kernels_of_bytes(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    feeds = [{"x": rng.integers(0, 256, (1, 8, 7, 6)).astype(np.uint8)}]
    feeds += [{"x": np.full((1, 8, 7, 6), n, np.uint8)} for n in (0, 255)]
    job = Job(uint8_weights(), feeds, target)
    run_jobs([job], tmp_path, Build())
    names = [c.kernel.name for c in job.compiled.program.calls if c.kernel.macs]
    slow = [n for n in names if "portable" in n]
    assert len(names) == 5
    assert slow == (["integers.portable.depthwise"] if target in ("cortex-m0", "rv32imc") else [])
    for got, wanted in zip(job.results, onnxruntime_integer(job.model, feeds), strict=True):
        np.testing.assert_array_equal(*(next(iter(d.values())) for d in (got, wanted)))


def test_a_quantisation_that_names_its_type_becomes_int8() -> None:
    """What it computes of 256 values is then a table of int8, whatever `output_dtype` says."""
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 4)), 0.1, np.int8(3))
    w = net.dq(net.input("w", np.int8, (4, 3)), 0.05, np.int8(-127))
    w = net.node("QuantizeLinear", w, net.const(0.05, np.float32), output_dtype=TensorProto.UINT8)
    assert compile_model(net.model(net.node("MatMul", x, net.dq(w, 0.04, np.uint8(83)))))
