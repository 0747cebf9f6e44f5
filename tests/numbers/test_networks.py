"""Whole networks through real C: against their vectors, onnxruntime, and simulated boards.

int8 is equal to onnxruntime's integer path bit for bit; float32 is within 1e-5 x max(1, |ref|).
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnx
import pytest
from oracle import onnxruntime_float, onnxruntime_integer, relative_error
from shared import NETWORKS, Array, Network

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.host import HostModule, load_host
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

pytestmark = pytest.mark.together("network")

RANDOM = 200
# The network with the largest residual graph, the one with depthwise layers, and all of our own.
ON_BOARDS = tuple(
    n for n in NETWORKS if not n.shared or n.name in ("kws_int8", "kws_fp32", "ic_int8")
)


@functools.cache
def bundle(network: Network, target: str) -> Bundle:
    return compile_modules([ModuleSpec(network.path, network.name, target)])


@functools.cache
def compiled(network: Network, target: str) -> HostModule:
    """The module for `target` on this computer: its archive is plain C whatever the target. At a
    level other than boards': no bit may depend on it."""
    return load_host(bundle(network, target), optimise="-O1")


def check_sample(network: Network, got: dict[str, Array], want: dict[str, list[Array]]) -> None:
    for name, references in want.items():
        for reference in references:
            if reference.dtype.kind == "f":
                assert relative_error(got[name], reference) <= 1e-5, name
            else:
                np.testing.assert_array_equal(got[name], reference, name)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["host", "cortex-m4"])
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_samples(network: Network, target: str) -> None:
    run = compiled(network, target)
    for feed, want in zip(*network.samples(), strict=True):
        check_sample(network, run(feed), want)


@pytest.mark.parametrize("network", [n for n in NETWORKS if n.quantised], ids=str)
def test_random_inputs_equal_onnxruntime_bit_for_bit(network: Network) -> None:
    feeds = network.random_feeds(RANDOM)
    model = onnx.load(network.path)
    run = compiled(network, "cortex-m4")
    elements = different = 0
    for feed, want in zip(feeds, onnxruntime_integer(model, feeds), strict=True):
        got = run(feed)
        for name, value in want.items():
            elements += value.size
            different += int((got[name] != value).sum())
    assert different == 0, f"{different} of {elements} elements differ"


@pytest.mark.parametrize("network", [n for n in NETWORKS if not n.quantised], ids=str)
def test_random_float_inputs(network: Network) -> None:
    feeds = network.random_feeds(8)
    model = onnx.load(network.path)
    run = compiled(network, "host")
    for feed, want in zip(feeds, onnxruntime_float(model, feeds), strict=True):
        got = run(feed)
        for name, value in want.items():
            assert relative_error(got[name], value) <= 1e-5, name


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("network", ON_BOARDS, ids=str)
def test_boards_give_the_bits_of_the_host(network: Network, target: str, tmp_path: Path) -> None:
    feeds = network.samples()[0][:2]
    archive = bundle(network, target)
    interface = read_interface(archive)
    elf = link_firmware(archive, interface, BOARDS[target])
    result = run_on_board(elf, BOARDS[target], interface, feeds)
    run = compiled(network, "host")
    for feed, got in zip(feeds, result.outputs, strict=True):
        for name, value in run(feed).items():
            assert got[name].tobytes() == value.tobytes(), name


def levels() -> list[str]:
    """The x86-64 levels with kernels of their own that this processor can run."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else set()
    needs = {"x86-64-v3": {"avx2", "fma", "bmi2"}, "x86-64-v4": {"avx512vl", "avx512_vnni"}}
    return [level for level, wanted in needs.items() if wanted <= flags]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["host", *levels()])
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_vectors_give_the_bits_of_scalars(network: Network, target: str) -> None:
    scalar = compiled(network, "cortex-m4")  # on this computer its instructions are plain C
    vector = compiled(network, target)
    for inputs in network.random_feeds(2):
        want, got = scalar(inputs), vector(inputs)
        for name, array in want.items():
            assert array.tobytes() == got[name].tobytes(), name
