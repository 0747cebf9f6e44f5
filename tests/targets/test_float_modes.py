"""Float contractions: more pixels at a time change no bit; one rounding keeps its bound."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Build, Job, build_jobs
from builders import Net, random_feeds
from oracle import onnxruntime_float, relative_error
from vector_cases import recurrent_layers

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

PORTABLE, DEVICE, VECTORS = "rv32imc", "cortex-m4", "cortex-m55"
RECURRENT = recurrent_layers(5)
PANELS = {
    ("exact", DEVICE): "panels.recurrent",
    ("exact", "host"): "sse2.recurrent",
    ("fused", DEVICE): "fused.panels.recurrent",
    ("fused", PORTABLE): "fused.panels.recurrent",
    ("fused", "host"): "fused.panels.recurrent",
}
TARGETS = {
    "exact": (PORTABLE, DEVICE, "host"),
    "fused": (PORTABLE, DEVICE, "host"),
    "fast": (PORTABLE, VECTORS),
}
Tensors = Mapping[str, Any]
Feeds = Sequence[Tensors]
UNIT = 2.0**-24  # of float32's rounding


def layers(seed: int, long: bool = False) -> onnx.ModelProto:
    """Dense, pointwise, padded, strided, dilated, grouped and depthwise layers side by side; `long`
    adds recurrent ones and sums in several parts."""
    rng = np.random.default_rng(seed)
    net, outputs = Net(), []

    def weights(*shape: int) -> str:
        return net.const(rng.normal(size=shape), np.float32)

    for k in range(11):
        ic, oc = (int(n) for n in rng.integers(1, 21, size=2))
        size = [int(n) for n in rng.integers(3, 9, size=2)]
        x = net.input(f"x{k}", np.float32, (1, ic, *size))
        kernel = [int(n) for n in rng.integers(1, 4, size=2)]
        attrs = {"pads": [int(n) for n in rng.integers(0, 2, size=4)]}
        attrs["strides"] = [int(n) for n in rng.integers(1, 3, size=2)]
        group = ic if k % 3 == 2 else 1
        oc = ic if group > 1 else oc
        w = weights(oc, ic // group, *kernel)
        outputs.append(net.node("Conv", x, w, weights(oc), group=group, **attrs))
        flat = net.input(f"f{k}", np.float32, (1 + k % 2, 37 * (k + 1)))
        outputs.append(net.node("Gemm", flat, weights(37 * (k + 1), oc), weights(oc)))
    if not long:
        return net.model(*outputs)
    for channels, group in ((16, 16), (39, 39), (20, 1), (24, 3), (24, 4), (15, 3)):
        x = net.input(f"wide{channels}_{group}", np.float32, (1, channels, 5, 4))
        attrs = {"pads": [1, 0, 1, 1], "strides": [1, channels % 2 + 1]}
        args = weights(channels, channels // group, 3, 3), weights(channels)
        y = net.node("Conv", x, *args, group=group, **attrs)
        outputs.append(net.node("Relu", y))
    x = net.input("deep", np.float32, (1, 40, 5, 4))
    w = net.const(rng.normal(size=(6, 40, 3, 3)) / 8, np.float32)
    outputs.append(net.node("Conv", x, w, weights(6), pads=[1] * 4))
    x = net.input("rows", np.float32, (7, 300))
    w = net.const(rng.normal(size=(300, 9)) / 8, np.float32)
    outputs.append(net.node("Relu", net.node("Gemm", x, w, weights(9))))
    for kind, gates, inputs in (("GRU", 3, 7), ("LSTM", 4, 300)):
        x = net.input(kind.lower(), np.float32, (2, 1, inputs))
        w, r = (rng.normal(size=(1, 5 * gates, n)) / 8 for n in (inputs, 5))
        both = net.const(w, np.float32), net.const(r, np.float32)
        outputs.append(net.node(kind, x, *both, hidden_size=5))
    return net.model(*outputs)


MODEL = layers(4, long=True)
FEEDS = random_feeds(MODEL, 9)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Job]:
    made: dict[tuple[str, str], Job] = {}
    for mode, targets in TARGETS.items():
        for target in targets:
            job = Job(MODEL, FEEDS, target, name=f"{mode}_{target.replace('-', '_')}")
            spec = ModuleSpec(MODEL, job.name, target, float_mode=mode)
            job.module = compile_module(spec)
            made[mode, target] = job
    build_jobs(list(made.values()), tmp_path_factory.mktemp("floats"), Build("-O1"))
    for key, job in made.items():
        assert not job.failure, f"{key}: {job.failure}"
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["exact", "fused"])
def test_every_target_has_the_same_bits(mode: str, jobs: dict[tuple[str, str], Job]) -> None:
    assert jobs[mode, DEVICE].output == jobs[mode, PORTABLE].output == jobs[mode, "host"].output
    module = jobs[mode, DEVICE].module
    assert module is not None
    names = {c.kernel.name for c in module.program.calls}
    assert {f"vfp.{mode}.4x4", f"vfp.{mode}.1x8"} <= names


@pytest.mark.parametrize("mode", ["exact", "fused"])
def test_panels_of_recurrent_layers_keep_the_bits(mode: str, tmp_path: Path) -> None:
    """And those of fused sums are the same on every target, too."""
    feeds = random_feeds(RECURRENT, 3)[:1]
    jobs: dict[str, Job] = {}
    for target in (PORTABLE, DEVICE, "host"):
        name = f"recurrent_{target.replace('-', '_')}"
        jobs[target] = Job(RECURRENT, feeds, target, name=name)
        spec = ModuleSpec(RECURRENT, name, target, float_mode=mode)
        module = jobs[target].module = compile_module(spec)
        kernels = {c.kernel.name for c in module.program.calls if "recurrent" in c.kernel.name}
        assert kernels == {PANELS.get((mode, target), "portable.recurrent")}
    build_jobs(list(jobs.values()), tmp_path, Build("-O1"))
    assert all(not job.failure for job in jobs.values()), jobs
    assert jobs[PORTABLE].output == jobs[DEVICE].output == jobs["host"].output


def test_fast_is_fused_where_there_are_no_vectors(jobs: dict[tuple[str, str], Job]) -> None:
    """So is what stands for the vectors in plain C, which sanitizers see here."""
    assert jobs["fast", PORTABLE].output == jobs["fused", PORTABLE].output
    assert jobs["fast", VECTORS].output == jobs["fused", PORTABLE].output
    module = jobs["fast", VECTORS].module
    assert module is not None
    called = {c.kernel.name for c in module.program.calls}
    names = {name for name in called if name.startswith("helium.fast.")}
    assert names == {f"helium.fast.{tile}" for tile in ("4x4", "1x8", "depthwise")}


def test_the_modes_differ_by_rounding_only(jobs: dict[tuple[str, str], Job]) -> None:
    exact, fused = jobs["exact", "host"], jobs["fused", "host"]
    assert exact.output != fused.output
    for mode in (exact, fused):
        for got, want in zip(mode.results, onnxruntime_float(MODEL, FEEDS), strict=True):
            assert all(relative_error(got[n], want[n]) <= 1e-5 for n in want)


def test_fused_sums_keep_their_bound(tmp_path: Path) -> None:
    """|error| <= (n + 1) u sum |x w|: one rounding per product, and one for the bias."""
    n = 700
    rng = np.random.default_rng(1)
    net = Net()
    w = rng.normal(size=(n, 16)).astype(np.float32)
    net_input = net.input("x", np.float32, (1, n))
    model = net.model(net.node("Gemm", net_input, net.const(w, np.float32)))
    x = rng.normal(size=(1, n)).astype(np.float32)
    job = Job(model, [{"x": x}], name="bound")
    job.module = compile_module(ModuleSpec(model, "bound", float_mode="fused"))
    build_jobs([job], tmp_path, Build("-O1"))
    ((got,),) = (tuple(r.values()) for r in job.results)
    exact = x.astype(np.float64) @ w
    size = np.abs(x).astype(np.float64) @ np.abs(w)
    assert np.all(np.abs(got - exact) <= (n + 1) * UNIT * size)


on_boards = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


@on_boards
@pytest.mark.parametrize(
    ("mode", "target"), [("exact", DEVICE), ("fused", DEVICE), ("fast", VECTORS)]
)
def test_on_its_core(mode: str, target: str, jobs: dict[tuple[str, str], Job]) -> None:
    want = jobs[mode, PORTABLE].results
    got = on_board(MODEL, mode, target, FEEDS[:2])
    for outputs, expected in zip(got, want, strict=False):
        for name, value in expected.items():
            assert outputs[name].tobytes() == value.tobytes(), name


def on_board(model: onnx.ModelProto, mode: str, target: str, feeds: Feeds) -> list[Tensors]:
    bundle = compile_modules([ModuleSpec(model, "m", target, float_mode=mode)])
    interface = read_interface(bundle, "m")
    elf = link_firmware(bundle, interface, BOARDS[target])
    return run_on_board(elf, BOARDS[target], interface, feeds).outputs


def strange(seed: int) -> tuple[onnx.ModelProto, Tensors]:
    """Sums of each form before a Relu, with a NaN of either sign and infinities among operands."""
    rng = np.random.default_rng(seed)
    net, feed = Net(), {}
    odd = np.array([0xFFC00000, 0x7FC00001, 0xFF800000, 0x7F800000], np.uint32).view(np.float32)

    def operand(*shape: int) -> Any:
        value = rng.normal(size=shape).astype(np.float32)
        value.reshape(-1)[rng.permutation(value.size)[: len(odd)]] = odd
        return value

    outputs = []
    for channels, group in ((16, 16), (39, 39), (20, 1)):
        name = f"x{len(feed)}"
        feed[name] = operand(1, channels, 5, 4)
        x = net.input(name, np.float32, feed[name].shape)
        weights = operand(channels, channels // group, 3, 3), operand(channels)
        args = [net.const(w) for w in weights]
        outputs.append(net.node("Relu", net.node("Conv", x, *args, group=group, pads=[1] * 4)))
    feed["row"], w = operand(1, 300), operand(300, 9)
    row = net.input("row", np.float32, (1, 300))
    outputs.append(net.node("Relu", net.node("Gemm", row, net.const(w))))
    return net.model(*outputs), feed


@on_boards
def test_a_nan_has_the_same_bits_in_plain_c_and_in_vectors(tmp_path: Path) -> None:
    """A processor's own NaN is negative on x86; Helium's only one is positive."""
    model, feed = strange(3)
    job = Job(model, [feed], VECTORS, name="strange")
    job.module = compile_module(ModuleSpec(model, job.name, VECTORS, float_mode="fast"))
    build_jobs([job], tmp_path, Build("-O1"))
    assert not job.failure, job.failure
    module = job.module
    assert module is not None
    assert {c.kernel.name for c in module.program.calls} >= {
        f"helium.fast.{tile}" for tile in ("4x4", "1x8", "depthwise")
    }
    for name, value in on_board(model, "fast", VECTORS, [feed])[0].items():
        assert np.isnan(value).any()
        assert value.tobytes() == job.results[0][name].tobytes(), name


@on_boards
def test_fast_sums_keep_their_bound() -> None:
    """|error| <= (n + 1) u sum |x w| + t (n + 1 + sum |x| + sum |w|): the bound of `fused`, and
    the least normal number t for each flushed sum, times the other factor for each operand."""
    rng = np.random.default_rng(5)
    net, n, least = Net(), 40, float(np.finfo(np.float32).tiny)

    def tiny(*shape: int) -> Any:
        return (rng.normal(size=shape) * 2.0 ** rng.uniform(-80, -50, size=shape)).astype(
            np.float32
        )

    w, taps = tiny(n, 20), tiny(12, 1, 3, 3)
    nets = net.input("rows", np.float32, (5, n)), net.input("image", np.float32, (1, 12, 4, 4))
    rows = net.node("Gemm", nets[0], net.const(w))
    image = net.node("Conv", nets[1], net.const(taps), group=12, pads=[1] * 4)
    feed = {"rows": tiny(5, n), "image": tiny(1, 12, 4, 4)}
    feed["rows"][0], feed["image"][0, 0] = 1e-41, -3e-40  # subnormal
    got = on_board(net.model(rows, image), "fast", VECTORS, [feed])[0]
    around = np.pad(feed["image"][0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(1, 2))
    cases = [
        (got[rows], feed["rows"][:, None, :], w.T[None]),
        (got[image][0], windows.reshape(12, 4, 4, 9), taps.reshape(12, 1, 1, 9)),
    ]
    for result, x, weights in cases:
        x, weights = x.astype(np.float64), weights.astype(np.float64)
        count, size = x.shape[-1], np.abs(x * weights).sum(-1)
        operands = np.abs(x).sum(-1) + np.abs(weights).sum(-1)
        bound = (count + 1) * UNIT * size + least * (count + 1 + operands)
        assert np.all(np.abs(result - (x * weights).sum(-1)) <= bound)
        assert np.any((result == 0) & (size > 0))  # something was flushed


def test_there_are_three_modes() -> None:
    with pytest.raises(MlfError, match="float mode 'loose', expected exact or fused or fast"):
        compile_module(ModuleSpec(MODEL, float_mode="loose"))
