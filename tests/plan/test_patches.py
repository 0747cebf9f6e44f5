"""Layers in bands of rows: the same bits, less memory, and only chains that can be cut."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, Jobs
from builders import Net, random_feeds
from hypothesis import given, settings
from hypothesis import strategies as st

from mlftool.cli import main
from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import read_tar, tar_bytes
from mlftool.ops.patches import Layer, Move, Run
from mlftool.plan.budget import budget_bytes, cost
from mlftool.plan.patches import check_patches
from mlftool.plan.rows import Flow, Reader, by_rows, window_input
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
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


def residual(quantised: bool) -> onnx.ModelProto:
    """Two branches that meet, an input that is read twice, pools, and rows without a third axis."""
    rng = np.random.default_rng(5)
    net = Net()
    kind = np.int8 if quantised else np.float32

    def stored(y: str) -> str:
        return net.q(y, 0.05, np.int8(3)) if quantised else y

    def read(x: str) -> str:
        return net.dq(x, 0.05, np.int8(3)) if quantised else x

    def conv(x: str, ic: int, oc: int, k: int, **attrs: object) -> str:
        w = rng.integers(-127, 128, size=(oc, ic, k, k))
        if quantised:
            weights = net.dq(net.const(w.astype(np.int8)), 0.004, np.int8(0))
        else:
            weights = net.const(w / 500, np.float32)
        bias = net.const(np.zeros(oc), np.float32)
        args = (weights,) if quantised else (weights, bias)
        return net.node("Conv", x, *args, **attrs)

    x = net.input("x", kind, (1, 30, 20, 3))
    x = read(net.node("Transpose", x, perm=[0, 3, 1, 2]))
    x = read(stored(net.node("Relu", conv(x, 3, 8, 3, pads=[1] * 4))))
    y = read(stored(net.node("Relu", conv(x, 8, 8, 3, pads=[1] * 4))))
    y = read(stored(conv(y, 8, 8, 3, pads=[1] * 4)))
    x = read(stored(net.node("Relu", net.node("Add", x, y))))
    x = read(stored(net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)))
    side = read(stored(conv(x, 8, 4, 1, strides=[2, 2])))
    x = read(stored(conv(x, 8, 4, 3, strides=[2, 2], pads=[1] * 4)))
    return net.model(stored(net.node("Add", x, side)))


def reparameterised(quantised: bool, branches: int = 2) -> onnx.ModelProto:
    """RepVGG's blocks: convolutions of several sizes and the block's input, in one sum. A layer
    that ends with it reads a window and all other branches."""
    rng = np.random.default_rng(6)
    net = Net()

    def conv(x: str, size: int) -> str:
        w = rng.integers(-127, 128, size=(6, 6, size, size))
        pads = [size // 2] * 4
        if not quantised:
            return net.node("Conv", x, net.const(w / 900, np.float32), pads=pads)
        weights = net.dq(net.const(w.astype(np.int8)), 0.004, np.int8(0))
        return net.dq(
            net.q(net.node("Conv", x, weights, pads=pads), 0.1, np.int8(1)), 0.1, np.int8(1)
        )

    x = net.input("x", np.float32, (1, 6, 24, 16))
    for block in range(2):
        if quantised:
            x = net.dq(net.q(x, 0.05, np.int8(block)), 0.05, np.int8(block))
        total = conv(x, 3)
        for k in range(1, branches):
            total = net.node("Add", total, conv(x, (3, 1, 5, 1)[k]))
        x = net.node("Relu", net.node("Add", total, x))
    return net.model(net.node("MaxPool", x, kernel_shape=[4, 4], strides=[4, 4]))


MODELS = {
    "int8_0": chain(0, True),
    "int8_1": chain(1, True),
    "float": chain(2, False),
    "residual": residual(True),
    "float_residual": residual(False),
    "branches": reparameterised(True),
    "float_branches": reparameterised(False),
    "many_branches": reparameterised(False, 4),
}
FEEDS = {name: random_feeds(model, 2) for name, model in MODELS.items()}


def made(module: str, name: str, target: str, patches: str) -> Job:
    spec = ModuleSpec(MODELS[name], module, target, patches=patches)
    return Job(spec.model, FEEDS[name], target, module, module=compile_module(spec))


JOBS = Jobs(made)


def arena(job: Job) -> int:
    return job.compiled.program.memory.size_bytes


def parts(module: Module) -> list[int]:
    return [len(c.parts) for c in module.program.calls if c.node.op == "mlf.Patches"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_same_bits_in_less_memory(name: str, target: str, tmp_path: Path) -> None:
    keys = [(name, target, bands) for bands in ("off", *BANDS)]
    whole, *jobs = JOBS.built(tmp_path, *keys)
    for bands, job in zip(BANDS, jobs, strict=True):
        assert job.output == whole.output, bands
        assert arena(job) < arena(whole) or not parts(job.compiled)


def test_most_chains_gain() -> None:
    """Bands of no use would pass everything above."""
    gained = [
        arena(JOBS(name, "rv32imc", "auto")) <= 0.7 * arena(JOBS(name, "rv32imc", "off"))
        for name in MODELS
    ]
    assert sum(gained) > len(gained) / 2


def test_middle_bands_are_one_loop() -> None:
    loops = 0
    for name in MODELS:
        for call in JOBS(name, "rv32imc", "7").compiled.program.calls:
            if call.parts:
                assert len(call.parts) < sum(call.kernel.turns.values())
                loops += max(turns for turns, _ in call.kernel.params["runs"]) > 1
    assert loops


@pytest.mark.sampled(4)
@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize(
    ("name", "target", "executor"),
    [
        *(("residual", "cortex-m4", executor) for executor in ("aot", "graph", "vm")),
        ("float", "cortex-m55", "aot"),
    ],
)
def test_bands_on_a_core_have_the_bits_of_the_whole(name: str, target: str, executor: str) -> None:
    spec = ModuleSpec(MODELS[name], "m", target, executor=executor)
    assert parts(compile_module(replace(spec, patches="auto")))
    found = []
    for patches in ("off", "auto"):
        bundle = compile_modules([replace(spec, patches=patches)])
        interface, board = read_interface(bundle, "m"), BOARDS[target]
        elf = link_firmware(bundle, interface, board, optimise="-O1")
        ran = run_on_board(elf, board, interface, FEEDS[name])
        found.append([value.tobytes() for out in ran.outputs for value in out.values()])
    assert found[0] == found[1]


def unrolled(runs: Sequence[Run]) -> Iterator[Move | Layer]:
    """All that is done, one after the other."""
    for turns, first, then in runs:
        for k in range(turns):
            for a, b in zip(first, then, strict=True):
                if isinstance(a, Layer) and isinstance(b, Layer):
                    pairs = zip(a.arguments, b.arguments, strict=True)
                    a = Layer(a.key, tuple((p, m + k * (n - m)) for (p, m), (_, n) in pairs))
                yield a


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 9), st.booleans())
def test_rows_are_made_once_and_kept_until_they_are_read(
    seed: int, bands: int, apart: bool
) -> None:
    """On layers of random windows: each row of each tensor is made in order and once, and is in its
    buffer, at its place, whenever a layer reads it."""
    program = compile_module(ModuleSpec(chain(seed, True), "m", "rv32imc")).program
    good = [n for n in program.graph.nodes if by_rows(program.graph, n)]
    assert len(good) >= 2
    flow = Flow(program.graph, tuple(good), window_input(good[0]) or "", bands, apart)
    node = flow.node()
    holds: dict[int, tuple[str, int, int]] = {}  # byte of the buffers -> tensor, row, byte
    made = {n.result: 0 for n in good}
    for what in unrolled(node.attrs["runs"]):
        if isinstance(what, Move):
            moved = {k: holds[what.start + k] for k in range(what.size)}
            holds |= {what.to + k: byte for k, byte in moved.items()}
            continue
        graph = node.graphs[what.key]
        (read,), (name,) = graph.inputs, graph.outputs
        reader = Reader.of(next(n for n in good if n.result == name))
        start = made[name] * reader.stride - reader.above
        assert graph.nodes[0].core.attrs.get("pads", (0,))[0] == max(0, -start)
        (source, at), (base, to) = what.arguments
        row = flow.row(read)
        for k in range(graph.types[read].shape[1] * row):
            r = max(0, start) + k // row
            assert (
                holds[at + k] == (read, r, k % row)
                if source == "rows"
                else at == max(0, start) * row
            )
        row = flow.row(name)
        for k in range(graph.types[name].shape[1] * row):
            assert 0 <= to + k < (flow.bytes if base == "rows" else flow.graph.types[name].bytes)
            if base == "rows":
                holds[to + k] = (name, made[name] + k // row, k % row)
        made[name] += graph.types[name].shape[1]
    assert made[flow.made] == flow.height(flow.made)


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


def test_budgets_are_met_at_the_least_cost() -> None:
    """Each budget between what the whole network and the smallest plan take is kept, a larger one
    never costs more; one below says what the least is, and that very budget holds."""
    model = MODELS["residual"]
    whole = compile_module(ModuleSpec(model, target="rv32imc"))
    with pytest.raises(MlfError, match="bytes of RAM are the least found") as caught:
        compile_module(ModuleSpec(model, target="rv32imc", ram_budget="100"))
    assert caught.value.problems[0].code == "MLF0119"
    least = int(caught.value.problems[0].message.split()[0])
    most = whole.ram_bytes
    assert least < 0.7 * most
    costs = []
    for budget in (most, (most + least) // 2, least):
        module = compile_module(ModuleSpec(model, target="rv32imc", ram_budget=str(budget)))
        assert module.ram_bytes <= budget
        costs.append(cost(module.program))
    assert costs[0] == cost(whole.program)
    assert costs == sorted(costs)
    assert costs[-1] < 1.5 * costs[0]


@pytest.mark.parametrize("text", ["", "0", "3x", "-1", "1 KiB", "off"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(MlfError, match="expected none or bytes such as 24KiB"):
        budget_bytes(text)


@pytest.mark.parametrize("text", ["1", "65", "-2", "two", ""])
def test_what_is_no_number_of_bands(text: str) -> None:
    with pytest.raises(MlfError, match="expected off, auto or 2 to 64"):
        check_patches(text)
