"""What can go wrong between a host and a board, by the names that TVM gave it."""

from __future__ import annotations

from mlftool.errors import BAD_INPUT, ENVIRONMENT, MlfError, Problem

CODE = "MLF0615"


class MicroError(MlfError, RuntimeError):
    """The base of the others."""

    exit_code = ENVIRONMENT

    def __init__(self, text: str, help: str = "") -> None:
        super().__init__(Problem(CODE, text, help=help), type(self).exit_code)


class MicroInputError(MicroError):
    """What was asked for does not exist."""

    exit_code = BAD_INPUT


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
