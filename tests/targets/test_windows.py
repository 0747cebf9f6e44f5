"""Windows that all reach outside the input, as those of a band at an edge do, have no code for
windows that lie inside it: its condition could not hold."""

from __future__ import annotations

import re

import numpy as np
import pytest
from builders import Net
from onnx import ModelProto

from mlftool.compile import ModuleSpec, compile_module
from mlftool.targets import TARGETS

IMPOSSIBLE = re.compile(r"<= -\d")


def low(quantised: bool, channels: int, group: int) -> ModelProto:
    """3x3 convolution of an input two rows high, padded by one on each side."""
    rng, net = np.random.default_rng(1), Net()
    shape, size = (1, channels, 2, 9), (8 if group == 1 else channels, channels // group, 3, 3)
    attrs = {"pads": [1] * 4, "group": group}
    if not quantised:
        x, w = net.input("x", np.float32, shape), rng.normal(0, 1, size).astype(np.float32)
        return net.model(net.node("Conv", x, net.const(w), **attrs))
    x = net.dq(net.input("x", np.int8, shape), np.float32(0.05), np.int8(3))
    w = net.dq(net.const(rng.integers(-127, 128, size).astype(np.int8)), 0.01, np.int8(0))
    return net.model(net.q(net.node("Conv", x, w, **attrs), np.float32(0.2), np.int8(1)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("optimize", ["speed", "size"])
def test_no_condition_is_impossible(target: str, optimize: str) -> None:
    for model in (low(q, 8, group) for q in (False, True) for group in (1, 8)):
        made = compile_module(ModuleSpec(model, "m", target, optimize=optimize))
        assert not IMPOSSIBLE.findall(made.sources.lib1)


@pytest.mark.parametrize("target", TARGETS)
def test_an_input_without_elements_is_read(target: str) -> None:
    """All windows lie in the padding: kernels with packed weights did not name the input, which
    compilers warn of."""
    net = Net()
    x = net.input("x", np.float32, (1, 4, 0, 0))
    w, b = (net.const(np.ones(n, np.float32)) for n in ((8, 4, 3, 3), (8,)))
    made = compile_module(
        ModuleSpec(net.model(net.node("Conv", x, w, b, pads=[2] * 4)), "m", target)
    )
    form = re.compile(r"^MLF_KERNEL void \w+\([^)]*\) \{(.*?)^\}", re.M | re.S)
    bodies = form.findall(made.sources.lib1)
    assert len(bodies) > 1
    assert all(re.search(r"\bx\b", body) for body in bodies)
