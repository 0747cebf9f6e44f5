"""A program whose standard input and output are a line.

A project has a copy of this file and needs the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

# Ends a program when this process is gone, even if it was killed.
_WATCH = "import os, sys; os.read(int(sys.argv[1]), 1) or os.kill(int(sys.argv[2]), 9)"


class LineProcess:
    """A running program. A `watched` one ends with this process, however that ends: QEMU does not
    end with its input."""

    def __init__(self, command: Sequence[str], watched: bool = False, **popen: Any) -> None:
        """Raises OSError if the program cannot be started."""
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **popen
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self._watch: tuple[subprocess.Popen[bytes], int] | None = None
        if watched:
            read, alive = os.pipe()
            watch = [sys.executable, "-I", "-S", "-c", _WATCH, str(read), str(self.process.pid)]
            started = subprocess.Popen(watch, stdin=subprocess.DEVNULL, pass_fds=[read])
            self._watch = (started, alive)
            os.close(read)

    @property
    def read_fd(self) -> int:
        return self._stdout.fileno()

    @property
    def write_fd(self) -> int:
        return self._stdin.fileno()

    def close(self) -> None:
        """Ends the program: by the end of its input or, half a second later, by force."""
        if self._watch is not None:
            (watch, alive), self._watch = self._watch, None
            with contextlib.suppress(BrokenPipeError):
                os.write(alive, b"x")
            os.close(alive)
            watch.wait()
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._stdout.close()
