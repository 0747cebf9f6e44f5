"""Operators that the standard had once and onnxruntime still runs in models up to opset 9."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import Net
from cases import Case, Results
from onnx import helper

import mlftool.backend
from mlftool.errors import MlfError


def case(op: str, *known: list[int], **attrs: Any) -> Case:
    net = Net(9)
    constants = [net.const(value, np.int64) for value in known]
    y = net.node(op, net.input("x", np.float32, (2, 3, 4, 5)), *constants, **attrs)
    return Case(f"{op}_{len(known)}_{'_'.join(attrs)}", net.model(y))


def cases() -> Iterator[Case]:
    yield case("Affine", alpha=2.0, beta=0.5)
    yield case("Affine")
    yield case("Scale", scale=2.5)
    yield case("Scale")
    yield case("ScaledTanh", alpha=1.7, beta=0.6)
    yield case("ParametricSoftplus", alpha=1.7, beta=9.0)
    yield case("ImageScaler", bias=[1.0, -2.0, 3.0])
    yield case("ImageScaler", bias=[1.0, -2.0, 3.0], scale=0.25)
    yield case("Crop", border=[1, 2, 3, 1])
    yield case("Crop", border=[1, 0, 9, 9], scale=[2, 3])
    yield case("DynamicSlice", [1, 0], [-1, 9], [2, 3])
    yield case("DynamicSlice", [1, 0], [2, 2])


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("removed"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize(
    ("op", "attrs", "said"),
    [
        ("ScaledTanh", {"alpha": 1.0}, "lacks attribute 'beta'"),
        ("ImageScaler", {"bias": [1.0]}, "has 1 biases; the image has 3 channels"),
        ("ImageScaler", {"bias": "b"}, "expected a list of numbers"),
        ("Crop", {"border": [1, 2]}, "expected 4 and 2 whole numbers"),
        ("Crop", {"border": [3, 0, 3, 0]}, r"leaves \[0, 3\] ... \[4, 2\] of an image of \[4, 5\]"),
        ("Crop", {"border": [-1, 0, 0, 0]}, r"leaves \[0, -1\]"),
        ("Crop", {"border": [1, 0, 0, 0], "scale": [2, 5]}, r"leaves \[0, 1\] ... \[2, 6\]"),
    ],
)
def test_what_cannot_be_is_refused(op: str, attrs: dict[str, Any], said: str) -> None:
    node = helper.make_node(op, ["x"], ["y"], **attrs)
    x = helper.make_tensor_value_info("x", 1, [1, 3, 4, 5])
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)])
    with pytest.raises(MlfError, match=said):
        mlftool.backend.prepare(model)
