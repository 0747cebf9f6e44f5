"""What lands on disk: an archive's files in memory, written and read as tar without trusting it."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlftool.errors import MlfError, Problem

MAX_MEMBERS = 20_000
MAX_BYTES = 2**31 - 1
LATEST = 8**11 - 1  # the last second a tar header can hold
# Path grammar of members: no empty, dot or dot-dot parts, no backslash, no control characters.
_PART = r"(?!\.{1,2}(?:/|$))[^/\\\x00-\x1f\x7f]+"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")


@dataclass(frozen=True)
class Bundle:
    """An archive's files by name, such as "codegen/host/src/kws_lib0.c"."""

    files: Mapping[str, bytes]

    def text(self, name: str) -> str:
        return self.files[name].decode("utf-8")


def epoch() -> int:
    """The one time an archive carries: SOURCE_DATE_EPOCH, else the start of 1980."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return 315532800
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > LATEST:
        raise MlfError(
            Problem(
                "MLF0401",
                f"SOURCE_DATE_EPOCH is '{text[:40]}'; expected a number of seconds since 1970, "
                f"at most {LATEST}",
            )
        )
    return int(text)


def tar_bytes(bundle: Bundle) -> bytes:
    """The archive as an uncompressed tar: a pure function of the files."""
    names = {"": None}
    for name in bundle.files:
        for at in range(len(name)):
            if name[at] == "/":
                names[name[:at]] = None
    entries = sorted({*names, *bundle.files})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in entries:
            info = tarfile.TarInfo(f"./{name}" if name else ".")
            info.mtime, info.uname, info.gname = epoch(), "root", "root"
            data = bundle.files.get(name)
            if data is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def write_tar(bundle: Bundle, path: Path) -> None:
    """Write the archive; `path` holds the old file or the whole new one, never a part."""
    write_atomically(path, tar_bytes(bundle))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by a complete file with `data`. Raises MlfError if it cannot be written."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    except OSError as error:
        raise MlfError(
            Problem("MLF0402", f"cannot be written: {error.strerror}", str(path))
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        raise MlfError(
            Problem("MLF0402", f"cannot be written: {error.strerror}", str(path))
        ) from None
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def read_tar(path: Path) -> Bundle:
    """The archive in `path`. Raises MlfError for anything but plain files under plain names."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _error(path, f"has {size} bytes; expected at most {MAX_BYTES}")
        data = path.read_bytes()
    except OSError as error:
        raise MlfError(Problem("MLF0501", f"cannot be read: {error.strerror}", str(path))) from None
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for count, member in enumerate(tar):
                if count >= MAX_MEMBERS:
                    raise _error(path, f"has more than {MAX_MEMBERS} members")
                _take(path, tar, member, files)
    except tarfile.TarError as error:
        raise _error(path, f"is not an uncompressed tar archive: {error}") from None
    if "metadata.json" not in files:
        raise _error(path, "holds no metadata.json, so it is no Model Library Format archive")
    return Bundle(files)


def _take(
    path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, files: dict[str, bytes]
) -> None:
    """Add one member, if it is an ordinary file."""
    name = member.name.removeprefix("./")
    if member.isdir() and name in (".", ""):
        return
    if not _NAME.fullmatch(name) or len(name) > 1024:
        raise _error(path, "has a name that leaves the archive or is not plain", member.name)
    if member.isdir():
        return
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise _error(path, "is not a plain file or folder", member.name)
    if name in files:
        raise _error(path, "stands twice in the archive", member.name)
    handle = tar.extractfile(member)
    content = handle.read() if handle else b""
    if len(content) != member.size:
        raise _error(path, f"is cut short: {len(content)} of {member.size} bytes", member.name)
    files[name] = content


def _error(path: Path, message: str, member: str = "") -> MlfError:
    where = f"member '{member[:200]}'" if member else ""
    return MlfError(Problem("MLF0502", message, str(path), path=where))
