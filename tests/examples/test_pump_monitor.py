"""two_models/main.c, linked with both modules of one archive, says the same on every machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.toolchain import compiler_of
from mlftool.targets import TARGETS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "two_models"
MODULES = ("digits_int8", "vibration_int8")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
TESTED = ("cortex-m3", "cortex-m4", "cortex-m7", "cortex-m55", "rv32imafc")
LINES = (
    "counter: 0 (98 %) 2 (90 %) 7 (98 %) 4 (99 %) 1 (71 %) 9 (68 %) ",
    "bearing: error  1083  sound",
    "bearing: error  1020  sound",
    "bearing: error  1603  ALARM",
    "bearing: error  3398  ALARM",
    "bearing: error  2790  ALARM",
    "bearing: error  1273  sound",
    "two_models: all as expected",
)


def sources(target: str, folder: Path) -> list[str]:
    """Include flag and C files of one archive with both models, unpacked to `folder`."""
    specs = [ModuleSpec(ROOT / f"examples/models/{m}.onnx", m, target) for m in MODULES]
    for name, content in compile_modules(specs).files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    code = folder / "codegen/host"
    files = sorted(map(str, code.glob("src/*.c")))
    assert len(files) == 2 * len(MODULES)
    return [f"-I{code / 'include'}", f"-I{ROOT / 'crt/platform'}", *files, str(FOLDER / "main.c")]


def build(compiler: str, arguments: list[str], output: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    command = [compiler, "-std=gnu99", "-O2", "-ffp-contract=off", *WARNINGS, *arguments]
    subprocess.run([*command, "-o", str(output)], check=True)


def check(run: subprocess.CompletedProcess[str]) -> None:
    assert run.stdout.splitlines()[-len(LINES) :] == list(LINES)
    assert run.returncode == 0


def test_on_this_computer(tmp_path: Path) -> None:
    arguments = [*sources("host", tmp_path), str(ROOT / "crt/platform/host/platform.c")]
    build("gcc", [*arguments, "-g", "-fsanitize=address,undefined"], tmp_path / "monitor")
    check(subprocess.run([tmp_path / "monitor"], capture_output=True, text=True))


@pytest.mark.parametrize("target", TESTED)
def test_on_the_simulated_board(target: str, tmp_path: Path) -> None:
    boards, board = ROOT / "crt/boards", BOARDS[target]
    program = compiler_of(TARGETS[target])
    arguments = [*program.flags, *TARGETS[target].cflags, *sources(target, tmp_path)]
    for folder in (boards / name for name in (board.name, *board.parts)):
        arguments += [f"-I{folder}", *map(str, folder.glob("*.c"))]
    arguments += ["-nostartfiles", f"-L{boards}", f"-T{boards / board.name / 'link.ld'}"]
    image = tmp_path / "monitor.elf"
    build(program.name, arguments, image)
    simulator, *machine = board.simulator
    if shutil.which(simulator) is None:
        pytest.skip(f"{simulator} is not installed")
    machine += ["-kernel", str(image)]
    # The program's text goes to a character device of its own: without one QEMU uses stderr.
    quiet = ["-display", "none", "-serial", "none", "-monitor", "none", "-chardev", "stdio,id=text"]
    semihosting = ["-semihosting-config", "enable=on,target=native,chardev=text"]
    command = [simulator, *machine, *quiet, *semihosting]
    check(subprocess.run(command, capture_output=True, text=True, timeout=60))
