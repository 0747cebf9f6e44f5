"""Reading files that a user names, without waiting for what may never come."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

MODEL_SUFFIXES = (".onnx", ".tflite")  # of what is a model, and no archive or manifest
MANIFEST_SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 2**31 - 1  # protobuf's own limit on one message, and so on a part of a model
INSIDE = "keep the data file in the model's own folder, or declare it (--data FILE)"


def opened(path: Path, follow: bool = True) -> BinaryIO:
    """A file for reading, without waiting for the other end of a pipe. Raises OSError, also for a
    folder, which leaves no descriptor behind as os.fdopen would, and ValueError for no file name.
    """
    more = os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | more))


def read_plain(path: Path, most: int = -1) -> bytes:
    """The bytes of a regular file, `most` of them if that is not negative.

    Raises OSError, whose `strerror` says what is wrong, for anything else: a pipe, a device or a
    socket could make a reader wait for ever, or give bytes without end.
    """
    try:
        file = opened(path)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "It is a device, pipe or socket", str(path))
        return file.read(most)


def default_cache() -> Path:
    """$MLFTOOL_CACHE, else mlftool/ in the user's cache directory; where that cannot be written, as
    in a container with a home of somebody else, a private folder among temporary files."""
    given = os.environ.get("MLFTOOL_CACHE")
    if given:
        return Path(given).absolute()  # compilers run in folders of their own
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    kept = Path(base) / "mlftool"
    return kept if _is_ours(kept) else _temporary() or kept


def _is_ours(folder: Path) -> bool:
    """Whether a folder, made if need be, can be written; a user without a home has none."""
    try:
        if not folder.is_absolute():
            return False
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _temporary() -> Path | None:
    """A folder that no other user can change: programs in it are run. None if it cannot be had."""
    import tempfile  # which most commands never need

    folder = Path(tempfile.gettempdir()) / f"mlftool-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if ours and not found.st_mode & 0o077 else None


class FileError(Exception):
    """Why a model's file was not read; `code` and `help` are for the message."""

    def __init__(self, message: str, code: str = "MLF0201", help: str = "") -> None:
        super().__init__(message)
        self.code, self.help = code, help


def read_file(path: Path, follow: bool = True) -> bytes:
    """All bytes of a model's file. Raises FileError for anything but a regular file, without
    waiting for it; unless `follow`, also for a link."""
    try:
        with opened(path, follow) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                what = "a folder" if stat.S_ISDIR(info.st_mode) else "a device, pipe or socket"
                raise FileError(f"cannot be read: it is {what}, expected a file")
            if not follow and info.st_nlink > 1:
                raise FileError(
                    "has several hard links", help="copy the file, or declare it (--data FILE)"
                )
            if info.st_size > MAX_BYTES:
                raise FileError(
                    f"the file has {info.st_size} bytes, expected at most {MAX_BYTES}",
                    "MLF0202",
                    "keep the weights in external data files",
                )
            return file.read(info.st_size)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            remedy = "replace the link by the file, or declare it (--data FILE)"
            raise FileError("is a symbolic link", help=remedy) from None
        remedy = "" if follow else INSIDE
        raise FileError(f"cannot be read: {error.strerror or error}", help=remedy) from None
    except ValueError:  # a NUL in the path
        raise FileError("cannot be read: not a file name") from None
