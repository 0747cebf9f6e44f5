"""What is malformed is refused with a code and a reason, and nothing is read or written wrongly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from crt_build import ROOT, SANITIZE, WARNINGS, sources
from malformed import CASES, CONTROL, Case
from malformed_more import ACCEPTED, REFUSED

PARTS = ("common", "graph_executor")
PLATFORM = (str(ROOT / "tests/crt/fuzz/platform.c"), "-DFUZZ_TEXT", "-DFUZZ_MAX_BLOCK=(64<<20)")


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("malformed") / "loader"
    files = [*sources("tests/crt/loader.c", *PARTS), *PLATFORM]
    subprocess.run(["gcc", *WARNINGS, *SANITIZE, *files, "-o", program], check=True)
    return program


def load(loader: Path, case: Case, folder: Path, *blocks: str) -> subprocess.CompletedProcess[str]:
    (folder / "graph").write_bytes(case.graph)
    (folder / "params").write_bytes(case.params)
    command = [loader, folder / "graph", folder / "params", *blocks]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", ["control", *ACCEPTED])
def test_a_well_formed_file_is_accepted(name: str, loader: Path, tmp_path: Path) -> None:
    done = load(loader, CONTROL if name == "control" else ACCEPTED[name], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_there_are_54_cases() -> None:
    assert len(CASES) == 54


@pytest.mark.parametrize("name", [*CASES, *REFUSED])
def test_a_malformed_file_is_refused(name: str, loader: Path, tmp_path: Path) -> None:
    done = load(loader, {**CASES, **REFUSED}[name], tmp_path)
    assert (done.returncode, done.stderr) == (3, ""), done.stdout
    code, _, reason = done.stdout.strip().partition(" ")
    assert int(code) != 0
    assert reason.startswith(("graph", "parameters")), reason


@pytest.mark.parametrize("blocks", ["0", "1"])
def test_a_lack_of_memory_is_an_error(blocks: str, loader: Path, tmp_path: Path) -> None:
    done = load(loader, CONTROL, tmp_path, blocks)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith(f"{0x503} graph: no memory for ")


def test_an_executor_takes_two_blocks(loader: Path, tmp_path: Path) -> None:
    done = load(loader, CONTROL, tmp_path, "2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
