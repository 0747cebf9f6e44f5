"""Sums, products and slopes of two 8-bit tensors are integers, and equal for every pair of elements
to the float chain as onnxruntime computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builders import Net
from cases import Case, Results

CHAINS = 24
A, B = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))


def chain(k: int, rng: np.random.Generator) -> Case:
    """One of either operator, with and without limits, signed and unsigned, every zero point; each
    element of one input with each of the other."""
    net, dtypes = Net(), [rng.choice([np.int8, np.uint8]) for _ in range(3)]
    scales = [float(np.exp(rng.uniform(-4, 1))) for _ in range(2)]
    zeros = [t(rng.integers(np.iinfo(t).min, np.iinfo(t).max, endpoint=True)) for t in dtypes]
    op, activation = ("Add", "Mul")[k % 2], ("", "Relu", "Clip")[k // 2 % 3]
    sides: list[str] = []
    for name, dtype, scale, zero in zip("ab", dtypes, scales, zeros, strict=False):
        sides.append(net.dq(net.input(name, dtype, A.shape), scale, zero))
    y = net.node(op, *sides)
    if activation:
        limits = [net.const(v, np.float32) for v in (-0.5, 6.0)] if activation == "Clip" else []
        y = net.node(activation, y, *limits)
    reach = sum(scales) if op == "Add" else np.prod(scales) * 128
    y = net.q(y, float(reach * rng.uniform(0.3, 1.2)), zeros[2])
    feed: dict[str, Any] = {"a": A.view(dtypes[0]), "b": B.view(dtypes[1])}
    return Case(f"{op}_{activation}_{k}", net.model(y), feeds=[feed])


def with_constants(k: int, rng: np.random.Generator) -> Case:
    """Every element beside each of a row of constants."""
    net, op = Net(), ("Add", "Mul")[k % 2]
    scale, zero = float(np.exp(rng.uniform(-4, 1))), np.int8(rng.integers(-128, 128))
    x = net.dq(net.input("a", np.int8, A.shape), scale, zero)
    constants = rng.normal(size=256) * (scale * 100 if op == "Add" else 2)
    y = net.node(op, x, net.const(constants, np.float32))
    y = net.node("Relu", y) if k % 3 == 0 else y
    reach = scale * (1 if op == "Add" else 2)
    y = net.q(y, float(reach * rng.uniform(0.3, 1.2)), np.int8(rng.integers(-128, 128)))
    return Case(f"{op}_constants_{k}", net.model(y), feeds=[{"a": B.view(np.int8)}])


def sloped(k: int, rng: np.random.Generator) -> Case:
    """Every element below zero times each of a row of constants; the first case has ties."""
    net, zero = Net(), np.int8((127, -128, 3, *rng.integers(-128, 128, 5))[k])
    scale = float(np.exp(rng.uniform(-4, 1)))
    slopes = rng.uniform(-0.2, 0.6, 256) if k else rng.integers(0, 5, 256) / 4
    y = net.node(
        "PRelu",
        net.dq(net.input("a", np.int8, A.shape), scale, zero),
        net.const(slopes, np.float32),
    )
    y = (
        net.node("Clip", y, net.const(-2.0, np.float32), net.const(3.0, np.float32))
        if k == 4
        else y
    )
    y = net.q(
        y, scale * float(rng.uniform(0.3, 1.2)) if k else scale, np.int8(rng.integers(-128, 128))
    )
    return Case(f"PRelu_constants_{k}", net.model(y), feeds=[{"a": B.view(np.int8)}])


def gated() -> Case:
    """A gate whose factors of one product are rounded apart: no number of the product says how."""
    net, zero = Net(), np.int8(-128)
    sides = (("a", 0.02793813), ("b", 0.0026968282))
    a, b = (net.dq(net.input(name, np.int8, A.shape), scale, zero) for name, scale in sides)
    y = net.q(net.node("Mul", a, b), 0.010455706, zero)
    return Case("Mul_gate", net.model(y), feeds=[{"a": A.view(np.int8), "b": B.view(np.int8)}])


RNG = np.random.default_rng(11)
CASES = [chain(k, RNG) for k in range(CHAINS)]
CASES += [gated()]
CASES += [with_constants(k, RNG) for k in range(12)]
CASES += [sloped(k, RNG) for k in range(8)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("pairs"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_pair_of_elements(case: Case, results: Results) -> None:
    results.check(case)


def test_most_chains_have_a_form(results: Results) -> None:
    """The others stay floats, which are as right."""
    floats = [c.name for c in CASES if "float" in _loops(results, c)]
    assert len(floats) <= CHAINS // 6, floats
    assert "Mul_gate" not in floats


def test_slopes_have_a_form(results: Results) -> None:
    """But for exact ties, which go to even numbers."""
    floats = [c.name for c in CASES if "PRelu" in c.name and "float" in _loops(results, c)]
    assert floats == ["PRelu_constants_0"]


def _loops(results: Results, case: Case) -> str:
    module = results.job(case).module
    assert module
    return module.sources.lib1
