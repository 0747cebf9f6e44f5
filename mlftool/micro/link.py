"""One session with a board: the handshake, calls and their answers."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mlftool.micro.errors import (
    IoTimeoutError,
    MicroError,
    MicroSessionTimeoutError,
    SessionTerminatedError,
)
from mlftool.micro.framing import (
    NOP,
    VERSION,
    Damage,
    Message,
    Type,
    Unframer,
    message_frame,
    next_nonce,
)
from mlftool.micro.transport import CHUNK, Transport, TransportTimeouts

log = logging.getLogger("mlftool.micro")


@dataclass
class Link:
    """The host's side of a line. A call that fails by time ends the session: an answer that comes
    later is not taken for another call's.

    Limits are of silence: they begin anew while bytes of a frame come, and while the board takes
    those that are on the line. Noise and the board's log do not count, so one that never answers is
    noticed however much it says."""

    transport: Transport
    timeouts: TransportTimeouts
    nonce: int
    on_log: Callable[[str], None]
    session: int = 0  # 0: none

    def __post_init__(self) -> None:
        self._unframer = Unframer()
        self._messages: deque[Message] = deque()
        self._dropped: list[Damage] = []

    def start(self) -> None:
        """A new session. Raises MicroSessionTimeoutError, or what the transport raises."""
        limit, retry = (
            self.timeouts.session_start_timeout_sec,
            self.timeouts.session_start_retry_timeout_sec,
        )
        begin = time.monotonic()
        self._dropped.clear()
        while True:
            self._send_start(limit or None)
            left = limit - (time.monotonic() - begin) if limit else None
            wait = retry if retry and (left is None or retry < left) else left
            if self._await_reply(wait):
                return
            if limit and time.monotonic() - begin >= limit:
                text = f"session start handshake failed after {limit:g} s"
                raise MicroSessionTimeoutError(text + self._damage())

    def _send_start(self, limit: float | None) -> None:
        self.session = 0
        self.nonce = next_nonce(self.nonce)
        # What is on its way is of an older session; only bytes of a frame that is cut off stay.
        self._messages.clear()
        self._write(
            NOP
            + message_frame(Message(0, Type.TERMINATE, b""))
            + message_frame(Message(self.nonce, Type.INIT, bytes([VERSION]))),
            limit,
        )

    def _await_reply(self, wait: float | None) -> bool:
        while (message := self._receive(wait)) is not None:
            if message.type == Type.REPLY and message.session & 0xFF == self.nonce:
                if message.body != bytes([VERSION]):
                    found = message.body[0] if message.body else "none"
                    text = f"the board speaks version {found} of the session's protocol"
                    raise MicroError(f"{text}, and this host version {VERSION}")
                self.session = message.session
                return True
        return False

    def send(self, name: str, packet: bytes) -> None:
        """Sends a request: one write. `name` is what an error calls it."""
        if not self.session:
            raise SessionTerminatedError(f"{name}: there is no session with the board")
        limit = self.timeouts.session_established_timeout_sec or None
        try:
            self._write(message_frame(Message(self.session, Type.NORMAL, packet)), limit)
        except IoTimeoutError as error:
            self.session = 0
            text = f"{name}: {error.problems[0].message}"
            raise MicroSessionTimeoutError(text) from None
        except MicroError as error:
            self.session = 0
            raise type(error)(f"{name}: {error.problems[0].message}") from None

    def call(self, name: str, packet: bytes) -> bytes:
        """Sends a request and returns its answer."""
        self._dropped.clear()
        self.send(name, packet)
        limit = self.timeouts.session_established_timeout_sec
        try:
            while (message := self._receive(limit or None)) is not None:
                if message.type == Type.NORMAL and message.session == self.session:
                    return message.body
                if message.type == Type.TERMINATE:
                    self.session = 0
                    text = f"{name}: remote device terminated connection; was it reset?"
                    raise SessionTerminatedError(text)
        except SessionTerminatedError:
            raise
        except MicroError as error:
            self.session = 0
            raise type(error)(f"{name}: {error.problems[0].message}") from None
        self.session = 0
        text = f"{name}: failed to read reply message after timeout {limit:g} s"
        raise MicroSessionTimeoutError(text + self._damage())

    def _damage(self) -> str:
        if not self._dropped:
            return ""
        return f"; {len(self._dropped)} damaged frames, the last: {self._dropped[-1].value}"

    def _write(self, data: bytes, limit: float | None) -> None:
        self.transport.write(data, limit)

    def _receive(self, limit: float | None) -> Message | None:
        """The next message that is no log; None after `limit` seconds in which neither a frame has
        begun or gone on nor the board has taken a byte."""
        begin = last = time.monotonic()
        untaken = self.transport.untaken()
        while True:
            while self._messages:
                message = self._messages.popleft()
                if message.type != Type.LOG:
                    return message
                if message.session in (0, self.session):
                    self.on_log(message.body.decode("utf-8", "replace"))
            since = last if self._unframer.within else begin
            data = self._read(None if limit is None else since + limit - time.monotonic())
            if not data:
                before, untaken = untaken, self.transport.untaken()
                if untaken >= before:
                    return None
                begin = last = time.monotonic()
                continue
            last = time.monotonic()
            for found in self._unframer.feed(data):
                if isinstance(found, Damage):
                    self._dropped.append(found)
                elif len(found) >= 3:
                    number = int.from_bytes(found[:2], "little")
                    self._messages.append(Message(number, found[2], found[3:]))

    def _read(self, left: float | None) -> bytes:
        """What is there; nothing if `left` seconds are over before there is anything."""
        if left is not None and left <= 0:
            return b""
        try:
            return self.transport.read(CHUNK, left)
        except IoTimeoutError:
            return b""
