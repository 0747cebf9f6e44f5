"""Frames on a line of bytes, and messages of sessions in them.

A frame is ff fd, the payload's length (u32), the payload and a CRC-16 of all that was sent before,
low bytes first; every ff after the start is doubled. A payload begins with a session's number (u16)
and the message's type (u8).
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Iterator
from enum import Enum, IntEnum

from mlftool.frozen import frozen

START = b"\xff\xfd"
NOP = b"\xfe"  # before the first frame: it ends an escape that the receiver may be left within
VERSION = 1  # of the session's protocol
MOST_PAYLOAD = 1 << 20  # bytes; a longer frame is damaged


class Type(IntEnum):
    INIT = 0x00
    REPLY = 0x01
    TERMINATE = 0x02
    LOG = 0x03
    NORMAL = 0x10


class Damage(Enum):
    """Why a frame was dropped."""

    SHORT = "it was cut short"
    ESCAPE = "an escape is not valid"
    LONG = "it is too long"
    CHECKSUM = "its checksum differs"


@frozen
class Message:
    session: int  # low byte: the starter's nonce; high byte: the other's
    type: int
    body: bytes


def frame(payload: bytes) -> bytes:
    """The bytes of one frame."""
    doubled = (struct.pack("<I", len(payload)) + payload).replace(b"\xff", b"\xff\xff")
    crc = binascii.crc_hqx(START + doubled, 0xFFFF)
    return START + doubled + struct.pack("<H", crc).replace(b"\xff", b"\xff\xff")


def message_frame(message: Message) -> bytes:
    return frame(struct.pack("<HB", message.session, message.type) + message.body)


def next_nonce(nonce: int) -> int:
    """The number after `nonce`, 1 to 255."""
    return (((nonce << 5 | nonce >> 5) + 1) & 0xFF) or 1


class _IncompleteError(Exception):
    pass


class _DamagedError(Exception):
    def __init__(self, damage: Damage, at: int) -> None:
        self.damage = damage
        self.at = at  # where reading goes on


class Unframer:
    """Takes frames out of bytes as they come."""

    def __init__(self, most: int = MOST_PAYLOAD) -> None:
        self.most = most
        self._bytes = bytearray()
        self._start = 0  # what is before is read

    def feed(self, data: bytes) -> Iterator[bytes | Damage]:
        """The payloads that are complete now, and what was dropped."""
        self._bytes += data
        while (found := self._next()) is not None:
            yield found
        del self._bytes[: self._start]
        self._start = 0

    @property
    def within(self) -> bool:
        """Whether a frame has begun that has not ended."""
        return self._bytes.startswith(START)

    def needed(self) -> int:
        """How many bytes surely come until the frame that has begun ends; 1 between frames. A line
        that returns no fewer bytes than it is asked for is asked for so many."""
        if not self.within:
            return 1
        try:
            head, at = self._take(2, 4)
        except (_IncompleteError, _DamagedError):
            return 1
        (length,) = struct.unpack("<I", head)
        left: int = min(length, self.most) + 2 - (len(self._bytes) - at)
        return max(1, left)

    def _next(self) -> bytes | Damage | None:
        at = self._bytes.find(START, self._start)
        if at < 0:  # noise, but for an ff that may begin the next frame
            self._start = len(self._bytes) - self._bytes.endswith(b"\xff")
            return None
        self._start = at
        try:
            payload, self._start = self._frame(at)
        except _IncompleteError:
            return None
        except _DamagedError as error:
            self._start = error.at
            return error.damage
        return payload

    def _frame(self, start: int) -> tuple[bytes, int]:
        head, at = self._take(start + 2, 4)
        (length,) = struct.unpack("<I", head)
        if length > self.most:
            raise _DamagedError(Damage.LONG, at)
        payload, at = self._take(at, length)
        crc = binascii.crc_hqx(self._bytes[start:at], 0xFFFF)
        sent, at = self._take(at, 2)
        if struct.unpack("<H", sent) != (crc,):
            raise _DamagedError(Damage.CHECKSUM, at)
        return bytes(payload), at

    def _take(self, at: int, count: int) -> tuple[bytearray, int]:
        """`count` bytes without their escapes, and where they end."""
        taken, data = bytearray(), self._bytes
        while count > 0:
            escape = data.find(0xFF, at, at + count)
            end = min(at + count, len(data)) if escape < 0 else escape
            taken += data[at:end]
            count -= end - at
            at = end
            if escape < 0:
                if count > 0:
                    raise _IncompleteError
                break
            if escape + 1 >= len(data):
                raise _IncompleteError
            kind = data[escape + 1]
            if kind == 0xFD:
                raise _DamagedError(Damage.SHORT, escape)
            if kind not in (0xFE, 0xFF):
                raise _DamagedError(Damage.ESCAPE, escape + 2)
            if kind == 0xFF:
                taken.append(0xFF)
                count -= 1
            at = escape + 2
        return taken, at
