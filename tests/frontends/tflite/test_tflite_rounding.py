"""Sums become integers as TensorFlow Lite Micro rounds them: generated C against the formula, in
numpy, with this computer's vectors and without passes; and all targets have kernels for it."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from batch import Job, run_jobs
from tfl_models import convolution, dense

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.frontends.models import TFLite
from mlftool.ir.rounding import (
    FactorError,
    Rounding,
    multiplier,
    rescaled,
    rescaled_once,
    shifted,
    wrapped,
)
from mlftool.runtime.host import load_host
from mlftool.targets import TARGETS


def test_multipliers() -> None:
    assert multiplier(0.0) == (0, 0)
    assert multiplier(0.5) == (2**30, 0)
    assert multiplier(1.0) == (2**30, 1)
    assert multiplier(1 - 2.0**-40) == (2**30, 1)  # its 31 bits round up to 2^31
    assert multiplier(2.0**-33) == (0, 0)
    for outside in (-0.75, 2.0**31, math.nan):
        with pytest.raises(FactorError, match="expected 0 to 2\\^31"):
            multiplier(outside)


def test_ties_go_away_from_zero_when_shifted() -> None:
    assert shifted([-3, -1, 1, 3, 5], 1).tolist() == [-2, -1, 1, 2, 3]
    assert shifted([-6, -2, 2, 6], 2).tolist() == [-2, -1, 1, 2]


def test_rounding_twice_is_not_rounding_once() -> None:
    """2^-9 * 0.5 less a little: the product rounds up to the tie, which then rounds up again."""
    m, exponent = multiplier(0.6 * 2.0**-8)
    x = np.arange(-5000, 5000)
    once = np.rint(x * 0.6 * 2.0**-8)
    twice = rescaled(x, m, exponent)
    assert np.abs(once - twice).max() == 1
    assert np.count_nonzero(once != twice) > 0


def test_long_sums_have_15_bits() -> None:
    m, exponent = multiplier(0.3)
    x = np.array([2**40 + 3, -(2**33), 12345])
    by = (m + 2**15) >> 16
    assert rescaled_once(x[2:], m, exponent).tolist() == [
        (12345 * by + (1 << (14 - exponent))) >> (15 - exponent)
    ]


def widest() -> str:
    """The target with the longest vectors that this computer has."""
    flags = Path("/proc/cpuinfo").read_text().split()
    wanted = {"x86-64-v4": {"avx512vl", "avx512_vnni"}, "x86-64-v3": {"avx2", "fma"}}
    return next((name for name, needs in wanted.items() if needs <= set(flags)), "host")


def padded(x: np.ndarray, same: bool) -> np.ndarray:
    return np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))) if same else x


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("depthwise", "activation", "same", "scale"),
    # The last scale makes multipliers above 1, which shift to the left.
    [*product((False, True), (0, 1, 3), (False, True), (0.07,)), (False, 0, True, 0.0001)],
)
def test_convolutions(depthwise: bool, activation: int, same: bool, scale: float) -> None:
    rng = np.random.default_rng([depthwise, activation, same])
    data, w, b, scales = convolution(
        rng, depthwise=depthwise, activation=activation, same=same, scale=scale
    )
    x = rng.integers(-128, 128, (1, 7, 7, w.shape[3] if not depthwise else 6)).astype(np.int8)
    centred = padded(x.astype(np.int64) - 3, same)
    out = 7 if same else 5
    sums = np.zeros((1, out, out, b.size), np.int64) + b
    for i, j in np.ndindex(3, 3):
        part = centred[:, i : i + out, j : j + out]
        sums += part * w[0, i, j] if depthwise else part @ w[:, i, j].T
    real = np.float64(np.float32(0.05)) * scales / np.float64(np.float32(scale))
    want = Rounding.TWICE.apply(sums, real) - 9
    low = {0: -128}.get(activation, -9)
    high = min(127, -9 + round(6 / scale)) if activation == 3 else 127
    want = np.clip(want, low, high)
    assert len(np.unique(want)) > (1 if scale < 0.01 else 20)
    for target, level in (("host", 3), ("host", 0), (widest(), 3)):
        spec = ModuleSpec(TFLite(data), "m", target, opt_level=level)
        (got,) = load_host(compile_modules([spec]), optimise="-O0")({"x": x}).values()
        np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("bias", [[2**31 - 1, -(2**31), 2**31 - 1, 12345], [0, 1, -1, 2**30]])
def test_the_least_factor(bias: list[int], tmp_path: Path) -> None:
    """Shifts by 31, and sums of 32 bits that wrap around as TensorFlow Lite Micro's do."""
    data = dense(np.random.default_rng(5), units=4, bias=bias, scale=1e6)
    w = np.random.default_rng(5).integers(-127, 128, (4, 24))
    x = np.array([[-128] * 24, [127] * 24])
    real = np.float64(np.float32(0.03)) * np.float64(np.float32(0.011)) / 1e6
    sums = wrapped((x + 7) @ w.T + np.array(bias))
    assert multiplier(real)[1] == -31
    want = np.clip(Rounding.TWICE.apply(sums, np.float64(real)) + 5, -128, 127)
    file = tmp_path / "m.tflite"
    file.write_bytes(data)
    feeds = [{"x": row[None].astype(np.int8)} for row in x]
    cores = "armv7-a", "host", "cortex-m0", "cortex-m4", "cortex-m55", "rv32imc"
    jobs = [Job(file, feeds, core, f"m{k}") for k, core in enumerate(cores)]
    run_jobs(jobs, tmp_path)
    assert [job.failure for job in jobs] == [""] * len(jobs)
    for job in jobs:
        got = np.concatenate([result["y"] for result in job.results])
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_target_compiles_it(target: str) -> None:
    rng = np.random.default_rng(1)
    for depthwise in (False, True):
        data = convolution(rng, depthwise=depthwise, activation=1, same=True)[0]
        for optimize in ("speed", "size"):
            spec = ModuleSpec(TFLite(data), "m", target, optimize=optimize)
            assert compile_modules([spec])


def test_a_layer_of_one_channel(tmp_path: Path) -> None:
    """Its vectors read as many multipliers as they have lanes: there are as many."""
    file = tmp_path / "m.tflite"
    file.write_bytes(dense(np.random.default_rng(3), depth=16, units=1))
    job = Job(file, [{"x": np.arange(16, dtype=np.int8).reshape(1, 16)}])
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
