"""Estimates count what a kernel computes: also the channels that it adds to fill its last tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from builders import Net
from onnx import ModelProto

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.plan.select import offers
from mlftool.targets import TARGETS

DEPTH, MANY = 512, 64  # sums that cost more than what follows them
LEAST = 0.35  # of the price: stores of channels that are added are left out
PIXELS = (1, 6)
FORMS = [(t, o) for t in TARGETS for o in ("speed", "size")]


def dense(kind: str, pixels: int, channels: int) -> ModelProto:
    rng, net = np.random.default_rng(1), Net()
    if kind == "float32":
        weights = rng.normal(0, 0.1, (DEPTH, channels)).astype(np.float32)
        bias = np.zeros(channels, np.float32)
        x = net.input("x", np.float32, (pixels, DEPTH))
        return net.model(net.node("Gemm", x, net.const(weights), net.const(bias)))
    zero = np.int8(3)
    x = net.dq(net.input("x", np.int8, (pixels, DEPTH)), np.float32(0.05), zero)
    w = rng.integers(-127, 128, (DEPTH, channels)).astype(np.int8)
    scales = np.full(channels, 0.01, np.float32)
    zeros, bias = np.zeros(channels, np.int8), np.zeros(channels, np.int32)
    args = (x, net.dq(net.const(w), scales, zeros), net.dq(net.const(bias), scales, bias, 0))
    return net.model(net.q(net.node("Gemm", *args), np.float32(0.2), zero))


def bids(kind: str, pixels: int, channels: int, target: str, optimize: str) -> Sequence[Kernel]:
    spec = ModuleSpec(dense(kind, pixels, channels), "m", target, optimize=optimize)
    program = compile_module(spec).program
    (call,) = program.calls
    return offers(View(program.graph, call.node), program.target)


def weights_bytes(kernel: Kernel) -> int:
    arrays = [o.array for o in kernel.operands if o.role == "const" and o.array is not None]
    return max(a.nbytes for a in arrays)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("pixels", PIXELS)
def test_channels_that_are_added_cost(kind: str, pixels: int) -> None:
    """vfp.exact.1x8 computed eight channels of a layer with one, at the price of one, and won."""
    wrong = []
    for target, optimize in FORMS:
        whole = {k.name: weights_bytes(k) for k in bids(kind, pixels, MANY, target, optimize)}
        for kernel in bids(kind, pixels, 1, target, optimize):
            if kernel.name not in whole:
                continue
            computed = round(MANY * weights_bytes(kernel) / whole[kernel.name])
            filled = bids(kind, pixels, computed, target, optimize)
            prices = [k.cost for k in filled if k.name == kernel.name]
            if prices and kernel.cost < LEAST * prices[0]:
                wrong.append((target, optimize, kernel.name, computed, kernel.cost, prices[0]))
    assert not wrong


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_one_channel_is_not_padded_by_portable_loops(kind: str) -> None:
    for target, optimize in FORMS:
        for kernel in bids(kind, 1, 1, target, optimize):
            if kernel.name.endswith("blocked"):
                assert kernel.params["columns"] == 1, (target, kernel.name)
