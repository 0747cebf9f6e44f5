"""Each QuantizeLinear of a network judged by itself: is what it stored the rounding of exact
arithmetic on what was stored before it?

Two right implementations of a network with 16-bit activations drift apart: a float sum ends within
some millionths of a value, which is some thousandths of a step, and now and then a tie lies between
the two. The next layer then reads another number. So a result is compared with exact arithmetic on
the implementation's own inputs, one step at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
# A step is 2^-16 of a 16-bit range, a float has 24 bits: rounding a few times stays below this.
NEAR = 0.02  # of a step


def with_steps(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an output for everything that a QuantizeLinear stores."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kinds = {t.name: t.data_type for t in model.graph.initializer}
    shapes = {v.name: v.type.tensor_type.shape for v in _inferred(model)}
    have = {o.name for o in model.graph.output}
    for node in quantisers(model):
        if node.output[0] not in have:
            info = helper.make_tensor_value_info(node.output[0], kinds[node.input[2]], None)
            if node.output[0] in shapes:  # onnx infers nothing behind com.microsoft's operators
                info.type.tensor_type.shape.CopyFrom(shapes[node.output[0]])
            made.graph.output.append(info)
    return made


def _inferred(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    return [*graph.value_info, *graph.output]


def quantisers(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [n for n in model.graph.node if n.op_type == "QuantizeLinear"]


def beyond_ties(
    model: onnx.ModelProto, feed: Mapping[str, Array], stored: Mapping[str, Array]
) -> Iterator[tuple[str, float]]:
    """For each QuantizeLinear its output's name and by how much of a step the worst element misses
    the interval that rounds to it; below zero where all are right, ties aside. `stored` is what
    `with_steps` gave. Scales and zero points are per tensor or per channel."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    constants |= {
        node.output[0]: numpy_helper.to_array(a.t)
        for node in model.graph.node
        for a in node.attribute
        if node.op_type == "Constant" and a.name == "value"
    }
    for node in quantisers(model):
        before = _exact(model, node.input[0], constants, feed, stored)
        scale, zero = _along(before, node, constants)
        limits = ml_dtypes.iinfo(constants[node.input[2]].dtype)
        exact = np.clip(before / scale + zero, limits.min, limits.max)
        got = stored[node.output[0]].astype(np.float64)
        yield node.output[0], float(np.abs(exact - got).max(initial=0.0)) - 0.5


def _exact(
    model: onnx.ModelProto,
    wanted: str,
    constants: Mapping[str, Array],
    feed: Mapping[str, Array],
    stored: Mapping[str, Array],
) -> Array:
    """A tensor in float64, from what the nearest QuantizeLinears before it stored."""
    makers = {o: n for n in model.graph.node for o in n.output}
    given: dict[str, Array] = {}
    between: dict[str, onnx.NodeProto] = {}
    left = [wanted]
    while left:
        name = left.pop()
        node = makers.get(name)
        if not name or name in given:
            continue
        if node is None or name in constants:
            value = constants[name] if name in constants else feed[name]
            given[name] = value.astype(np.float64) if value.dtype.kind == "f" else value
        elif node.op_type == "DequantizeLinear":
            first = node.input[0]
            value = next(v[first] for v in (stored, constants, feed) if first in v)
            given[name] = _dequantised(value, node, constants)
        elif node.output[0] not in between:
            between[node.output[0]] = node
            left.extend(node.input)
    if wanted in given:
        return given[wanted]
    nodes = [n for n in model.graph.node if n.output[0] in between]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in given.items()
    ]
    last = helper.make_empty_tensor_value_info(wanted)
    graph = helper.make_graph(nodes, "step", infos, [last])
    step = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    (value,) = ReferenceEvaluator(step).run(None, given)
    assert value.dtype == np.float64, wanted
    return np.asarray(value)


def _dequantised(value: Array, node: onnx.NodeProto, constants: Mapping[str, Array]) -> Array:
    scale, zero = _along(value, node, constants)
    return np.asarray((value.astype(np.float64) - zero) * scale)


def _along(value: Array, node: onnx.NodeProto, constants: Mapping[str, Array]) -> tuple[Array, ...]:
    """The node's scale and zero point as float64 that broadcast to the value's shape; without a
    zero point it is 0."""
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    channels = [-1 if k == axis % max(value.ndim, 1) else 1 for k in range(value.ndim)]
    found = [constants[name].astype(np.float64) for name in node.input[1:]] + [np.zeros(())]
    return tuple(v.reshape(channels if v.size > 1 else ()) for v in found[:2])
