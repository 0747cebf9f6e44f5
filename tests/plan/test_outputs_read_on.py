"""Graph outputs that other nodes read: they keep their bytes until the caller has read them, with
inputs and outputs in the workspace or not, in pools, in bands, at every level."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import program_of
from builders import Net, random_feeds
from oracle import onnxruntime_float, relative_error
from programs import run_programs
from test_memory import check_plan

from mlftool.compile import Module, ModuleSpec, compile_module

POOLS = ("fast=192@.bss.fast", "middle=1KiB@.bss.middle", "slow=64KiB@.bss.slow")


def elementwise_last() -> onnx.ModelProto:
    """The issue's: s is read by the last node, which could store where s is."""
    net = Net()
    x = net.input("x", np.float32, (3, 8))
    s = net.node("Softmax", net.node("Add", x, x))
    return net.model(s, net.node("Mul", s, x))


def every_value() -> onnx.ModelProto:
    """A chain of which each link is an output: each could take over the one before."""
    net = Net()
    values = [net.input("x", np.float32, (2, 12))]
    for op in ("Softmax", "Neg", "Softmax", "Tanh", "Relu", "Softmax"):
        values.append(net.node(op, values[-1]))
    return net.model(*values[1:])


def view_of_output() -> onnx.ModelProto:
    """An output read through a view, and a view that is an output."""
    net = Net()
    s = net.node("Softmax", net.input("x", np.float32, (4, 6)))
    flat = net.node("Reshape", s, net.const([24], np.int64))
    y = net.node("Neg", net.node("Reshape", flat, net.const([2, 12], np.int64)))
    return net.model(s, flat, net.node("Softmax", y))


def copied_output() -> onnx.ModelProto:
    """Concat of one tensor, and Add of both."""
    net = Net()
    a = net.node("Abs", net.input("x", np.float32, (5, 4)))
    b = net.node("Concat", a, axis=0)
    return net.model(a, b, net.node("Add", a, b))


def input_read_last() -> onnx.ModelProto:
    """The input dies in the middle, outputs of other sizes come and stay."""
    net = Net()
    x = net.input("x", np.float32, (1, 2, 6, 6))
    pooled = net.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    y = net.node("Sub", pooled, x)
    small = net.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    return net.model(pooled, small, net.node("Exp", small), net.node("Neg", y))


def two_inputs_one_unread() -> onnx.ModelProto:
    net = Net()
    x, other = net.input("x", np.float32, (4, 4)), net.input("unread", np.float32, (4, 4))
    s = net.node("Softmax", x)
    assert other
    return net.model(net.node("Mul", s, s), s)


def convolved() -> onnx.ModelProto:
    """Layers that can be computed in bands, with outputs between them."""
    net = Net()
    rng = np.random.default_rng(5)
    x = net.input("x", np.float32, (1, 2, 12, 6))
    values = []
    for _ in range(3):
        w = net.const(rng.normal(0, 0.3, (2, 2, 3, 3)), np.float32)
        x = net.node("Relu", net.node("Conv", x, w, pads=[1] * 4))
        values.append(x)
    return net.model(values[0], values[2], net.node("Mul", values[2], values[0]))


def in_branches() -> onnx.ModelProto:
    """If and its branches read an output and give two, one of which the other is made of."""
    net = Net()
    x = net.input("x", np.float32, (2, 8))
    s = net.node("Softmax", x)
    more = net.node("Greater", net.node("ReduceSum", x, keepdims=0), net.const(0, np.float32))
    info = [onnx.helper.make_tensor_value_info(n, 1, (2, 8)) for n in ("p", "q")]
    branches = [
        onnx.helper.make_graph(
            [
                onnx.helper.make_node("Softmax", [s], ["p"], axis=axis),
                onnx.helper.make_node("Mul", ["p", s], ["q"]),
            ],
            f"branch{axis}",
            [],
            info,
        )
        for axis in (0, 1)
    ]
    p = net.node("If", more, then_branch=branches[0], else_branch=branches[1])
    net._nodes[-1].output.append("second")
    return net.model(s, p, "second", net.node("Add", "second", p))


def nothing_in_it() -> onnx.ModelProto:
    """An output without elements, which no kernel stores."""
    net = Net()
    x = net.input("x", np.float32, (3, 4))
    empty = net.node("Slice", x, *(net.const([n], np.int64) for n in (2, 2, 0)))
    return net.model(empty, net.node("Softmax", x))


def parts_without_elements() -> onnx.ModelProto:
    """Calls that read and write nothing still have addresses, which -Wrestrict compares."""
    net = Net()
    x = net.input("x", np.float32, (5, 6))
    y = net.dq(net.q(x, 0.1, np.int8(3)), 0.1, np.int8(3))
    names = ["first", "none", "second", "nothing"]
    extents = net.const([4, 0, 2, 0], np.int64)
    net._nodes.append(onnx.helper.make_node("Split", [y, extents], names, axis=1))
    whole = net.node("Concat", "none", "second", "nothing", "first", axis=1)
    return net.model("none", "nothing", whole, net.node("Neg", "none"))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    made.__name__: made
    for made in (
        elementwise_last,
        every_value,
        view_of_output,
        copied_output,
        input_read_last,
        two_inputs_one_unread,
        convolved,
        in_branches,
        nothing_in_it,
        parts_without_elements,
    )
}
WAYS: dict[str, dict[str, object]] = {
    f"{memory} {how}": {**given, **more}
    for memory, given in {
        "given": {},
        "workspace": {"workspace_io": True},
        "pools": {"pools": POOLS},
        "pools with all": {"pools": POOLS, "workspace_io": True},
    }.items()
    for how, more in {
        "plain": {},
        "unfused": {"opt_level": 0},
        "in bands": {"patches": "3"},
        "for size": {"optimize": "size", "target": "cortex-m3"},
    }.items()
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("model", MODELS)
def test_outputs_stay_whole(model: str, tmp_path: Path) -> None:
    made = MODELS[model]()
    feeds = random_feeds(made, 3)
    modules: list[Module] = [
        compile_module(ModuleSpec(made, f"m{k}", **options))  # type: ignore[arg-type]
        for k, options in enumerate(WAYS.values())
    ]
    programs = [program_of(module, feeds) for module in modules]
    expected = onnxruntime_float(made, feeds)
    ran = run_programs(programs, tmp_path)
    for way, module, program, done in zip(WAYS, modules, programs, ran, strict=True):
        assert not done.failure, f"{way}: {done.failure}"
        check_plan(module)
        for got, want in zip(program.results(done.output), expected, strict=True):
            for name, value in want.items():
                assert got[name].shape == value.shape, f"{way}: {name}"
                assert relative_error(got[name], value) <= 1e-5, f"{way}: {name}"
