"""Which tests of a target each of Bazel's shards runs: every test exactly one, as Bazel's test
encyclopedia asks of whoever honours TEST_TOTAL_SHARDS.

Tests that share what a wide fixture makes stay together, or each shard would make it again. A
fixture that asks `selected` makes only what the tests of its shard look at, so its tests may part.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Shard:
    """One of `total`, counted from 0."""

    index: int
    total: int

    def __post_init__(self) -> None:
        assert 0 <= self.index < self.total, self


def of_environment() -> Shard | None:
    """The shard that Bazel asks for, if it asks for one; Bazel is told that it was heard. What a
    test starts, such as another pytest, is not asked."""
    total = os.environ.pop("TEST_TOTAL_SHARDS", "")
    index, status = (os.environ.pop(f"TEST_SHARD_{n}", "") for n in ("INDEX", "STATUS_FILE"))
    if not total:
        return None
    if status:
        Path(status).touch()
    return Shard(int(index), int(total))


def dealt(units: Sequence[Hashable], total: int) -> list[int]:
    """For each test, by the unit it belongs to, its shard. Neighbours, which cost alike, part."""
    order = {unit: k for k, unit in enumerate(dict.fromkeys(units))}
    return [order[unit] % total for unit in units]


def unit_of(item: pytest.Item) -> Hashable:
    """What `item` cannot be parted from: tests of one file that share a wide fixture, and share
    its parameter where it has some; the case that they select; or tests marked `together`, with
    the same values of the parameters that the mark names, whose results a cache keeps."""
    wide, together = _wide_fixtures(item), _together(item)
    if not wide and "selected" in getattr(item, "fixturenames", ()):
        return item.path, *sorted(names_of(item))
    if not wide and together:
        return item.path, together
    if not wide:
        return item.nodeid
    call = getattr(item, "callspec", None)
    indices = call.indices if call else {}
    return item.path, *(indices[name] for name in wide if name in indices)


def _together(item: pytest.Item) -> tuple[Hashable, ...]:
    """The values of the parameters that a mark `together` names, where the test has all of them."""
    mark, call = item.get_closest_marker("together"), getattr(item, "callspec", None)
    if mark is None or call is None or not call.params.keys() >= {*mark.args}:
        return ()
    return tuple(call.params[name] for name in mark.args)


def _wide_fixtures(item: pytest.Item) -> list[str]:
    """Fixtures of ours that the test asks for and that last longer than it, without those that make
    only what is `selected`."""
    info: Any = getattr(item, "_fixtureinfo")  # noqa: B009
    closure: dict[str, Any] = {}
    todo = list(info.argnames)
    while todo:
        name = todo.pop()
        if name not in closure and name in info.name2fixturedefs:
            closure[name] = info.name2fixturedefs[name][-1]
            todo += closure[name].argnames
    return sorted(
        name
        for name, fixture in closure.items()
        if fixture.scope != "function"
        and name != "selected"
        and Path(fixture.func.__code__.co_filename).is_relative_to(TESTS)
        and not ("selected" in fixture.argnames and names_of(item))
    )


def names_of(item: pytest.Item) -> set[str]:
    """The names among the parameters of a test."""
    call = getattr(item, "callspec", None)
    values = call.params.values() if call else ()
    return {n for v in values if isinstance(n := getattr(v, "name", v), str)}
