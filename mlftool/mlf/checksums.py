"""`checksums.sha256`: what `sha256sum -c` checks in an unpacked archive, and we on loading one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from mlftool.errors import MlfError, Problem

MEMBER = "checksums.sha256"
_ESCAPED = re.compile(r"[\n\\]")
_REMEDY = "make the archive again; edit sources after mlftool extract, not inside the archive"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n\\]+)")


def encode(files: Mapping[str, bytes]) -> bytes:
    """A line for each file but this one, sorted by name.

    Names that sha256sum would have to escape are left out: no file of ours has one.
    """
    names = [n for n in sorted(files) if n != MEMBER and not _ESCAPED.search(n)]
    return "".join(f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in names).encode()


def verify(files: Mapping[str, bytes], file: str = "") -> None:
    """Raises MlfError naming every file that is missing, changed or new.

    Archives without the list, such as TVM's, pass.
    """
    if MEMBER not in files:
        return
    problems, listed = [], {MEMBER}
    for line in files[MEMBER].decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(_changed(f"has a malformed line: {line[:100]}", file, MEMBER))
        elif match[2] not in files:
            problems.append(_changed("is missing", file, match[2]))
        elif hashlib.sha256(files[match[2]]).hexdigest() != match[1]:
            text = "was changed: its SHA-256 differs from checksums.sha256"
            problems.append(_changed(text, file, match[2]))
        listed.add(match[2] if match else "")
    for name in files if not problems else ():
        if name not in listed and not _ESCAPED.search(name):
            problems.append(_changed("is not in checksums.sha256", file, name))
    if problems:
        raise MlfError(problems)


def _changed(text: str, file: str, member: str) -> Problem:
    return Problem("MLF0507", text, file, path=member, help=_REMEDY)
