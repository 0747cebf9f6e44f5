"""RNN, GRU and LSTM in all their forms, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import Case, Results
from onnx import helper, numpy_helper

ACTIVATIONS = {
    "Tanh": 0,
    "Sigmoid": 0,
    "Relu": 0,
    "Softsign": 0,
    "Softplus": 0,
    "LeakyRelu": 1,
    "Elu": 1,
    "ThresholdedRelu": 1,
    "HardSigmoid": 2,
    "ScaledTanh": 2,
    "Affine": 2,
}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


def activations(rng: np.random.Generator, count: int) -> dict[str, Any]:
    """Any functions, with parameters for those that take them, in order."""
    names = [str(n) for n in rng.choice(list(ACTIVATIONS), count)]
    attrs: dict[str, Any] = {"activations": names}
    for key, least in (("activation_alpha", 1), ("activation_beta", 2)):
        takes = sum(ACTIVATIONS[n] >= least for n in names)
        if takes:
            attrs[key] = [float(x) for x in rng.uniform(0.1, 0.6, takes).round(2)]
    return attrs


def layer(kind: str, seed: int, constant: bool) -> Case:
    """A layer of any direction; weights are inputs unless they are `constant`."""
    rng = np.random.default_rng(seed)
    time, batch, inputs, hidden = (int(n) for n in rng.integers(1, 7, 4))
    direction = ("forward", "reverse", "bidirectional")[seed % 3]
    dirs, rows = 1 + (direction == "bidirectional"), GATES[kind] * hidden
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if seed % 4 == 1:
        attrs |= activations(rng, FUNCTIONS[kind] * dirs)
    if seed % 5 == 2:
        attrs["clip"] = 0.4
    if kind == "GRU":
        attrs["linear_before_reset"] = seed // 3 % 2
    if kind == "LSTM" and seed % 6 == 5:
        attrs["input_forget"] = 1

    def values(*shape: int) -> Any:
        return rng.normal(0, 0.7, shape).astype(np.float32)

    lengths = rng.integers(1, time + 1, batch).astype(np.int32)
    given: dict[str, Any] = {"x": values(time, batch, inputs)}
    given |= {"w": values(dirs, rows, inputs), "r": values(dirs, rows, hidden)}
    given["b"] = values(dirs, 2 * rows) if seed % 3 else None
    given["lengths"] = lengths if seed % 4 == 2 else None
    given["h"] = values(dirs, batch, hidden) if seed % 2 else None
    if kind == "LSTM":
        given["c"] = values(dirs, batch, hidden) if seed % 2 else None
        given["p"] = values(dirs, 3 * hidden) if seed % 4 > 1 else None
    outputs = ["y", "y_h", "y_c"][: 3 if kind == "LSTM" else 2]
    kept = outputs if seed % 7 else ["", *outputs[1:]]
    names = [n if v is not None else "" for n, v in given.items()]
    fixed = {"w", "r", "b", "p"} if constant else set()
    graph = helper.make_graph(
        [helper.make_node(kind, names, kept, **attrs)],
        "layer",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in given.items()
            if v is not None and n not in fixed
        ],
        [helper.make_empty_tensor_value_info(n) for n in kept if n],
        [numpy_helper.from_array(v, n) for n, v in given.items() if v is not None and n in fixed],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {n: v for n, v in given.items() if v is not None and n not in fixed}
    return Case(f"{kind}_{seed}".lower(), model, feeds=[feed])


def cases() -> Iterator[Case]:
    for kind in GATES:
        yield from (layer(kind, seed, constant=seed % 2 == 0) for seed in range(24))


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("recurrent"), selected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)
