"""The generated C of one small model per kernel family, word for word, so that a change of a
template is read as what it does to the C. `pytest tests/codegen --update-golden` rewrites them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from batch import compile_model
from families import FAMILIES

GOLDEN = Path(__file__).parent / "golden"
NEUTRAL = re.compile(r" [*/] 1\b(?![.x])| [-+] 0\b(?![.xu])")  # operators without effect
ADDRESS = re.compile(r"\(workspace \+ \d+\)")  # an address in the plan: all read alike


@pytest.mark.parametrize("family", FAMILIES)
def test_golden(family: str, request: pytest.FixtureRequest) -> None:
    target, make = FAMILIES[family]
    text = compile_model(make(), family, target).sources.lib1
    file = GOLDEN / f"{family}.c"
    if request.config.getoption("--update-golden"):
        file.write_text(text)
    assert text == file.read_text(), f"{file.name} differs; see --update-golden"


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.c")), ids=lambda file: file.stem)
def test_no_operator_is_without_effect(file: Path) -> None:
    lines = ADDRESS.sub("", file.read_text()).split("\n")
    assert [line for line in lines if not line.startswith("//") and NEUTRAL.search(line)] == []


def test_every_golden_file_has_a_model() -> None:
    assert {f.stem for f in GOLDEN.glob("*.c")} == set(FAMILIES)
