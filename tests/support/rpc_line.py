"""A board on a line, at length: calls, bytes, damaged bytes, resets and hosts that disappear.

tests/micro does it a few times, benchmarks/rpc_line.py often.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.micro import MicroError, ProcessTransport, Session, create_aot_executor
from mlftool.micro.drive import transport_of
from mlftool.micro.framing import Unframer
from mlftool.micro.transport import TransportTimeouts
from mlftool.mlf.archive import read
from mlftool.mlf.interface import Interface
from mlftool.runtime.boards import Board
from mlftool.runtime.driven import driven_program
from mlftool.runtime.interface import interface_of

MODEL = Path(__file__).absolute().parents[2] / "examples/models/digits_int8.onnx"
PATIENT = TransportTimeouts(5, 60, 60)
KINDS = ("lost", "doubled", "flipped", "reset", "host")


@dataclass
class Line(ProcessTransport):
    """A line to a program that damages a byte now and then."""

    command: list[str]
    popen: dict[str, object] = field(default_factory=dict)
    kind: str = ""
    bit: int = 1
    after: dict[bool, int] = field(default_factory=dict)  # bytes until the damage, by is_read

    def __post_init__(self) -> None:
        super().__init__(self.command, **self.popen)

    def damage(self, rng: random.Random, kind: str) -> None:
        """The kind of damage and its place, in either direction."""
        self.kind, self.bit = kind, 1 << rng.randrange(8)
        self.after = {rng.random() < 0.5: rng.randrange(900)}

    def _damaged(self, data: bytes, is_read: bool) -> bytes:
        at = self.after.get(is_read, -1)
        if at < 0 or at >= len(data):
            self.after[is_read] = at - len(data) if at >= 0 else -1
            return data
        self.after = {}
        byte = data[at]
        changed = {"lost": b"", "doubled": bytes([byte, byte])}
        return data[:at] + changed.get(self.kind, bytes([byte ^ self.bit])) + data[at + 1 :]

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        while True:
            if data := self._damaged(super().read(n, timeout_sec), True):
                return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        super().write(self._damaged(data, False), timeout_sec)


class Stays(ProcessTransport):
    """The line of a host that ends without a word: it stays open for the next one."""

    def __init__(self, line: ProcessTransport) -> None:
        super().__init__([])
        self._line = line

    def open(self) -> None:
        self.read_fd, self.write_fd = self._line.read_fd, self._line.write_fd

    def close(self) -> None:
        pass


def built(model: Path, board: Board | None) -> tuple[Interface, Line]:
    """A model's interface, and a line to its firmware."""
    target = board.target if board else "host"
    spec = ModuleSpec(model, "m", target, interface_api="packed", system_lib=True)
    archive = read(compile_modules([spec]))
    interface = interface_of(archive, None)
    plain = transport_of(board, driven_program(archive, interface, board))
    return interface, Line(plain.command, plain.popen)


def calls(line: Line, count: int) -> int:
    """Requests answered rightly, of copies there and back."""
    with Session(line, timeout_override=PATIENT) as session:
        echo = session.array(np.zeros(16, np.uint8))
        for i in range(count // 2):
            value = np.full(16, i % 256, np.uint8)
            if not (echo.copyfrom(value).numpy() == value).all():
                raise SystemExit(f"call {2 * i} lost data")
    return count // 2 * 2


def copied(line: Line, size: int, block: int = 8192) -> int:
    """Bytes that went to the board and came back equal."""
    rng = np.random.default_rng(0)
    with Session(line, timeout_override=PATIENT) as session:
        memory = session.empty((block,), "uint8")
        for at in range(0, size, block):
            data = rng.integers(0, 256, block, np.uint8)
            data[::7] = 0xFF  # which is doubled on the wire
            if not (memory.copyfrom(data).numpy() == data).all():
                raise SystemExit(f"bytes from {at} came back changed")
    return -(-size // block) * block


def inferred(session: Session, interface: Interface, value: np.ndarray) -> bytes:
    module = create_aot_executor(session, interface.module)
    module.set_input(0, value)
    module.run()
    return bytes(module.get_output(0).numpy().tobytes())


def faults(
    line: Line, interface: Interface, count: int, limits: TransportTimeouts, seed: int = 7
) -> Counter[str]:
    """How inferences ended whose line was damaged. Raises SystemExit for a wrong result."""
    rng, outcomes = random.Random(seed), Counter[str]()
    shape, dtype = interface.inputs[0].shape, interface.inputs[0].dtype
    value = np.random.default_rng(3).integers(-128, 128, shape).astype(dtype)
    with Session(line, timeout_override=limits) as session:
        wait(session, PATIENT)  # only what is damaged should end by time, however busy we are
        right = inferred(session, interface, value)
        for i in range(count):
            kind = KINDS[i % len(KINDS)]
            wait(session, limits)
            outcomes[_faulty(line, session, interface, value, right, kind, rng)] += 1
            line.after = {}
            wait(session, PATIENT)
            if inferred(session, interface, value) != right:
                raise SystemExit(f"after fault {i}, {kind}: a wrong result")
    return outcomes


def wait(session: Session, limits: TransportTimeouts) -> None:
    """How long the session waits from here on."""
    assert session._link is not None
    session._link.timeouts = limits


def _faulty(
    line: Line,
    session: Session,
    interface: Interface,
    value: np.ndarray,
    right: bytes,
    kind: str,
    rng: random.Random,
) -> str:
    """One fault, and a session that is ready for the next."""
    if kind == "host":  # it stops within a frame, and another one starts
        line.write(b"\xff\xfd\x40\x00\x00\x00\xff\xff\xff\xff"[: rng.randrange(1, 11)], 1)
        with Session(Stays(line), timeout_override=PATIENT) as other:
            result = inferred(other, interface, value)
        session.reconnect()
        return "right" if result == right else "wrong"
    if kind == "reset":
        assert line.process is not None
        line.process.kill()
    else:
        line.damage(rng, kind)
    try:
        outcome = "right" if inferred(session, interface, value) == right else "wrong"
    except MicroError as error:
        named = error.problems[0].message.partition(": ")[0]
        outcome = type(error).__name__ if named else "nameless"
        if kind == "reset":
            line.open()
        line.after = {}
        wait(session, PATIENT)
        session.reconnect()
    if outcome in ("wrong", "nameless"):
        raise SystemExit(f"a {kind} fault ended in a {outcome} result")
    return outcome


class Counted(ProcessTransport):
    """Counts writes, and frames by taking them apart."""

    writes = frames = 0

    def open(self) -> None:
        self._unframer = Unframer()
        super().open()

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        self.writes += 1
        self.frames += len(list(self._unframer.feed(data)))
        super().write(data, timeout_sec)


def overhead(model: Path, count: int = 200) -> tuple[float, list[float], float]:
    """Milliseconds of run time, milliseconds beside it of each inference over a pipe, with its
    input and output, and writes for a frame."""
    interface, plain = built(model, None)
    line = Counted(plain.command)
    value = np.zeros(interface.inputs[0].shape, interface.inputs[0].dtype)
    beside = []
    with Session(line, timeout_override=PATIENT) as session:
        module = create_aot_executor(session, "m")
        place, result = module.get_input(0), module.get_output(0)
        run = module.benchmark(number=20, repeat=5).min * 1e3
        place.copyfrom(value)
        writes, frames = line.writes, line.frames
        for _ in range(count):
            begin = time.perf_counter()
            place.copyfrom(value)
            module.run()
            result.numpy()
            beside.append((time.perf_counter() - begin) * 1e3 - run)
        per_frame = (line.writes - writes) / (line.frames - frames)
    return run, beside, per_frame
