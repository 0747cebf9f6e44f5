"""A newcomer's terminal: a shell in a pseudo-terminal, and what is seen there in the end."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from collections.abc import Mapping
from pathlib import Path

PROMPT = re.compile(r"@@(\d+)@@\$ $")
CONTROL = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])")


class Shell:
    """A shell into which lines are typed."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            words = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
            os.execvpe(
                words[0], words, {**env, "PS1": "@@$?@@$ ", "TERM": "xterm", "COLUMNS": "120"}
            )
        self.answer(30)
        self.typed("stty -echo cols 120")

    def typed(self, line: str, seconds: float = 300) -> tuple[int, str]:
        """Types a line. Returns its exit status and what is on the screen."""
        self.keys(f"{line}\n".encode())
        return self.answer(seconds)

    def keys(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def seen(self, text: str, seconds: float) -> str:
        """Waits until a text is written. Returns what was until then."""
        return self._until(re.compile(re.escape(text)), seconds)

    def answer(self, seconds: float) -> tuple[int, str]:
        """The exit status and the screen once the shell asks for the next line."""
        text = self._until(PROMPT, seconds)
        found = PROMPT.search(text)
        assert found
        return int(found[1]), screen(text[: found.start()])

    def _until(self, wanted: re.Pattern[str], seconds: float) -> str:
        text, end = "", time.monotonic() + seconds
        while not wanted.search(text):
            left = end - time.monotonic()
            assert left > 0, f"nothing came but {text!r}"
            if select.select([self._terminal], [], [], left)[0]:
                text += os.read(self._terminal, 1 << 16).decode("utf-8", "replace")
        return text

    def close(self) -> None:
        os.write(self._terminal, b"exit\n")
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


def screen(text: str) -> str:
    """What a terminal shows in the end of returns, erased lines and the cursor's way up."""
    lines, row, column = [""], 0, 0
    for part in re.split(r"(\x1b\[\??[\d;]*[A-Za-z]|[\r\n])", text):
        found = CONTROL.fullmatch(part)
        if part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif found and found[2] == "A":
            row = max(0, row - int(found[1] or 1))
        elif found and found[2] == "K":
            lines[row] = "" if found[1] == "2" else lines[row][:column]
        elif not found:
            old = lines[row].ljust(column)
            lines[row] = old[:column] + part + old[column + len(part) :]
            column += len(part)
    return "\n".join(line.rstrip() for line in lines).strip("\n")
