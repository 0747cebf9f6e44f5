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


def pair(k: int, rng: np.random.Generator) -> Case:
    """Sums and products of two, half of whose results are near a tie or are one, as scales that are
    powers of two make them; in every fourth case of bytes, or of bytes and 16 bits."""
    net, kinds = Net(), [(np.int16, np.uint16)[k >> n & 1] for n in (0, 1)]
    op, exact = ("Add", "Mul")[k % 2], k % 3 == 0
    if k % 4 == 0:
        kinds[k // 4 % 2 :] = [np.int8] * (2 - k // 4 % 2)
    infos = [np.iinfo(kind) for kind in kinds]
    zeros = [kind(rng.choice([i.min, i.max, 3])) for kind, i in zip(kinds, infos, strict=True)]
    if op == "Mul":  # whose differences fill 16 bits
        zeros = [kind((int(i.min) + i.max + 1) // 2) for kind, i in zip(kinds, infos, strict=True)]
    x = [rng.integers(i.min, i.max + 1, 2**15) for i in infos]
    by = np.float32([1 / 64, 1 / 128] if exact else 10 ** rng.uniform(-4, 0, 2))
    far = [float(abs(i.max - int(z)) + 1) * n for i, z, n in zip(infos, zeros, by, strict=True)]
    unit = np.float32((sum(far) if op == "Add" else far[0] * far[1]) / (2**15 if k % 4 else 2**7))
    unit = np.float32(2.0 ** np.round(np.log2(unit))) if exact else unit
    floats = [(n[: 2**14] - float(z)) * m for n, z, m in zip(x, zeros, by, strict=True)]
    wanted = (rng.integers(-100, 100, 2**14) + 0.5) * unit  # a tie, nearly
    with np.errstate(all="ignore"):
        other = wanted - floats[0] if op == "Add" else wanted / floats[0]
        aimed = np.nan_to_num(other) / by[1] + float(zeros[1])
    x[1][: 2**14] = np.clip(np.rint(aimed), infos[1].min, infos[1].max)
    values = {name: n.astype(kind) for name, n, kind in zip("ab", x, kinds, strict=True)}
    y = net.node(op, *map(net.dq, map(net.input, "ab", kinds, [(2**15,)] * 2), by, zeros))
    y = net.node("Relu", y) if k % 5 == 0 else y
    kind = np.int16 if k % 4 else np.int8
    return Case(f"pair_{k}", net.model(net.q(y, unit, kind(0))), feeds=[values])


RNG = np.random.default_rng(5)
CASES = [chain(k, RNG) for k in range(CHAINS)]
PAIRS = [pair(k, RNG) for k in range(12)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results([*CASES, *PAIRS], tmp_path_factory.mktemp("shorts"), selected)


@pytest.mark.parametrize("case", [*CASES, *PAIRS], ids=lambda c: c.name)
def test_every_value(case: Case, results: Results) -> None:
    results.check(case)


def test_most_chains_have_a_form(results: Results) -> None:
    """The others, on much finer scales, stay floats."""
    forms = [case for case in CASES if "mlf_multiply_high(" in _loops(results, case)]
    assert CASES[0] not in forms
    assert len(forms) >= CHAINS - 3
    assert any("mlf_rescale_rarely(" in _loops(results, case) for case in forms)


def test_pairs_have_a_form(results: Results) -> None:
    texts = [_loops(results, case) for case in PAIRS]
    rare = ["mlf_add_rarely(", "mlf_multiply_rarely("]
    assert all(sum(name in text for text in texts) >= 4 for name in rare)


def _loops(results: Results, case: Case) -> str:
    module = results.job(case).module
    assert module
    return module.sources.lib1
