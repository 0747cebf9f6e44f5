"""What can go wrong between a host and a board, by the names that TVM gave it."""

from __future__ import annotations

from mlftool.errors import ENVIRONMENT, MlfError, Problem

CODE = "MLF0615"


class MicroError(MlfError, RuntimeError):
    """The base of the others."""

    def __init__(self, text: str, help: str = "") -> None:
        super().__init__(Problem(CODE, text, help=help), ENVIRONMENT)


class TransportClosedError(MicroError):
    """The line to the board is closed: its program ended, or its plug was pulled."""


class IoTimeoutError(MicroError):
    """A read or a write did not finish in its time."""


class MicroSessionTimeoutError(MicroError):
    """A board did not start a session, or did not answer a call, in its time."""


class SessionTerminatedError(MicroError):
    """The board ended the session: it was reset, as a rule."""


class RPCError(MicroError):
    """The board refused a call; the message is the board's."""
