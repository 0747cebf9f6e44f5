"""docs/projects.md is followed: its commands, its Python, and its template of one's own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from firmware import INT8, ROOT

from mlftool.mlf.runtime_tree import crt_root

PAGE = (ROOT / "docs/projects.md").read_text()
pytestmark = [
    pytest.mark.skipif(shutil.which("cmake") is None, reason="apt-get install cmake"),
    pytest.mark.sampled(4),
]


def section(title: str) -> str:
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return str(text)


def python(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Python that finds what this one does, and so do the servers that it starts."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=200)


def follow(lines: list[str], folder: Path) -> list[str]:
    """What each command printed."""
    said = []
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "mlftool"
        done = python(["-m", "mlftool", *words], folder)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        said.append(done.stdout)
    return said


def commands(text: str) -> list[str]:
    return re.findall(r"^    (mlftool .*)$", text, re.M)


def test_using_a_template(tmp_path: Path) -> None:
    text = section("Using a template")
    shutil.copy(INT8, tmp_path / "digits.onnx")
    lines = commands(text)
    assert len(lines) == 5
    assert follow(lines, tmp_path)[-1].startswith("output_0: [")
    (script,) = re.findall(
        r"^    from mlftool.micro import .*?^    project\.close\(\)$", text, re.M | re.S
    )
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "digits.tar", tmp_path / "other")
    code = re.sub(r"^    ", "", script, flags=re.M)
    done = python(["-c", code], tmp_path / "other")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "other/project/build/main").exists()


def test_a_board_by_a_folder(tmp_path: Path) -> None:
    """Of a third party: its start-up code, linker script, UART and timer, and nothing of ours. What
    is flashed and where the port is are this test's."""
    text = section("A folder for your board")
    shutil.copytree(ROOT / "tests/micro/lm3s6965", tmp_path / "board")
    lines = (tmp_path / "board/platform.cmake").read_text()
    for line in re.findall(r"^    (target_.*)$", text, re.M):
        assert line.split("(")[0] in lines
    shutil.copy(INT8, tmp_path / "digits.onnx")
    compiled, create, build, flash, over_port, over_command = commands(text)
    flash = re.sub('".*"', '"arm-none-eabi-size build/main"', flash)
    assert over_port.startswith("mlftool micro run project --project-option port=")
    said = follow([compiled, create, build, flash, over_command + " --print-top 1"], tmp_path)
    assert re.fullmatch(r"output_0: \[\d\] -?\d+\n", said[-1])
    follow([create.replace("project", "big", 1).replace("=30000", "=70000")], tmp_path)
    done = python(["-m", "mlftool", "micro", "build", "big"], tmp_path)
    assert done.returncode != 0
    assert "larger than its board; workspace_size_bytes and packet_size_bytes" in done.stderr


def test_an_accelerator_on_a_board_by_a_folder(tmp_path: Path) -> None:
    """docs/accelerator.md: the driver in the board's folder; the outputs are our kernels'."""
    page = (ROOT / "docs/accelerator.md").read_text()
    (block,) = (b for b in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S) if "cp -r" in b)
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    for line in block.splitlines():
        words = shlex.split(line)
        if words[0] == "cp":
            subprocess.run(words, cwd=tmp_path, check=True)
            continue
        assert words[:3] == ["python3", "-m", "mlftool"]
        done = python(words[1:], tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert "240 samples" in done.stdout
    assert "15,360 elements, equal to the reference within 0 " in done.stdout


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    text = section("A template of your own")
    (script,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    board = tmp_path / "our_template/board"
    board.mkdir(parents=True)
    (tmp_path / "our_template/microtvm_api_server.py").write_text(script)
    line = (crt_root() / "rpc/host_line.c").read_text()
    trace = 'if (getenv("OUR_TRACE")) fclose(fopen("traced", "w"));\n  if (argc < 2) {'
    assert "if (argc < 2) {" in line
    line = line.replace("if (argc < 2) {", trace)
    includes = "#define _DEFAULT_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n"
    (board / "line.c").write_text(includes + line.replace("#define _DEFAULT_SOURCE", ""))
    shutil.copy(crt_root() / "platform/host/platform.c", board)
    shutil.copy(INT8, tmp_path / "digits.onnx")
    follow([commands(section("Using a template"))[0], *commands(text)], tmp_path)
    assert (tmp_path / "project/traced").exists()
    assert "TVM_WORKSPACE_SIZE_BYTES=262144" in (tmp_path / "project/CMakeLists.txt").read_text()
