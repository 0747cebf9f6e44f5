"""Transposes on Helium: those of numpy, on the simulated core."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from builders import Net, random_feeds

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

CORE = "cortex-m55"
# Whose longer axis is the output's last or the input's, near and far apart, in batches and not.
TURNED = [
    ((1, 3, 9, 7), (0, 2, 3, 1), np.int8),
    ((2, 5, 7, 3), (0, 3, 1, 2), np.uint8),
    ((3, 40, 21), (0, 2, 1), np.int8),
    ((37, 4), (1, 0), np.int16),
    ((5, 3, 18), (2, 0, 1), np.float32),
    ((6, 2, 11), (2, 1, 0), np.int32),
    ((2, 4, 3000), (0, 2, 1), np.int8),
]
OTHERS = [  # rows that stay together, few elements, in the input's place
    ((3, 21, 40), (1, 0, 2), np.int8),
    ((3, 3), (1, 0), np.int8),
    ((8, 5, 6), (0, 2, 1), np.int8),
]


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_its_elements_are_numpys() -> None:
    net, names = Net(), []
    for k, (shape, perm, kind) in enumerate([*TURNED, *OTHERS]):
        names.append(net.node("Transpose", net.input(f"x{k}", kind, shape), perm=list(perm)))
    spec = ModuleSpec(net.model(*names), "m", CORE)
    kernels = [call.kernel.name for call in compile_module(spec).program.calls]
    assert kernels.count("helium.turn") == len(TURNED)
    bundle = compile_modules([spec])
    interface = read_interface(bundle, "m")
    feeds = random_feeds(spec.model, 3, 1)
    elf = link_firmware(bundle, interface, BOARDS[CORE])
    (outputs,) = run_on_board(elf, BOARDS[CORE], interface, feeds).outputs
    for (_, perm, _), x, y in zip(
        [*TURNED, *OTHERS], feeds[0].values(), outputs.values(), strict=True
    ):
        np.testing.assert_array_equal(y, x.transpose(perm))
