"""Markdown tables that also read well in a terminal, and their places in pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is left-aligned, the others are numbers."""
    widths = [max(len(line[k]) for line in (heads, *rows)) for k in range(len(heads))]
    dashes = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return "\n".join(_line(cells, widths) for cells in (heads, dashes, *rows))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    texts = [first[0].ljust(first[1]), *(cell.rjust(w) for cell, w in rest)]
    return "| " + " | ".join(texts) + " |"


def refresh(page: Path, tables: Mapping[str, str]) -> None:
    """Replaces what stands between `<!-- table NAME -->` and `<!-- end -->` for each table."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        mark = f"<!-- table {name} -->"
        place = re.compile(f"{re.escape(mark)}\n.*?<!-- end -->", re.S)
        if place.search(text):
            text = place.sub(lambda _, m=mark, t=table: f"{m}\n{t}\n<!-- end -->", text)
    page.write_text(text, encoding="utf-8")
