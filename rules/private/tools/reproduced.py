"""`reproduced FIRST.tar SECOND.tar LABEL`: whether two archives are the same bytes."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

from mlftool.errors import CHECK_FAILED


def differences(first: Path, second: Path) -> list[str]:
    """Which files differ, or what else does; none if the bytes are equal."""
    if first.read_bytes() == second.read_bytes():
        return []
    one, other = _members(first), _members(second)
    names = sorted(n for n in {*one, *other} if one.get(n) != other.get(n))
    return names or ["the order or the headers of the files"]


def _members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() if file else b"" for name, file in files.items()}


def main(arguments: list[str]) -> int:
    """Prints what differs; fails if anything does."""
    first, second, label = arguments
    found = differences(Path(first), Path(second))
    if not found:
        print(f"{label}: {Path(first).stat().st_size:,} bytes, the same both times")
        return 0
    print(f"{label}: compiled twice, these differ:", *found, sep="\n  ", file=sys.stderr)
    return CHECK_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
