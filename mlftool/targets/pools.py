"""Memory pools of the user's own, as they are written. Imports nothing heavy, for manifests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.sizes import SIZE, bytes_of

EXPECTED = "NAME=BYTES or NAME=BYTES@SECTION, such as dtcm=64KiB@.dtcm"
PATTERN = rf"([a-z][a-z0-9_]{{0,31}})=({SIZE})(?:@([A-Za-z0-9_.$]{{1,64}}))?"


@frozen
class Pool:
    """A memory of the user's: the module's own array in `section`, or, if that is empty, what the
    application hands over at each call."""

    name: str
    size_bytes: int  # of the memory; a plan uses at most as many
    section: str = ""


def parse_pools(texts: Iterable[str]) -> tuple[Pool, ...]:
    """Pools, fastest first. Raises MlfError naming each that cannot be one."""
    pools: list[Pool] = []
    problems = []
    for text in texts:
        found = re.fullmatch(PATTERN, text)
        if not found:
            problems.append(Problem("MLF0400", f"memory pool '{text}', expected {EXPECTED}"))
        elif found[1] in [p.name for p in pools]:
            problems.append(
                Problem("MLF0400", f"memory pool '{found[1]}' is given twice; rename one")
            )
        else:
            pools.append(Pool(found[1], bytes_of(found[2]) or 0, found[3] or ""))
    if problems:
        raise MlfError(problems)
    return tuple(pools)
