"""Which kernels the compiler has, read from its sources, to see which of them networks chose."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import mlftool

ROOMS = ("ops", "targets/kernels")
NAME = re.compile(r"[a-z]+[0-9]*\.[a-z_0-9]+")
FAMILIES = (
    *("portable", "dsp", "narrow", "helium", "tiles", "avx2", "vector", "interleaved", "fpu"),
    "turned",
)


@cache
def named() -> frozenset[str]:
    """Names of kernels that the sources have as a text."""
    root = Path(mlftool.__file__).parent
    files = (p for room in ROOMS for p in (root / room).glob("*.py"))
    return frozenset(n for p in files for n in _names(p) if n.partition(".")[0] in FAMILIES)


def _names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and NAME.fullmatch(value):
            yield value


@cache
def templates() -> frozenset[str]:
    root = Path(mlftool.__file__).parent
    return frozenset(p.name for room in ROOMS for p in (root / room).glob("*.c.j2"))


def missing(chosen: Iterable[tuple[str, str]]) -> list[str]:
    """Kernels and templates that none of (name, template) has. A prefix, as of a core without an
    FPU, and a suffix, as of a tile's size, are the same kernel."""
    have_names, have_templates = zip(*chosen, strict=True) if chosen else ((), ())
    seen = {n for name in have_names for n in named() if n in name}
    return sorted({*(named() - seen), *(templates() - {Path(t).name for t in have_templates})})
