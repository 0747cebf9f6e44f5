"""docs/adding_an_operator.md, followed word for word in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from shared import REPO

GUIDE = REPO / "docs" / "adding_an_operator.md"
PARTS = ("mlftool", "crt", "tests", "tools", "docs", "pyproject.toml")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_following_the_guide_works(tmp_path: Path) -> None:
    skipped = shutil.ignore_patterns("__pycache__", "golden")
    for name in PARTS:
        if (REPO / name).is_dir():
            shutil.copytree(REPO / name, tmp_path / name, ignore=skipped)
        else:
            shutil.copy(REPO / name, tmp_path / name)
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    files = {name: text for _, name, text in blocks if name}
    commands = [line for kind, _, text in blocks if kind == "sh" for line in text.splitlines()]
    assert (len(files), len(commands)) == (5, 3)
    for name, text in files.items():
        assert not (tmp_path / name).exists(), name
        (tmp_path / name).write_text(text, encoding="utf-8")
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    foreign = [p for p in inherited if p and not Path(p, "mlftool").is_dir()]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(foreign), "MLFTOOL_CACHE": str(tmp_path)}
    for command in commands:
        words = command.split()
        assert words[0] == "python3"
        done = subprocess.run(
            [sys.executable, *words[1:]], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if "pytest" in command:
            assert done.stdout.startswith("... "), done.stdout
        if "conformance" in command:
            assert re.search(r"\d+ cases: \d+ pass$", done.stdout.strip()), done.stdout
    page = (tmp_path / "docs" / "operators.md").read_text(encoding="utf-8")
    assert "| com.example.Wave |  | kernel, elementwise |" in page
    assert "| com.example.Centre |  | rewritten |" in page
