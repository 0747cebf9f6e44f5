"""The wire as the reference describes it, bit by bit: it shares nothing with mlftool.micro."""

from __future__ import annotations

from dataclasses import dataclass

# Conversations of the reference, in hexadecimal: who sends what. The host's nonce is 43, the
# device's 67.
TERMINATE = "ff fd 03 00 00 00 00 00 02 66 77"
INIT = "ff fd 04 00 00 00 43 00 00 01 6b 2c"
REPLY = "ff fd 04 00 00 00 43 67 01 01 a1 01"
LOG_HI = "ff fd 05 00 00 00 00 00 03 68 69 1a 8f"
GET_SYSTEM_LIB = """ff fd 30 00 00 00 43 67 10 25 00 00 00 00 00 00 00 09 00 00 00
    01 00 00 00 0b 00 00 00 11 00 00 00 00 00 00 00
    72 75 6e 74 69 6d 65 2e 53 79 73 74 65 6d 4c 69 62 d8 6d"""
SYSTEM_LIB_FUNCTION = """ff fd 1f 00 00 00 43 67 10 14 00 00 00 00 00 00 00 04 00 00 00
    01 00 00 00 03 00 00 00 00 80 02 80 00 00 00 00 b3 67"""
CALL_SYSTEM_LIB = """ff fd 1b 00 00 00 43 67 10 10 00 00 00 00 00 00 00 03 00 00 00
    00 80 02 80 00 00 00 00 00 00 00 00 fc 39"""
SYSTEM_LIB = """ff fd 2b 00 00 00 43 67 10 20 00 00 00 00 00 00 00 04 00 00 00
    02 00 00 00 00 00 00 00 03 00 00 00 09 00 00 00 00 00 00 00 00 80 00 00 00 00 00 00 74 ee"""
COPY_TO = """ff fd 4b 00 00 00 43 67 10 40 00 00 00 00 00 00 00 07 00 00 00
    40 10 00 20 00 00 00 00 01 00 00 00 00 00 00 00 02 00 00 00 00 08 01 00
    01 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    04 00 00 00 00 00 00 00 ff ff fe fd 00 64 ce"""
VOID = """ff fd 17 00 00 00 43 67 10 0c 00 00 00 00 00 00 00 04 00 00 00
    01 00 00 00 04 00 00 00 0e c0"""
COPY_FROM = """ff fd 47 00 00 00 43 67 10 3c 00 00 00 00 00 00 00 06 00 00 00
    40 10 00 20 00 00 00 00 01 00 00 00 00 00 00 00 02 00 00 00 00 08 01 00
    01 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    04 00 00 00 00 00 00 00 1c b6"""
COPY_ACK = """ff fd 13 00 00 00 43 67 10 08 00 00 00 00 00 00 00 08 00 00 00
    ff ff fe fd 00 85 3a"""
SHUTDOWN = "ff fd 0f 00 00 00 43 67 10 04 00 00 00 00 00 00 00 01 00 00 00 c9 a3"
ALL = (
    *(TERMINATE, INIT, REPLY, LOG_HI, GET_SYSTEM_LIB, SYSTEM_LIB_FUNCTION, CALL_SYSTEM_LIB),
    *(SYSTEM_LIB, COPY_TO, VOID, COPY_FROM, COPY_ACK, SHUTDOWN),
)


def hexadecimal(text: str) -> bytes:
    return bytes.fromhex(text)


def crc(data: bytes) -> int:
    """CRC-16 with 0x1021 from 0xffff, one bit at a time."""
    register = 0xFFFF
    for byte in data:
        for bit in range(7, -1, -1):
            top = (register >> 15) ^ (byte >> bit & 1)
            register = (register << 1) & 0xFFFF
            if top:
                register ^= 0x1021
    return register


def little(number: int, count: int) -> bytes:
    return bytes(number >> (8 * i) & 0xFF for i in range(count))


def escape(data: bytes) -> bytes:
    out = bytearray()
    for byte in data:
        out.append(byte)
        if byte == 0xFF:
            out.append(byte)
    return bytes(out)


def encode(session: int, kind: int, body: bytes) -> bytes:
    """A frame."""
    payload = little(session, 2) + bytes([kind]) + body
    head = b"\xff\xfd" + escape(little(len(payload), 4)) + escape(payload)
    return head + escape(little(crc(head), 2))


@dataclass(frozen=True)
class Said:
    session: int
    kind: int
    body: bytes


def decode(data: bytes) -> list[Said]:
    """All frames of bytes in which nothing else is but single fe. Raises ValueError."""
    said = []
    at = 0
    while at < len(data):
        if data[at] == 0xFE:
            at += 1
            continue
        start = at
        if data[at : at + 2] != b"\xff\xfd":
            raise ValueError(f"no frame at {at}: {data[at : at + 20].hex(' ')}")
        at += 2

        def take(count: int) -> bytes:
            nonlocal at
            taken = bytearray()
            while len(taken) < count:
                taken.append(data[at])
                if data[at] == 0xFF:
                    at += 1
                    if data[at] != 0xFF:
                        raise ValueError("an ff that is not doubled")
                at += 1
            return bytes(taken)

        payload = take(int.from_bytes(take(4), "little"))
        found = crc(data[start:at])
        if take(2) != little(found, 2):
            raise ValueError("a wrong checksum")
        said.append(Said(int.from_bytes(payload[:2], "little"), payload[2], payload[3:]))
    return said
