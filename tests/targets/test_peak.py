"""Kernels with memory of their own do not raise the peak of a network."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from builders import Net

from mlftool.compile import ModuleSpec, compile_module

CHANNELS, HEIGHT, WIDTH = 16, 20, 24
IMAGE = CHANNELS * HEIGHT * WIDTH


def network(residual: bool, width: int = WIDTH) -> onnx.ModelProto:
    """Windows of all channels, one after the other; or with what went into them added again."""
    net, rng = Net(), np.random.default_rng(3)
    x = net.dq(net.input("x", np.int8, (1, CHANNELS, HEIGHT, width)), 0.05, np.int8(0))

    def layer(x: str, size: int) -> str:
        w = rng.integers(-30, 31, (CHANNELS, CHANNELS, size, size)).astype(np.int8)
        scale = np.full(CHANNELS, 0.004, np.float32)
        weights = net.dq(net.const(w), scale, np.zeros(CHANNELS, np.int8), 0)
        y = net.node("Relu", net.node("Conv", x, weights, pads=[size // 2] * 4))
        return net.dq(net.q(y, 0.05, np.int8(-128)), 0.05, np.int8(-128))

    first = layer(x, 1)
    last = layer(layer(first, 3), 3)
    if residual:
        last = net.dq(net.q(net.node("Add", last, first), 0.1, np.int8(0)), 0.1, np.int8(0))
    return net.model(net.q(net.node("GlobalAveragePool", last), 0.05, np.int8(0)))


@pytest.mark.parametrize(("residual", "strips"), [(False, 1), (True, 4)])
def test_rows_do_not_raise_the_peak(residual: bool, strips: int) -> None:
    compiled = compile_module(ModuleSpec(network(residual), "m", "cortex-m4"))
    kernels = [call.kernel for call in compiled.program.calls]
    rows = [kernel for kernel in kernels if kernel.name == "dsp.rows"]
    assert [kernel.params["strips"] for kernel in rows] == [strips] * 2
    # In place the rows that are kept are all that is added; beside a residual there are two images.
    assert compiled.program.memory.size_bytes <= (2 * IMAGE if residual else 1.5 * IMAGE)


def test_there_are_no_rows_without_room() -> None:
    """The last pixels of a row of thirteen, in twos, would not be in one strip."""
    compiled = compile_module(ModuleSpec(network(True, 13), "m", "cortex-m4"))
    names = [call.kernel.name for call in compiled.program.calls]
    assert "dsp.rows" not in names
    assert compiled.program.memory.size_bytes <= 2 * IMAGE * 13 // WIDTH
