"""The C tests of the runtime hold on every machine that can be run here, big-endian ones too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from crt_build import INCLUDES, ROOT, SOURCES, WARNINGS, part
from machines import RUNNING, Machine

PARTS = sorted(folder.name for folder in SOURCES.iterdir())
PROGRAMS = ("runtime_api", "graph_executor", "aot_executor", "page_allocator")


@pytest.fixture(scope="module", params=RUNNING, ids=lambda machine: machine.name)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Machine, Path]:
    """A machine, and a folder with all of the runtime compiled for it."""
    machine: Machine = request.param
    machine.need()
    folder = tmp_path_factory.mktemp(machine.name)
    files = [file for name in (*PARTS, "host") for file in part(name)]
    command = [*machine.command, *WARNINGS, *machine.flags, *INCLUDES, "-c", *files]
    subprocess.run(command, cwd=folder, check=True)
    return machine, folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, built: tuple[Machine, Path]) -> None:
    machine, folder = built
    assert machine.run is not None
    program = folder / name
    command = [*machine.command, *WARNINGS, *machine.flags, *INCLUDES, "-o", program]
    command += [ROOT / f"tests/crt/{name}.c", *sorted(folder.glob("*.o"))]
    subprocess.run(command, check=True)
    done = subprocess.run([*machine.run, program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
