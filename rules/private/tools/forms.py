"""What tests against committed figures take after `bazel run LABEL --`, and what that does."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mlftool.errors import ENVIRONMENT
from mlftool.mlf import write_atomically


def parser(*positional: str) -> argparse.ArgumentParser:
    """One whose help shows the two forms and hides the words that the rule gives."""
    made = argparse.ArgumentParser(
        prog="bazel run LABEL --", usage="%(prog)s [--update|--markdown[=FILE]]", allow_abbrev=False
    )
    for name in positional:
        made.add_argument(name, help=argparse.SUPPRESS)
    form = made.add_mutually_exclusive_group()
    form.add_argument("--update", action="store_true", help="write the committed file")
    form.add_argument(
        "--markdown",
        nargs="?",
        const="",
        metavar="FILE",
        help="print a table for a pull request, or write it to a file",
    )
    return made


def update(path: str, label: str, data: bytes) -> int:
    """Writes the committed file, `path` in the workspace. Returns the exit code. Raises
    MlfError."""
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not root:
        print(f"start it with: bazel run {label} -- --update", file=sys.stderr)
        return ENVIRONMENT
    write_atomically(Path(root) / path, data)
    print(f"{path} is written")
    return 0


def shown(file: str, table: str) -> int:
    """Prints the table, or writes it to a file in the user's folder, where it has nothing of what
    `bazel run` prints itself. Returns the exit code. Raises MlfError."""
    if not file:
        print(table)
        return 0
    folder = os.environ.get("BUILD_WORKING_DIRECTORY", ".")
    write_atomically(Path(folder) / file, (table.rstrip("\n") + "\n").encode())
    return 0
