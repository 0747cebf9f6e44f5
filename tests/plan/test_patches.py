"""Layers in bands of rows: the same bits, less memory, and only chains that can be cut."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import SANITIZERS, Job, build_jobs
from builders import Net, random_feeds
from shared import NETWORKS

from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.plan.patches import check_patches
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.runtime.vectors import load_vectors, samples_of

BANDS = ("7", "auto")
TARGETS = ("cortex-m4", "rv32imc")


def chain(seed: int, quantised: bool) -> onnx.ModelProto:
    """A wide beginning of dense, pointwise and depthwise layers with odd strides, dilations and
    padding, then a narrow end."""
    rng = np.random.default_rng(seed)
    net = Net()
    c = int(rng.integers(1, 4))
    kind = np.int8 if quantised else np.float32
    size = (int(rng.integers(29, 41)), int(rng.integers(9, 17)))
    x = net.input("x", kind, (1, *size, c))
    x = net.node("Transpose", x, perm=[0, 3, 1, 2])  # as exporters of channels-last models do
    for k in range(5):
        oc = c if k % 2 else int(rng.integers(2, 9))
        group = c if k % 2 else 1
        kernel = [int(n) for n in rng.integers(1, 4, size=2)]
        attrs = {
            "pads": [int(rng.integers(0, n)) for n in (*kernel, *kernel)],
            "strides": [2, 1] if k == 3 else [1, 1],
            "dilations": [1 + (k == 2), 1],
            "group": group,
        }
        w = rng.integers(-127, 128, size=(oc, c // group, *kernel))
        if quantised:
            scale = rng.uniform(0.002, 0.01, size=oc).astype(np.float32)
            args = (
                net.dq(x, 0.05, np.int8(k - 3)),
                net.dq(net.const(w.astype(np.int8)), scale, np.zeros(oc, np.int8), 0),
            )
            y = net.node("Relu", net.node("Conv", *args, **attrs))
            x = net.q(y, 0.05, np.int8(k - 2))
        else:
            bias = net.const(rng.normal(size=oc), np.float32)
            y = net.node("Conv", x, net.const(w / 500, np.float32), bias, **attrs)
            x = net.node("Relu", y) if k % 2 else y
        c = oc
    return net.model(net.node("MaxPool", x, kernel_shape=[5, 3], strides=[5, 3]))


MODELS = {
    "int8_0": chain(0, True),
    "int8_1": chain(1, True),
    "float": chain(2, False),
}
FEEDS = {name: random_feeds(model, 2) for name, model in MODELS.items()}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Job]:
    made: dict[tuple[str, str, str], Job] = {}
    for name, model in MODELS.items():
        for target in TARGETS:
            for bands in ("off", *BANDS):
                job = Job(model, FEEDS[name], target, name=f"m{len(made)}")
                spec = ModuleSpec(model, job.name, target, patches=bands)
                job.module = compile_module(spec)
                made[name, target, bands] = job
    build_jobs(list(made.values()), tmp_path_factory.mktemp("patches"), ("-O1", *SANITIZERS))
    for key, job in made.items():
        assert not job.failure, f"{key}: {job.failure}"
    return made


def arena(job: Job) -> int:
    assert job.module is not None
    return job.module.program.memory.size_bytes


def parts(module: Module | None) -> list[int]:
    assert module is not None
    return [len(c.parts) for c in module.program.calls if c.node.op == "mlf.Patches"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_same_bits_in_less_memory(
    name: str, target: str, jobs: dict[tuple[str, str, str], Job]
) -> None:
    whole = jobs[name, target, "off"]
    for bands in BANDS:
        job = jobs[name, target, bands]
        assert job.output == whole.output, bands
        assert arena(job) < arena(whole) or not parts(job.module)


def test_most_chains_gain(jobs: dict[tuple[str, str, str], Job]) -> None:
    """Bands of no use would pass everything above."""
    gained = [
        arena(jobs[name, "rv32imc", "auto"]) <= 0.7 * arena(jobs[name, "rv32imc", "off"])
        for name in MODELS
    ]
    assert sum(gained) > len(gained) / 2


def test_middle_bands_share_their_functions(jobs: dict[tuple[str, str, str], Job]) -> None:
    shared = 0
    for name in MODELS:
        module = jobs[name, "rv32imc", "7"].module
        assert module is not None
        bands = re.findall(r"MLF_KERNEL void \w+_patches_band", module.sources.lib1)
        if parts(module):
            assert 3 <= len(bands) < sum(parts(module))
            shared += 1
    assert shared


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize("optimize", ["speed", "size"])
def test_visual_wake_words_on_its_core(optimize: str) -> None:
    path: Path = next(n for n in NETWORKS if n.name == "vww_int8").path
    arenas = {}
    for patches in ("off", "auto"):
        spec = ModuleSpec(path, "m", "cortex-m4", patches=patches, optimize=optimize)
        bundle = compile_modules([spec])
        interface = read_interface(bundle, "m")
        arenas[patches] = interface.workspace_bytes
    elf = link_firmware(bundle, interface, BOARDS["cortex-m4"])
    vectors = load_vectors(path.with_suffix(".npz"))
    feeds = samples_of(vectors, interface.inputs, "m")[:1]
    result = run_on_board(elf, BOARDS["cortex-m4"], interface, feeds)
    for name, value in result.outputs[0].items():
        np.testing.assert_array_equal(value.ravel(), vectors[name][0].ravel())
    assert arenas["auto"] < 0.5 * arenas["off"]


def test_rows_of_padding_alone_are_not_cut() -> None:
    """A layer whose first rows see no input stays whole; it has no rows to give a band."""
    net = Net()
    x = net.input("x", np.float32, (1, 24, 24, 2))
    x = net.node("Transpose", x, perm=[0, 3, 1, 2])
    for pads in ([1] * 4, [3] * 4, [1] * 4):
        x = net.node("Conv", x, net.const(np.ones((2, 2, 3, 3)), np.float32), pads=pads)
    module = compile_module(ModuleSpec(net.model(x), patches="3"))
    assert not parts(module)


def test_a_residual_is_not_cut() -> None:
    """The chain ends where a tensor is read twice; a chain of one layer is none."""
    net = Net()
    x = net.input("x", np.float32, (1, 2, 24, 24))
    first = net.node("Conv", x, net.const(np.ones((2, 2, 3, 3)), np.float32), pads=[1] * 4)
    second = net.node("Conv", first, net.const(np.ones((2, 2, 3, 3)), np.float32), pads=[1] * 4)
    module = compile_module(ModuleSpec(net.model(net.node("Add", first, second)), patches="auto"))
    assert not parts(module)


@pytest.mark.parametrize("text", ["1", "65", "-2", "two", ""])
def test_what_is_no_number_of_bands(text: str) -> None:
    with pytest.raises(MlfError, match="expected off, auto or 2 to 64"):
        check_patches(text)
