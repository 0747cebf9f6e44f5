"""`checksums.sha256`: what `sha256sum -c` checks in an unpacked archive, and we on loading one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from mlftool.errors import MlfError, Problem

MEMBER = "checksums.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n\\]+)")


def encode(files: Mapping[str, bytes]) -> bytes:
    """A line for each file but this one, sorted by name.

    Names that sha256sum would have to escape are left out: no file of ours has one.
    """
    names = [n for n in sorted(files) if n != MEMBER and not re.search(r"[\n\\]", n)]
    return "".join(f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in names).encode()


def verify(files: Mapping[str, bytes], file: str = "") -> None:
    """Raises MlfError naming every file that is missing or not what was written.

    Archives without the list, such as TVM's, pass.
    """
    if MEMBER not in files:
        return
    problems = []
    for line in files[MEMBER].decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(Problem("MLF0507", f"has a line that is none: {line[:100]}", file))
        elif match[2] not in files:
            problems.append(Problem("MLF0507", "is missing", file, path=match[2]))
        elif hashlib.sha256(files[match[2]]).hexdigest() != match[1]:
            text = "is not what was written: its SHA-256 differs from checksums.sha256"
            problems.append(Problem("MLF0507", text, file, path=match[2]))
    if problems:
        raise MlfError(problems)
