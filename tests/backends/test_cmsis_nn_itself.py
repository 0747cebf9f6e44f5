"""The calls that the backend cmsis-nn writes, with CMSIS-NN itself in place of the tests' double.

CMSIS-NN is in no registry: MLFTOOL_CMSIS_NN names a folder with version 7 of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from offload import Loaded, samples
from test_cmsis_nn import MODELS, made

from mlftool.describe import bundle
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.targets import TARGETS

FOLDER = Path(os.environ.get("MLFTOOL_CMSIS_NN", ""))
CORES = ("cortex-m0", "cortex-m4", "cortex-m55")

pytestmark = pytest.mark.skipif(
    "MLFTOOL_CMSIS_NN" not in os.environ,
    reason="an outside check: MLFTOOL_CMSIS_NN is a folder with CMSIS-NN 7",
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """CMSIS-NN, compiled for this computer and for each core, by the target's name."""
    found = {"host": library(tmp_path_factory.mktemp("host"), ["gcc", "-fPIC"])}
    for core in CORES if shutil.which("arm-none-eabi-gcc") else ():
        command = toolchain.find(toolchain.compiler_of(TARGETS[core]))
        found[core] = library(tmp_path_factory.mktemp(core), [*command, *TARGETS[core].cflags])
    return found


def library(folder: Path, compiler: Sequence[str]) -> Path:
    sources = sorted(map(str, FOLDER.glob("Source/**/*.c")))
    command = [*compiler, "-O2", "-w", "-ffunction-sections", f"-I{FOLDER / 'Include'}"]
    subprocess.run([*command, "-c", *sources], cwd=folder, check=True)
    made = folder / "libcmsis_nn.a"
    subprocess.run(["ar", "rcs", made, *folder.glob("*.o")], check=True)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_it_gives_tensorflow_lites_numbers_here(
    name: str, libraries: dict[str, Path], tmp_path: Path
) -> None:
    own, theirs = made(MODELS[name]), made(MODELS[name], "cmsis-nn")
    (tmp_path / "theirs").mkdir()
    plain = Loaded(own, tmp_path, [], [])
    itself = Loaded(theirs, tmp_path / "theirs", [libraries["host"]], [FOLDER / "Include"])
    for inputs in samples(own, 20):
        (_, want), (status, got) = plain.run(inputs), itself.run(inputs)
        assert status == 0
        for output in want:
            np.testing.assert_array_equal(got[output], want[output])


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", MODELS)
def test_it_gives_them_on_a_core(
    name: str, core: str, libraries: dict[str, Path], tmp_path: Path
) -> None:
    if core not in libraries:
        pytest.skip("apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm")
    plain = Loaded(made(MODELS[name]), tmp_path, [], [])
    module = made(MODELS[name], "cmsis-nn", target=core)
    assert module.report is not None
    if not module.report.offloaded:
        pytest.skip(f"the backend leaves this to our kernels on {core}")
    archive = bundle([module])
    options = ("-Wl,--whole-archive", str(libraries[core]), "-Wl,--no-whole-archive")
    board = replace(BOARDS[core], linkopts=(f"-I{FOLDER / 'Include'}", *options))
    interface = read_interface(archive)
    feeds = samples(module, 4)
    elf = link_firmware(archive, interface, board, tmp_path)
    for inputs, got in zip(feeds, run_on_board(elf, board, interface, feeds).outputs, strict=True):
        want = plain.run(inputs)[1]
        for output, value in want.items():
            np.testing.assert_array_equal(got[output], value)
