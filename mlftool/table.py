"""Tables of typed cells, as text, as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from mlftool.errors import one_line
from mlftool.frozen import frozen
from mlftool.width import INDENT, columns, folded


class Percent(float):
    """A share: 0.25 is shown as 25.0 %."""


class Ratio(float):
    """Shown with two digits after the point."""


class Decibels(float):
    """Shown with one digit after the point; 200 and more mean that nothing differs."""


class Signed(int):
    """A change: 12 is shown as +12."""


class Growth(float):
    """A change as a share: 0.25 is shown as +25.0 %."""


# A slash is of a path, and no link with "//".
_PLAIN = re.compile(r"(?:(?!//|www\.)[\w ./:,+%=>()-])*")

Cell = str | int | float | None


@frozen
class Table:
    """`rows` have a cell for each of `heads`; `last` is the line that sums them up, if there is
    one. A column of text goes to the left, one of numbers to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    last: tuple[Cell, ...] = ()

    @property
    def lines(self) -> tuple[tuple[Cell, ...], ...]:
        return (*self.rows, self.last) if self.last else self.rows


def without(table: Table, head: str) -> Table:
    """The table without one of its columns."""
    k = table.heads.index(head)
    rows = tuple((*row[:k], *row[k + 1 :]) for row in table.rows)
    last = (*table.last[:k], *table.last[k + 1 :])
    return Table((*table.heads[:k], *table.heads[k + 1 :]), rows, last)


def shown(cell: Cell) -> str:
    """A cell for people. What is not known is a dash; what rounds to zero has no sign."""
    if cell is None:
        return "-"
    if isinstance(cell, Growth):
        return f"{100 * cell:+z,.1f} %"
    if isinstance(cell, Percent):
        return f"{100 * cell:z.1f} %"
    if isinstance(cell, Decibels):
        return "exact" if cell >= 200 else f"{cell:z.1f}"
    if isinstance(cell, float):
        return f"{cell:z.2f}"
    if isinstance(cell, Signed):
        return f"{int(cell):+,}"
    return one_line(cell) if isinstance(cell, str) else f"{cell:,}"


def text(table: Table) -> str:
    """Columns of spaces, nothing cut, a line above the sum. Where a terminal is narrower, each line
    of the table takes several: as many columns as fit, the next ones below them."""
    left = _left(table)
    texts = [table.heads, *(tuple(map(shown, line)) for line in table.lines)]
    widths = [max(len(line[k]) for line in texts) for k in range(len(table.heads))]
    if 0 < columns() < sum(widths) + 2 * (len(widths) - 1):
        return "\n".join(_in_lines(table, texts, widths, left))
    made = [_padded(line, widths, left) for line in texts]
    if table.last:
        made.insert(-1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in made)


def _in_lines(
    table: Table, texts: Sequence[Sequence[str]], widths: Sequence[int], left: Sequence[bool]
) -> Iterator[str]:
    """The table for a terminal that is narrower than it."""
    for number, line in enumerate(texts):
        if table.last and number == len(texts) - 1:
            yield "-" * columns()
        for start, group in _groups(widths):
            cells = _padded(
                [line[k] for k in group], [widths[k] for k in group], [left[k] for k in group]
            )
            if cells.strip():
                yield folded((start + cells).rstrip())


def _groups(widths: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """The columns that share a line, and what it begins with."""
    start, group, used = "", [0], widths[0]
    for k in range(1, len(widths)):
        if used + 2 + widths[k] <= columns():
            group, used = [*group, k], used + 2 + widths[k]
        else:
            yield start, group
            start, group, used = " " * INDENT, [k], INDENT + widths[k]
    yield start, group


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown, which also reads well in a terminal."""
    left = _left(table)
    texts = [table.heads, *(tuple(map(_escaped, line)) for line in table.lines)]
    widths = [max(3, *(len(line[k]) for line in texts)) for k in range(len(table.heads))]
    dashes = [
        "-" * w if is_left else "-" * (w - 1) + ":" for w, is_left in zip(widths, left, strict=True)
    ]
    texts.insert(1, tuple(dashes))
    return "\n".join(f"| {_padded(line, widths, left, ' | ')} |" for line in texts)


def comma_separated(table: Table) -> str:
    """RFC 4180, without the sum: numbers as they are, empty where nothing is known."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(table.heads)
    for row in table.rows:
        writer.writerow(
            [
                "" if c is None else _no_formula(one_line(c)) if isinstance(c, str) else c
                for c in row
            ]
        )
    return out.getvalue()


def _no_formula(text: str) -> str:
    """A spreadsheet computes what begins like a formula; after an apostrophe it is text."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _escaped(cell: Cell) -> str:
    """A text that has more than letters, digits and what names have is code: so it is no HTML, no
    link, and nobody's name."""
    text = shown(cell)
    if isinstance(cell, str) and not _PLAIN.fullmatch(text):
        text = "`" + text.replace("`", "'") + "`"
    return text.replace("|", "\\|")


def _left(table: Table) -> list[bool]:
    """Which columns hold text."""
    return [any(isinstance(row[k], str) for row in table.rows) for k in range(len(table.heads))]


def _padded(
    line: Sequence[str], widths: Sequence[int], left: Sequence[bool], between: str = "  "
) -> str:
    cells = zip(line, widths, left, strict=True)
    return between.join(c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in cells)
