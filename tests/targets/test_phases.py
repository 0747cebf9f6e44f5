"""Transposed convolutions whose windows touch: the bits of the portable kernel, as plain C and on
boards."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from batch import SANITIZERS, Job, build_jobs
from builders import Net, random_feeds

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

# (batch, input channels, spatial shape, output channels, kernel and strides)
LAYERS = [
    (1, 8, (8, 8), 16, (2, 2)),
    (1, 16, (5, 3), 1, (2, 2)),
    (2, 3, (3, 5), 5, (3, 1)),
    (1, 1, (1, 1), 7, (2, 3)),
    (1, 9, (7,), 6, (4,)),
    (3, 4, (1, 1), 2, (1, 2)),
    (1, 2, (4, 4), 3, (1, 1)),
]
TARGETS = ("host", "armv7-a", "cortex-m0", "cortex-m4", "rv32imc")
ON_BOARDS = ("cortex-m0", "cortex-m4", "rv32imc")


def layers() -> onnx.ModelProto:
    """One of each, with weights to the extremes and any zero point."""
    rng = np.random.default_rng(4)
    net = Net()
    outs = []
    for k, (batch, ic, size, oc, kernel) in enumerate(LAYERS):
        zero = np.int8(rng.integers(-128, 128))
        x = net.dq(net.input(f"x{k}", np.int8, (batch, ic, *size)), 0.05, zero)
        w = rng.choice([-128, 127, 3, 0, -50], size=(ic, oc, *kernel)).astype(np.int8)
        scale = rng.uniform(0.001, 0.02, size=oc).astype(np.float32)
        bias = rng.integers(-3000, 3000, size=oc).astype(np.int32)
        args = (
            x,
            net.dq(net.const(w), scale, np.zeros(oc, np.int8), 1),
            net.dq(net.const(bias), scale * np.float32(0.05), np.zeros(oc, np.int32), 0),
        )
        y = net.node("ConvTranspose", *args, strides=list(kernel))
        y = net.node("Relu", y) if k % 2 else y
        outs.append(net.q(y, np.float32(0.06 * ic), np.int8(rng.integers(-128, 128))))
    return net.model(*outs)


MODEL = layers()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made: dict[str, Job] = {}
    for target in (*TARGETS, "portable"):
        job = Job(MODEL, random_feeds(MODEL, 5), name=f"m{len(made)}")
        portable = target == "portable"
        name, optimize = ("armv7-a", "size") if portable else (target, "speed")
        job.module = compile_module(ModuleSpec(MODEL, job.name, name, optimize=optimize))
        kernels = {c.kernel.name for c in job.module.program.calls if c.kernel.macs}
        assert kernels == {"portable.conv_transpose" if portable else "phases.blocked"}
        made[target] = job
    build_jobs(list(made.values()), tmp_path_factory.mktemp("phases"), ("-O1", *SANITIZERS))
    for target, job in made.items():
        assert not job.failure, f"{target}: {job.failure}"
    return made


@pytest.mark.parametrize("target", TARGETS)
def test_plain_c(target: str, jobs: dict[str, Job]) -> None:
    assert jobs[target].output == jobs["portable"].output
    assert len(set(jobs[target].output)) > 100


@pytest.mark.parametrize("target", ON_BOARDS)
def test_on_its_core(target: str, jobs: dict[str, Job]) -> None:
    bundle = compile_modules([ModuleSpec(MODEL, "m", target)])
    interface, board = read_interface(bundle, "m"), BOARDS[target]
    want = jobs["portable"]
    result = run_on_board(link_firmware(bundle, interface, board), board, interface, want.feeds)
    for got, expected in zip(result.outputs, want.results, strict=True):
        for key, value in zip(got, expected.values(), strict=True):
            np.testing.assert_array_equal(got[key], value, err_msg=key)
