"""What is malformed is refused with a code and a reason, and nothing is read or written wrongly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from crt_build import SANITIZE, WARNINGS, sources
from malformed import CASES, CONTROL, Case


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("malformed") / "loader"
    files = sources("tests/crt/loader.c", "common", "graph_executor", "host")
    subprocess.run(["gcc", *WARNINGS, *SANITIZE, *files, "-o", program], check=True)
    return program


def load(loader: Path, case: Case, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "graph").write_bytes(case.graph)
    (folder / "params").write_bytes(case.params)
    command = [loader, folder / "graph", folder / "params"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_control_is_accepted(loader: Path, tmp_path: Path) -> None:
    done = load(loader, CONTROL, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_there_are_54_cases() -> None:
    assert len(CASES) == 54


@pytest.mark.parametrize("name", CASES)
def test_a_malformed_file_is_refused(name: str, loader: Path, tmp_path: Path) -> None:
    done = load(loader, CASES[name], tmp_path)
    assert (done.returncode, done.stderr) == (3, ""), done.stdout
    code, _, reason = done.stdout.strip().partition(" ")
    assert int(code) != 0
    assert reason.startswith(("graph", "parameters")), reason
