"""The guides of docs/, followed word for word in a copy of the project.

A block with a file's name is that new file; a `diff` block is an edit of a file, in one place; the
lines of a `sh` block are commands of python3.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from shared import REPO

PARTS = ("mlftool", "crt", "examples", "rules", "tests", "tools", "docs", "pyproject.toml")
PARTS += (".bazelrc", "bazelw")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def copy_project(folder: Path) -> None:
    """What the guides work on."""
    skipped = shutil.ignore_patterns("__pycache__", "golden", "bazel-*")
    for name in PARTS:
        if (REPO / name).is_dir():
            shutil.copytree(REPO / name, folder / name, ignore=skipped)
        elif (REPO / name).exists():
            shutil.copy(REPO / name, folder / name)


def follow(page: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Do what the page says, in the copy at `folder`: each command, and what it printed."""
    for kind, name, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "diff":
            _edit(folder / name, text)
        elif name:
            assert not (folder / name).exists(), name
            (folder / name).write_text(text, encoding="utf-8")
        elif kind == "sh":
            for command in text.splitlines():
                yield command, _run(command, folder)


def _edit(file: Path, diff: str) -> None:
    lines = diff.splitlines(keepends=True)
    before, after = (
        "".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +")
    )
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{file.name}: {before}"
    file.write_text(text.replace(before, after), encoding="utf-8")


def _run(command: str, folder: Path) -> str:
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    foreign = [p for p in inherited if p and not Path(p, "mlftool").is_dir()]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(foreign), "MLFTOOL_CACHE": str(folder)}
    words = command.split()
    assert words[0] == "python3"
    done = subprocess.run(
        [sys.executable, *words[1:]], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
