"""Compiled templates in the user's cache: the same C with them, without them and beside damage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shared import REPO

SCRIPT = """
import jinja2.environment, sys
from mlftool.codegen.templates import render, _TEMPLATES
compiled = []
one = jinja2.Environment.compile
jinja2.Environment.compile = lambda *a, **k: (compiled.append(a), one(*a, **k))[1]
text = _TEMPLATES.get_template("header.h.j2")
print(len(compiled), text.filename)
"""
NAME = "mlftool/codegen/header.h.j2"


def compiled(**variables: str) -> tuple[str, str]:
    """How many templates a new process compiles for one, and where that says it comes from."""
    keep = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    keep.pop("MLFTOOL_CACHE")
    environment = {**keep, "PYTHONPATH": os.pathsep.join([str(REPO), *sys.path]), **variables}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    count, _, file = done.stdout.strip().partition(" ")
    return count, file


@pytest.mark.parametrize("variable", ["MLFTOOL_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_a_template_is_compiled_once(tmp_path: Path, variable: str) -> None:
    cache = {variable: str(tmp_path)}
    assert compiled(**cache) == ("1", str(REPO / NAME))
    assert compiled(**cache) == ("0", str(REPO / NAME))

    (file,) = (f for f in tmp_path.rglob("templates/*"))
    whole = file.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole[:60] + b"\xff" + whole[61:]):
        file.write_bytes(damaged)
        assert compiled(**cache)[0] == "1"
        assert file.read_bytes() == whole
    assert list(file.parent.iterdir()) == [file]


def test_without_a_user_or_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert compiled() == ("1", str(REPO / NAME))
    for place in (tmp_path / "file", Path("/proc/1")):
        assert compiled(MLFTOOL_CACHE=str(place)) == ("1", str(REPO / NAME))
