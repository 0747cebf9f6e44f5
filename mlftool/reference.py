"""onnxruntime as a reference, which is optional: sessions whose results no processor changes.

Processors with AVX2 and without VNNI add products of uint8 activations and int8 weights in pairs,
which saturate at 16 bits: sums of large weights come out as half of what they are. The standard has
no such limit, and onnxruntime on other processors has none. Products of two uint8 do not saturate,
so constant weights become uint8 here, with a zero point that is 128 higher, where that is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference

# The inputs of operators that multiply integers: activations, weights and the weights' zero point.
OPERANDS = {
    "DynamicQuantizeMatMul": (None, 1, 3),
    "MatMulInteger": (0, 1, 3),
    "MatMulIntegerToFloat": (0, 1, 5),
    "QAttention": (0, 1, 7),
    "QGemm": (0, 3, 5),
    "QLinearConv": (0, 3, 5),
    "QLinearMatMul": (0, 3, 5),
}


def imported() -> Any:
    """The package, which keeps to this process: since 1.32 it would write to the home folder and
    report its use over the network. Raises ImportError if it is not installed."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # which it reads as it is imported
    import onnxruntime

    return onnxruntime


def session_of(model: ModelProto | bytes, configure: Callable[[Any], None]) -> Any:
    """An onnxruntime.InferenceSession. `configure` sets its SessionOptions, perhaps twice.
    Raises ImportError without the package, and what onnxruntime raises."""
    onnxruntime = imported()
    data = model if isinstance(model, bytes) else model.SerializeToString()

    def opened(data: bytes, precise: bool) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        configure(options)
        options.add_session_config_entry("session.x64quantprecision", str(int(precise)))
        return onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])

    if not saturates():
        return opened(data, False)
    try:
        # QuantizeLinear and DequantizeLinear around other operators: onnxruntime's own rule, which
        # takes weights of int8 activations, too, for which it then has no kernels.
        return opened(_exact(data), True)
    except Exception:  # its exceptions have no common base
        return opened(_exact(data), False)


@cache
def saturates() -> bool:
    """Whether onnxruntime's sums of uint8 by int8 saturate on this processor."""
    onnxruntime = imported()
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 32])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 16])],
        [numpy_helper.from_array(np.full((32, 16), 127, np.int8), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (made,) = session.run(None, {"x": np.full((1, 32), 255, np.uint8)})
    return bool((made != 32 * 255 * 127).any())


def _exact(data: bytes) -> bytes:
    """The model with uint8 weights in the operators of OPERANDS that have uint8 activations."""
    if not any(op.encode() in data for op in OPERANDS):
        return data
    model = ModelProto.FromString(data)
    try:
        graph = shape_inference.infer_shapes(model).graph
    except Exception:  # onnxruntime says what is wrong with it
        return data
    typed = (*graph.input, *graph.value_info, *graph.output)
    types = {i.name: i.type.tensor_type.elem_type for i in typed}
    stored = {i.name: i for i in model.graph.initializer}
    for node in model.graph.node:
        _with_uint8(node, model, types, stored)
    return model.SerializeToString()


def _with_uint8(
    node: NodeProto,
    model: ModelProto,
    types: Mapping[str, int],
    stored: Mapping[str, TensorProto],
) -> None:
    x, w, zero = OPERANDS.get(node.op_type, (None, 0, 0))
    inputs = [*node.input, *[""] * (zero + 1 - len(node.input))]
    known = [stored.get(inputs[k]) for k in (w, zero)]
    weights = known[0]
    if node.op_type not in OPERANDS or weights is None or weights.data_type != TensorProto.INT8:
        return
    if (inputs[zero] and known[1] is None) or (
        x is not None and types.get(inputs[x]) != TensorProto.UINT8
    ):
        return
    for k, tensor in zip((w, zero), known, strict=True):
        value = np.zeros((), np.int8) if tensor is None else numpy_helper.to_array(tensor)
        inputs[k] = f"{node.output[0]}.{k}.uint8"
        if all(i.name != inputs[k] for i in model.graph.initializer):
            raised = (value.astype(np.int16) + 128).astype(np.uint8)
            model.graph.initializer.append(numpy_helper.from_array(raised, inputs[k]))
    node.input[:] = inputs
