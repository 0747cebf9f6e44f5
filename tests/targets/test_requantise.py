"""Requantisation in integers gives the bits of the float form, or of two roundings, for every
accumulator there is."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ir.graph import View
from mlftool.ir.rounding import Rounding
from mlftool.ops.contraction import Quantisation, contraction, results
from mlftool.targets.kernels.narrow_requantise import Halves, Parts, in_halves, in_parts
from mlftool.targets.requantise.fixed import Fixed, fixed
from mlftool.targets.requantise.steps import extremes
from mlftool.targets.requantise.twice import Away, OneSided, away, one_sided

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
    "large": lambda rng: rng.uniform(0.1, 1, CHANNELS),
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
    form, parts, fix = in_halves(c, q), in_parts(c, q), fixed(c, q)
    assert form is not None
    assert call.kernel.name == "narrow.blocked"
    least, most = extremes(c, q)
    for channel in range(CHANNELS):
        acc = accumulators(int(least[channel]), int(most[channel]), float(q.scale[channel]), q)
        want = rounded(acc, q, channel)
        got, sure = integers(acc, form, channel)
        np.testing.assert_array_equal(got[sure], want[sure])
        assert form.multiplier[channel] < 0 or sure.all()
        if parts is not None and parts.multiplier[channel] >= 0:
            np.testing.assert_array_equal(in_two(acc, parts, q, channel), want)
        if fix is not None:
            got, sure = upper(acc, fix, channel)
            np.testing.assert_array_equal(got[sure], want[sure])
            assert fix.exact[channel] or sure.all()
    if kind in ("random", "large") and bias < 2**20:
        assert fix is not None
        assert (form.multiplier < 0).mean() < 0.2
        assert parts is not None
        assert (parts.multiplier < 0).mean() < 0.2


@pytest.mark.parametrize("bias", [0, 9000, 2**21])
@pytest.mark.parametrize("low", [-300.0, 0.0])
@pytest.mark.parametrize("kind", [k for k in SCALES if k != "of_all_sizes"])
def test_two_roundings(kind: str, low: float, bias: int) -> None:
    """The same for what TensorFlow Lite rounds twice, of which `results` is the definition."""
    scales = SCALES[kind](np.random.default_rng(len(kind)))
    graph = compile_module(ModuleSpec(layer(scales, bias, low, 4), "m", "cortex-m0"))
    (call,) = [c for c in graph.program.calls if c.kernel.macs]
    c = contraction(View(graph.program.graph, call.node))
    plain = Quantisation.of(c.v)
    factors = Rounding.TWICE.factors(plain.scale.astype(np.float64))
    q = replace(plain, rounding=Rounding.TWICE, factor=factors)
    whole, direct, form = one_sided(c, q, 1), away(c, q, 1), in_halves(c, q)
    parts = in_parts(c, q)
    assert form is not None
    assert (direct is None) == (scales.max() >= 0.5)  # of which nothing is shifted out
    assert whole is None or low >= 0
    assert whole is not None or low < 0 or kind != "random" or bias > 2**20
    assert direct is None or direct.signed == (low < 0)
    least, most = extremes(c, q)
    for channel in range(CHANNELS):
        acc = accumulators(int(least[channel]), int(most[channel]), float(q.scale[channel]), q)
        want = results(replace(q, factor=factors[channel : channel + 1]), acc)
        got, sure = integers(acc, form, channel)
        np.testing.assert_array_equal(got[sure], want[sure])
        if parts is not None and parts.multiplier[channel] >= 0:
            np.testing.assert_array_equal(in_two(acc, parts, q, channel), want)
        if whole is not None:
            np.testing.assert_array_equal(compared(acc, whole, q, channel), want)
        if direct is not None:
            np.testing.assert_array_equal(shifted(acc, direct, q, channel), want)


def compared(acc: Array, whole: OneSided, q: Quantisation, channel: int) -> Array:
    """What mlf_requantize_fixed gives."""
    m, add = (o.array for o in whole.operands)
    assert m is not None
    assert add is not None
    assert np.abs(acc << whole.left).max() < 2**31
    fine = ((acc << whole.left) * int(m[channel]) >> 32) + int(add[channel])
    assert np.abs(fine).max() < 2**31
    return np.clip(fine >> whole.shift, q.lo, q.hi)


def shifted(acc: Array, direct: Away, q: Quantisation, channel: int) -> Array:
    """What mlf_requantize_up and mlf_requantize_away give."""
    numbers = [int(o.array[channel]) for o in direct.operands if o.array is not None]
    m, add, by = numbers if direct.same is None else (numbers[0], *map(int, direct.same))
    fine = ((2 * acc * m + 2**31) >> 32) + add - (acc < 0) * direct.signed
    assert np.abs(fine).max() < 2**31
    return np.clip(fine >> by, q.lo, q.hi)


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


def in_two(acc: Array, form: Parts, q: Quantisation, channel: int) -> Array:
    """What mlf_requantize_parts gives, which lets only its first product leave 32 bits."""
    m, add = int(form.multiplier[channel]), int(form.add[channel])
    lower = acc * (m & 0xFFFF)
    fine = acc * (m >> 16) + (lower >> form.bits) + add
    for value in (lower, fine):
        assert np.abs(value).max() < 2**31
    return np.clip(fine >> form.shift, q.lo, q.hi)


def upper(acc: Array, fix: Fixed, channel: int) -> tuple[Array, Array]:
    """What mlf_requantize_fixed gives, and where mlf_requantize_near takes it."""
    assert np.abs(acc << fix.left).max() < 2**31
    fine = ((acc << fix.left) * abs(int(fix.rough[channel])) >> 32) + fix.add
    assert np.abs(fine).max() < 2**31
    part = (fine + fix.near) & ((1 << fix.shift) - 1)
    sure = (part >= 2 * fix.near) | (fix.rough[channel] >= 0)
    return np.clip(fine >> fix.shift, fix.lo, fix.hi), sure


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55", "rv32imc"])
def test_a_channel_without_weights_is_compiled_in_silence(core: str) -> None:
    """Pruned channels never step: nothing limits their multipliers."""
    model = layer(SCALES["random"](np.random.default_rng(0)), 9, -300.0, 3)
    (weights,) = (t for t in model.graph.initializer if list(t.dims) == [CHANNELS, 24, 1, 1])
    pruned = onnx.numpy_helper.to_array(weights).copy()
    pruned[::3] = 0
    weights.CopyFrom(onnx.numpy_helper.from_array(pruned, weights.name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_module(ModuleSpec(model, "m", core))
