"""Which tables are read in the store of the kernel before them; tests/targets/test_specialised.py
compares the bits."""

from __future__ import annotations

import numpy as np
import pytest
from builders import Net

from mlftool.compile import ModuleSpec, plan_module

ZERO = np.int8(3)


def activated(net: Net, x: str, op: str = "HardSwish") -> str:
    return net.q(net.node(op, net.dq(x, 0.05, ZERO)), 0.05, ZERO)


def convolved(net: Net, channels: int = 6) -> str:
    """A stored convolution of 5 x 5 pixels."""
    x = net.dq(net.input("x", np.int8, (1, 4, 5, 5)), 0.05, ZERO)
    w = net.dq(net.const(np.ones((channels, 4, 1, 1), np.int8)), 0.05, np.int8(0))
    return net.q(net.node("Conv", x, w), 0.05, ZERO)


def tables(
    net: Net, *outputs: str, target: str = "cortex-m4", optimize: str = "speed"
) -> list[str]:
    """The calls that only look up a table."""
    program = plan_module(ModuleSpec(net.model(*outputs), "m", target, optimize=optimize)).program
    return [c.node.op for c in program.calls if c.node.op == "mlf.Table"]


@pytest.mark.parametrize(
    ("target", "alone"),
    [
        *((t, 0) for t in ("cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")),
        *((t, 1) for t in ("cortex-m0", "cortex-m55", "rv32imc", "host")),
    ],
)
def test_where_one_value_is_stored_at_a_time(target: str, alone: int) -> None:
    net = Net()
    assert len(tables(net, activated(net, convolved(net)), target=target)) == alone


def test_not_where_layers_share_functions() -> None:
    net = Net()
    assert tables(net, activated(net, convolved(net)), optimize="size")


def test_tables_go_before_what_moves_their_elements() -> None:
    net = Net()
    flat = net.node("Reshape", convolved(net), net.const([3, 50], np.int64))
    turned = net.node("Transpose", flat, perm=[1, 0])
    assert tables(net, activated(net, turned)) == []


def test_a_table_of_256_channels_is_no_constant_of_each_channel() -> None:
    net = Net()
    assert tables(net, activated(net, convolved(net, 256))) == []


def test_what_others_read_is_stored_as_it_is() -> None:
    net = Net()
    stored = convolved(net)
    assert tables(net, activated(net, stored), net.node("MaxPool", stored, kernel_shape=[2, 2]))
    again = Net()
    stored = convolved(again)
    assert tables(again, activated(again, stored), stored)


def test_sums_in_integers_stay_such() -> None:
    """A residual and a table are no pair of bytes, which has an integer form."""
    net = Net()
    other = net.dq(net.input("other", np.int8, (1, 6, 5, 5)), 0.05, ZERO)
    total = net.node("Add", net.dq(convolved(net), 0.05, ZERO), other)
    assert tables(net, activated(net, net.q(total, 0.07, ZERO)))
