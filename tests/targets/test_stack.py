"""The stack of an inference is bounded by the frames of the compiler, and nearly needs that."""

from __future__ import annotations

import shutil

import pytest
from builders import random_feeds
from other_networks import other_networks
from stack import stack_bound

from mlftool.compile import ModuleSpec, compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

RUNNER = 64  # the test runner's own frames between its mark and the module's function


@pytest.mark.sampled(6)
@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m3"])
@pytest.mark.parametrize("name", ["mlp_int8", "cnn_1d_int8", "autoencoder_int8", "tcn_fp32"])
def test_painted_stack_is_within_the_bound(name: str, core: str) -> None:
    model = other_networks()[name]
    bundle = bundle_of([compile_module(ModuleSpec(model, "m", core))])
    interface = read_interface(bundle, "m")
    elf = link_firmware(bundle, interface, BOARDS[core], optimise="-O3")
    ran = run_on_board(elf, BOARDS[core], interface, random_feeds(model, 3, samples=1))
    bound = stack_bound(bundle, "m", core)
    painted = int(ran.figures["stack_bytes"])
    # Painting starts above the runner's frames, and what a library takes is a guess.
    assert painted <= bound + RUNNER
    assert bound <= painted + RUNNER
