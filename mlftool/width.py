"""How wide lines for people may be. Commands set a terminal's width; elsewhere lines are as long as
what they say, so that pipes, logs and pages have each thing in one line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

INDENT = 4  # of what follows the first line
LEAST = 20  # columns; a narrower terminal breaks lines by itself

_WHOLE: Any = {"break_long_words": False, "break_on_hyphens": False}

_COLUMNS: ContextVar[int] = ContextVar("columns", default=0)


def columns() -> int:
    """The most letters of a line; 0 if it may be as long as it likes."""
    return _COLUMNS.get()


@contextmanager
def within(most: int) -> Iterator[None]:
    """Lines have at most so many letters within, but for words that are longer."""
    token = _COLUMNS.set(max(LEAST, most) if most else 0)
    try:
        yield
    finally:
        _COLUMNS.reset(token)


def how_many(count: int, noun: str) -> str:
    """`1 layer`, `2,000 layers`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def filled(text: str, most: int = 0) -> str:
    """Paragraphs, each a line of `text`, in lines that fit the terminal and have at most `most`
    letters, if given. No line is indented."""
    widths = [n for n in (columns(), most) if n]
    if not widths:
        return text
    return "\n".join(textwrap.fill(line, min(widths), **_WHOLE) for line in text.split("\n"))


def folded(text: str) -> str:
    """The text with its long lines broken between words. What follows is indented further than the
    line was. Words stay whole: a path or a name can still be copied."""
    most = columns()
    if not most:
        return text
    return "\n".join(part for line in text.split("\n") for part in _parts(line, most))


def _parts(line: str, most: int) -> list[str]:
    if len(line) <= most:
        return [line]
    start = line[: len(line) - len(line.lstrip())]
    after = " " * min(len(start) + INDENT, most // 2)
    return textwrap.wrap(
        line,
        most,
        subsequent_indent=after,
        replace_whitespace=False,
        **_WHOLE,
    )
