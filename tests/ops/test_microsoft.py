"""Operators that onnxruntime's own tools write: its quantiser's operator format, fused ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import Net
from cases import Case, Results

MS = "com.microsoft"
BYTES = (np.int8, np.uint8)


class Bench(Net):
    """A net of `com.microsoft` operators."""

    def ms(self, op: str, *inputs: str, **attrs: Any) -> str:
        return self.node(op, *inputs, domain=MS, **attrs)

    def by(self, scale: float, zero: int, dtype: Any) -> tuple[str, str]:
        return self.const(scale, np.float32), self.const(zero, dtype)

    def quantised(self, name: str, shape: tuple[int, ...], dtype: Any) -> tuple[str, str, str]:
        return (self.input(name, dtype, shape), *self.by(0.05, 3, dtype))


def binary(op: str, dtype: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Case:
    net = Bench()
    a, b = (net.quantised(n, s, dtype) for n, s in zip("ab", shapes, strict=True))
    y = net.ms(op, *a, *b, *net.by(0.11, 7, dtype))
    return Case(f"{op}_{np.dtype(dtype)}_{len(shapes[1])}".lower(), net.model(y), "near")


def unary(op: str, dtype: Any, shape: tuple[int, ...] = (2, 3, 4, 4), **attrs: Any) -> Case:
    net = Bench()
    scale = 1 / 256 if op in ("QLinearSigmoid", "QLinearSoftmax") else 0.04
    y = net.ms(op, *net.quantised("x", shape, dtype), *net.by(scale, 5, dtype), **attrs)
    said = "".join(f"{v}" for v in attrs.values())
    return Case(f"{op}_{np.dtype(dtype)}_{said}".lower(), net.model(y), "near")


def concat(dtype: Any) -> Case:
    net = Bench()
    parts = [net.quantised(n, (2, k + 1, 3), dtype) for k, n in enumerate("abc")]
    other = (parts[1][0], *net.by(0.08, -2 if dtype == np.int8 else 100, dtype))
    named = [*parts[0], *other, *parts[2]]
    y = net.ms("QLinearConcat", *net.by(0.06, 1, dtype), *named, axis=1)
    return Case(f"concat_{np.dtype(dtype)}", net.model(y), "near")


def gemm(dtype: Any, per_column: bool, to_float: bool) -> Case:
    rng = np.random.default_rng(1)
    net = Bench()
    weights = net.const(rng.integers(-99, 99, (5, 6)), np.int8)
    scale = rng.uniform(0.01, 0.02, 6) if per_column else 0.013
    zero = np.zeros(6 if per_column else (), np.int8)
    w = (weights, net.const(scale, np.float32), net.const(zero))
    bias = net.const(rng.integers(-2000, 2000, 6), np.int32)
    out = () if to_float else net.by(0.4, 2, dtype)
    y = net.ms("QGemm", *net.quantised("x", (3, 5), dtype), *w, bias, *out)
    return Case(f"gemm_{np.dtype(dtype)}_{per_column}_{to_float}", net.model(y), "near")


def matmul(**attrs: Any) -> Case:
    net = Bench()
    a = net.input("a", np.float32, (2, 4, 3) if attrs.get("transA") else (2, 3, 4))
    b = net.input("b", np.float32, (2, 5, 4) if attrs.get("transB") else (2, 4, 5))
    name = "_".join(f"{k}{v}" for k, v in attrs.items())
    return Case(f"matmul_{name}".lower(), net.model(net.ms("FusedMatMul", a, b, **attrs)))


def dynamic(bias: bool) -> Case:
    rng = np.random.default_rng(2)
    net = Bench()
    w = net.const(rng.integers(-99, 99, (4, 5)), np.int8), net.const(0.02, np.float32)
    rest = ("", net.const(rng.normal(size=5), np.float32)) if bias else ()
    x = net.input("x", np.float32, (3, 4))
    return Case(f"dynamic_{bias}", net.model(net.ms("DynamicQuantizeMatMul", x, *w, *rest)))


def fused(
    op: str, *shapes: tuple[int, ...], dtype: Any = np.float32, outputs: int = 1, **attrs: Any
) -> Case:
    net = Bench()
    names = [net.input(f"x{k}", dtype, s) for k, s in enumerate(shapes)]
    said = "_".join(str(v) for v in (*attrs.values(), *([] if dtype == np.float32 else ["half"])))
    name = f"{op}_{len(shapes)}_{said}".lower()
    return Case(name, net.model(*net.parts(op, outputs, *names, domain=MS, **attrs)))


def embedded(segments: bool, places: bool, mask: bool, outputs: int) -> Case:
    rng = np.random.default_rng(3)
    net = Bench()
    rows, time, width = 2, 5, 8

    def table(count: int) -> str:
        return net.const(rng.normal(size=(count, width)), np.float32)

    def below(name: str, count: int) -> str:
        numbers = net.input(name, np.int32, (rows, time))
        return net.node("Mod", numbers, net.const(count, np.int32))

    names = [below("words", 11), below("segments", 3) if segments else "", table(11), table(9)]
    names += [table(3) if segments else ""]
    names += [net.const(rng.normal(size=width), np.float32) for _ in "gb"]
    names += [below("mask", 3) if mask else "", *([below("places", 9)] if places else [])]
    made = net.parts("EmbedLayerNormalization", outputs, *names, domain=MS, epsilon=1e-5)
    said = "".join("ny"[flag] for flag in (segments, places, mask))
    return Case(f"embedded_{said}_{outputs}", net.model(*made))


def quantised_embedding(segments: bool, mask: bool) -> Case:
    """Tables, factors and addends of bytes, each with a scale and a zero point after the mask."""
    rng = np.random.default_rng(4)
    net = Bench()

    def below(name: str, count: int) -> str:
        return net.node("Mod", net.input(name, np.int32, (2, 5)), net.const(count, np.int32))

    tables = [net.const(rng.integers(0, 255, (n, 8)), np.uint8) for n in (11, 9, 3)]
    rows = [net.const(rng.integers(0, 255, 8), np.uint8) for _ in "gb"]
    by = [net.const(0.01 * (k + 1), np.float32) for k in range(5)]
    by += [net.const(110 + 5 * k, np.uint8) for k in range(5)]
    if not segments:
        tables[2] = by[2] = by[7] = ""
    names = [below("words", 11), below("segments", 3) if segments else "", *tables, *rows]
    names += [below("mask", 3) if mask else "", *by]
    made = net.parts("QEmbedLayerNormalization", 2, *names, domain=MS, epsilon=1e-5)
    return Case(f"quantised_embedding_{segments}_{mask}", net.model(*made))


def unique() -> Case:
    net = Bench()
    x = net.node("Mod", net.input("x", np.int32, (12,)), net.const(4, np.int32))
    values = net.node("Cast", x, to=1)
    return Case("unique", net.model(*net.parts("Unique", 3, values, domain=MS)))


def unrepeated(n: int) -> Case:
    net = Bench()
    words = np.array([[1, 2, 3, 1, 2, 4, 1, 2], [0, 1, 0, 1, 0, 1, 0, 1]])
    feeds = {"words": words, "scores": np.random.default_rng(1).normal(size=(2, 6)).astype("f")}
    names = [net.input(name, v.dtype, v.shape) for name, v in feeds.items()]
    y = net.ms("NGramRepeatBlock", *names, ngram_size=n)
    return Case(f"unrepeated_{n}", net.model(y), feeds=[feeds])


def crops(mode: str, size: tuple[int, int], image: tuple[int, int] = (6, 7)) -> Case:
    """Regions that are the image, turned over, inside, beyond it, and a point."""
    corners = [[0, 0, 1, 1], [0.2, 0.3, 1.4, 0.2], [0.1, 0.1, 0.9, 0.8]]
    regions = np.array([*corners, [-0.2, 0, 0.5, 1.1], [0.5, 0.5, 0.5, 0.5]], np.float32)
    feeds = {"x": np.random.default_rng(1).normal(size=(2, 3, *image)).astype(np.float32)}
    feeds |= {"regions": regions, "images": np.array([0, 1, 1, 0, 1], np.int32)}
    net = Bench()
    names = [net.input(name, v.dtype, v.shape) for name, v in feeds.items()]
    shape = net.const(size, np.int32)
    y = net.ms("CropAndResize", *names, shape, mode=mode, extrapolation_value=0.5)
    return Case(f"crops_{mode}_{size}_{image}", net.model(y), feeds=[feeds])


def padded_transpose() -> Case:
    net = Bench()
    x, w = net.input("x", np.float32, (1, 2, 4, 4)), net.input("w", np.float32, (2, 3, 3, 3))
    pads = net.const([1, 0, 1, 2], np.int64)
    made = net.ms("ConvTransposeWithDynamicPads", x, w, pads, strides=[2, 1])
    return Case("padded_transpose", net.model(made))


def cases() -> Iterator[Case]:
    for dtype in BYTES:
        for op in ("QLinearAdd", "QLinearMul"):
            yield binary(op, dtype, ((2, 3, 4), (2, 3, 4)))
            yield binary(op, dtype, ((2, 3, 4), (4,)))
        yield unary("QLinearSigmoid", dtype)
        yield unary("QLinearLeakyRelu", dtype, alpha=0.2)
        yield unary("QLinearSoftmax", dtype, (2, 3, 4), axis=-1, opset=13)
        yield unary("QLinearSoftmax", dtype, (2, 3, 4), axis=1, opset=11)
        yield unary("QLinearGlobalAveragePool", dtype)
        yield unary("QLinearGlobalAveragePool", dtype, channels_last=1)
        yield unary("QLinearAveragePool", dtype, kernel_shape=[2, 2], strides=[1, 2])
        yield concat(dtype)
        yield gemm(dtype, False, False)
        yield gemm(dtype, True, False)
        yield gemm(dtype, False, True)
    yield matmul(alpha=0.5)
    yield matmul(transA=1)
    yield matmul(transB=1, alpha=2.0)
    yield dynamic(False)
    yield dynamic(True)
    yield fused("Gelu", (2, 5))
    yield fused("FastGelu", (2, 5))
    yield fused("FastGelu", (2, 5), (5,))
    yield fused("BiasGelu", (2, 5), (5,))
    yield fused("QuickGelu", (2, 5), alpha=1.5)
    yield fused("SkipLayerNormalization", (2, 3, 4), (2, 3, 4), (4,), (4,), epsilon=1e-5)
    yield fused("SkipLayerNormalization", (2, 3, 4), (2, 3, 4), (4,), (4,), (4,), epsilon=1e-5)
    yield fused("SkipSimplifiedLayerNormalization", (2, 3, 4), (2, 3, 4), (4,), epsilon=1e-5)
    yield fused("CDist", (3, 4), (5, 4), metric="euclidean")
    yield fused("CDist", (1, 2), (7, 2), metric="sqeuclidean")
    yield embedded(True, False, True, 3)
    yield embedded(True, True, False, 2)
    yield embedded(False, False, False, 2)
    yield fused("FusedConv", (1, 2, 4, 4), (3, 2, 2, 2), (3,), activation="Relu")
    yield fused("FusedGemm", (2, 3), (3, 4), (4,), activation="LeakyRelu", activation_alpha=0.3)
    for mode, padding in (("bilinear", "zeros"), ("nearest", "border"), ("bicubic", "reflection")):
        sampled: dict[str, Any] = {"mode": mode, "padding_mode": padding}
        yield fused("GridSample", (1, 2, 5, 6), (1, 4, 3, 2), align_corners=1, **sampled)
        yield fused("GridSample", (1, 2, 5, 6), (1, 4, 3, 2), **sampled)
    yield fused("UnfoldTensor", (2, 20, 3), dim=1, size=8, step=3)
    yield fused("UnfoldTensor", (2, 20), size=5)
    yield quantised_embedding(True, True)
    yield quantised_embedding(True, False)
    yield unique()
    yield padded_transpose()
    yield fused("ScaledSiLU", (2, 5), alpha=0.7)
    yield fused("ScaledSiLU", (2, 5), ())
    yield fused("GatedAdd", (2, 3, 4), (2, 3, 4), (2, 3, 1))
    yield fused("LinearAttentionGate", (2, 3, 4), (4,), (4,))
    yield fused("LinearAttentionGate", (2, 3, 4), (4,), (4,), (2, 3, 4), outputs=2)
    yield fused("GatedRMSNorm", (2, 3, 12), (12,), (2, 3, 12), activation="sigmoid")
    yield fused("GatedRMSNorm", (2, 3, 12), (4,), (2, 3, 12))
    yield fused("Inverse", (3, 1, 1))
    yield fused("Inverse", (5, 4, 4), dtype=np.float64)
    past, attrs = (2, 3, 3), dict[str, Any](outputs=2)
    yield fused("CausalConvWithState", (2, 3, 7), (3, 1, 4), (3,), past, activation="silu", **attrs)
    yield fused("CausalConvWithState", (2, 3, 1), (3, 1, 2), (3,), past, dilation=3, **attrs)
    yield fused("CausalConvWithState", (2, 3, 5), (3, 1, 3), dilation=2, **attrs)
    for n in (1, 2, 3, 9):
        yield unrepeated(n)
    for size in ((3, 4), (1, 1), (1, 5), (11, 2)):
        yield crops("bilinear", size)
        yield crops("nearest", size)
    yield crops("nearest", (2, 3), (1, 1))
    clip = {"activation": "Clip", "activation_params": [0.0, 0.5]}
    yield fused("FusedConv", (1, 2, 4, 4), (3, 2, 2, 2), dtype=np.float16, **clip)


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("microsoft"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    """8-bit results may be off by one where onnxruntime looks them up in tables or rounds twice."""
    if case.oracle == "near":
        results.check_near(case)
    else:
        results.check(case)
