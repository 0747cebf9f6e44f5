"""Weights of four bits: stored in four bits with `optimize: size`, and the bits of the results are
those of `speed`, which stores bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, Jobs
from builders import Net, random_feeds
from kernel_cases import deep, long_dense, many_layers

from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules
from mlftool.ops.nibbles import joined
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

MODELS = {"many": many_layers(7, False, 30, bits=4), "dense": long_dense(8), "deep": deep(9)}
FEEDS = {name: random_feeds(model, 5) for name, model in MODELS.items()}
KERNELS = {
    "rv32imafc": "portable.nibbles",
    "rv32imc": "integers.portable.nibbles",
    "cortex-m3": "integers.portable.nibbles",
    "cortex-m4": "dsp.small_nibbles",
}


def made(module: str, name: str, target: str, optimize: str) -> Job:
    spec = ModuleSpec(MODELS[name], module, target, optimize=optimize)
    return Job(spec.model, FEEDS[name], target, module, module=compile_module(spec))


JOBS = Jobs(made)


def weights(module: Module) -> int:
    """Bytes of all constants that kernels call w."""
    operands = [o for c in module.program.calls for o in c.kernel.operands]
    return sum(o.array.nbytes for o in operands if o.name == "w" and o.array is not None)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_same_bits_in_half_the_bytes(name: str, target: str, tmp_path: Path) -> None:
    small, fast = JOBS.built(tmp_path, (name, target, "size"), (name, target, "speed"))
    used = {c.kernel.name for c in small.compiled.program.calls if c.kernel.macs}
    assert KERNELS[target] in used
    assert all("nibbles" in name for name in used)
    if target == "cortex-m4":  # sums of deep layers leave no room for weights at the top
        params = [c.kernel.params for c in small.compiled.program.calls]
        tops = {p["top"] for p in params if "top" in p}
        assert tops == {"many": {True}, "dense": {True, False}, "deep": {False}}[name]
    assert small.output == fast.output
    assert len(set(small.output)) > (20 if name == "deep" else 50)
    assert weights(small.compiled) <= 0.55 * weights(fast.compiled)


@pytest.mark.sampled(4)
@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("name", MODELS)
def test_on_its_core(name: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(MODELS[name], path)
    bundle = compile_modules([ModuleSpec(path, "m", target, optimize="size")])
    interface = read_interface(bundle, "m")
    elf = link_firmware(bundle, interface, BOARDS[target], optimise="-Os")
    result = run_on_board(elf, BOARDS[target], interface, FEEDS[name])
    (here,) = JOBS.built(tmp_path, (name, target, "speed"))
    for got, want in zip(result.outputs, here.results, strict=True):
        for key, value in zip(got, want.values(), strict=True):
            np.testing.assert_array_equal(got[key], value, err_msg=key)


@pytest.mark.parametrize(("ic", "oc", "size"), [(3, 8, 3), (8, 16, 1), (24, 24, 1)])
def test_few_channels_take_the_dedicated_kernel(ic: int, oc: int, size: int) -> None:
    """The first layers of MobileNet: the portable kernel needs two to four times as many."""
    net = Net()
    w = np.random.default_rng(5).integers(-8, 8, (oc, ic, size, size)).astype(np.int8)
    x = net.dq(net.input("x", np.int8, (1, ic, 12, 12)), 0.05, np.int8(3))
    y = net.node("Conv", x, net.dq(net.const(w), 0.01, np.int8(0)), pads=[size // 2] * 4)
    model = net.model(net.q(y, 0.1, np.int8(-2)))
    module = compile_module(ModuleSpec(model, "m", "cortex-m4", optimize="size"))
    used = [c.kernel.name for c in module.program.calls if c.kernel.macs]
    assert used == ["dsp.small_nibbles"]


def test_one_weight_beyond_four_bits_takes_bytes_for_all() -> None:
    model = many_layers(9, False, 1)
    module = compile_module(ModuleSpec(model, "m", "cortex-m4", optimize="size"))
    assert "nibbles" not in module.program.calls[0].kernel.name


def test_how_two_are_joined() -> None:
    values = np.arange(-8, 8, dtype=np.int8)
    both = joined(values, values[::-1])
    assert (both & 15).tolist() == [v & 15 for v in values]
    assert (both >> 4).tolist() == [v & 15 for v in values[::-1]]
