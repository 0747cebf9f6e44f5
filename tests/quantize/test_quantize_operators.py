"""Operators between the layers of a quantised model: their tensors are int8, and have the values
that onnxruntime gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from builders import Array, Layers
from float_nets import SHAPE, samples
from onnx import helper

from mlftool.compile import compile_modules, compile_specs
from mlftool.module import ModuleSpec
from mlftool.quantize.improve import plainest, ranges_of
from mlftool.quantize.network import network
from mlftool.quantize.prepare import prepared
from mlftool.quantize.runtime import Session
from mlftool.quantize.samples import samples_of
from mlftool.quantize.studio import Studio
from mlftool.quantize.write import written
from mlftool.runtime.host import load_host

Make = Callable[[Layers, str, str], str]  # of two tensors [1, 6, 12, 12]
TWICE = [1.0, 1.0, 2.0, 2.0]
ONES: Array = np.ones(6, np.float32)


def silu(net: Layers, a: str, b: str) -> str:
    return net.node("Mul", b, net.node("Sigmoid", b))


def gelu(net: Layers, a: str, b: str) -> str:
    """By parts, as exporters of older opsets write it."""
    root, one, half = (net.const(v, np.float32) for v in (1.4142135, 1.0, 0.5))
    outer = net.node("Add", net.node("Erf", net.node("Div", b, root)), one)
    return net.node("Mul", net.node("Mul", b, outer), half)


def mish(net: Layers, a: str, b: str) -> str:
    return net.node("Mul", b, net.node("Tanh", net.node("Softplus", b)))


def resized(mode: str, **attrs: str) -> Make:
    def make(net: Layers, a: str, b: str) -> str:
        return net.node("Resize", b, "", net.const(TWICE, np.float32), mode=mode, **attrs)

    return make


def gated(net: Layers, a: str, b: str) -> str:
    """Squeeze and excitation."""
    means = net.conv(net.node("GlobalAveragePool", a), 6, 6, 1, 1)
    return net.node("Mul", a, net.node("HardSigmoid", means))


def attended(net: Layers, a: str, b: str) -> str:
    """A map of the largest and the mean of all channels, as CBAM has it."""
    two = [net.node(op, a, axes=[1]) for op in ("ReduceMax", "ReduceMean")]
    return net.node("Mul", a, net.node("Sigmoid", net.node("ReduceMin", *[
        net.node("Concat", *two, axis=1)], axes=[1])))  # fmt: skip


def pyramid(net: Layers, a: str, b: str) -> str:
    half = net.node("Relu", net.conv(a, 6, 6, 3, 3, strides=[2, 2]))
    up = net.node("Resize", half, "", net.const(TWICE, np.float32), mode="linear")
    return net.node("Add", up, b)


def padded(value: float, op: str = "MaxPool") -> Make:
    def make(net: Layers, a: str, b: str) -> str:
        pads = net.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
        wide = net.node("Pad", b, pads, net.const(value, np.float32))
        return net.node(op, wide, kernel_shape=[3, 3])

    return make


OPERATORS: Mapping[str, Make] = {
    "Add": lambda net, a, b: net.node("Relu", net.node("Add", a, b)),
    "Sum": lambda net, a, b: net.node("Sum", a, b, net.conv(a, 6, 6, 1, 1)),
    "Max": lambda net, a, b: net.node("Max", a, b),
    "HardSwish": lambda net, a, b: net.node("HardSwish", b),
    "SiLU": silu,
    "GELU": gelu,
    "Mish": mish,
    "gate": gated,
    "attention": attended,
    "pyramid": pyramid,
    "linear": resized("linear"),
    "corners": resized("linear", coordinate_transformation_mode="align_corners"),
    "cubic": resized("cubic"),
    "nearest": resized("nearest"),
    "Concat": lambda net, a, b: net.conv(net.node("Concat", a, b, axis=1), 12, 6, 1, 1),
    "AveragePool": lambda net, a, b: net.node("AveragePool", a, kernel_shape=[2, 2]),
    "ReduceSum": lambda net, a, b: net.node("ReduceSum", b, net.const([3], np.int64)),
    "Softmax": lambda net, a, b: net.node("Softmax", b, axis=-1),
    "padding": padded(0.0),
    "padded means": padded(0.0, "AveragePool"),
    "padding below all": padded(-1e38),
    "InstanceNormalization": lambda net, a, b: net.node(
        "Relu", net.node("InstanceNormalization", b, net.const(ONES), net.const(ONES))
    ),
    "LayerNormalization": lambda net, a, b: net.node(
        "LayerNormalization", b, net.const(np.ones(12, np.float32))
    ),
}


def quantised(names: tuple[str, ...]) -> onnx.ModelProto:
    """A layer before and after each of the operators, all in int8 by what was seen."""
    net = Layers()
    x = net.input("x", np.float32, SHAPE)
    a = net.node("Relu", net.conv(x, 3, 6, 3, 3))
    b = net.conv(a, 6, 6, 3, 3)
    model = net.model(*(net.conv(OPERATORS[name](net, a, b), 6, 2, 1, 1) for name in names))
    for out in model.graph.output:  # onnxruntime wants a type
        out.CopyFrom(helper.make_tensor_value_info(out.name, onnx.TensorProto.FLOAT, None))
    plain = prepared(model, "net")
    opened = network(plain, "net")
    given = samples_of({"x": samples(count=8)}, plain, "data")
    return written(opened, plainest(opened, ranges_of(Studio(opened, given))), "test")


@pytest.mark.parametrize("name", ["HardSwish", "SiLU", "GELU", "Mish"])
def test_a_function_of_one_tensor_is_rounded_once(name: str) -> None:
    """The network's input, `a`, the function's argument and its result are stored, and nothing
    inside. onnxruntime takes HardSwish apart."""
    nodes = quantised((name,)).graph.node
    assert sum(n.op_type == "QuantizeLinear" for n in nodes) == 4


@pytest.mark.parametrize("name", OPERATORS)
def test_nothing_between_layers_is_stored_in_floats(name: str) -> None:
    model = quantised((name,))
    (module,) = compile_specs([ModuleSpec(model, target="cortex-m4")])
    graph = module.program.graph
    made = [out for call in module.program.calls for out in call.node.outputs]
    shown = {o.name for o in model.graph.output}
    floats = [n for n in made if graph.types[n].dtype.is_float and n.split(".")[0] not in shown]
    assert not floats


def test_they_store_what_onnxruntime_stores() -> None:
    """Each to a step, of which only a sum in another order may be the reason."""
    model = quantised(tuple(OPERATORS))
    shown = [o.name for o in model.graph.output]
    stored = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    for name in stored:
        model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.INT8, None))
    ours, theirs = load_host(compile_modules([ModuleSpec(model)])), Session(model)
    differ = count = 0
    for x in samples(seed=5, count=4):
        made, right = ours({"x": x}), theirs([*shown, *stored], {"x": x})
        for name in stored:
            steps = np.abs(made[name].astype(int) - right[name].astype(int))
            assert steps.max() <= 1, name
            differ, count = differ + np.count_nonzero(steps), count + steps.size
        for name in shown:
            assert np.ptp(right[name]) > 0  # a range of 1e38 would leave one value
    assert differ < count / 1000, (differ, count)
