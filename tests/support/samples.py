"""Samples of the tests, for runs that have twenty minutes.

`sampled(n)` on a test that checks one promise for many cores, networks or forms makes a table of
its cases; on a file, one of its tests without a mark of their own. `sampled(n, table="name")` joins
tests of several files in one table. Where MLFTOOL_TEST_CASES is
`sampled`, as Bazel sets it, a run takes one in n of a table. Which ones depends on the sources of
mlftool and crt/ (seeds.py): the same until one of them changes, and others then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
from seeds import seed_of_sources


def wanted() -> bool:
    return os.environ.get("MLFTOOL_TEST_CASES", "all") == "sampled"


def left_out(items: Sequence[pytest.Item], units: Sequence[Hashable]) -> set[pytest.Item]:
    """What a sample of `items` does not contain. Cases of one unit are in it together."""
    marked = [
        (item, _part(item, unit), mark)
        for item, unit in zip(items, units, strict=True)
        if (mark := item.get_closest_marker("sampled"))
    ]
    tables: dict[Hashable, dict[Hashable, int]] = {}
    for item, part, mark in marked:
        table = mark.kwargs.get("table") or _table(item, part)
        tables.setdefault(table, {})[part] = mark.args[0]
    chosen = {part for table in tables.values() for part in _chosen(table)}
    return {item for item, part, _ in marked if part not in chosen}


def with_others(items: Sequence[pytest.Item]) -> set[Path]:
    """Files of which the sample depends on other files."""
    marked = ((item, item.get_closest_marker("sampled")) for item in items)
    return {item.path for item, mark in marked if mark and "table" in mark.kwargs}


def _part(item: pytest.Item, unit: Hashable) -> Hashable:
    """The unit, or the case alone if what it shares with all of its file has no parameters."""
    return unit if isinstance(unit, tuple) and len(unit) > 1 else item.nodeid


def _table(item: pytest.Item, part: Hashable) -> Hashable:
    file, *names = item.nodeid.partition("[")[0].split("::")
    own = isinstance(part, str) and any(mark.name == "sampled" for mark in item.own_markers)
    return (file, *names) if own else file


def _chosen(table: dict[Hashable, int]) -> list[Hashable]:
    """One in n, and one at least: those with the least digests."""
    seed, of = seed_of_sources(), max(table.values())

    def digest(numbered: tuple[int, Hashable]) -> bytes:
        return hashlib.sha256(f"{seed} {numbered[0]}".encode()).digest()

    ranked = sorted(enumerate(table), key=digest)
    return [part for _, part in ranked[: -(-len(table) // of)]]
