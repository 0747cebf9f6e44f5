"""Steps of a layer in bands that are one loop in C: they differ in where they read and write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.ops.patches import ROWS, Layer, Move, Run, Step


def runs(steps: Sequence[Step]) -> Iterator[Run]:
    """How many steps differ by the same distances, the first of them and the next."""
    k = 0
    while k < len(steps):
        n = 1
        while k + n < len(steps) and _follows(steps[k : k + n + 1]):
            n += 1
        yield n, steps[k], steps[k + 1] if n > 1 else steps[k]
        k += n


def _follows(steps: Sequence[Step]) -> bool:
    """Whether the last step continues the run of those before it."""
    if not _alike(steps[-2], steps[-1]):
        return False
    return len(steps) == 2 or _distances(*steps[-2:]) == _distances(*steps[-3:-1])


def _alike(a: Step, b: Step) -> bool:
    return len(a) == len(b) and all(
        m == n if isinstance(m, Move) or isinstance(n, Move) else _same_call(m, n)
        for m, n in zip(a, b, strict=True)
    )


def _same_call(a: Layer, b: Layer) -> bool:
    return a.key == b.key and all(
        m[0] == n[0] and (m[0] != ROWS or m == n)
        for m, n in zip(a.arguments, b.arguments, strict=True)
    )


def _distances(a: Step, b: Step) -> list[int]:
    calls = [(m, n) for m, n in zip(a, b, strict=True) if isinstance(m, Layer)]
    return [
        q[1] - p[1]
        for m, n in calls
        if isinstance(n, Layer)
        for p, q in zip(m.arguments, n.arguments, strict=True)
    ]
