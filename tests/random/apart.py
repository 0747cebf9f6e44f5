"""Work in a process of its own: onnxruntime aborts on some models that it should refuse."""

from __future__ import annotations

import faulthandler
import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, TypeVar

T = TypeVar("T")


def apart(work: Callable[[], T]) -> T | None:
    """What `work` returns, which pickle takes and is not None; None if its process ended before.
    Raises RuntimeError where it raises an exception."""
    return each_apart([work])[0]


def each_apart(works: Sequence[Callable[[], T]]) -> list[T | None]:
    """The same of several, in one process, as forking it takes longer than most work: what comes
    after one that ended the process is done in another."""
    made: list[T | None] = []
    while len(made) < len(works):
        found = _in_a_process(works[len(made) :])
        made += found
        if len(made) < len(works):
            made.append(None)
    return made


def _in_a_process(works: Sequence[Callable[[], T]]) -> list[T]:
    """What a new process did of `works`, all or the first of them."""
    told, tell = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(told)
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            with os.fdopen(tell, "wb") as pipe:
                for work in works:
                    pipe.write(pickle.dumps(_said(work)))
                    pipe.flush()
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        said = _read(pipe)
    os.waitpid(process, 0)
    for _, error in said:
        if error is not None:
            raise RuntimeError(error)
    return [made for made, _ in said]


def _read(pipe: BinaryIO) -> list[tuple[Any, str | None]]:
    """What came before the end, which may be in the middle of something."""
    said = []
    try:
        while True:
            said.append(pickle.load(pipe))
    except (EOFError, pickle.UnpicklingError):
        return said


def _said(work: Callable[[], T]) -> tuple[T | None, str | None]:
    """What it returns, or the exception that it raises, in words."""
    try:
        return work(), None
    except Exception:
        return None, traceback.format_exc()
