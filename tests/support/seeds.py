"""Seeds of random tests: new ones for each state of the compiler, and the same for the same state,
so that a result of these tests holds until the compiler changes, as Bazel's cache takes it to.

Templates and the headers of generated C have no part in it: after an edit of one, what does not
read it need not run again (reads.py), and the seed is as little chosen for that edit as a new one.
"""

from __future__ import annotations

import os
import zlib
from functools import cache
from pathlib import Path

SUFFIXES = (".py", ".c", ".h")
TEMPLATES = Path("crt/include/mlf")  # the headers of generated C


@cache
def seed_of_sources() -> int:
    """MLFTOOL_RANDOM_SEED where it is set, else a checksum of the compiler and the C runtime
    without templates."""
    if given := os.environ.get("MLFTOOL_RANDOM_SEED"):
        return int(given)
    checksum = 0
    for path in sources():
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum


def sources() -> list[Path]:
    import mlftool  # a test of the tests may have none

    package = Path(mlftool.__file__).parent
    found = [*package.rglob("*"), *(package.parent / "crt").rglob("*")]
    headers = package.parent / TEMPLATES
    return sorted(p for p in found if p.suffix in SUFFIXES and not p.is_relative_to(headers))
