"""Exceptions that the handlers of signals raise, where Python would lose them or crash."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NoReturn

Handler = Callable[[int, "FrameType | None"], object]

_IMPORT = "<frozen importlib._bootstrap>"
_AGAIN_S = 0.02
_MOST_TIMES = 250  # 5 s, for a program that runs all of its work inside an import


def outside_imports(handler: Handler) -> Handler:
    """The same handler, put off while a module is being imported.

    What it raises there would pass through native code that packages run when they are imported:
    some make another exception of it, and some end the process with a segmentation fault.
    """
    times = 0

    def put_off(number: int, frame: FrameType | None) -> None:
        nonlocal times
        if times < _MOST_TIMES and _is_importing(frame):
            times += 1
            # To the main thread, so that it also ends a call of the system that has begun by then.
            again = partial(signal.pthread_kill, threading.main_thread().ident or 0, number)
            timer = threading.Timer(_AGAIN_S, again)
            timer.daemon = True
            timer.start()
            return
        handler(number, frame)

    return put_off


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORT:
        frame = frame.f_back
    return frame is not None


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """What Ctrl-C does in Python."""
    raise KeyboardInterrupt


@contextmanager
def never_ignored(*kinds: type[BaseException]) -> Iterator[None]:
    """Raises exceptions of `kinds` again that a destructor, or a callback of the collector, kept.

    A handler runs wherever the program is. Python prints what is raised in a destructor as ignored,
    and goes on: a signal that asked for the end would be lost, and its traceback seen. Here nothing
    is printed, and a millisecond later the same exception is raised where the program is then. For
    the main thread, which alone runs handlers; it takes SIGALRM and its timer. May be nested.
    """
    kept: list[BaseException] = []
    printed = sys.unraisablehook

    def keep(ignored: sys.UnraisableHookArgs) -> None:
        if not isinstance(ignored.exc_value, kinds):
            printed(ignored)
            return
        kept.append(ignored.exc_value.with_traceback(None))
        signal.setitimer(signal.ITIMER_REAL, 0.001)

    def again(number: int, frame: FrameType | None) -> None:
        if kept:
            raise kept.pop()
        if callable(outer):
            outer(number, frame)

    outer = signal.signal(signal.SIGALRM, again)
    sys.unraisablehook = keep
    try:
        yield
    finally:
        if not callable(outer):  # else it may be the outer one's that runs
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = printed
        signal.signal(signal.SIGALRM, outer)
