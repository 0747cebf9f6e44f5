"""C is put together, not searched: what may change in a text is a hole (mlftool/ir/holes.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared import REPO

ROOMS = ("codegen", "ops", "targets", "tune")
SEARCHES = {"compile", "escape", "findall", "finditer", "fullmatch", "match", "search", "sub"}
# Whose texts come from a model or a user, or are names in the making: never C.
OTHER_TEXTS = {
    "codegen/kernels.py": "operators' names, of which a symbol is made",
    "codegen/names.py": "names from a model",
    "codegen/bytecode.py": "a step's name, for a comment",
    "codegen/relay/__init__.py": "attributes' names in Relay",
    "codegen/relay/writer.py": "the indentation of Relay",
    "ops/einsum.py": "an Einsum's equation",
    "targets/pools.py": "an option",
    "targets/strings.py": "an option",
}


def searches(tree: ast.AST) -> Iterator[int]:
    """The lines that search a text by a pattern, or replace a part of one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of = node.func.value
        by_pattern = isinstance(of, ast.Name) and of.id == "re" and node.func.attr in SEARCHES
        # str.replace has two arguments; dataclasses.replace is no attribute here, and Graph.replace
        # takes names.
        replaced = node.func.attr == "replace" and len(node.args) >= 2
        if by_pattern or replaced:
            yield node.lineno


def files(pattern: str) -> dict[str, Path]:
    package = REPO / "mlftool"
    found = (p for room in ROOMS for p in sorted((package / room).rglob(pattern)))
    return {p.relative_to(package).as_posix(): p for p in found}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import re\nre.compile('x').sub('y', c)", [2]),
        ("a = c.replace('@', 'x')", [1]),
        ("graph = g.replace(inputs=())\nb = replace(a, c=1)", []),
    ],
)
def test_what_a_search_is(text: str, lines: list[int]) -> None:
    assert list(searches(ast.parse(text))) == lines


def test_no_source_searches_c() -> None:
    found = {name: list(searches(ast.parse(p.read_text()))) for name, p in files("*.py").items()}
    assert {name: at for name, at in found.items() if at and name not in OTHER_TEXTS} == {}
    assert [name for name in OTHER_TEXTS if not found[name]] == []  # none that is not needed


def test_no_template_searches_c() -> None:
    templates = {name: p.read_text() for name, p in files("*.j2").items()}
    assert len(templates) > 50
    words = (".replace(", "| replace(")
    found = [(name, word) for name, text in templates.items() for word in words if word in text]
    assert found == []
