"""Lines to boards: pipes of a program, sockets, serial ports, a simulator's UART.

Times are in seconds. A line that is closed raises TransportClosedError, one that is too slow
IoTimeoutError.
"""

from __future__ import annotations

import abc
import contextlib
import importlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlftool.micro.errors import IoTimeoutError, MicroError, TransportClosedError

CHUNK = 1 << 16  # bytes of one read


@dataclass(frozen=True)
class TransportTimeouts:
    """How long a session waits, in seconds. 0 is for ever, which is never a default."""

    session_start_retry_timeout_sec: float = 1.0
    session_start_timeout_sec: float = 10.0
    session_established_timeout_sec: float = 30.0


class Transport(abc.ABC):
    """A line. `read` returns what is there, at least one byte; `write` writes all."""

    def __enter__(self) -> Transport:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def timeouts(self) -> TransportTimeouts:
        return TransportTimeouts()

    @abc.abstractmethod
    def open(self) -> None: ...

    @abc.abstractmethod
    def close(self) -> None: ...

    @abc.abstractmethod
    def read(self, n: int, timeout_sec: float | None) -> bytes: ...

    @abc.abstractmethod
    def write(self, data: bytes, timeout_sec: float | None) -> None: ...


class FdTransport(Transport):
    """Two file descriptors that are open already, or a terminal's one. They stay open."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd

    def open(self) -> None:
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self.write_fd, False)

    def close(self) -> None:
        pass

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        end = _end(timeout_sec)
        while True:
            with contextlib.suppress(BlockingIOError):
                try:
                    data = os.read(self.read_fd, n)
                except OSError as error:
                    if isinstance(error, BlockingIOError):
                        raise
                    raise TransportClosedError(f"the line is closed: {error.strerror}") from None
                if not data:
                    raise TransportClosedError(self._closed())
                return data
            if not select.select([self.read_fd], [], [], _left(end))[0]:
                raise IoTimeoutError(f"nothing to read within {timeout_sec} s")

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        end = _end(timeout_sec)
        while data:
            try:
                data = data[os.write(self.write_fd, data) :]
            except BlockingIOError:
                if not select.select([], [self.write_fd], [], _left(end))[1]:
                    text = f"{len(data)} bytes were not written within {timeout_sec} s"
                    raise IoTimeoutError(text) from None
            except OSError:
                raise TransportClosedError(self._closed()) from None

    def _closed(self) -> str:
        return "the line is closed"


class ProcessTransport(FdTransport):
    """A program whose standard input and output are the line: firmware built for this computer, or
    a simulator with its board's UART there. Each `open` starts it anew."""

    def __init__(self, command: Sequence[str | os.PathLike[str]], **popen: Any) -> None:
        self.command = [os.fspath(word) for word in command]
        self.popen = popen
        self.process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        self.close()
        try:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **self.popen
            )
        except OSError as error:
            raise MicroError(f"{self.command[0]} cannot be started: {error.strerror}") from None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.write_fd = self.process.stdin.fileno()
        self.read_fd = self.process.stdout.fileno()
        super().open()

    def close(self) -> None:
        if (process := self.process) is None:
            return
        self.process = None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _closed(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self.process.wait(0.5) if self.process is not None else None
            return f"the program at the other end has ended with status {status}"
        return "the program at the other end has closed its line"


class QemuTransport(ProcessTransport):
    """A simulated board: `simulator` is QEMU's command with its machine, as a board.json has it."""

    def __init__(self, simulator: Sequence[str], firmware: os.PathLike[str] | str) -> None:
        command = [*simulator, *QEMU_OPTIONS, os.fspath(firmware)]
        super().__init__(command, stderr=subprocess.DEVNULL)
        self._watch: tuple[subprocess.Popen[bytes], int] | None = None

    def open(self) -> None:
        super().open()
        assert self.process is not None
        read, alive = os.pipe()
        command = [sys.executable, "-I", "-S", "-c", WATCH, str(read), str(self.process.pid)]
        watch = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[read])
        self._watch = (watch, alive)
        os.close(read)

    def close(self) -> None:
        if self._watch is not None:
            (watch, alive), self._watch = self._watch, None
            with contextlib.suppress(BrokenPipeError):
                os.write(alive, b"x")
            os.close(alive)
            watch.wait()
        super().close()


# Ends the simulator when the host is gone, even if it was killed: QEMU does not end with its input.
WATCH = "import os, sys; os.read(int(sys.argv[1]), 1) or os.kill(int(sys.argv[2]), 9)"


# The UART is standard input and output; semihosting has no console, so that nothing mixes with it.
QEMU_OPTIONS = (
    *("-icount", "shift=0,align=off,sleep=off", "-display", "none", "-monitor", "none"),
    *("-chardev", "stdio,id=line,signal=off,mux=off", "-serial", "chardev:line"),
    *("-chardev", "null,id=console"),
    *("-semihosting-config", "enable=on,target=native,chardev=console", "-kernel"),
)


class SocketTransport(Transport):
    """A TCP port, such as a serial server's or QEMU's `-serial tcp:`."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self._socket: socket.socket | None = None

    def open(self) -> None:
        self.close()
        try:
            self._socket = socket.create_connection(self.address, timeout=10)
        except OSError as error:
            text = f"no connection to {self.address[0]}:{self.address[1]}: {error}"
            raise MicroError(text) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise TransportClosedError("the line is not open")
        return self._socket

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        line = self._open_socket()
        line.settimeout(timeout_sec)
        try:
            data = line.recv(n)
        except TimeoutError:
            raise IoTimeoutError(f"nothing to read within {timeout_sec} s") from None
        except OSError as error:
            raise TransportClosedError(f"the line is closed: {error}") from None
        if not data:
            raise TransportClosedError("the line is closed")
        return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        line = self._open_socket()
        line.settimeout(timeout_sec)
        try:
            line.sendall(data)
        except TimeoutError:
            text = f"{len(data)} bytes were not written within {timeout_sec} s"
            raise IoTimeoutError(text) from None
        except OSError as error:
            raise TransportClosedError(f"the line is closed: {error}") from None


class SerialTransport(Transport):
    """A serial port, by pyserial (`pip install mlftool[serial]`)."""

    def __init__(self, port: str, baudrate: int = 115200, **options: Any) -> None:
        self.port = port
        self.baudrate = baudrate
        self.options = options
        self._serial: Any = None

    def open(self) -> None:
        self.close()
        try:
            serial = importlib.import_module("serial")  # optional, and without types
        except ImportError:
            raise MicroError(
                "a serial port needs pyserial", help="pip install 'mlftool[serial]'"
            ) from None
        try:
            self._serial = serial.Serial(self.port, self.baudrate, **self.options)
        except (OSError, ValueError) as error:  # serial.SerialException is an OSError
            raise MicroError(f"{self.port} cannot be opened: {error}") from None

    def close(self) -> None:
        if self._serial is not None:
            self._serial.close()
            self._serial = None

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        if self._serial is None:
            raise TransportClosedError("the line is not open")
        try:
            self._serial.timeout = timeout_sec
            data: bytes = self._serial.read(1)
            if data and (waiting := min(self._serial.in_waiting, n - 1)):
                data += self._serial.read(waiting)
        except OSError as error:
            raise TransportClosedError(f"{self.port} is closed: {error}") from None
        if not data:
            raise IoTimeoutError(f"nothing to read within {timeout_sec} s")
        return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        if self._serial is None:
            raise TransportClosedError("the line is not open")
        serial = importlib.import_module("serial")
        try:
            self._serial.write_timeout = timeout_sec
            self._serial.write(data)
        except serial.SerialTimeoutException:
            text = f"{len(data)} bytes were not written within {timeout_sec} s"
            raise IoTimeoutError(text) from None
        except OSError as error:
            raise TransportClosedError(f"{self.port} is closed: {error}") from None


def _end(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
