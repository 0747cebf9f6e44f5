"""Estimates of floats on processors without FPU, compared with counted instructions."""

from __future__ import annotations

import numpy as np
import pytest
from builders import Net

from mlftool.compile import compile_module
from mlftool.insight.profile import measured
from mlftool.module import Module, ModuleSpec
from mlftool.runtime.boards import BOARDS
from mlftool.targets import TARGETS


def _module(target: str) -> Module:
    """Products of floats and of integers, functions, moves, a pool and roundings."""
    draw = np.random.default_rng(0)
    net = Net(opset=17)
    x = net.input("x", np.float32, (1, 4, 8, 8))
    w = net.const(draw.normal(size=(8, 4, 3, 3)).astype(np.float32))
    x = net.node("Conv", x, w, pads=[1, 1, 1, 1])
    x = net.node("MaxPool", net.node("Sigmoid", x), kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Transpose", x, perm=[0, 2, 3, 1])
    zero = np.int8(0)
    x = net.node("Reshape", net.dq(net.q(x, 0.01, zero), 0.01, zero), net.const([1, 128]))
    w = net.const(draw.integers(-127, 127, (128, 4)).astype(np.int8))
    w = net.node("DequantizeLinear", w, net.const(0.02, np.float32), net.const(zero))
    return compile_module(ModuleSpec(net.model(net.node("MatMul", x, w)), "net", target))


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3", "rv32imc"])
def test_estimates_are_within_a_factor_of_three(target: str) -> None:
    module = _module(target)
    found = measured(module, BOARDS[target], "-O2")
    for call, cost in zip(module.program.calls, found.costs, strict=True):
        assert cost.instructions is not None
        assert 1 / 3 < cost.instructions / call.kernel.cost < 3, call.kernel.name


def test_only_floats_without_an_fpu_get_dearer() -> None:
    soft, hard = (
        {c.node.name: c.kernel.cost for c in _module(t).program.calls}
        for t in ("cortex-m3", "cortex-m4")
    )
    assert "fpu" not in TARGETS["cortex-m3"].features
    assert max(soft[n] / hard[n] for n in soft if n in hard) > 10
    assert sum(soft.values()) > 10 * sum(hard.values())
