"""The stack of an inference is bounded by the frames of the compiler, and nearly needs that."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from builders import Net, random_feeds
from other_networks import other_networks
from stack import stack_bound

from mlftool.compile import ModuleSpec, compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.ops.base import STACK_LIMIT_BYTES
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

RUNNER = 64  # the test runner's own frames between its mark and the module's function


ON_BOARD = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


@pytest.mark.sampled(6)
@ON_BOARD
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


@ON_BOARD
def test_the_most_scratch_fits_the_smallest_board() -> None:
    """A layer with all the scratch that goes to the stack: MLPerf's kws has such and overflowed."""
    rng, net = np.random.default_rng(3), Net()
    x = net.dq(net.input("x", np.int8, (1, 64, 12, 4)), 0.05, np.int8(3))
    w = rng.integers(-127, 128, (64, 64, 1, 1)).astype(np.int8)
    scales = rng.uniform(0.001, 0.02, 64).astype(np.float32)
    y = net.node("Conv", x, net.dq(net.const(w), scales, np.zeros(64, np.int8), 0))
    module = compile_module(ModuleSpec(net.model(net.q(y, 0.1, np.int8(1))), "m", "cortex-m0"))
    scratch = [o for c in module.program.calls for o in c.kernel.operands if o.role == "scratch"]
    assert max(o.bytes for o in scratch if o.local) == STACK_LIMIT_BYTES
    bundle = bundle_of([module])
    interface, board = read_interface(bundle, "m"), BOARDS["cortex-m0"]
    elf = link_firmware(bundle, interface, board, optimise="-O3")
    feeds = [{"x": rng.integers(-128, 128, (1, 64, 12, 4)).astype(np.int8)}]
    assert run_on_board(elf, board, interface, feeds).figures["stack_bytes"] > STACK_LIMIT_BYTES
