"""What a reader of the pages meets: links that lead somewhere, lines that fit, plain words."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pages import FENCED, pages
from shared import REPO

PAGES = [page for page in pages() if page.name != "CHANGELOG.md"]
WIDTH = 120
# Idiom of another language; docs/style.md has what to write in its place.
FOREIGN = re.compile(
    r"\b(?:whoever|nobody|shall|(?:is|are) none|(?:lie|lies|beside|behind)|who wants to)\b", re.I
)


def prose(page: Path) -> list[str]:
    """Its lines without blocks and tables."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if not line.startswith(("    ", "|"))]


def anchors(page: Path) -> set[str]:
    """What a link to a part of the page may name: GitHub's form of headings, and ids."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    names = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return names | set(re.findall(r'<a\s+id="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPO)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = []
    for name, anchor in re.findall(r"\]\(([\w./-]*\.md|)(?:#([\w-]+))?\)", text):
        to = Path(os.path.normpath(page.parent / name)) if name else page
        if not to.is_file() or (anchor and anchor not in anchors(to)):
            missing.append((name, anchor))
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPO)))
def test_lines_of_prose_fit(page: Path) -> None:
    """A line without a space, such as a long link, may be longer."""
    lines = [line for line in prose(page) if not line.startswith(("  `", "* "))]  # lists of tests
    assert [x for x in lines if len(x) > WIDTH and " " in x.strip()[:WIDTH]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPO)))
def test_tables_have_whole_rows(page: Path) -> None:
    """As many columns in each row as in the first, and no row over two lines."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for table in re.findall(r"(?:^\|.*\n)+.*", text, re.MULTILINE):
        *rows, after = re.sub(r"(`+).+?\1|\\\|", "", table).split("\n")
        assert {row.count("|") for row in rows} == {rows[0].count("|")}, rows
        assert not after or after.startswith("<"), after


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPO)))
def test_words_are_plain(page: Path) -> None:
    if page.name == "style.md":  # shows both
        return
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    plain = re.sub(r"`[^`]*`|^    .*$", "", text, flags=re.MULTILINE)
    assert [line for line in plain.splitlines() if FOREIGN.search(line)] == []


def test_what_a_foreign_word_is() -> None:
    words = ("It lies there.", "a file beside it", "A file is none.", "Nobody reads it.")
    assert all(map(FOREIGN.search, words))
    assert not FOREIGN.search("None of the files is besides, earlier or relies on it.")
