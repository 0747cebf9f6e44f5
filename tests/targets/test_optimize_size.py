"""`optimize: size` changes the code and no bit of the results."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, Jobs
from builders import Net, random_feeds
from kernel_cases import chains, dilated, many_layers
from test_float_modes import layers

from mlftool.codegen.share import share
from mlftool.compile import ModuleSpec, compile_module, compile_modules, plan_module
from mlftool.errors import MlfError
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import footprint, link_firmware
from mlftool.runtime.runner import run_on_board, run_on_host
from mlftool.targets import TARGETS

DEVICE = "cortex-m4"
MODELS = {
    "dense": many_layers(1, False, 30, signed=True),
    "depthwise": many_layers(2, True, 30, signed=True),
    "dilated": dilated(28),
    "chains": chains(3),
    "floats": layers(4),
}
FEEDS = {name: random_feeds(model, 5) for name, model in MODELS.items()}
# Characters of all functions, at most: what these models took when this was written, and 100. The
# floats took 38,581 when all layers were padded to one tile, and 260,664 bytes of flash on
# Cortex-M4 in place of 140,104. Rows of depthwise layers inside and outside an image are two loops
# since vww takes half as long.
MOST_TEXT = {"dense": 32_446, "depthwise": 68_680, "chains": 10_811, "floats": 43_782}
MOST_TEXT["dilated"] = 25_420


def made(module: str, name: str, target: str, optimize: str) -> Job:
    spec = ModuleSpec(MODELS[name], module, target, optimize=optimize)
    return Job(spec.model, FEEDS[name], target, module, module=compile_module(spec))


JOBS = Jobs(made)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", [DEVICE, "cortex-m3", "host"])
@pytest.mark.parametrize("name", MODELS)
def test_same_bits(name: str, target: str, tmp_path: Path) -> None:
    small, fast = JOBS.built(tmp_path, (name, target, "size"), (name, target, "speed"))
    assert small.output == fast.output


@pytest.mark.parametrize("name", MODELS)
def test_fewer_functions_and_less_text(name: str) -> None:
    def code(optimize: str) -> tuple[int, int]:
        module = JOBS(name, DEVICE, optimize).compiled
        kernels = re.findall(r"^MLF_KERNEL.*?^}", module.sources.lib1, re.M | re.S)
        return len(kernels), sum(map(len, kernels))

    (few, short), (many, long) = code("size"), code("speed")
    assert few < many
    assert short < min(MOST_TEXT[name], long), (short, long)


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize("name", ["dense", "depthwise", "chains"])
def test_on_its_core(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(MODELS[name], path)
    flash = {}
    for optimize in ("speed", "size"):
        bundle = compile_modules([ModuleSpec(path, "m", DEVICE, optimize=optimize)])
        interface = read_interface(bundle, "m")
        elf = link_firmware(bundle, interface, BOARDS[DEVICE], optimise="-Os")
        flash[optimize] = footprint(elf).flash
    result = run_on_board(elf, BOARDS[DEVICE], interface, FEEDS[name][:2])
    (here,) = JOBS.built(tmp_path, (name, DEVICE, "speed"))
    for got, want in zip(result.outputs, here.results, strict=False):
        for key, value in zip(got, want.values(), strict=True):
            assert got[key].tobytes() == value.tobytes(), key
    assert flash["size"] < flash["speed"]


def test_one_layer_keeps_its_numbers() -> None:
    module = compile_module(ModuleSpec(many_layers(5, False, 1), "one", DEVICE, optimize="size"))
    assert "layer[" not in module.sources.lib1
    assert share(module.program) == module.program


def test_there_are_two_settings() -> None:
    with pytest.raises(MlfError, match="optimize 'tiny', expected speed or size"):
        compile_module(ModuleSpec(MODELS["chains"], optimize="tiny"))


@pytest.mark.parametrize("form", ["packed", "graph", "vm"])
def test_every_executor_passes_the_numbers(form: str, tmp_path: Path) -> None:
    executor = "aot" if form == "packed" else form
    interface_api = "packed" if form == "packed" else None
    plain = replace(TARGETS["host"], features=frozenset({"fpu"}))  # without kernels in vectors
    asked = {"interface_api": interface_api, "optimize": "size"}
    spec = ModuleSpec(MODELS["chains"], "m", plain, executor, **asked)
    bundle = compile_modules([spec])
    assert any(b" *MLF_RESTRICT layer" in data for data in bundle.files.values())
    interface = read_interface(bundle, "m")
    result = run_on_host(build_runner(bundle, interface), interface, FEEDS["chains"], 1)
    (here,) = JOBS.built(tmp_path, ("chains", "host", "speed"))
    for got, want in zip(result.outputs, here.results, strict=True):
        for key, value in zip(got, want.values(), strict=True):
            assert got[key].tobytes() == value.tobytes(), key


def odd_channels(kind: type) -> onnx.ModelProto:
    """Layers with as many outputs as no tile has."""
    rng = np.random.default_rng(0)
    net = Net()

    def layer(op: str, x: str, shape: tuple[int, ...], **attrs: object) -> str:
        weights = rng.normal(size=shape)
        if kind is np.float32:
            return net.node(op, x, net.const(weights, np.float32), **attrs)
        integers = net.const(np.clip(np.rint(weights * 40), -127, 127).astype(np.int8))
        w = net.dq(integers, 0.004, np.int8(0))
        return net.q(net.node(op, net.dq(x, 0.05, np.int8(3)), w, **attrs), 0.05, np.int8(3))

    x = net.input("x", kind, (1, 64, 6, 6))
    for channels, before in ((5, 64), (17, 5), (3, 17)):
        x = layer("Conv", x, (channels, before, 3, 3), pads=[1] * 4)
    x = net.node("Reshape", x, net.const(np.array([1, -1])))
    extents = (108, 33, 250, 10, 450, 3, 600, 1)
    for shape in pairwise(extents):
        x = layer("MatMul", x, shape)
    return net.model(x)


CORES = ("cortex-m0", "cortex-m3", DEVICE, "cortex-m55", "rv32imc", "rv32imafc")
CASES = [
    *((np.float32, target) for target in CORES),
    *((np.int8, target) for target in CORES if target != "cortex-m55"),  # whole vectors
]


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_few_channels_are_not_padded_for_a_tile(kind: type, target: str) -> None:
    """A dense layer of three floats had the weights of sixteen."""
    program = plan_module(ModuleSpec(odd_channels(kind), "m", target, optimize="size")).program
    layers = [call for call in program.calls if call.kernel.macs]
    assert len(layers) == 10
    for call in layers:
        bytes = [
            operand.array.nbytes for operand in call.kernel.operands if operand.array is not None
        ]
        weights = program.graph.consts[call.node.core.inputs[1 if kind is np.float32 else 3]]
        convolution = weights.ndim == 4
        channels = weights.shape[0 if convolution else -1]
        padding = weights.nbytes // (4 if kind is np.float32 else channels)
        assert sum(bytes) <= weights.nbytes + padding + 9 * channels + 450, call.node.label
