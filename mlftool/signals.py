"""Exceptions that the handlers of signals raise, where Python would lose them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
