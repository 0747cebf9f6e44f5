"""Requantisation in integers gives the bits of the float form for every accumulator there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ir.graph import View
from mlftool.ops.contraction import Quantisation, contraction
from mlftool.ops.fixed import Fixed, extremes, fixed
from mlftool.targets.kernels.narrow_requantise import Halves, in_halves

Array = np.ndarray[Any, Any]
CHANNELS = 48


def layer(scales: Array, bias: int, low: float, seed: int) -> onnx.ModelProto:
    """One pixel, 24 products, a channel for each scale; the output's is 1."""
    rng = np.random.default_rng(seed)
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 24, 1, 1)), np.float32(1), np.int8(-128))
    w = rng.integers(-127, 128, size=(CHANNELS, 24, 1, 1)).astype(np.int8)
    b = rng.integers(-bias, bias + 1, size=CHANNELS).astype(np.int32)
    zeros = np.zeros(CHANNELS, np.int8)
    y = net.node(
        "Conv",
        x,
        net.dq(net.const(w), scales.astype(np.float32), zeros, 0),
        net.dq(net.const(b), scales.astype(np.float32), zeros.astype(np.int32), 0),
    )
    y = net.node("Clip", y, net.const(np.float32(low)), net.const(np.float32(300)))
    return net.model(net.q(y, np.float32(1), np.int8(-100 if low >= 0 else 3)))


SCALES = {
    "random": lambda rng: rng.uniform(0.0003, 0.01, CHANNELS),
    "of_all_sizes": lambda rng: 2.0 ** rng.uniform(-30, 2, CHANNELS),
    "halves": lambda rng: 2.0 ** -rng.integers(1, 14, CHANNELS),
    "ties": lambda rng: rng.integers(1, 99, CHANNELS) / 2.0 ** rng.integers(7, 15, CHANNELS),
}


@pytest.mark.parametrize("bias", [0, 9000, 2**27])
@pytest.mark.parametrize("low", [-300.0, 0.0])
@pytest.mark.parametrize("kind", SCALES)
def test_all_steps(kind: str, low: float, bias: int) -> None:
    scales = SCALES[kind](np.random.default_rng(len(kind)))
    module = compile_module(ModuleSpec(layer(scales, bias, low, 3), "m", "cortex-m0"))
    (call,) = [c for c in module.program.calls if c.kernel.macs]
    v = View(module.program.graph, call.node)
    c, q = contraction(v), Quantisation.of(v)
    form, fix = in_halves(c, q), fixed(c, q)
    assert form is not None
    assert call.kernel.name == "narrow.blocked"
    least, most = extremes(c, q)
    for channel in range(CHANNELS):
        acc = accumulators(int(least[channel]), int(most[channel]), float(q.scale[channel]), q)
        want = rounded(acc, q, channel)
        got, sure = integers(acc, form, channel)
        np.testing.assert_array_equal(got[sure], want[sure])
        assert form.multiplier[channel] < 0 or sure.all()
        if fix is not None:
            got, sure = upper(acc, fix, channel)
            np.testing.assert_array_equal(got[sure], want[sure])
            assert fix.exact[channel] or sure.all()
    if kind == "random" and bias < 2**20:
        assert fix is not None
        assert (form.multiplier < 0).mean() < 0.2


def accumulators(least: int, most: int, scale: float, q: Quantisation) -> Array:
    """Those around every half, the extremes, and others between."""
    ties = (np.arange(-300, 300)[:, None] + 0.5) / scale
    near = np.clip(np.rint(ties) + np.arange(-3, 4), least, most).astype(np.int64)
    return np.unique([*near.ravel(), *np.linspace(least, most, 999).astype(np.int64)])


def rounded(acc: Array, q: Quantisation, channel: int) -> Array:
    product = acc.astype(np.float32) * q.scale.astype(np.float32)[channel]
    return np.clip(np.rint(product) + q.y_zero_point, q.lo, q.hi).astype(np.int64)


def integers(acc: Array, form: Halves, channel: int) -> tuple[Array, Array]:
    """What mlf_requantize_halves gives, and where mlf_requantize_near takes it, all in 32 bits."""
    m, add = abs(int(form.multiplier[channel])), int(form.add[channel])
    parts = (acc * (m >> 16), (acc >> 16) * (m & 0xFFFF), (acc & 0xFFFF) * (m & 0xFFFF) >> 16)
    fine = sum(parts) + add
    for value in (*parts, parts[0] + parts[1], sum(parts), fine):
        assert np.abs(value).max() < 2**31
    part = (fine + form.near) & ((1 << form.shift) - 1)
    sure = (part >= 2 * form.near) | (form.multiplier[channel] >= 0)
    return np.clip(fine >> form.shift, form.q.lo, form.q.hi), sure


def upper(acc: Array, fix: Fixed, channel: int) -> tuple[Array, Array]:
    """What mlf_requantize_fixed gives, and where mlf_requantize_near takes it."""
    fine = (acc * abs(int(fix.rough[channel])) >> 32) + fix.add
    assert np.abs(fine).max() < 2**31
    part = (fine + fix.near) & ((1 << fix.shift) - 1)
    sure = (part >= 2 * fix.near) | (fix.rough[channel] >= 0)
    return np.clip(fine >> fix.shift, fix.lo, fix.hi), sure
