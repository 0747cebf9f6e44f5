"""Estimated instructions compared with counted ones, on networks that no price was fitted to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from builders import Layers, Net
from onnx import TensorProto, helper

from mlftool.compile import compile_module, plan_module
from mlftool.insight.profile import measured
from mlftool.module import ModuleSpec
from mlftool.plan.budget import cost
from mlftool.runtime.boards import BOARDS
from mlftool.targets import TARGETS

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")
TOTAL = 1.4  # how often an estimate may be the count, or the count the estimate
LAYER, LEAST = 2.2, 0.02  # the same for layers with more than this share of the network's count


def sensors() -> onnx.ModelProto:
    """Floats: a GRU, a block with attention, functions, a pool, and what orders elements."""
    n, time, width = Layers(), 6, 8
    x = n.input("x", np.float32, (time, 1, width))
    w, r = n.weights(2, 3 * 4, width), n.weights(2, 3 * 4, 4)
    x = n.node("GRU", x, w, r, hidden_size=4, direction="bidirectional", linear_before_reset=1)
    x = n.normal(n.shaped(n.node("Transpose", x, perm=[2, 0, 1, 3]), 1, time, width), width)
    q, k, v = (n.dense(x, width, width) for _ in range(3))
    scores = n.node("MatMul", q, n.node("Transpose", k, perm=[0, 2, 1]))
    x = n.node("Add", x, n.node("MatMul", n.node("Softmax", scores), v))
    gate = n.node("Erf", n.node("Mul", x, n.const(0.5**0.5, np.float32)))
    x = n.node("Mul", x, n.node("Add", gate, n.const(1.0, np.float32)))
    x = n.node("PRelu", n.node("HardSwish", x), n.const(np.full(width, 0.1), np.float32))
    image = n.node("AveragePool", n.shaped(x, 1, 1, time, width), kernel_shape=[3, 3])
    image = n.node("Resize", image, "", n.const([1, 1, 2, 2], np.float32), mode="linear")
    best = n.parts("TopK", 2, n.node("CumSum", x, n.const(1)), n.const([3]))
    return n.model(image, *best, n.node("ReduceL2", x, axes=[1]))


def pictures() -> onnx.ModelProto:
    """Integers: convolutions, a residual, a table, pools, and parts that move."""
    net, draw, zero = Net(opset=18), np.random.default_rng(0), np.int8(2)

    def integers(x: str) -> str:
        return net.dq(net.q(x, 0.05, zero), 0.05, zero)

    def conv(x: str, ic: int, oc: int, k: int, **attrs: int) -> str:
        shape = (oc, ic // attrs.get("group", 1), k, k)
        w = net.const(draw.integers(-127, 127, shape).astype(np.int8))
        w = net.node("DequantizeLinear", w, net.const(0.004, np.float32), net.const(np.int8(0)))
        return integers(net.node("Conv", x, w, pads=[k // 2] * 4, **attrs))

    x = conv(net.dq(net.input("x", np.int8, (1, 8, 10, 10)), 0.05, zero), 8, 16, 3)
    y = conv(integers(net.node("Sigmoid", conv(x, 16, 16, 3, group=16))), 16, 16, 1)
    x = integers(net.node("Add", x, y))
    small = integers(net.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]))
    big = net.node("Resize", small, "", net.const([1, 1, 2, 2], np.float32), mode="nearest")
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x = integers(
        net.node("Concat", integers(big), integers(net.node("MaxPool", x, **same)), axis=1)
    )
    kept = net.node("Gather", x, net.const([3, 9, 30, 1]), axis=1)
    return net.model(conv(x, 32, 8, 1), net.q(kept, 0.05, zero))


def steps() -> onnx.ModelProto:
    """A Scan with a state: e = e * 0.9 + sin(x), and a Loop around the like of it."""

    def of(name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    def part(state: str, element: str) -> list[onnx.NodeProto]:
        made = (("Mul", [state, "decay"], "m"), ("Sin", [element], "s"), ("Add", ["m", "s"], "n"))
        nodes = [helper.make_node(op, read, [out]) for op, read, out in made]
        return [*nodes, helper.make_node("Identity", ["n"], ["o"])]

    decay = helper.make_tensor("decay", TensorProto.FLOAT, [1], [0.9])
    scanned = [of("e", (8,)), of("x", (8,))], [of("n", (8,)), of("o", (8,))]
    scan = helper.make_graph(part("e", "x"), "scan", *scanned, [decay])
    turned = [of("i", (), TensorProto.INT64), of("c", (), TensorProto.BOOL), of("e", (8,))]
    going = helper.make_node("Identity", ["c"], ["d"])
    made = [of("d", (), TensorProto.BOOL), of("n", (8,)), of("o", (8,))]
    loop = helper.make_graph([going, *part("e", "e")], "loop", turned, made, [decay])
    nodes = [
        helper.make_node("Scan", ["first", "xs"], ["last", "all"], body=scan, num_scan_inputs=1),
        helper.make_node("Loop", ["count", "", "last"], ["end", "more"], body=loop),
    ]
    count = helper.make_tensor("count", TensorProto.INT64, [], [5])
    read = [of("first", (8,)), of("xs", (7, 8))]
    graph = helper.make_graph(
        nodes, "steps", read, [of("all", (7, 8)), of("more", (5, 8))], [count]
    )
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("network", [sensors, pictures, steps])
@pytest.mark.sampled(6)
def test_counts_are_near(network: Callable[[], onnx.ModelProto], core: str) -> None:
    module = compile_module(ModuleSpec(network(), "net", core))
    found = measured(module, BOARDS[core], "-O2")
    count = sum(c.instructions or 0 for c in found.costs)
    assert 1 / TOTAL < cost(module.program) / count < TOTAL
    for call, counted in zip(module.program.calls, found.costs, strict=True):
        if (counted.instructions or 0) > LEAST * count:
            ratio = call.kernel.cost / (counted.instructions or 0)
            assert 1 / LAYER < ratio < LAYER, f"{call.node.label}, {call.kernel.name}: {ratio}"


def test_only_floats_without_an_fpu_get_dearer() -> None:
    """And doubles without an FPU that has them."""
    assert "fpu" not in TARGETS["cortex-m3"].features
    for network, least, most in ((sensors, 10, 60), (pictures, 0.8, 4)):
        soft, hard = (
            cost(plan_module(ModuleSpec(network(), "net", core)).program)
            for core in ("cortex-m3", "cortex-m4")
        )
        assert least < soft / hard < most


def test_a_loop_costs_what_its_turns_do() -> None:
    def cost_of(count: int) -> float:
        model = steps()
        model.graph.initializer[0].int64_data[:] = [count]
        program = plan_module(ModuleSpec(model, "net", "cortex-m4")).program
        return next(c.kernel.cost for c in program.calls if c.node.op == "Loop")

    assert cost_of(50) == pytest.approx(10 * cost_of(5))
