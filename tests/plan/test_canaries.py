"""On the device, the workspace is exactly what a plan says: a guard after it stays as it is, and
the guard after one that is a unit smaller does not. Each run finds rubbish in the workspace."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from shared import NETWORKS

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, write_tar
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import RunResult, run_on_board
from mlftool.runtime.vectors import load_vectors, samples_of
from rules.private.tools import arena

LIB0 = "codegen/host/src/m_lib0.c"
CASES = [
    ("vww_int8", "cortex-m4", {"patches": "auto"}),
    ("vww_int8", "cortex-m4", {"patches": "4", "optimize": "size"}),
    ("kws_int8", "cortex-m55", {}),
    ("kws_int8", "cortex-m3", {}),
    ("ic_int8", "cortex-m4", {}),
    ("digits_int8", "cortex-m4", {"workspace_io": True}),
]

pytestmark = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def guarded(bundle: Bundle, less: int, folder: Path) -> Bundle:
    """The archive with a guard after a workspace that is `less` bytes smaller."""
    write_tar(bundle, folder / "m.tar")
    text = arena.source(folder / "m.tar", "m", less)
    kept = {name: data for name, data in bundle.files.items() if name != "checksums.sha256"}
    return Bundle({**kept, LIB0: text.encode()})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "target", "asked"), CASES)
def test_the_guard(name: str, target: str, asked: dict[str, str], tmp_path: Path) -> None:
    path = next(n for n in NETWORKS if n.name == name).path
    bundle = compile_modules([ModuleSpec(path, "m", target, **asked)])
    interface = read_interface(bundle, "m")
    vectors = load_vectors(path.with_suffix(".npz"))
    feeds = samples_of(vectors, interface.inputs, "m")[:1]

    def run(less: int) -> RunResult:
        made = guarded(bundle, less, tmp_path)
        elf = link_firmware(made, interface, BOARDS[target], optimise="-O1")
        return run_on_board(elf, BOARDS[target], interface, feeds)

    for key, value in run(0).outputs[0].items():
        np.testing.assert_array_equal(value.ravel(), vectors[key][0].ravel())
    with pytest.raises(MlfError, match=r"an arena of \d+ bytes is too small"):
        run(1)


@pytest.mark.parametrize("optimize", ["speed", "size"])
def test_bands_need_less(optimize: str) -> None:
    path = next(n for n in NETWORKS if n.name == "vww_int8").path
    bytes_ = {}
    for patches in ("off", "4"):
        spec = ModuleSpec(path, "m", "cortex-m4", patches=patches, optimize=optimize)
        bytes_[patches] = read_interface(compile_modules([spec]), "m").workspace_bytes
    assert bytes_["4"] < 0.6 * bytes_["off"]
