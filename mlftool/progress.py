"""Long steps report their progress here to listeners: commands listen, others need not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Listener = Callable[[str], AbstractContextManager[None]]


def _nobody(what: str) -> AbstractContextManager[None]:
    return nullcontext()


_LISTENER: ContextVar[Listener] = ContextVar("listener", default=_nobody)


def step(what: str) -> AbstractContextManager[None]:
    """For `with`: `what` is being done, such as "running kws on a board"; steps may be nested."""
    return _LISTENER.get()(what)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Steps within are told to `listener`."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
