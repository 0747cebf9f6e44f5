"""Seeds of random tests: new ones for each state of the compiler, and the same for the same state,
so that a result of these tests holds until the compiler changes, as Bazel's cache takes it to."""

from __future__ import annotations

import os
import zlib
from functools import cache
from pathlib import Path

SUFFIXES = (".py", ".j2")


@cache
def seed_of_sources() -> int:
    """MLFTOOL_RANDOM_SEED where it is set, else a checksum of mlftool's sources."""
    if given := os.environ.get("MLFTOOL_RANDOM_SEED"):
        return int(given)
    import mlftool  # a test of the tests may have none

    package, checksum = Path(mlftool.__file__).parent, 0
    for path in sorted(p for p in package.rglob("*") if p.suffix in SUFFIXES):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum
