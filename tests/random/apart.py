"""Work in a process of its own: onnxruntime aborts on some models that it should refuse."""

from __future__ import annotations

import faulthandler
import os
import pickle
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def apart(work: Callable[[], T]) -> T | None:
    """What `work` returns, which pickle takes and is not None; None if its process ended before.
    Raises RuntimeError where it raises an exception."""
    told, tell = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(told)
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            data = pickle.dumps(_said(work))
            with os.fdopen(tell, "wb") as pipe:
                pipe.write(data)
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        data = pipe.read()
    os.waitpid(process, 0)
    if not data:
        return None
    made, error = pickle.loads(data)
    if error is not None:
        raise RuntimeError(error)
    return made


def _said(work: Callable[[], T]) -> tuple[T | None, str | None]:
    """What it returns, or the exception that it raises, in words."""
    try:
        return work(), None
    except Exception:
        return None, traceback.format_exc()
