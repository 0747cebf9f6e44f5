"""The blocks of the pages: fenced ones, and lines that are indented by four spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shared import REPO

FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^\n|\A)((?:    .*\n|\n(?=    ))+)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """`kind` is the language of a fence, or `indented`."""

    page: str
    kind: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, which says which block of the page is meant."""
        return self.text.strip().splitlines()[0].strip()


def pages() -> Iterator[Path]:
    """What people read. The external workspace is a repository of its own."""
    for folder in (".", "docs", "crt", "examples", "examples/*"):
        found = sorted(REPO.glob(f"{folder}/*.md"))
        yield from (p for p in found if p.parent.name != "external_workspace")


def blocks(page: Path) -> Iterator[Block]:
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(REPO))
    for kind, inner in FENCED.findall(text):
        yield Block(name, kind.split(" ")[0], inner)
    rest = FENCED.sub("", text)
    # Lines within an item of a list are indented, too.
    rest = re.sub(r"^(?:- |\d+\. ).*\n(?:(?:  .*)?\n)*?(?=\S)", "", rest, flags=re.MULTILINE)
    for inner in INDENTED.findall(rest):
        yield Block(name, "indented", inner)
