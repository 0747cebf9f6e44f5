"""Certificates of graphs, bytecode and packed C: they hold, and faults in them are found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import onnx.parser
import pytest
from executor_faults import GRAPH_FAULTS, PACKED_FAULTS, VM_FAULTS, Fault
from shared import REPO

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.proof import agree

MODEL = REPO / "examples" / "models" / "gesture_int8.onnx"
SEEDS = 4
FORMS: dict[str, tuple[dict[str, Any], Sequence[Fault]]] = {
    "graph": ({"executor": "graph"}, GRAPH_FAULTS),
    "graph_linked": ({"executor": "graph", "link_params": True}, GRAPH_FAULTS[1:]),
    "vm": ({"executor": "vm"}, VM_FAULTS),
    "packed": ({"interface_api": "packed"}, PACKED_FAULTS),
}


def files_of(module: Module) -> dict[str, bytes]:
    sources = module.sources
    return {**{n: t.encode() for n, t in sources.files.items()}, **sources.data}


@pytest.mark.parametrize("form", FORMS)
def test_faults_are_found(form: str) -> None:
    options, faults = FORMS[form]
    module = compile_module(ModuleSpec(MODEL, "m", **options))
    proof = module.proof
    assert not list(agree.differences(proof.layouts, files_of(module), proof.entry))
    for fault in faults:
        for seed in range(SEEDS):
            files = files_of(module)
            fault(random.Random(seed), files)
            try:
                said = list(agree.differences(proof.layouts, files, proof.entry))
            except MlfError as error:  # of the graph's own reader
                said = [str(error)]
            assert said, f"{fault.__name__}, seed {seed}"


def test_an_entry_that_is_not_there() -> None:
    module = compile_module(ModuleSpec(MODEL, "m", executor="vm"))
    (said,) = agree.differences(module.proof.layouts, {}, module.proof.entry)
    assert said == "has no file 'executor-config/vm/m.vm'"


def test_bytecode_of_no_calls() -> None:
    """A network whose tensors have no elements computes nothing, and that is proven, too."""
    head = '<ir_version: 9, opset_import: ["": 17]>'
    model = onnx.parser.parse_model(f"{head} g (float[0,3] x) => (float[0,3] y) {{ y = Relu (x) }}")
    proof = compile_module(ModuleSpec(model, "m", executor="vm")).proof
    assert proof.entry == "executor-config/vm/m.vm"
    assert not proof.layouts[0].steps
