"""Weights that are zero are neither stored nor multiplied. test_specialised.py has the results of
`optimize: speed`; here are the ways to store weights, `size`, and what is gained."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, Jobs
from builders import Net, random_feeds
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import pruned, sparse_layers

from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules
from mlftool.insight.profile import counted_on
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.targets.kernels.sparse_weights import gaps, group_of, grouped, in_words

MODEL = sparse_layers(15, 14)
FEEDS = random_feeds(MODEL, 5)
SMALL = ("cortex-m0", "cortex-m3", "cortex-m4", "rv32imc", "rv32imafc")
DENSE = "host"  # vectors: stores every weight
Array = np.ndarray[Any, Any]


def layer(
    kept: float, ic: int = 64, size: tuple[int, int] = (25, 5), most: int = 127
) -> onnx.ModelProto:
    """A pointwise convolution, of whose weights a part is kept (kernel_cases.pruned)."""
    rng, net = np.random.default_rng(3), Net()
    w = rng.integers(most // 2, most + 1, (64, ic, 1, 1)) * rng.choice([-1, 1], (64, ic, 1, 1))
    w = pruned(rng, w.astype(np.int8), kept) if kept != 1 else w.astype(np.int8)
    x = net.dq(net.input("x", np.int8, (1, ic, *size)), 0.05, np.int8(-5))
    y = net.node("Conv", x, net.dq(net.const(w), 0.01, np.int8(0)))
    return net.model(net.q(net.node("Relu", y), 0.2, np.int8(-128)))


@given(
    st.integers(1, 5),
    st.integers(1, 700),
    st.sampled_from([0.0, 0.004, 0.1, 0.6, 1.0]),
    st.sampled_from([(1, 4), (3, 2), (1, 8), (1, 1)]),
    st.integers(0, 1000),
)
def test_distances_lead_to_every_weight(
    oc: int, depth: int, kept: float, form: tuple[int, int], seed: int
) -> None:
    """Following them gives the weights, and never a place beyond the last input."""
    rng = np.random.default_rng(seed)
    w = np.where(rng.random((oc, depth)) < kept, rng.integers(-128, 128, (oc, depth)), 0)
    unit, every = form
    stream = gaps(fake(w.astype(np.int8)), unit, every)
    entries = stream.entries.reshape(-1, 2)
    assert len(entries) == stream.weights == stream.rounds.sum() * every
    found, at = np.zeros_like(w), 0
    for row, rounds in enumerate(stream.rounds):
        place = 0
        for gap, weight in entries[at : at + rounds * every]:
            place += int(np.uint8(gap))
            assert place % unit == 0
            found[row, place // unit] += weight
        at += rounds * every
    np.testing.assert_array_equal(found, w)


@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from([4, 8, 16]), st.integers(0, 99))
def test_places_in_groups_lead_to_every_weight(oc: int, pairs: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = pruned(rng, rng.integers(1, 128, (oc, 2 * pairs * size, 1)).astype(np.int8), size)
    c = fake(w.reshape(oc, -1))
    assert group_of(c) >= size
    entries = grouped(c, size).entries.reshape(oc, pairs, 3)
    found = np.zeros((oc, pairs, 2, size), np.int8)
    places = entries[..., 0].view(np.uint8)
    for half, place in enumerate((places & 15, places >> 4)):
        values = entries[..., 1 + half : 2 + half]
        np.put_along_axis(found[:, :, half], place[..., None].astype(int), values, axis=-1)
    np.testing.assert_array_equal(found.reshape(oc, -1), w.reshape(oc, -1))


def fake(w: Array) -> Any:
    """All that packing asks of a contraction."""
    return SimpleNamespace(oc=w.shape[0], depth=w.shape[1], weights=w)


def test_four_distances_and_four_weights_are_two_words() -> None:
    w = np.zeros((1, 40), np.int8)
    w[0, [1, 3, 6, 10]] = 5, -1, 2, 3
    assert in_words(gaps(fake(w), 1, 4)).tolist() == [0x04030201, 0x0302FF05]


def made(module: str, target: str) -> Job:
    optimize = "speed" if target == DENSE else "size"
    compiled = compile_module(ModuleSpec(MODEL, module, target, optimize=optimize))
    return Job(MODEL, FEEDS, target, module, module=compiled)


JOBS = Jobs(made)


def weights(module: Module) -> int:
    """Bytes of all constants that are weights, or say how many there are."""
    operands = [o for c in module.program.calls for o in c.kernel.operands]
    return sum(o.array.nbytes for o in operands if o.name in ("w", "n") and o.array is not None)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", SMALL)
def test_same_bits_in_fewer_bytes(target: str, tmp_path: Path) -> None:
    small, fast = JOBS.built(tmp_path, (target,), (DENSE,))
    used = {c.kernel.name for c in small.compiled.program.calls if c.kernel.macs}
    assert {name.split(".")[1] for name in used if name.startswith("sparse.")} == {"gaps", "groups"}
    assert small.output == fast.output
    assert len(set(small.output)) > 50
    dense = sum(core_weights(small.compiled))
    assert weights(small.compiled) < 0.45 * dense


def core_weights(module: Module) -> list[int]:
    graph = module.program.graph
    return [graph.types[c.node.core.inputs[3]].bytes for c in module.program.calls if c.kernel.macs]


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize("target", ["cortex-m4", "rv32imc"])
def test_on_its_core(target: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(MODEL, path)
    bundle = compile_modules([ModuleSpec(path, "m", target, optimize="size")])
    interface = read_interface(bundle, "m")
    elf = link_firmware(bundle, interface, BOARDS[target], optimise="-Os")
    result = run_on_board(elf, BOARDS[target], interface, FEEDS)
    (here,) = JOBS.built(tmp_path, (DENSE,))
    for got, want in zip(result.outputs, here.results, strict=True):
        for key, value in zip(got, want.values(), strict=True):
            np.testing.assert_array_equal(got[key], value, err_msg=key)


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3", "cortex-m4", "rv32imc"])
@pytest.mark.parametrize("optimize", ["speed", "size"])
def test_few_zeros_change_nothing(target: str, optimize: str) -> None:
    module = compile_module(ModuleSpec(layer(0.6), "m", target, optimize=optimize))
    assert not any(c.kernel.name.startswith("sparse") for c in module.program.calls)


@pytest.mark.parametrize(("ic", "pairs"), [(480, True), (512, False)])
def test_two_sums_share_64_bits_if_the_lower_one_fits(ic: int, pairs: bool) -> None:
    """Half of the weights are left, none less than 127: sums reach 2^22 with 250 of them."""
    model = layer(0.499, ic, most=127)
    w = next(t for t in model.graph.initializer if len(t.dims) == 4)
    row = np.where(np.arange(ic) % 2, 0, 127).astype(np.int8)
    w.CopyFrom(onnx.numpy_helper.from_array(np.tile(row[:, None, None], (64, 1, 1, 1)), w.name))
    program = compile_module(ModuleSpec(model, "m", "cortex-m4")).program
    (call,) = (c for c in program.calls if c.kernel.macs)
    offered = {call.kernel.name, *(name for name, _ in call.rivals)}
    assert ("sparse.gaps.pairs" in offered) == pairs


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize("target", ["cortex-m4", "rv32imc"])
def test_one_of_eight_is_more_than_twice_as_fast(target: str) -> None:
    counts = []
    for kept in (1, 8):
        model = layer(kept)
        module = compile_module(ModuleSpec(model, "m", target))
        found = counted_on(module, BOARDS[target], "-O3", random_feeds(model, 1, 1)[0], "m")
        counts.append(next(c.instructions or 0 for c in found.costs if c.layer.macs))
    assert counts[0] >= 2.4 * counts[1]
