"""The generated C of one small model per kernel family, word for word, so that a change of a
template is read as what it does to the C. `pytest tests/codegen --update-golden` rewrites them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from batch import compile_model
from families import FAMILIES

GOLDEN = Path(__file__).parent / "golden"
# What a template with numbers leaves and a person would not write.
LEFT = {
    "an operator without effect": r" [*/%] 1\b(?![.x])| [-+] 0\b(?![.xu])| (<<|>>) 0\b",
    "a neutral number before its operator": r"(?<![\w.])(1 \* |0 [+*/] )",
    "a loop that runs once": r"for \([^;]* = 0; \w+ < 1;",
    "a condition that is known": r"\b(if|while) \(\d+( [<>=!]+ \d+)?\)",
    "brackets around one name": r"(?:[=+*(\[,] )\(\w+\)(?= [-+*/;])|\(\(\w+\)\)",
}
LINES = {
    "a line at the margin": r"^(?!static|extern|MLF|typedef|\w+_t\b|float|int|void)\w.*;$",
    "an empty line after a brace": r"\{\n\n",
    "an empty line before a brace": r"\n\n *\}$",
    "space at the end of a line": r"[ \t]$",
}
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
def test_nothing_is_left_of_the_template(file: Path) -> None:
    text = re.sub(r" *//.*", "", ADDRESS.sub("", file.read_text()))
    patterns = (LEFT | LINES).items()
    found = [(what, m[0]) for what, p in patterns for m in re.finditer(p, text, re.MULTILINE)]
    assert found == []


def test_every_golden_file_has_a_model() -> None:
    assert {f.stem for f in GOLDEN.glob("*.c")} == set(FAMILIES)
