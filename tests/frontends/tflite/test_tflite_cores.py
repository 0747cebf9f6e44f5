"""Every core's own kernels give the bits of TensorFlow Lite Micro's two roundings: many layers of
random shapes, in one model, against the portable kernel, which test_tflite_rounding.py compares
with the formula. As plain C and on the core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tfl_writer import Op, Sub, T, model

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.frontends.models import TFLite
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.host import load_host
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc", "rv32imafc")
VECTORS = {"x86-64-v3": {"avx2", "fma"}, "x86-64-v4": {"avx512vl", "avx512_vnni"}}
# (depthwise, input channels, output channels, extent, kernel, stride, same, activation, zero point)
LAYERS = (
    (False, 5, 8, 7, 3, 1, True, 0, -9),
    (False, 5, 7, 7, 3, 2, False, 1, -9),
    (False, 16, 24, 5, 1, 1, True, 1, -128),
    (False, 16, 9, 6, 1, 1, True, 0, 20),
    (False, 3, 16, 9, 3, 2, True, 3, -128),
    (False, 40, 16, 1, 1, 1, True, 0, 3),
    (False, 40, 5, 1, 1, 1, True, 1, -128),
    (False, 24, 32, 8, 3, 1, True, 3, -128),
    (False, 64, 64, 10, 1, 1, True, 1, -128),
    (False, 16, 16, 16, 3, 1, True, 0, 4),
    (True, 6, 6, 7, 3, 1, True, 0, -9),
    (True, 8, 8, 9, 3, 2, True, 1, -128),
    (True, 16, 16, 6, 3, 1, False, 3, -128),
    (True, 5, 5, 11, 5, 1, True, 1, 7),
    (False, 16, 9, 6, 1, 1, True, 1, 127),  # limits that leave one value
    (True, 8, 8, 9, 3, 1, True, 1, 127),
)


def convolutions(seed: int, row: str = "int8") -> tuple[bytes, dict[str, np.ndarray]]:
    """Layers side by side, with scales for each channel or for all, and their inputs, of int8 or of
    int16, whose sums have 64 bits and are rounded once."""
    wide, kind_of_x = row == "int16", np.dtype(row)
    step = np.float32(0.0002 if wide else 0.05)
    rng, tensors, ops, feeds = np.random.default_rng(seed), [], [], {}
    for k, (depthwise, ic, oc, n, size, stride, same, activation, zero) in enumerate(LAYERS):
        shape = (1, size, size, oc) if depthwise else (oc, size, size, ic)
        depth = size * size * (1 if depthwise else ic)
        one = not depthwise and k % 3 == 0
        scales = rng.uniform(0.002, 0.02, 1 if one else oc).astype(np.float32)
        out = -(-n // stride) if same else (n - size) // stride + 1
        first = len(tensors)
        bias_scale = scales * step
        far = wide and k % 5 == 3  # biases beyond int32
        out_scale = step * np.float32(0.6 * np.sqrt(depth) * (1000 if far else 1))
        bias_row, most = ("int64", 2**34 if far else 2**20) if wide else ("int32", 3000)
        w = rng.choice([-127, 127], shape) if k % 4 == 2 else rng.integers(-127, 128, shape)
        tensors += [
            T(f"x{k}", (1, n, n, ic), row, step, 0 if wide else int(rng.integers(-128, 128))),
            T(f"w{k}", shape, scale=scales, axis=3 if depthwise else 0, data=w),
            T(f"b{k}", (oc,), bias_row, bias_scale, data=rng.integers(-most, most, oc)),
            T(f"y{k}", (1, out, out, oc), row, out_scale, 0 if wide else zero),
        ]
        kind = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D",) * 2
        options: dict[str, Any] = {"Padding": 0 if same else 1, "StrideW": stride}
        options |= {"StrideH": stride, "FusedActivationFunction": activation}
        options |= {"DepthMultiplier": 1} if depthwise else {}
        table = kind[1] if depthwise else "Conv2DOptions"
        ops.append(Op(kind[0], (first, first + 1, first + 2), (first + 3,), table, options))
        least, greatest = (-(2**15), 2**15) if wide else (-128, 128)
        feeds[f"x{k}"] = rng.integers(least, greatest, (1, n, n, ic)).astype(kind_of_x)
    count = len(LAYERS)
    sub = Sub(tensors, ops, range(0, 4 * count, 4), range(3, 4 * count, 4))
    return model(sub), feeds


def residuals(seed: int) -> tuple[bytes, dict[str, np.ndarray]]:
    """Convolutions with an addition behind them, which their kernels take along."""
    rng, tensors, ops, feeds = np.random.default_rng(seed), [], [], {}
    for k, (c, n, activation) in enumerate([(8, 6, 1), (4, 5, 0), (16, 4, 1)]):
        first, w = len(tensors), rng.integers(-127, 128, (c, 1, 1, c))
        scales = rng.uniform(0.004, 0.01, c).astype(np.float32)
        tensors += [
            T(f"x{k}", (1, n, n, c), scale=0.05, zero=2),
            T(f"w{k}", (c, 1, 1, c), scale=scales, data=w),
            T(f"c{k}", (1, n, n, c), scale=0.06, zero=-3),
            T(f"y{k}", (1, n, n, c), scale=0.08, zero=-128 if activation else 1),
        ]
        window = {"Padding": 0, "StrideW": 1, "StrideH": 1}
        add = {"FusedActivationFunction": activation}
        ops += [
            Op("CONV_2D", (first, first + 1, -1), (first + 2,), "Conv2DOptions", window),
            Op("ADD", (first + 2, first), (first + 3,), "AddOptions", add),
        ]
        feeds[f"x{k}"] = rng.integers(-128, 128, (1, n, n, c)).astype(np.int8)
    return model(Sub(tensors, ops, (0, 4, 8), (3, 7, 11))), feeds


# (channels, height, width, window, stride, activation)
MEANS = (
    (8, 5, 7, (5, 7), 1, 0),
    (16, 9, 6, (3, 2), 2, 1),
    (24, 15, 17, (15, 17), 1, 3),
    (8, 4, 4, (1, 1), 1, 0),
)


def means(seed: int) -> tuple[bytes, dict[str, np.ndarray]]:
    """Pools of a whole image, of a part of it, of the most elements that int16 sums, and of one."""
    rng, tensors, ops, feeds = np.random.default_rng(seed), [], [], {}
    for k, (c, h, w, (kh, kw), stride, activation) in enumerate(MEANS):
        out = ((h - kh) // stride + 1, (w - kw) // stride + 1)
        zero = -128 if activation else 3
        tensors += [T(f"x{k}", (2, h, w, c), scale=0.05, zero=zero)]
        tensors += [T(f"y{k}", (2, *out, c), scale=0.05, zero=zero)]
        window = {"Padding": 1, "StrideW": stride, "StrideH": stride, "FilterHeight": kh}
        window |= {"FilterWidth": kw, "FusedActivationFunction": activation}
        ops.append(Op("AVERAGE_POOL_2D", (2 * k,), (2 * k + 1,), "Pool2DOptions", window))
        around = rng.integers(-108, 108, (2, 1, 1, c))  # so that means differ
        feeds[f"x{k}"] = (around + rng.integers(-20, 20, (2, h, w, c))).astype(np.int8)
    count = len(MEANS)
    return model(Sub(tensors, ops, range(0, 2 * count, 2), range(1, 2 * count, 2))), feeds


MODELS = {
    "convolutions": convolutions(1),
    "residuals": residuals(2),
    "shorts": convolutions(3, "int16"),
    "means": means(3),
}


def here(name: str, target: str, level: int = 3) -> dict[str, np.ndarray]:
    data, feeds = MODELS[name]
    spec = ModuleSpec(TFLite(data), "m", target, opt_level=level)
    made = load_host(compile_modules([spec]), optimise="-O0")(feeds)  # gcc takes a fifth as long
    return {key: np.asarray(value) for key, value in made.items()}


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def wanted(name: str) -> dict[str, np.ndarray]:
    found = here(name, "armv7-a", 0)
    one = {f"y{k}" for k, layer in enumerate(LAYERS) if name == "convolutions" and layer[-1] == 127}
    various = {k for k, v in found.items() if len(np.unique(v)) > min(10, v.size // 4)}
    assert various == found.keys() - one
    return found


def equal(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert got.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_array_equal(got[key], value, err_msg=key)


def runs_here(target: str) -> bool:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return VECTORS.get(target, set()) <= flags


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", [*CORES, "host", *filter(runs_here, VECTORS)])
def test_as_plain_c(name: str, target: str, wanted: dict[str, np.ndarray]) -> None:
    equal(here(name, target), wanted)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", CORES)
def test_on_its_core(name: str, target: str, wanted: dict[str, np.ndarray]) -> None:
    data, feeds = MODELS[name]
    bundle = compile_modules([ModuleSpec(TFLite(data), "m", target)])
    interface, board = read_interface(bundle, "m"), BOARDS[target]
    if target == "cortex-m0":  # its board has 16 KB of memory
        board = replace(BOARDS["cortex-m3"], target=target)  # which knows its instructions
    elf = link_firmware(bundle, interface, board, optimise="-O1")
    result = run_on_board(elf, board, interface, [feeds])
    equal(result.outputs[0], wanted)


@pytest.mark.parametrize(
    ("target", "kernels"),
    [
        ("cortex-m0", {"narrow.blocked", "narrow.planes"}),
        ("cortex-m4", {"dsp.pairs", "dsp.planes"}),
        ("cortex-m55", {"helium.quads", "helium.octets", "helium.average"}),
        ("rv32imc", {"tiles.s8", "tiles.rows"}),
        ("x86-64-v3", {"avx2.s8", "avx2.crossed", "avx2.winograd4", "avx2.depthwise"}),
        ("x86-64-v4", {"avx512.s8", "avx512.depthwise"}),
    ],
)
def test_each_core_has_its_kernels_for_it(target: str, kernels: set[str]) -> None:
    """Those of what rounds to even."""
    found = set()
    for data, _ in MODELS.values():
        calls = compile_module(ModuleSpec(TFLite(data), "m", target)).program.calls
        found |= {call.kernel.name for call in calls}
    assert kernels <= found
