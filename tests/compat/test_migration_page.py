"""The scripts of docs/migration.md run, one after the other, as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shared import OWN, REPO

PAGE = (REPO / "docs" / "migration.md").read_text()
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("migration")
    for name in ("digits_int8", "gesture_int8"):
        for suffix in (".onnx", ".npz"):
            shutil.copy(OWN / f"{name}{suffix}", work)
    return work


@pytest.mark.sampled(4)
@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_block_runs(index: int, folder: Path) -> None:
    kind, text = BLOCKS[index]
    if kind == "sh":
        text = f'mlftool() {{ "{sys.executable}" -m mlftool "$@"; }}\nset -e\n{text}'
    path = filter(None, [os.environ.get("PYTHONPATH")])
    command = [sys.executable, "-c", text] if kind == "python" else ["sh", "-c", text]
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), *path])},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_there_are_scripts_for_every_tutorial() -> None:
    assert [kind for kind, _ in BLOCKS] == ["python"] * 6 + ["sh"]
    for kind, text in BLOCKS:
        if kind == "python":
            assert not re.search(r"^\s*(import|from) tvm\b", text, re.MULTILINE)
