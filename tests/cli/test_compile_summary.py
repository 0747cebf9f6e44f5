"""`mlftool compile` says what it made, at a terminal and in a log, but not in a build system's."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from shared import OWN, REPO

from mlftool.cli import main
from mlftool.mlf import read_tar
from mlftool.runtime.interface import read_interface

GESTURE = OWN / "gesture_int8.onnx"


def words(out: Path, *more: str) -> list[str]:
    return ["compile", str(GESTURE), "--target", "cortex-m4", "-o", str(out), *more]


def test_no_layer_has_the_most_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net()
    onnx.save(net.model(net.node("Relu", net.input("x", np.float32, (4,)))), tmp_path / "m.onnx")
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tar")]) == 0
    assert "  workspace           0 B\n" in capsys.readouterr().err


@pytest.mark.parametrize("executor", ["aot", "graph", "vm"])
def test_five_lines_with_the_archives_figures(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "g.tar"
    assert main(words(out, "--executor", executor)) == 0
    stdout, lines = capsys.readouterr()
    assert stdout == ""
    assert len(lines.splitlines()) == 5
    interface = read_interface(read_tar(out))
    assert f"executor {executor}" in lines
    code = b"".join(data for n, data in read_tar(out).files.items() if n.endswith(".c")).decode()
    called = set(re.findall(r"tvmgen_\w+", lines))
    assert called <= set(re.findall(r"\w+", code))
    assert bool(called) == (executor != "graph")
    assert "85,624 multiplications" in lines
    assert f" {interface.workspace_bytes:,} B (" in lines
    assert f" {interface.constants_bytes:,} B (" in lines
    assert " 389 B\n" in lines + "\n"


def test_the_same_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was empty unless a backend was named."""
    out = tmp_path / "g.tar"
    assert main(words(out, "--json")) == 0
    stdout, lines = capsys.readouterr()
    found = json.loads(stdout)
    interface = read_interface(read_tar(out))
    assert lines == ""
    assert (found["layers"], found["macs"], found["io_bytes"]) == (9, 85624, 389)
    assert found["workspace_bytes"] == interface.workspace_bytes
    assert found["constants_bytes"] == interface.constants_bytes
    assert (found["backends"], found["offloaded"], found["kept"]) == ([], [], [])


@pytest.mark.parametrize("word", ["-q", "--only-declared", "--format=json"])
def test_who_gets_no_summary(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bazel would show it for each action; a document has no other lines."""
    assert main(words(tmp_path / "g.tar", word)) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 0 or json.loads(err)["problems"] == []


@pytest.mark.parametrize("more", [(), ("-q",)])
def test_a_terminal_gets_it(more: tuple[str, ...], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mlftool", *words(tmp_path / "g.tar", *more)]
    # A busy machine would show the steps, too.
    how: dict[str, Any] = {"env": {**os.environ, "TERM": "dumb"}, "timeout": 120}
    done = subprocess.run(command, cwd=REPO, stdout=subprocess.PIPE, stderr=theirs, **how)
    os.close(theirs)
    try:
        shown = os.read(ours, 1 << 16).decode()
    except OSError:  # nothing was written, and the other end is closed
        shown = ""
    os.close(ours)
    assert done.returncode == 0
    assert done.stdout == b""
    assert len(shown.splitlines()) == (0 if more else 5)
