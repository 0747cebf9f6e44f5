"""`simulate CPU FIRMWARE.elf ARGUMENTS...`: runs a firmware on the simulated board."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mlftool.errors import BAD_INPUT, MlfError, Problem, did_you_mean
from mlftool.runtime.boards import BOARDS, find
from mlftool.runtime.runner import qemu_command


def main(arguments: list[str]) -> int:
    """What the program's main returned; it prints to our stdout."""
    cpu, elf, *rest = arguments
    try:
        board = find(cpu)
        if board is None:
            text = f"no board with this processor is simulated; got '{cpu}'"
            raise MlfError(Problem("MLF0400", text, elf, help=did_you_mean(cpu, BOARDS)))
        return subprocess.run(
            qemu_command(board, Path(elf).resolve(), rest), check=False
        ).returncode
    except MlfError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
