"""Both sides say, byte for byte, what the reference's conversations say."""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path

import numpy as np
import pytest
import wire
from firmware import MODELS, SMALL, build

from mlftool.compile import ModuleSpec
from mlftool.micro import (
    MicroError,
    MicroSessionTimeoutError,
    RPCError,
    Session,
    SessionTerminatedError,
    Transport,
    TransportTimeouts,
)
from mlftool.micro.errors import IoTimeoutError
from mlftool.micro.framing import Damage, Unframer, frame, next_nonce
from mlftool.micro.link import Link
from mlftool.micro.packets import Tensor
from mlftool.micro.session import RemoteArray

SOON = TransportTimeouts(0.05, 0.2, 0.2)


class Scripted(Transport):
    """A device that answers the host's n-th write with the n-th of `answers`."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.written: list[bytes] = []
        self.waiting = b""
        self.is_closed = False

    def timeouts(self) -> TransportTimeouts:
        return SOON

    def open(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        self.written.append(data)
        self.waiting += self.answers.pop(0) if self.answers else b""

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        if not self.waiting:
            raise IoTimeoutError("nothing")
        data, self.waiting = self.waiting[:7], self.waiting[7:]  # frames come in pieces
        return data


def opened(*answers: bytes) -> tuple[Session, Scripted]:
    """A session that has begun as in the reference, with nonce 43."""
    line = Scripted(wire.hexadecimal(wire.REPLY), *answers)
    session = Session(line)
    session._link = Link(line, SOON, 0x5A, session._on_log)
    session.reconnect()
    return session, line


def test_the_conversations_are_whole() -> None:
    for text in wire.ALL:
        (said,) = wire.decode(wire.hexadecimal(text))
        assert wire.encode(said.session, said.kind, said.body) == wire.hexadecimal(text)


def test_nonces_follow_the_reference() -> None:
    assert (next_nonce(0x5A), next_nonce(0xC3)) == (0x43, 0x67)
    assert all(1 <= next_nonce(n) <= 255 for n in range(256))


def test_the_host_begins_as_in_the_reference() -> None:
    session, line = opened()
    assert line.written == [b"\xfe" + wire.hexadecimal(wire.TERMINATE + wire.INIT)]
    assert session._link is not None
    assert session._link.session == 0x6743


def test_the_host_calls_as_in_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mlftool.micro")
    answers = [wire.SYSTEM_LIB_FUNCTION, wire.LOG_HI + wire.SYSTEM_LIB, wire.VOID, wire.COPY_ACK]
    session, line = opened(*map(wire.hexadecimal, answers))
    session._most = 2037
    library = session.get_system_lib()
    assert library.handle == 0x8000
    assert list(session.logs) == ["hi"]
    assert "remote: hi" in caplog.text
    array = RemoteArray(session, Tensor(0x20001040, (1, 4), "int8"))
    array.copyfrom(np.array([[-1, -2, -3, 0]], np.int8))
    assert array.numpy().tolist() == [[-1, -2, -3, 0]]
    session.__exit__()
    said = (wire.GET_SYSTEM_LIB, wire.CALL_SYSTEM_LIB, wire.COPY_TO, wire.COPY_FROM, wire.SHUTDOWN)
    assert line.written[1:] == [*map(wire.hexadecimal, said)]  # one write for a frame
    assert line.is_closed


def packet(code: int, body: bytes) -> bytes:
    return wire.encode(0x6743, 0x10, wire.little(len(body) + 4, 8) + wire.little(code, 4) + body)


NULL_HANDLE = wire.little(1, 4) + wire.little(3, 4) + bytes(8)


def test_what_is_not_this_sessions_is_not_taken() -> None:
    foreign = wire.encode(0x1111, 0x10, b"not this session's")
    reply = wire.hexadecimal(wire.REPLY)
    noise = b"boot: ok\r\n\xff"
    session, _ = opened(noise + foreign + reply + packet(4, NULL_HANDLE))
    assert session.find_function("none") is None


def test_an_exception_names_the_call() -> None:
    text = b"tvmgen_kws_run: error -1"
    body = wire.little(1, 4) + wire.little(11, 4) + wire.little(len(text), 8) + text
    session, _ = opened(packet(5, body))
    with pytest.raises(RPCError, match=r"f: Error caught from RPC call: tvmgen_kws_run: error -1"):
        session.find_function("f")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        bytes(7),
        wire.little(100, 8) + wire.little(4, 4),
        wire.little(4, 8) + wire.little(4, 4),
        wire.little(8, 8) + wire.little(4, 4) + wire.little(-1, 4),
        wire.little(8, 8) + wire.little(4, 4) + wire.little(1 << 30, 4),
        wire.little(12, 8) + wire.little(4, 4) + wire.little(1, 4) + wire.little(99, 4),
        wire.little(12, 8) + wire.little(4, 4) + wire.little(1, 4) + wire.little(7, 4),
        wire.little(8, 8) + wire.little(77, 4) + wire.little(0, 4),
        wire.little(8, 8) + wire.little(4, 4) + wire.little(0, 4),
    ],
)
def test_a_malformed_answer_is_one_error(answer: bytes) -> None:
    session, _ = opened(wire.encode(0x6743, 0x10, answer), packet(4, NULL_HANDLE))
    with pytest.raises(RPCError):
        session.find_function("f")
    assert session.find_function("g") is None  # the session goes on


def test_a_reset_is_named_and_a_new_session_works() -> None:
    terminate = wire.hexadecimal(wire.TERMINATE)
    session, line = opened(terminate)
    array = RemoteArray(session, Tensor(0x100, (4,), "int8"))
    with pytest.raises(SessionTerminatedError, match=r"f: remote device terminated connection"):
        session.find_function("f")
    with pytest.raises(SessionTerminatedError, match=r"f: there is no session"):
        session.find_function("f")
    nonce = next_nonce(0x43)
    reply = wire.encode(0x6700 | nonce, 1, b"\x01")
    line.answers = [
        reply,
        wire.encode(0x6700 | nonce, 0x10, wire.little(20, 8) + wire.little(4, 4) + NULL_HANDLE),
    ]
    session.reconnect()
    assert session.find_function("f") is None
    with pytest.raises(SessionTerminatedError, match="a session that has ended"):
        array.numpy()


def test_silence_ends_in_time() -> None:
    session, _ = opened()
    with pytest.raises(MicroSessionTimeoutError, match=r"f: failed to read reply .* 0\.2 s"):
        session.find_function("f")
    with pytest.raises(MicroSessionTimeoutError, match=r"handshake failed after 0\.2 s"):
        session.reconnect()


class Slow(Scripted):
    """Gives `at_once` bytes each 20 ms. Before, it takes one of `left` bytes in the time of each
    read."""

    def __init__(self, *answers: bytes, at_once: int = 1, left: int = 0) -> None:
        super().__init__(*answers)
        self.at_once, self.left = at_once, left

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        assert timeout_sec is not None
        time.sleep(timeout_sec if self.left else min(0.02, timeout_sec))
        data = b"" if self.left or timeout_sec < 0.02 else self.waiting[: self.at_once]
        self.left, self.waiting = max(0, self.left - 1), self.waiting[len(data) :]
        if not data:
            raise IoTimeoutError("nothing")
        return data

    def untaken(self) -> int:
        return self.left


def linked(line: Scripted, limit: float) -> Link:
    """A line on which a session has begun."""
    link = Link(line, TransportTimeouts(limit, limit, limit), 0x42, lambda text: None)
    link.session = 0x6743
    return link


def test_limits_are_of_silence_and_not_of_a_whole_answer() -> None:
    """An answer that takes three times the limit, byte by byte."""
    line = Slow(packet(4, NULL_HANDLE))
    begin = time.monotonic()
    assert linked(line, 0.2).call("f", b"").endswith(NULL_HANDLE)
    assert time.monotonic() - begin > 0.6


def test_a_board_that_takes_what_was_sent_is_not_silent() -> None:
    line = Slow(packet(4, NULL_HANDLE), at_once=100, left=4)
    assert linked(line, 0.1).call("f", b"").endswith(NULL_HANDLE)
    stuck = Slow(packet(4, NULL_HANDLE), at_once=100, left=4)
    stuck.untaken = lambda: 4  # type: ignore[method-assign]
    with pytest.raises(MicroSessionTimeoutError):
        linked(stuck, 0.1).call("f", b"")


@pytest.mark.parametrize("said", [b"boot\r\n", wire.encode(0, 3, b"still here")])
def test_what_is_no_answer_is_silence(said: bytes) -> None:
    """A board that talks all the time, but does not answer."""
    line = Slow(said * 1000, at_once=len(said) - 3)
    with pytest.raises(MicroSessionTimeoutError, match=r"f: failed to read reply"):
        linked(line, 0.2).call("f", b"")
    assert line.waiting


def test_damage_is_in_the_message() -> None:
    bad = bytearray(packet(4, NULL_HANDLE))
    bad[-1] ^= 1
    session, _ = opened(bytes(bad))
    with pytest.raises(MicroSessionTimeoutError, match=r"1 damaged frames, the last: its checksum"):
        session.find_function("f")


def test_another_version_is_named() -> None:
    line = Scripted(wire.encode(0x6743, 1, b"\x07"))
    link = Link(line, SOON, 0x5A, print)
    with pytest.raises(MicroError, match="the board speaks version 7"):
        link.start()


def test_errors_are_what_tvm_raises() -> None:
    assert issubclass(RPCError, RuntimeError)
    assert issubclass(MicroSessionTimeoutError, RuntimeError)


def test_any_frame_is_read_in_any_pieces() -> None:
    rng = random.Random(1)
    for _ in range(300):
        payloads = [
            bytes(rng.choices((0xFF, 0xFD, 0xFE, 0, 65), k=rng.randrange(40))) for _ in range(4)
        ]
        data = b"noise \xff".join(frame(p) for p in payloads)
        assert all(
            frame(p) == wire.encode(int.from_bytes(p[:2], "little"), p[2], p[3:])
            for p in payloads
            if len(p) >= 3
        )
        unframer = Unframer()
        got: list[bytes | Damage] = []
        while data:
            cut = rng.randrange(1, 9)
            got += unframer.feed(data[:cut])
            data = data[cut:]
        assert got == payloads


def test_damage_ends_with_its_frame() -> None:
    good = frame(b"\x43\x67\x10\xff\xfd\xff\xff\xfe\x00\xff")
    for at in range(len(good)):
        for flip in (*(1 << n for n in range(8)), None, "twice"):
            new = good[at : at + 1] * 2 if flip == "twice" else b""
            new = bytes([good[at] ^ flip]) if isinstance(flip, int) else new
            found = list(Unframer(64).feed(good[:at] + new + good[at + 1 :] + b"\xfe" + good))
            payloads = [f for f in found if isinstance(f, bytes)]
            assert payloads in ([wire_payload(good)], [wire_payload(good)] * 2)


def wire_payload(data: bytes) -> bytes:
    (said,) = wire.decode(data)
    return wire.little(said.session, 2) + bytes([said.kind]) + said.body


def test_a_long_frame_is_refused_when_its_length_is_read() -> None:
    found = list(Unframer(16).feed(b"\xff\xfd\x00\x00\x00\x80" + frame(b"good")))
    assert found == [Damage.LONG, b"good"]


def test_the_device_answers_as_in_the_reference(tmp_path: Path) -> None:
    """The firmware, spoken to by the independent encoder; its own nonce is whatever it is."""
    spec = ModuleSpec(MODELS / "digits_int8.onnx", "d", interface_api="packed", system_lib=True)
    limits = [("TVM_CRT_MAX_PACKET_SIZE_BYTES", dict(SMALL)["TVM_CRT_MAX_PACKET_SIZE_BYTES"])]
    line = build(tmp_path, [spec], limits=limits).transport()
    said: list[wire.Said] = []

    def ask(data: bytes) -> wire.Said:
        line.write(data, 5)
        heard = b""
        while True:
            heard += line.read(1 << 16, 5)
            try:
                found = [s for s in wire.decode(heard) if s.kind != 3]
            except (ValueError, IndexError):
                continue
            if found and found[-1].kind != 2:
                said.extend(found)
                return found[-1]

    with line:
        reply = ask(wire.hexadecimal(wire.INIT))
        assert said[0] == wire.Said(0, 2, b"")  # its Terminate at boot
        assert (reply.session & 0xFF, reply.kind, reply.body) == (0x43, 1, b"\x01")
        assert reply.session >> 8 != 0
        for question, answer in (
            (wire.GET_SYSTEM_LIB, wire.SYSTEM_LIB_FUNCTION),
            (wire.CALL_SYSTEM_LIB, wire.SYSTEM_LIB),
        ):
            (sent,) = wire.decode(wire.hexadecimal(question))
            (expected,) = wire.decode(wire.hexadecimal(answer))
            got = ask(wire.encode(reply.session, sent.kind, sent.body))
            assert (got.session, got.body) == (reply.session, expected.body)
