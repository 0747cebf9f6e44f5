"""The C tests of the runtime hold on every machine that can be run here, big-endian ones too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from crt_build import INCLUDES, ROOT, SOURCES, WARNINGS, part
from machines import RUNNING, Machine

PARTS = sorted(folder.name for folder in SOURCES.iterdir())
HOST_PLATFORM = "crt/platform/host/tvm_platform.c"
PAGES = "tests/crt/page_platform.c"
TEMPLATE = "crt/templates/platform.c.template"
RPC = ("rpc_server", "rpc_memory", "rpc_requests", "rpc_modules")
PROGRAMS = (
    *((name, HOST_PLATFORM) for name in ("runtime_api", "arrays", "page_allocator")),
    *((name, HOST_PLATFORM) for name in ("graph_executor", "aot_executor")),
    *((name, PAGES) for name in ("graph_executor", "aot_executor")),
    ("executor_modules", HOST_PLATFORM),
    ("rpc_framing", HOST_PLATFORM),
    *((name, "tests/crt/rpc_platform.c") for name in RPC),
    ("stack_allocator", TEMPLATE),
    ("out_of_memory", "tests/crt/fuzz/platform.c"),
)


def program_sources(name: str, platform: str) -> list[str | Path]:
    """A test and its platform, which may be a template: compilers know C by its suffix."""
    return [ROOT / f"tests/crt/{name}.c", "-x", "c", ROOT / platform, "-x", "none"]


@pytest.fixture(scope="module", params=RUNNING, ids=lambda machine: machine.name)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Machine, Path]:
    """A machine, and a folder with all of the runtime compiled for it."""
    machine: Machine = request.param
    machine.need()
    folder = tmp_path_factory.mktemp(machine.name)
    files = [file for name in PARTS for file in part(name)]
    command = [*machine.command, *WARNINGS, *machine.flags, *INCLUDES, "-c", *files]
    subprocess.run(command, cwd=folder, check=True)
    return machine, folder


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "platform"), PROGRAMS, ids=lambda value: Path(value).stem)
def test_program(name: str, platform: str, built: tuple[Machine, Path]) -> None:
    machine, folder = built
    assert machine.run is not None
    program = folder / name
    command = [*machine.command, *WARNINGS, *machine.flags, *INCLUDES, "-o", program]
    command += [*program_sources(name, platform), *sorted(folder.glob("*.o"))]
    subprocess.run(command, check=True)
    done = subprocess.run([*machine.run, program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
