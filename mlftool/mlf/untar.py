"""A tar reader for untrusted archives: plain files with plain names, or the reason for refusal.

Only what MLF producers write is read: USTAR headers, regular files and folders, and the PAX records
about times and owners that Python's tarfile adds for TVM. Whatever means different things to
different readers (links, devices, sparse files, records that rename or resize, hidden bytes) is
refused, and no size beyond the file's own is trusted.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mlftool.files import opened

BLOCK = 512
MAX_MEMBERS = 20_000
MAX_BYTES = 2**31 - 1
MAX_PADDING = 1 << 20  # zeros after the end; GNU tar's largest usual record
MAX_NAME = 1024
# Path grammar of members: no empty, dot or dot-dot parts, no backslash, no control characters.
_PART = r"(?!\.{1,2}(?:/|$))[^/\\\x00-\x1f\x7f]+"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_HARMLESS = {"mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment"}
_KINDS = {
    b"1": "hard link",
    b"2": "symbolic link",
    b"3": "character device",
    b"4": "block device",
    b"6": "pipe",
    b"7": "contiguous file",
    b"D": "directory dump",
    b"K": "GNU long link name",
    b"L": "GNU long name",
    b"M": "continued file",
    b"S": "sparse file",
    b"g": "global PAX header",
}


class TarError(Exception):
    """Why an archive is refused; `member` says where, if that is known."""

    def __init__(self, message: str, member: str = "") -> None:
        super().__init__(message)
        self.member = member


def read_members(path: Path) -> dict[str, bytes]:
    """All files of the archive by name. Raises TarError, or OSError if it cannot be read."""
    with opened(path) as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise TarError("is not a file")
        if info.st_size > MAX_BYTES:
            raise TarError(f"has {info.st_size} bytes; expected at most {MAX_BYTES}")
        files: dict[str, bytes] = {}
        taken: dict[str, bool] = {}  # folded name -> whether it is a file
        for name, data in _members(file, info.st_size):
            _claim(name, data is not None, taken)
            if data is not None:
                files[name] = data
        return files


def read_folder(path: Path) -> dict[str, bytes]:
    """The files of an unpacked archive, by the same rules. Raises TarError or OSError.

    Hidden files and folders are left alone: they are the version control's or the desktop's.
    """
    files: dict[str, bytes] = {}
    taken: dict[str, bool] = {}
    size = 0
    for folder, folders, names in os.walk(path, onerror=_raise):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for entry in sorted((*folders, *(n for n in names if not n.startswith(".")))):
            at = Path(folder, entry)
            name, info = at.relative_to(path).as_posix(), at.lstat()
            if stat.S_ISDIR(info.st_mode):
                continue
            if not stat.S_ISREG(info.st_mode):
                raise TarError("is a link or no file; expected a regular file", name)
            size += info.st_size
            if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
                raise TarError("has no plain name", name)
            if size > MAX_BYTES or len(files) >= MAX_MEMBERS:
                raise TarError(f"has more than {MAX_MEMBERS} files or {MAX_BYTES} bytes")
            _claim(name, True, taken)
            files[name] = at.read_bytes()
    return files


def _raise(error: OSError) -> None:
    raise error


def _claim(name: str, is_file: bool, taken: dict[str, bool]) -> None:
    """No two members may meet in one place, on file systems that fold case either."""
    key = unicodedata.normalize("NFC", name).casefold()
    parents = [key[: m.start()] for m in re.finditer("/", key)]
    if any(taken.get(p) for p in parents) or (key in taken and (is_file or taken[key])):
        raise TarError("occurs twice in the archive, or differs from another only in case", name)
    taken[key] = is_file
    for parent in parents:
        taken[parent] = False


def _members(file: BinaryIO, size: int) -> Iterator[tuple[str, bytes | None]]:
    """(name, content) of each file, (name, None) of each folder but the root."""
    count, described = 0, False
    while True:
        header = file.read(BLOCK)
        if len(header) < BLOCK:
            raise TarError("is cut short: its end is missing" if count else "is not a tar archive")
        if header == bytes(BLOCK):
            _check_end(file, size, described, count)
            return
        count += 1
        if count > MAX_MEMBERS:
            raise TarError(f"has more than {MAX_MEMBERS} members")
        name, kind, length = _header(header, first=count == 1)
        if length > size - file.tell():
            raise TarError(f"claims {length} bytes; {size - file.tell()} are left", name)
        if kind == b"x":
            _check_records(file.read(length), name)
            described = True
        elif kind in (b"0", b"\0"):
            yield _plain(name), file.read(length)
            described = False
        elif kind == b"5" and not length:
            if name not in (".", "./"):
                yield _plain(name.removesuffix("/")), None
            described = False
        else:
            what = _KINDS.get(kind, f"member of type {kind!r}")
            raise TarError(f"is a {what}; expected a plain file or folder", name)
        padding = file.read(-length % BLOCK)
        if len(padding) < -length % BLOCK or padding.strip(b"\0"):
            raise TarError("is not padded with zeros", name)


def _header(block: bytes, first: bool) -> tuple[str, bytes, int]:
    """Name, type and size, having checked the header's form and sum."""
    if block[257:263] not in (b"ustar\0", b"ustar "):
        raise TarError("is not an uncompressed tar archive" if first else "has a damaged header")
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345]:
        name = _text(block[345:500]) + "/" + name
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    if _number(block[148:156], name) != total:
        raise TarError("has a header whose checksum is wrong", name)
    return name, block[156:157], _number(block[124:136], name)


def _text(field: bytes) -> str:
    text, _, rest = field.partition(b"\0")
    if rest.strip(b"\0"):
        raise TarError("has bytes after a NUL in its name", text.decode("utf-8", "replace"))
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise TarError("has a name that is not UTF-8", text.decode("utf-8", "replace")) from None


def _number(field: bytes, name: str) -> int:
    digits = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]{1,11}", digits):
        raise TarError("has a number in its header that is not octal", name)
    return int(digits, 8)


def _plain(name: str) -> str:
    plain = name.removeprefix("./")
    if not _NAME.fullmatch(plain) or len(plain) > MAX_NAME:
        raise TarError("has a name that leaves the archive or is not plain", name)
    return plain


def _check_records(data: bytes, name: str) -> None:
    """PAX records may tell times and owners, which we ignore, and nothing else."""
    while data:
        match = re.match(rb"([1-9][0-9]{0,6}) ([^=\n]+)=", data)
        length = int(match[1]) if match else 0
        if match is None or not match.end() < length <= len(data) or data[length - 1] != 10:
            raise TarError("has malformed PAX records", name)
        key = match[2].decode("utf-8", "replace")
        if key not in _HARMLESS:
            raise TarError(f"has a PAX record '{key[:100]}', which could change its meaning", name)
        data = data[length:]


def _check_end(file: BinaryIO, size: int, described: bool, count: int) -> None:
    rest = size - file.tell()
    if not count:
        raise TarError("is empty")
    if described:
        raise TarError("ends after a PAX header that describes nothing")
    if rest < BLOCK:
        raise TarError("is cut short: its end is missing")
    if rest > MAX_PADDING or file.read(rest).strip(b"\0"):
        raise TarError("has data after its end")
