"""Attributes that decide along which axis of an input the parameters of another run: transA,
transB, axis, block_size. Square tensors hide a wrong axis from every check of shapes, so each form
comes with both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import random_array, random_feeds
from cases import ORACLES, Case, Results
from onnxruntime.quantization import QuantFormat, QuantType
from oracle import assert_close, onnxruntime_float
from quantiser import quantised
from test_microsoft import Bench

SQUARE, OBLONG = (4, 4, 4), (3, 4, 5)  # rows, depth, columns


class Weights(Bench):
    """A net whose constants come from one seed."""

    def __init__(self, seed: int = 7) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def scales(self, *shape: int) -> str:
        """Scales that differ widely, so that no two can be exchanged without notice."""
        return self.const(self.random.uniform(0.004, 0.04, shape), np.float32)

    def bytes(self, *shape: int, kind: Any = np.int8) -> str:
        return self.const(random_array(self.random, kind, shape))

    def zeros(self, *shape: int, kind: Any = np.int8) -> str:
        middle = 128 if kind is np.uint8 else 0
        return self.const(middle + self.random.integers(-9, 10, shape), kind)


def label(*parts: Any) -> str:
    return "_".join(np.dtype(p).name if isinstance(p, type) else str(p) for p in parts)


def turned(flag: int, rows: int, columns: int) -> tuple[int, int]:
    return (columns, rows) if flag else (rows, columns)


def blocks(shape: tuple[int, ...], axis: int, size: int) -> list[int]:
    return [-(-n // size) if k == axis % len(shape) else n for k, n in enumerate(shape)]


def gemm(
    size: tuple[int, int, int], trans: tuple[int, int], columns: bool, rest: str, kind: Any
) -> Case:
    """QGemm; `rest` is what it has beyond its products."""
    (m, k, n), net = size, Weights()
    count = (n,) if columns else ()
    x = net.quantised("x", turned(trans[0], m, k), kind)
    w = net.bytes(*turned(trans[1], k, n)), net.scales(*count), net.zeros(*count)
    values = {"row": (n,), "matrix": (1, n)}.get(rest.split("_")[0])
    bias = net.const(net.random.integers(-4000, 4000, values), np.int32) if values else ""
    out = () if "float" in rest else net.by(0.3, 2, kind)
    flags = {"transA": trans[0], "transB": trans[1]} | ({"alpha": 0.5} if "alpha" in rest else {})
    y = net.ms("QGemm", *x, *w, bias, *out, **flags)
    name = label("gemm", *size, *trans, "columns" if columns else "one", rest, kind)
    return Case(name, net.model(y))


def gemms() -> Iterator[Case]:
    flags = ((0, 0), (0, 1), (1, 0), (1, 1))
    for size, trans, columns in itertools.product((SQUARE, OBLONG), flags, (False, True)):
        yield gemm(size, trans, columns, "row", np.int8)
        yield gemm(size, trans, columns, "none_float" if columns else "none", np.uint8)
    for trans in flags:
        yield gemm(OBLONG, trans, True, "row_alpha", np.int8)
        yield gemm(SQUARE, trans, True, "matrix_alpha_float", np.int8)


def matmul(size: tuple[int, int, int], batch: int, columns: bool, kind: Any) -> Case:
    """QLinearMatMul, whose second operand may have a scale for each column."""
    (m, k, n), net = size, Weights()
    stacks = (batch,) * (batch > 1)
    count = (*stacks, *(1,) * len(stacks), n) if columns else ()
    x = net.quantised("x", (*(batch,) * (batch > 0), m, k), kind)
    w = net.bytes(*stacks, k, n), net.scales(*count), net.zeros(*count)
    y = net.node("QLinearMatMul", *x, *w, *net.by(0.3, 2, kind))
    return Case(label("matmul", *size, batch, columns, kind), net.model(y))


def integers(size: tuple[int, int, int], columns: bool, kind: Any) -> Case:
    (m, k, n), net = size, Weights()
    w = net.bytes(k, n), net.const(np.array(5, kind)), net.zeros(*((n,) if columns else ()))
    y = net.node("MatMulInteger", net.input("x", kind, (m, k)), *w)
    return Case(label("integers", *size, columns, kind), net.model(y))


def stacks(op: str) -> Case:
    """Parameters for each matrix of a stack of as many as there are rows and columns, and for each
    row; the standard has them, onnxruntime has not."""
    net, kind = Weights(), np.int8
    x, w = net.input("x", kind, (4, 4, 4)), net.bytes(4, 4, 4)
    rows, ones = net.zeros(4, 4, 1), net.zeros(4, 1, 1)
    if op == "MatMulInteger":
        return Case("stacks_integer", net.model(net.node(op, x, w, rows, ones)), "reference")
    by = net.scales(4, 4, 1), rows, w, net.scales(4, 1, 1), ones
    y = net.node(op, x, *by, *net.by(0.3, 2, kind))
    return Case("stacks_quantised", net.model(y), "reference")


def to_float(size: tuple[int, int, int], op: str) -> Case:
    """Products of integers with a scale and a zero point for each column."""
    (m, k, n), net = size, Weights()
    w, by, zero = net.bytes(k, n), net.scales(n), net.zeros(n)
    bias = net.const(net.random.normal(size=n), np.float32)
    if op == "DynamicQuantizeMatMul":
        y = net.ms(op, net.input("x", np.float32, (m, k)), w, by, zero, bias)
    else:
        x = net.input("x", np.uint8, (m, k))
        first = net.const(0.05, np.float32), by, net.const(np.uint8(9)), zero
        y = net.ms(op, x, w, *first, bias)
    return Case(label(op, *size).lower(), net.model(y))


def convolution(channels: tuple[int, int], group: int, kind: Any) -> Case:
    """QLinearConv with a scale for each output channel."""
    (ic, oc), net = channels, Weights()
    w = net.bytes(oc, ic // group, 3, 3), net.scales(oc), net.const(np.zeros(oc, np.int8))
    bias = net.const(net.random.integers(-3000, 3000, oc), np.int32)
    x = net.quantised("x", (1, ic, 5, 4), kind)
    y = net.node("QLinearConv", *x, *w, *net.by(0.4, 2, kind), bias, group=group)
    return Case(label("conv", ic, oc, group, kind), net.model(y))


# Operator, what x is, what the weights are, and its attributes; with both sizes of channels.
Layer = tuple[
    str, Callable[[int, int], tuple[int, ...]], Callable[[int, int], tuple[int, ...]], Any
]
LAYERS: tuple[Layer, ...] = (
    ("Gemm", lambda k, n: (3, k), lambda k, n: (k, n), {}),
    ("Gemm", lambda k, n: (3, k), lambda k, n: (n, k), {"transB": 1}),
    ("Gemm", lambda k, n: (k, 3), lambda k, n: (k, n), {"transA": 1}),
    ("Gemm", lambda k, n: (k, k), lambda k, n: (n, k), {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("MatMul", lambda k, n: (2, 3, k), lambda k, n: (k, n), {}),
    ("MatMul", lambda k, n: (2, 3, k), lambda k, n: (2, k, n), {}),
    ("Conv", lambda k, n: (1, k, 5, 5), lambda k, n: (n, k, 3, 3), {}),
    ("ConvTranspose", lambda k, n: (1, k, 3, 3), lambda k, n: (k, n, 3, 3), {}),
)


def layer(which: int, size: tuple[int, int], axis: int, block: int, by: bool) -> Case:
    """A layer after a DequantizeLinear whose scales run along any axis of its weights, also where
    that is not the output channels'."""
    (op, x_of, w_of, attrs), net = LAYERS[which], Weights()
    shape = w_of(*size)
    count = blocks(shape, axis, block) if block else [shape[axis]]
    parameters = net.bytes(*shape), net.scales(*count), net.zeros(*count)
    said = {"axis": axis} | ({"block_size": block} if block else {})
    w = net.node("DequantizeLinear", *parameters, **said)
    x = net.node("DequantizeLinear", *net.quantised("x", x_of(*size), np.int8))
    y = net.node(op, x, w, **attrs)
    y = net.q(y, 0.3, np.int8(3)) if by else y
    flags = "".join(f"{k}{v}" for k, v in attrs.items())
    name = label(op, which, flags, *size, f"axis{axis}", block, by).lower()
    return Case(name, net.model(y), ties=by)


def layers() -> Iterator[Case]:
    for which, (_, _, w_of, _) in enumerate(LAYERS):
        for size in ((4, 4), (4, 6)):
            for axis in range(-1, min(3, len(w_of(*size)))):
                yield layer(which, size, axis, 0, axis % 2 == 0)
            yield layer(which, size, 0, 2, True)
            yield layer(which, size, -1, 2, False)


def conversion(op: str, axis: int, block: int, known: bool = True) -> Case:
    """DequantizeLinear and QuantizeLinear of what is not known."""
    net, shape = Weights(), (4, 4, 4)
    count = blocks(shape, axis, block) if block else [4]
    scales = net.scales(*count)
    if not known:
        scales = net.node("Exp", net.input("scales", np.float32, tuple(count)))
    by = scales, net.zeros(*count)
    x = net.input("x", np.float32 if op == "QuantizeLinear" else np.int8, shape)
    said = {"axis": axis} | ({"block_size": block} if block else {})
    name = label(op, axis, block, "known" if known else "computed").lower()
    return Case(name, net.model(net.node(op, x, *by, **said)))


def attention(size: int) -> Case:
    """QAttention with a scale for each of the three times `size` columns."""
    net = Weights()
    w, bias = net.bytes(size, 3 * size), net.const(net.random.normal(size=3 * size), np.float32)
    scales = net.const(0.01, np.float32), net.scales(3 * size)
    zeros = net.const(np.uint8(130)), net.const(np.zeros(3 * size, np.int8))
    x = net.input("x", np.uint8, (2, 3, size))
    y = net.ms("QAttention", x, w, bias, *scales, "", *zeros, num_heads=2)
    return Case(label("attention", size), net.model(y))


def network(form: QuantFormat, columns: bool, types: str) -> Case:
    """Layers as PyTorch exports them, a Linear in both shapes, by onnxruntime's own quantiser."""
    net = Weights()
    x = net.input("x", np.float32, (1, 4, 5, 5))
    for channels, group in (((4, 4), 1), ((4, 4), 4), ((4, 6), 1)):
        ic, oc = channels
        w = net.const(net.random.normal(size=(oc, ic // group, 3, 3)), np.float32)
        x = net.node("Relu", net.node("Conv", x, w, group=group, pads=[1, 1, 1, 1]))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    for rows, depth in ((6, 6), (10, 6)):
        w = net.const(net.random.normal(size=(rows, depth)), np.float32)
        bias = net.const(net.random.normal(size=rows), np.float32)
        x = net.node("Gemm", x, w, bias, transB=1)
    for depth, count in ((10, 10), (10, 7)):
        x = net.node("MatMul", x, net.const(net.random.normal(size=(depth, count)), np.float32))
    model = net.model(x)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    activations, weights = (getattr(QuantType, t) for t in types.split("_"))
    made = quantised(model, form, columns, activations, weights)
    return Case(label("network", form.name, columns, types), made)


def networks() -> Iterator[Case]:
    for columns in (False, True):
        for types in ("QUInt8_QInt8", "QInt8_QInt8", "QUInt8_QUInt8"):
            yield network(QuantFormat.QOperator, columns, types)
        for types in ("QUInt8_QInt8", "QInt8_QInt8", "QInt16_QInt8", "QUInt16_QUInt8"):
            yield network(QuantFormat.QDQ, columns, types)


def cases() -> Iterator[Case]:
    yield from networks()
    yield from gemms()
    for size, kind in itertools.product((SQUARE, OBLONG), (np.int8, np.uint8)):
        for columns in (False, True):
            for batch in (0, 1, 2):
                yield matmul(size, batch, columns, kind)
            yield integers(size, columns, kind)
    for size in (SQUARE, OBLONG):
        yield to_float(size, "MatMulIntegerToFloat")
        yield to_float(size, "DynamicQuantizeMatMul")
    yield stacks("QLinearMatMul")
    yield stacks("MatMulInteger")
    for channels, group in (((4, 4), 1), ((4, 6), 1), ((4, 4), 2), ((4, 4), 4), ((4, 8), 4)):
        yield convolution(channels, group, np.int8)
        yield convolution(channels, group, np.uint8)
    yield from layers()
    for axis in (-3, -1, 0, 1, 2):
        for op in ("QuantizeLinear", "DequantizeLinear"):
            yield conversion(op, axis, 0)
            yield conversion(op, axis, 2)
            yield conversion(op, axis, 3)
            yield conversion(op, axis, 2 + axis % 2, known=False)
    yield attention(4)
    yield attention(6)


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("axes"), selected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_says_something(case: Case) -> None:
    """A result that is saturated everywhere would hide a wrong scale."""
    for given in ORACLES[case.oracle](case.model, case.inputs()):
        for value in given.values():
            assert np.unique(value).size > value.size // 8


@pytest.mark.parametrize("axis", [1, 3, -4])
def test_scales_of_a_tensor_with_one_axis(axis: int, tmp_path: Path) -> None:
    """onnx-neural-compressor keeps the weights' axis; onnxruntime then drops the conversion."""
    net = Weights()
    k = net.const(np.arange(-3, 4), np.int32)
    bias = net.node("DequantizeLinear", k, net.scales(7), axis=axis)
    model = net.model(net.node("Add", net.input("x", np.float32, (2, 7)), bias))
    right = onnx.ModelProto()
    right.CopyFrom(model)
    next(n for n in right.graph.node if n.op_type == "DequantizeLinear").attribute[0].i = 0
    job = Job(model, random_feeds(model, 1))
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(right, job.feeds), strict=True):
        assert_close(got, want)
