"""Layers in bands of rows: the same bits, less memory, and only chains that can be cut."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs
from builders import Net, random_feeds

from mlftool.cli import main
from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import read_tar, tar_bytes
from mlftool.plan.patches import check_patches
from mlftool.runtime.interface import read_interface
from rules.private.tools.package import module_spec

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
    build_jobs(list(made.values()), tmp_path_factory.mktemp("patches"))
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


def test_every_way_in_gives_the_same_archive(tmp_path: Path) -> None:
    """The command, a manifest, and what the Bazel rules hand to the compiler."""
    model = tmp_path / "m.onnx"
    onnx.save(MODELS["float"], model)
    (tmp_path / "models.yaml").write_text(
        "version: 1\nmodels:\n  m: {model: m.onnx, targets: rv32imc, executor: aot, patches: '4'}\n"
    )
    out = tmp_path / "m.tar"
    command = ["compile", str(model), "--module-name", "m", "--target", "rv32imc"]
    assert main([*command, "-o", str(out)]) == 0
    whole = out.read_bytes()
    assert main([*command, "--patches", "4", "-o", str(out)]) == 0
    assert out.read_bytes() != whole
    assert main(["build", str(tmp_path / "models.yaml"), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "m" / "rv32imc-aot.tar").read_bytes() == out.read_bytes()

    entry = {
        **{"model": str(model), "module_name": "m", "target": "rv32imc", "executor": "aot"},
        **{"input_shapes": {}, "input_values": {}, "data_files": [], "tuning": None},
        "backend_files": [],
        "options": {"patches": "4"},
    }
    bundle = compile_modules([module_spec(entry)])
    assert tar_bytes(bundle) == out.read_bytes()
    usual = compile_modules([ModuleSpec(model, "m", "rv32imc")])
    few, many = (read_interface(b, "m").workspace_bytes for b in (read_tar(out), usual))
    assert few < 0.9 * many


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
