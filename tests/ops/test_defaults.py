"""An attribute that is left out has the default of the model's opset: a model says the same with it
and without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builders import Array, Net
from cases import Case, Results
from onnx import defs

from mlftool.compile import ModuleSpec, compile_module


def signal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def transformed(opset: int) -> Net:
    net = Net(opset)
    net.node("DFT", net.input("x", np.float32, (1, 6, 5, 1)))
    return net


def framed(window: bool) -> Net:
    net = Net(17)
    x, step = net.input("x", np.float32, (1, 40, 1)), net.const(8, np.int64)
    if window:
        net.node("STFT", x, step, net.const(signal(16)))
    else:
        net.node("STFT", x, step, "", net.const(16, np.int64))
    return net


CASES = (
    *(Case(f"dft_{opset}", transformed(opset).model("dft_0")) for opset in (17, 19, 20)),
    *(Case(f"stft_{window}", framed(window).model("stft_0")) for window in (True, False)),
)
# What a network of one node is written with: the operator, its inputs' shapes, its opset.
ATTRIBUTES: tuple[tuple[str, tuple[tuple[int, ...], ...], int, dict[str, Any]], ...] = (
    ("DFT", ((1, 6, 5, 1),), 17, {}),
    ("DFT", ((1, 6, 5, 1),), 19, {"onesided": 1}),
    ("BatchNormalization", ((2, 3, 4), (3,), (3,), (3,), (3,)), 15, {"training_mode": 1}),
    ("Softmax", ((2, 3, 4),), 11, {}),
    ("LogSoftmax", ((2, 3, 4),), 13, {}),
    ("Hardmax", ((2, 3, 4),), 12, {}),
    ("Flatten", ((2, 3, 4),), 9, {}),
    ("ArgMax", ((2, 3, 4),), 13, {}),
    ("LpNormalization", ((2, 3, 4),), 1, {}),
    ("LRN", ((1, 5, 4, 4),), 13, {"size": 3}),
    ("InstanceNormalization", ((1, 3, 4), (3,), (3,)), 6, {}),
    ("LayerNormalization", ((2, 3, 4), (4,)), 17, {}),
    ("Gemm", ((2, 3), (3, 4), (4,)), 13, {}),
    ("Elu", ((7,),), 6, {}),
    ("Selu", ((7,),), 6, {}),
    ("LeakyRelu", ((7,),), 16, {}),
    ("HardSigmoid", ((7,),), 6, {}),
    ("ThresholdedRelu", ((7,),), 10, {}),
    ("Celu", ((7,),), 12, {}),
    ("Shrink", ((7,),), 9, {}),
    ("Gelu", ((7,),), 20, {}),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("defaults"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_what_is_left_out_is_onnxruntimes_default(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize(("op", "shapes", "opset", "attrs"), ATTRIBUTES)
def test_a_default_may_be_spelt_out(
    op: str, shapes: tuple[tuple[int, ...], ...], opset: int, attrs: dict[str, Any]
) -> None:
    schema = defs.get_schema(op, opset)
    given = {k: a.default_value for k, a in schema.attributes.items() if a.default_value.name}
    codes = []
    for spelt in (False, True):
        net = Net(opset)
        y = net.node(
            op, *(net.input(f"x{k}", np.float32, s) for k, s in enumerate(shapes)), **attrs
        )
        if op == "BatchNormalization":
            net._nodes[-1].output.extend(("mean", "variance"))
        if spelt:
            net._nodes[-1].attribute.extend(a for k, a in given.items() if k not in attrs)
        lines = compile_module(ModuleSpec(net.model(y), "m")).sources.lib1.splitlines()
        codes.append([line for line in lines if not line.startswith("//")])
    assert given
    assert codes[0] == codes[1]
