"""onnxruntime as a reference, which is optional: sessions whose results no processor changes.

Processors with AVX2 and without VNNI add products of uint8 activations and int8 weights in pairs,
which saturate at 16 bits: sums of large weights come out as half of what they are. The standard has
no such limit, and onnxruntime on other processors has none. Products of two uint8 do not saturate,
so weights become uint8 here, with a zero point that is 128 higher, where that is needed. Products
of two int8 do not saturate either, so int8 activations stay: by default onnxruntime makes them
uint8 on x86.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    inliner,
    numpy_helper,
    shape_inference,
)

# The inputs of operators that multiply integers: activations and their zero point, either of which
# says the type, and each weights with theirs. Without the first they make uint8 of floats.
OPERANDS: Mapping[str, tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = {
    "DynamicQuantizeLSTM": ((), ((1, 9), (2, 11))),
    "DynamicQuantizeMatMul": ((), ((1, 3),)),
    "MatMulInteger": ((0, 2), ((1, 3),)),
    "MatMulIntegerToFloat": ((0, 4), ((1, 5),)),
    "QAttention": ((0, 6), ((1, 7),)),
    "QGemm": ((0, 2), ((3, 5),)),
    "QLinearConv": ((0, 2), ((3, 5),)),
    "QLinearMatMul": ((0, 2), ((3, 5),)),
}
BETWEEN = ("Conv", "Gemm", "MatMul")  # integers if DequantizeLinear gives both operands


def imported() -> Any:
    """The package, which keeps to this process: since 1.32 it would write to the home folder and
    report its use over the network. Raises ImportError if it is not installed."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # which it reads as it is imported
    import onnxruntime

    return onnxruntime


def session_of(model: ModelProto | bytes, configure: Callable[[Any], None]) -> Any:
    """An onnxruntime.InferenceSession. `configure` sets its SessionOptions. Raises
    ImportError without the package, and what onnxruntime raises."""
    onnxruntime = imported()
    data = model if isinstance(model, bytes) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    configure(options)
    data = _exact(data) if saturates() else data
    return onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])


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
    """The model with uint8 weights wherever activations are uint8, in subgraphs, too; the bodies of
    its functions in place of their calls."""
    model = ModelProto.FromString(data)
    try:
        # The inliner leaves out the defaults of attributes.
        if model.functions and not any(f.attribute_proto for f in model.functions):
            model = inliner.inline_local_functions(model)
        inferred = shape_inference.infer_shapes(model).graph
    except Exception:  # onnxruntime says what is wrong with it
        return data
    _raise_weights(model.graph, inferred, _Raised({}, {}))
    return bytes(model.SerializeToString())


def _raise_weights(graph: GraphProto, inferred: GraphProto, outer: _Raised) -> None:
    """In the graph and its subgraphs. `inferred` is the same graph with types; `outer` is what
    subgraphs see of the graph that they are in."""
    typed = (*inferred.input, *inferred.value_info, *inferred.output)
    types = {**outer.types, **{i.name: i.type.tensor_type.elem_type for i in typed}}
    types |= {i.name: i.data_type for i in inferred.initializer}
    producers = {n.output[0]: n for n in graph.node if n.output}
    made = _Raised(types, {**outer.producers, **producers})
    for node, again in zip(graph.node, inferred.node, strict=True):
        for attribute, same in zip(node.attribute, again.attribute, strict=True):
            if attribute.HasField("g"):
                _raise_weights(attribute.g, same.g, made)
        made.add(node)
    del graph.node[:]
    graph.node.extend(made.nodes)


@dataclass
class _Raised:
    """The nodes of a graph, and before those that need it what makes their weights uint8."""

    types: Mapping[str, int]
    producers: Mapping[str, NodeProto]
    nodes: list[NodeProto] = field(default_factory=list)

    def add(self, node: NodeProto) -> None:
        if node.op_type in OPERANDS:
            typed, pairs = OPERANDS[node.op_type]
            unsigned = not typed or any(self._is(node, k, TensorProto.UINT8) for k in typed)
            for w, zero in pairs:
                if unsigned and self._is(node, w, TensorProto.INT8):
                    self._raise(node, w, zero)
        elif node.op_type in BETWEEN:
            x, w = (self.producers.get(n, NodeProto()) for n in node.input[:2])
            pair = (x.op_type, w.op_type) == ("DequantizeLinear",) * 2
            if pair and self._is(x, 0, TensorProto.UINT8) and self._is(w, 0, TensorProto.INT8):
                weights = NodeProto()
                weights.CopyFrom(w)
                weights.name = weights.output[0] = f"{node.output[0]}.weights"
                self._raise(weights, 0, 2)
                self.nodes.append(weights)
                node.input[1] = weights.output[0]
        self.nodes.append(node)

    def _is(self, node: NodeProto, k: int, kind: int) -> bool:
        return k < len(node.input) and self.types.get(node.input[k]) == kind

    def _raise(self, node: NodeProto, w: int, zero: int) -> None:
        inputs = [*node.input, *[""] * (zero + 1 - len(node.input))]
        label = next(filter(None, node.output))
        if not inputs[zero]:
            inputs[zero] = f"{label}.{w}.zero"
            if node.op_type == "DequantizeLinear":  # as many as there are scales
                self._step("Sub", [inputs[1], inputs[1]], inputs[zero])
            else:
                self._constant(0, inputs[zero])
        for k in (w, zero):
            name = f"{label}.{k}"
            self._step("Cast", [inputs[k]], f"{name}.wide", to=TensorProto.INT32)
            self._constant(128, f"{name}.middle")
            self._step("Add", [f"{name}.wide", f"{name}.middle"], f"{name}.sum")
            self._step("Cast", [f"{name}.sum"], f"{name}.uint8", to=TensorProto.UINT8)
            inputs[k] = f"{name}.uint8"
        node.input[:] = inputs

    def _constant(self, value: int, output: str) -> None:
        tensor = numpy_helper.from_array(np.asarray(value, np.int32))
        self._step("Constant", [], output, value=tensor)

    def _step(self, op: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
