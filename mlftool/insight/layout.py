"""Where the boxes of a drawing stand: in rows, below all that they read, and rows in columns."""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.frozen import frozen

ROWS = 40  # in a column
SWEEPS = 4


@frozen
class Place:
    """A box's column, its row in that column, and how far right it is in that row, from 0."""

    column: int
    row: int
    across: int


def rows(reads: Sequence[Sequence[int]]) -> list[int]:
    """The row of each box: below all that it reads. Boxes come after those that they read."""
    found: list[int] = []
    for read in reads:
        found.append(max((found[k] + 1 for k in read), default=0))
    return found


def placed(reads: Sequence[Sequence[int]], in_column: int = ROWS) -> list[Place]:
    """A place for each box; `reads` has the boxes that it reads, which come before it. Columns have
    at least so many rows."""
    of = _lowered(reads, rows(reads))
    lines: list[list[int]] = [[] for _ in range(max(of, default=-1) + 1)]
    for box, row in enumerate(of):
        lines[row].append(box)
    _untangle(lines, reads)
    most = max(in_column, -(-len(lines) // 20))
    return [
        Place(of[box] // most, of[box] % most, lines[of[box]].index(box))
        for box in range(len(reads))
    ]


def _lowered(reads: Sequence[Sequence[int]], of: list[int]) -> list[int]:
    """Boxes that read nothing stand right above the first that reads them."""
    first: dict[int, int] = {}
    for box, read in enumerate(reads):
        for k in read:
            first[k] = min(first.get(k, of[box]), of[box])
    return [
        max(row, first.get(box, row + 1) - 1) if not reads[box] else row
        for box, row in enumerate(of)
    ]


def _untangle(lines: list[list[int]], reads: Sequence[Sequence[int]]) -> None:
    """Orders each row by where the neighbours above, then below, stand in theirs."""
    readers: list[list[int]] = [[] for _ in reads]
    for box, read in enumerate(reads):
        for k in read:
            readers[k].append(box)
    at = {box: float(k) for line in lines for k, box in enumerate(line)}
    for sweep in range(SWEEPS):
        beside = readers if sweep % 2 else reads
        for line in reversed(lines) if sweep % 2 else lines:
            middle = {b: _mean([at[k] for k in beside[b]], at[b]) for b in line}
            # Of equals, what reads something stands first: constants are beside the data's way.
            line.sort(key=lambda b: (middle[b], not reads[b], b))
            at |= {box: float(k) for k, box in enumerate(line)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
