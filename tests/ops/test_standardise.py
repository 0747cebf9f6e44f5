"""Normalisation of layers, instances, groups and channels, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from cases import Case, Results

import mlftool.backend

Shape = tuple[int, ...]


def parameters(net: Net, shapes: list[Shape], constant: bool, dtype: Any) -> list[str]:
    rng = np.random.default_rng(3)
    if constant:
        return [net.const(rng.normal(1, 0.5, s), dtype) for s in shapes]
    return [net.input(f"p{k}", dtype, s) for k, s in enumerate(shapes)]


def case(
    op: str,
    shape: Shape,
    by: list[Shape],
    *,
    opset: int = 21,
    dtype: Any = np.float32,
    constant: bool = True,
    then: str = "",
    quantised: bool = False,
    extra: int = 0,
    **attrs: Any,
) -> Case:
    """`by` are the shapes of scale and bias; `extra` outputs are asked for beside the first."""
    net = Net(opset)
    x = net.input("x", np.int8 if quantised else dtype, shape)
    x = net.dq(x, 0.05, np.int8(3)) if quantised else x
    y = net.node(op, x, *parameters(net, by, constant, dtype), **attrs)
    more = [f"extra{k}" for k in range(extra)]
    net._nodes[-1].output.extend(more)
    y = net.node(then, y) if then else y
    y = net.q(y, 0.02, np.int8(-4)) if quantised else y
    said = "_".join(str(v) for v in attrs.values())
    name = f"{op}_{'x'.join(map(str, shape))}_{said}_{opset}_{np.dtype(dtype).name}_{len(by)}"
    name += f"_{constant}{then}{quantised}{extra}"
    return Case(name.lower(), net.model(y, *more), ties=quantised)


def cases() -> Iterator[Case]:
    for axis in (-1, 1, 0):
        shape = (3, 4, 5)
        rest = shape[axis:]
        yield case("LayerNormalization", shape, [rest, rest], axis=axis)
        yield case("LayerNormalization", shape, [rest], axis=axis, epsilon=1e-2, constant=False)
        yield case("LayerNormalization", shape, [rest, rest], axis=axis, extra=2)
        yield case("RMSNormalization", shape, [rest], axis=axis, opset=23)
    yield case("LayerNormalization", (2, 700), [(700,), (700,)], then="Relu")
    yield case("LayerNormalization", (2, 6), [(6,), (6,)], quantised=True)
    yield case("LayerNormalization", (2, 3, 4), [(1, 4), (3, 1)], axis=1)
    yield case("LayerNormalization", (2, 6), [(6,), (6,)], dtype=np.float64)
    for shape in ((2, 3, 5), (1, 4, 3, 3), (2, 2, 2, 3, 2)):
        by = [(shape[1],)] * 2
        yield case("InstanceNormalization", shape, by)
        yield case("InstanceNormalization", shape, by, epsilon=0.5, constant=False, then="Relu")
    for groups in (1, 2, 6):
        yield case("GroupNormalization", (2, 6, 3, 2), [(6,), (6,)], num_groups=groups)
    for opset in (18, 20):  # of each group, in a record that onnx calls deprecated
        by = [(3,)] * 2
        yield case("GroupNormalization", (2, 6, 3, 2), by, num_groups=3, opset=opset)
    yield case("GroupNormalization", (1, 4, 1), [(4,), (4,)], num_groups=2, constant=False)
    yield case("GroupNormalization", (2, 4), [(4,), (4,)], num_groups=2)  # no extents in space
    for p in (1, 2):
        yield from (case("LpNormalization", (2, 3, 4), [], axis=a, p=p) for a in (0, 1, -1))
    for size in (1, 3, 5):
        yield case("LRN", (2, 6, 3, 2), [], size=size, alpha=0.3, beta=0.6, bias=2.0)
    by = [(3,)] * 4
    yield case("BatchNormalization", (2, 3, 4, 2), by, constant=True, opset=15)
    yield case("BatchNormalization", (2, 3), by, constant=False, opset=9)


CASES = tuple(cases())


def positive(c: Case) -> Case:
    """A variance is not negative."""
    feeds = [{n: np.abs(v) if n == "p3" else v for n, v in f.items()} for f in c.inputs()]
    return Case(c.name, c.model, c.oracle, ties=c.ties, feeds=feeds)


CASES = tuple(map(positive, CASES))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("standardise"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_of_halves_rounds_each_step(op: str) -> None:
    """As arithmetic on 16-bit floats does, and the standard's reference with it."""
    x = np.random.default_rng(3).normal(0, 3, (20, 7)).astype(np.float16)
    (got,) = mlftool.backend.run_node(onnx.helper.make_node(op, ["x"], ["y"]), [x])
    away = (x - x.max(-1, keepdims=True)).astype(np.float16)
    exp = np.exp(away.astype(np.float32)).astype(np.float16)
    total = exp.astype(np.float32).sum(-1, keepdims=True).astype(np.float16)
    if op == "Softmax":
        wanted = (exp.astype(np.float32) / total.astype(np.float32)).astype(np.float16)
    else:
        logs = np.log(total.astype(np.float32)).astype(np.float16).astype(np.float32)
        wanted = (away.astype(np.float32) - logs).astype(np.float16)
    assert got.tolist() == wanted.tolist()
