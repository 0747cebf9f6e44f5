"""Every measured figure of every page has a source, and a new one without a source fails.

`page_figures.txt` has a line for each section that has figures: what prints them, what tests them,
or where in the sources they stand; and the figures of its prose, so that one that is added or
changed is noticed. `MLFTOOL_WRITE_PAGES=1` writes the figures; a source only a person knows.

Blocks of code are not read here: tests/architecture/test_pages_run.py has those.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from shared import REPO

LEDGER = Path(__file__).with_name("page_figures.txt")
UNITS = (
    r"%|KiB|KB|MiB|MB|GB|B\b|bytes|quanta|million|instructions?|seconds?|minutes?|hours?|s\b|ms\b"
    r"|us\b|times\b|cases|models?|lines|dB|cycles|processors|networks|executions|mutants|samples"
)
# A number with its thousands apart, one with a fraction, one before a unit.
FIGURE = re.compile(
    r"(?<![\w.,/-])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+(?![.\d])(?!\w)|\d+(?=\s(?:"
    + UNITS
    + ")))"
)
UNKNOWN = "?"


@dataclass(frozen=True)
class Section:
    """Of a page: the figures of its prose, and whether tables or lists of its own have some."""

    page: str
    title: str
    prose: tuple[str, ...]
    source: str = UNKNOWN

    @property
    def key(self) -> tuple[str, str]:
        return self.page, self.title

    @property
    def line(self) -> str:
        return " | ".join((self.page, self.title, self.source, " ".join(self.prose))).rstrip()


def pages() -> list[Path]:
    return [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]


def sections() -> Iterator[Section]:
    """Those with a figure in prose or in a table."""
    for page in pages():
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        found: dict[str, list[tuple[bool, str]]] = {}
        title = "top"
        for line in text.splitlines():
            if line.startswith("#"):
                title = line.lstrip("# ")
            if line.startswith("    "):
                continue
            plain = re.sub(r"`[^`]*`", "", line)
            in_table = line.startswith("|")
            for figure in FIGURE.findall(plain):
                found.setdefault(title, []).append((in_table, figure))
        for title, figures in found.items():
            prose = tuple(figure for in_table, figure in figures if not in_table)
            yield Section(str(page.relative_to(REPO)), title.replace("|", "/"), prose)


def ledger() -> dict[tuple[str, str], Section]:
    read = {}
    for line in LEDGER.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            page, title, source, *prose = (part.strip() for part in line.split(" | "))
            one = Section(page, title, tuple(" ".join(prose).split()), source.removesuffix(" |"))
            read[one.key] = one
    return read


def test_each_figure_has_a_source() -> None:
    known, found = ledger(), list(sections())
    if os.environ.get("MLFTOOL_WRITE_PAGES"):
        head = [x for x in LEDGER.read_text().splitlines() if x.startswith("#")]
        new = [replace(s, source=known[s.key].source) if s.key in known else s for s in found]
        LEDGER.write_text("\n".join([*head, *(s.line for s in new)]) + "\n", encoding="utf-8")
        known = ledger()
    missing = [s.key for s in found if s.key not in known or known[s.key].source == UNKNOWN]
    assert missing == [], "sections with figures that nothing prints, tests or defines"
    assert {s.key for s in found} == set(known), "sections that have no figures"
    changed = {s.key: (known[s.key].prose, s.prose) for s in found if known[s.key].prose != s.prose}
    assert changed == {}, "print them again by their source, then MLFTOOL_WRITE_PAGES=1"


def spellings(figure: str) -> Iterator[str]:
    """How code may have a number."""
    plain = figure.replace(",", "")
    yield from (plain, figure.replace(",", "_"))
    if plain.isdigit():
        value = int(plain)
        shift = (value & -value).bit_length() - 1
        yield from (
            f"{value >> shift} << {shift}",
            f"{value // 1024} << 10",
            f"{value // 1024} * 1024",
        )


WORDS = ("test", "tool", "command", "code", "once")


@pytest.mark.parametrize("section", ledger().values(), ids=lambda s: f"{s.page}-{s.title}"[:60])
def test_sources_are_there(section: Section) -> None:
    """`test FILE` and `tool FILE` name the page, `command` is a script that exists, `code FILE` has
    the figures, `once` says when and of what: it cannot be printed again."""
    kind, _, rest = section.source.partition(" ")
    assert kind in WORDS, section.source
    if kind == "once":
        assert len(rest) > 10
        return
    for word in rest.split(", "):
        if kind == "command":
            script = re.match(
                r"python3? (?:-m )?([\w./]+)|(tools/\w+)|(mlftool \w+)|MLF\w+ (\S+)", word
            )
            assert script, word
            name = script[1] or script[2] or ""
            path = REPO / (name if "/" in name else name.replace(".", "/") + ".py")
            if name and not name.startswith("benchmarks/"):  # no input of tests under Bazel
                assert path.exists() or path.parent.is_dir(), word
            continue
        text = (REPO / word).read_text(encoding="utf-8")
        if kind in ("test", "tool"):
            stem = section.page.rpartition("/")[2].removesuffix(".md")
            assert stem in text, f"{word} does not name {section.page}"
    if kind == "code":
        texts = "\n".join((REPO / w).read_text(encoding="utf-8") for w in rest.split(", "))
        absent = [f for f in section.prose if not any(x in texts for x in spellings(f))]
        assert absent == [], section.source


def test_figures_are_found() -> None:
    """The pattern knows figures from versions, codes and names."""
    text = "Takes 1,024 bytes or 12 KiB, 3.5 times; not 1.2.3, MLF0123, v2.0, int8, figure 7."
    assert FIGURE.findall(text) == ["1,024", "12", "3.5"]
