"""Values of 16 bits on another scale are integers, and each of 65536 equals that of the float chain
as onnxruntime computes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from builders import Net
from cases import Case, Results

CHAINS = 16


def chain(k: int, rng: np.random.Generator) -> Case:
    """Every value, zero points at the ends and between; some are cut off, the first on a scale that
    leaves no room."""
    net, (kind, other) = Net(), ((np.int16, np.uint16)[k >> n & 1] for n in (0, 1))
    info, to = np.iinfo(kind), np.iinfo(other)
    scale = np.float32(10 ** rng.uniform(-5, 1))
    unit = np.float32(scale * 2.0 ** (rng.uniform(-3, 4) if k else -20))
    zeros = kind(rng.integers(info.min, info.max + 1)), other(rng.choice([to.min, 7, to.max]))
    y = net.dq(net.input("x", kind, (2**16,)), scale, zeros[0])
    y = net.node("Relu", y) if k % 3 == 0 else y
    if k % 5 == 1:
        y = net.node("Clip", y, *(net.const(n * unit, np.float32) for n in (-3000.5, 9000.25)))
    values = np.arange(info.min, info.max + 1).astype(kind)
    return Case(f"chain_{k}", net.model(net.q(y, unit, zeros[1])), feeds=[{"x": values}])


RNG = np.random.default_rng(5)
CASES = [chain(k, RNG) for k in range(CHAINS)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("shorts"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_value(case: Case, results: Results) -> None:
    results.check(case)


def test_most_chains_have_a_form(results: Results) -> None:
    """The others, on much finer scales, stay floats."""
    forms = [case for case in CASES if "mlf_multiply_high(" in _loops(results, case)]
    assert CASES[0] not in forms
    assert len(forms) >= CHAINS - 3
    assert any("mlf_rescale_rarely(" in _loops(results, case) for case in forms)


def _loops(results: Results, case: Case) -> str:
    module = results.job(case).module
    assert module
    return module.sources.lib1
