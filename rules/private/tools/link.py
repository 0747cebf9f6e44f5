"""`link LABEL OUT.map LINKER ARGUMENT...`: runs a linker. What it says of memories that are too
small is said in our words, with the size they have and the size that is needed; and of missing
system calls, which the board has to have for printf and malloc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mlftool.errors import CHECK_FAILED, Problem
from mlftool.runtime.overflow import missing_calls, too_small

HELP = 'give it a board with more memory, or save memory: optimize = "size" for flash, '
HELP += 'patches = "auto" for RAM'
CALLS_HELP = (
    "print with platform_print (@mlftool//crt:platform_headers), write these functions, or take "
)
CALLS_HELP += 'linkopts = ["--specs=nosys.specs"], whose functions do nothing'


def main(arguments: list[str]) -> int:
    """The linker's status, and its own words about everything else."""
    label, link_map, *command = arguments
    environment = {**os.environ, "LC_ALL": "C"}  # its messages are read
    done = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
    )
    path = Path(link_map)
    memories = path.read_text("utf-8", "replace") if done.returncode and path.is_file() else ""
    if done.returncode and (found := too_small(done.stderr, memories)):
        print(Problem("MLF0608", f"does not fit: {found}", label, help=HELP), file=sys.stderr)
        return CHECK_FAILED
    if done.returncode and (names := missing_calls(done.stderr)):
        text = f"printf, malloc or exit of the C library needs {', '.join(names[:3])}"
        text += f" and {len(names) - 3} more" * (len(names) > 3) + ", which the board has not"
        print(Problem("MLF0608", text, label, help=CALLS_HELP), file=sys.stderr)
        return CHECK_FAILED
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
