"""Blocks of the workspace: how long each lives, how large it is, and which may share bytes."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.frozen import frozen

ALIGNMENT_BYTES = 16  # TVM's workspace-byte-alignment


@frozen
class Interval:
    """A block of bytes that must stay in place from `first` to `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int


Distances = tuple[int, int]  # least and most bytes from an output's start to an input's
Overlaps = Mapping[tuple[str, str], Distances]  # (input's block, output's block)


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def may_overlap(overlaps: Overlaps, a: str, a_at: int, b: str, b_at: int) -> bool:
    """Whether two blocks that are alive together may share bytes when they start there."""
    if (a, b) in overlaps:
        least, most = overlaps[a, b]
        return least <= a_at - b_at <= most
    return (b, a) in overlaps and may_overlap(overlaps, b, b_at, a, a_at)
