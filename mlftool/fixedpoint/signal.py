"""Audio features in integers, as TensorFlow Lite Micro's signal library computes them.

What a layer keeps from one call to the next is an input, and the next one an output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mlftool.fixedpoint.elementwise import FIXED
from mlftool.ir.graph import View
from mlftool.ir.operations import STEP, times
from mlftool.ops.base import Kernel, op
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.plain import plain_kernel
from mlftool.ops.scalar import Scalar

SIGNAL = ("mlf/signal.h",)


def _window(m: Maths, a: Scalar, b: Scalar, *, shift: int = 0) -> str:
    """a * b / 2^shift, rounded down and limited to the type."""
    low, high = m.out.range
    return f"mlf_clamp_i32(((int32_t){a} * {b}) >> {shift}, {low}, {high})"


def _root(m: Maths, a: Scalar, shift: Scalar) -> str:
    """The square root of a uint64 to the nearest integer, its bits shifted out."""
    return f"mlf_root_of_u64({a}) >> ({shift} & 31)"


def _logarithm(m: Maths, a: Scalar, *, left: int = 0, scale: int = 0) -> str:
    return f"mlf_log_of_u32((uint32_t){a} << {left}, {scale}u)"


elementwise("mlf.WindowFixed", _window, includes=FIXED)
elementwise("mlf.RootOfSum", _root, includes=SIGNAL)
elementwise("mlf.LogOfSum", _logarithm, includes=SIGNAL)


def _plain(
    v: View,
    name: str,
    params: Mapping[str, Any],
    work: int,
    updates: Mapping[int, int] = MappingProxyType({}),
) -> Kernel:
    operations = work * (STEP + times(whole=4))
    return plain_kernel(v, name, params, operations=operations, includes=SIGNAL, updates=updates)


@op("mlf.AutoScale")
def auto_scale(v: View) -> Kernel:
    """int16 shifted to the left until the largest has 15 bits, and by how many bits."""
    return _plain(v, "auto_scale", {"count": v.y.elements}, v.y.elements)


@op("mlf.Energy")
def energy(v: View) -> Kernel:
    """re^2 + im^2 of pairs from `first` to before `last`, as uint32; of others 0."""
    params = {"count": v.y.elements, "first": v.attr("first"), "last": v.attr("last")}
    return _plain(v, "energy", params, v.y.elements)


@op("mlf.FilterBank")
def filter_bank(v: View) -> Kernel:
    """Sums of uint32 with weights: input 0, weights and the shares that go to the next channel,
    and for each channel, and one before them, the first input, the first weight and the width."""
    return _plain(v, "filter_bank", {"channels": v.y.elements}, 2 * v.x(1).elements)


@op("mlf.SpectralSubtraction")
def spectral_subtraction(v: View) -> Kernel:
    """A signal less its noise. Inputs are the signal and the noise estimated before; outputs the
    difference and the noise estimated now."""
    return _plain(v, "spectral_subtraction", {"count": v.y.elements, **v.core.attrs}, v.y.elements)


@op("mlf.Pcan")
def pcan(v: View) -> Kernel:
    """Gain by the noise: inputs are the signal, the noise and a table of gains."""
    return _plain(v, "pcan", {"count": v.y.elements, "shift": v.attr("shift")}, 4 * v.y.elements)


@op("mlf.OverlapAdd")
def overlap_add(v: View) -> Kernel:
    """Frames [..., F, N] that overlap but for `step` elements are added up. Input 1 and output 1
    [..., N] are what the next frames add to."""
    *_, frames, size = v.x(0).shape
    params = {
        "rows": math.prod(v.x(0).shape[:-2]),
        "frames": frames,
        "size": size,
        "step": v.attr("step"),
        "fixed": not v.y.dtype.is_float,
    }
    return _plain(v, "overlap_add", params, v.x(0).elements, {1: 1})


@op("mlf.Stack")
def stack(v: View) -> Kernel:
    """The last frames, one after another. Inputs are a frame [C], the samples that wait [N], the
    output before [N] and how many samples wait, -1 before the first frame; outputs are [N], whether
    it is a new one, and the next of the three."""
    params = {
        "channels": v.x(0).elements,
        "size": v.y.elements,
        "left": v.attr("left"),
        "step": v.attr("step") * v.x(0).elements,
    }
    return _plain(v, "stack", params, 3 * v.y.elements, {1: 2, 2: 3, 3: 4})
