"""Lines to boards: pipes of a program, sockets, serial ports, a simulator's UART.

Times are in seconds. A line that is closed raises TransportClosedError, one that is too slow
IoTimeoutError.
"""

from __future__ import annotations

import abc
import contextlib
import fcntl
import importlib
import os
import select
import socket
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from typing import Any

from mlftool.frozen import frozen
from mlftool.micro.errors import IoTimeoutError, MicroError, TransportClosedError
from mlftool.micro.project_api.line_process import LineProcess

CHUNK = 1 << 16  # bytes of one read
AT_ONCE = 256  # bytes of one write to a serial port


@frozen
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
    def write(self, data: bytes, timeout_sec: float | None) -> None:
        """The time is that of silence: it begins anew with each byte that is taken."""

    def untaken(self) -> int:
        """Bytes on the line that the other end has not taken yet, if the line knows."""
        return 0


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
        while data:
            try:
                data = data[os.write(self.write_fd, data) :]
            except BlockingIOError:
                if not select.select([], [self.write_fd], [], timeout_sec)[1]:
                    text = f"{len(data)} bytes were not written within {timeout_sec} s"
                    raise IoTimeoutError(text) from None
            except OSError:
                raise TransportClosedError(self._closed()) from None

    def untaken(self) -> int:
        """Of a pipe. A simulated UART takes a byte when its processor reads one."""
        try:
            if not stat.S_ISFIFO(os.fstat(self.write_fd).st_mode):
                return 0
            return int.from_bytes(
                fcntl.ioctl(self.write_fd, termios.FIONREAD, bytes(4)), sys.byteorder
            )
        except OSError:
            return 0

    def _closed(self) -> str:
        return "the line is closed"


class ProcessTransport(FdTransport):
    """A program whose standard input and output are the line: firmware built for this computer, or
    a simulator with its board's UART there. Each `open` starts it anew."""

    watched = False  # whether the program is ended with this process, however that ends

    def __init__(self, command: Sequence[str | os.PathLike[str]], **popen: Any) -> None:
        self.command = [os.fspath(word) for word in command]
        self.popen = popen
        self._program: LineProcess | None = None

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The program, while the line is open."""
        return None if self._program is None else self._program.process

    def open(self) -> None:
        self.close()
        try:
            self._program = LineProcess(self.command, self.watched, **self.popen)
        except OSError as error:
            raise MicroError(f"{self.command[0]} cannot be started: {error.strerror}") from None
        self.write_fd, self.read_fd = self._program.write_fd, self._program.read_fd
        super().open()

    def close(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.close()

    def _closed(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self.process.wait(0.5) if self.process is not None else None
            return f"the program at the other end has ended with status {status}"
        return "the program at the other end has closed its line"


class QemuTransport(ProcessTransport):
    """A simulated board: `simulator` is QEMU's command with its machine, as a board.json has it."""

    watched = True

    def __init__(self, simulator: Sequence[str], firmware: os.PathLike[str] | str) -> None:
        command = [*simulator, *QEMU_OPTIONS, os.fspath(firmware)]
        super().__init__(command, stderr=subprocess.DEVNULL)


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
            while data:
                data = data[line.send(data) :]
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
            for at in range(0, len(data), AT_ONCE):  # its limit is that of a whole call
                self._serial.write(data[at : at + AT_ONCE])
        except serial.SerialTimeoutException:
            text = f"{len(data)} bytes were not written within {timeout_sec} s"
            raise IoTimeoutError(text) from None
        except OSError as error:
            raise TransportClosedError(f"{self.port} is closed: {error}") from None


def _end(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
