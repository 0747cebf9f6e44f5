"""Each fault that a campaign found stays mended (found.py)."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from found import AGREES, FOUND, RUNS
from mutant_judge import Accepted, disagreements
from mutant_seeds import found_models

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

MODELS = {name: made.SerializeToString() for name, made in found_models()}


@pytest.mark.filterwarnings("error")
def test_found_and_mended(tmp_path: Path) -> None:
    """All in one program, as mutants are."""
    names = [n for n, (what, _, _) in FOUND.items() if what in (AGREES, RUNS)]
    accepted = [Accepted(k, MODELS[name]) for k, name in enumerate(names)]
    lines = [*disagreements(accepted, tmp_path, lambda _: None)]
    text = {AGREES: "agreed", RUNS: "refused_by_ort"}
    want = [f"{text[FOUND[name][0]]} {k}" for k, name in enumerate(names)]
    assert sorted(lines) == sorted(want), names


@pytest.mark.parametrize("name", [n for n, (w, _, _) in FOUND.items() if w not in (AGREES, RUNS)])
def test_found_and_refused(name: str) -> None:
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(onnx.load_model_from_string(MODELS[name])))
    assert FOUND[name][0] in str(refused.value)
    assert refused.value.exit_code == 2
