"""Reading files that a user names, without waiting for what may never come."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MODEL_SUFFIXES = (".onnx", ".tflite")  # of what is a model, and no archive or manifest


def read_plain(path: Path, most: int = -1) -> bytes:
    """The bytes of a regular file, `most` of them if that is not negative.

    Raises OSError, whose `strerror` says what is wrong, for anything else: a pipe, a device or a
    socket could make a reader wait for ever, or give bytes without end.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "It is a device, pipe or socket", str(path))
        return file.read(most)
