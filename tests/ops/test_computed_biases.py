"""QLinearConv with a bias that is computed: an int32 of any size, added as onnxruntime adds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import Case, Results
from test_microsoft import Bench

ENDS = np.array([-(2**31), 2**31 - 1, -(2**31) + 40, 2**31 - 40, 0, 77], np.int32)


def convolution(kind: Any, group: int, weights: bool) -> Case:
    """Sums of products on both sides of zero, with `weights` computed, too; their scales are so
    small that what wraps around differs from what does not."""
    net, random = Bench(), np.random.default_rng(group)
    x = net.input("x", kind, (2, 4, 5, 3)), *net.by(2e-6, 3, kind)
    drawn = random.integers(-127, 128, (6, 4 // group, 3, 1)).astype(np.int8)
    w = net.input("w", np.int8, drawn.shape) if weights else net.const(drawn)
    by = net.const(np.full(6, 2e-2, np.float32)), net.const(np.zeros(6, np.int8))
    b = net.input("b", np.int32, (6,))
    y = net.node("QLinearConv", *x, w, *by, *net.by(1.0, 5, kind), b, group=group)
    info = np.iinfo(kind)
    feeds = {"x": random.integers(info.min, info.max + 1, (2, 4, 5, 3)).astype(kind), "b": ENDS}
    name = f"{np.dtype(kind).name}_{group}_{weights}".lower()
    return Case(name, net.model(y), feeds=[feeds | ({w: drawn} if weights else {})])


def cases() -> Iterator[Case]:
    for kind in (np.int8, np.uint8):
        for group in (1, 2):
            yield from (convolution(kind, group, weights) for weights in (False, True))


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("biases"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)
