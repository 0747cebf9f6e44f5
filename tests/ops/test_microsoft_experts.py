"""Mixtures of experts: each row has the sum of those that it selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from cases import Case, Results
from test_microsoft import Bench

from mlftool.errors import MlfError
from mlftool.importer.onnx import import_model

ROWS, WIDTH, UNITS, EXPERTS = 3, 32, 16, 4
KINDS = ("relu", "gelu", "silu", "identity", "swiglu")


def numbers(net: Bench, seed: int, *shape: int) -> str:
    values = np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[-1])
    return net.const(values.astype(np.float32))


def given(net: Bench) -> tuple[str, str]:
    return net.input("x", np.float32, (ROWS, WIDTH)), net.input("r", np.float32, (ROWS, EXPERTS))


def mixed(kind: str, k: int, normal: bool, **more: Any) -> Case:
    net, units = Bench(), UNITS * (1 + (kind == "swiglu"))
    weights = numbers(net, 1, EXPERTS, units, WIDTH), numbers(net, 2, EXPERTS, units)
    last = numbers(net, 3, EXPERTS, WIDTH, UNITS), numbers(net, 4, EXPERTS, WIDTH)
    how = {"activation_type": kind, "normalize_routing_weights": int(normal), "k": k, **more}
    if kind == "swiglu":
        how["swiglu_fusion"] = 1
    y = net.ms("MoE", *given(net), *weights, *last, **how)
    return Case(f"{kind}_{k}_{normal}_{len(more)}".lower(), net.model(y))


def quantised(bits: int, block: int, zero: bool, kind: str) -> Case:
    net, rng, units = Bench(), np.random.default_rng(bits + block), UNITS * 2
    wide = units * (1 + (kind == "swiglu"))

    def layer(rows: int, depth: int) -> tuple[list[str], str]:
        blocks = depth // block if block else 1
        w = rng.integers(0, 256, (EXPERTS, rows, depth * bits // 8))
        scale = rng.uniform(0.01, 0.02, (EXPERTS, rows, blocks) if block else (EXPERTS, rows))
        packed = (EXPERTS, rows, -(-blocks * bits // 8)) if block else (EXPERTS, rows * bits // 8)
        bias = numbers(net, rows, EXPERTS, rows)
        parts = [net.const(w, np.uint8), net.const(scale * 16 / 2**bits, np.float32), bias]
        return parts, net.const(rng.integers(0, 256, packed), np.uint8) if zero else ""

    (first, zero_1), (second, zero_2) = layer(wide, WIDTH), layer(WIDTH, units)
    rest = ["", "", "", zero_1, zero_2] if zero else []
    how = {"activation_type": kind, "k": 2, "expert_weight_bits": bits}
    how |= {"block_size": block} if block else {}
    how |= {"swiglu_fusion": 1} if kind == "swiglu" else {"normalize_routing_weights": int(zero)}
    y = net.ms("QMoE", *given(net), *first, *second, *rest, **how)
    return Case(f"bits{bits}_{block}_{zero}_{kind}".lower(), net.model(y))


def cases() -> Iterator[Case]:
    for at, kind in enumerate(KINDS):
        yield mixed(kind, 1 + at % 2, at % 3 == 0)
    yield mixed("swiglu", 3, True, swiglu_limit=0.5, activation_alpha=1.7, activation_beta=1.0)
    for zero in (False, True):
        yield quantised(4, 0, zero, "relu")
        yield quantised(4, 32, zero, "swiglu")
        yield quantised(8, 0, zero, "silu")


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("experts"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"k": 5}, "k is 5 of 4 experts"),
        ({"use_sparse_mixer": 1}, "use_sparse_mixer 1; supported: 0"),
        ({"activation_type": "mish"}, "activation_type mish; supported"),
        ({"swiglu_fusion": 2}, "swiglu_fusion 2; supported: 1"),
    ],
)
def test_other_forms_are_refused(more: dict[str, Any], said: str) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(mixed("swiglu", 1, False).model)
    (node,) = (n for n in model.graph.node if n.op_type == "MoE")
    kept = [a for a in node.attribute if a.name not in more]
    del node.attribute[:]
    node.attribute.extend([*kept, *(onnx.helper.make_attribute(*pair) for pair in more.items())])
    with pytest.raises(MlfError, match=said):
        import_model(model, "m", "m", {})
