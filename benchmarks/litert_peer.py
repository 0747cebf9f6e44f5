"""An ONNX network in LiteRT: its TensorFlow operators, and turns of a stopwatch.

    build/peers/bin/python benchmarks/litert_peer.py MODEL.onnx FOLDER

Makes a .tflite of MODEL, which was one before, and times it as peer_turns.py has it. Knows what
MLPerf Tiny's networks are made of, and ends with an error at anything else. host.py starts it, with
the Python that has LiteRT.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter
from onnx import numpy_helper
from peer_turns import inputs_of, serve

TYPES = {np.dtype(np.float32): 0, np.dtype(np.int32): 2, np.dtype(np.int8): 9}
CODES = {
    "Add": 0,
    "AveragePool": 1,
    "Conv": 3,
    "Depthwise": 4,
    "Dense": 9,
    "Reshape": 22,
    "Softmax": 25,
}
RELU = 1  # of tfl.ActivationFunctionType


@dataclass
class Weights:
    """A constant, and how its integers become numbers; no scale for floats."""

    array: np.ndarray[Any, Any]
    scale: np.ndarray[Any, Any] | None = None


@dataclass
class Maker:
    """The .tflite under construction; `at` are activations: tensor, and shape as ONNX has it."""

    model: onnx.ModelProto
    consts: dict[str, Weights] = field(default_factory=dict)
    at: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [tfl.BufferT()])
    operators: list[Any] = field(default_factory=list)
    done: set[str] = field(default_factory=set)  # nodes that a node before took over

    def file(self) -> bytes:
        graph = onnx.shape_inference.infer_shapes(self.model).graph
        self.shapes = {
            v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
            for v in (*graph.input, *graph.output, *graph.value_info)
        }
        self.consts = {t.name: Weights(numpy_helper.to_array(t)) for t in graph.initializer}
        self.users: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
        (given,) = graph.input
        dtype = onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
        shape = self.shapes[given.name]
        self.at[given.name] = self.tensor(dtype, shape), shape
        for node in graph.node:
            if node.name not in self.done:
                getattr(self, f"on_{node.op_type.lower()}")(node, attributes(node))
        return self.packed(self.at[given.name][0], self.at[graph.output[0].name][0])

    def packed(self, first: int, last: int) -> bytes:
        sub = tfl.SubGraphT()
        sub.tensors, sub.operators, sub.inputs, sub.outputs = (
            *(self.tensors, self.operators),
            *([first], [last]),
        )
        model = tfl.ModelT()
        model.version, model.subgraphs, model.buffers, model.operatorCodes = (
            3,
            [sub],
            self.buffers,
            [],
        )
        for code in CODES.values():
            entry = tfl.OperatorCodeT()
            entry.builtinCode = entry.deprecatedBuiltinCode = code
            entry.version = (
                3 if code in (1, 3, 4) else 4 if code == 9 else 2 if code in (0, 25) else 1
            )
            model.operatorCodes.append(entry)
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def tensor(self, dtype: Any, shape: tuple[int, ...], weights: Weights | None = None) -> int:
        made = tfl.TensorT()
        made.shape, made.type, made.name = (
            list(shape),
            TYPES[np.dtype(dtype)],
            f"t{len(self.tensors)}",
        )
        made.buffer = 0
        if weights is not None:
            buffer = tfl.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(weights.array).tobytes(), np.uint8)
            made.buffer = len(self.buffers)
            self.buffers.append(buffer)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def quantise(self, index: int, scale: Any, zero_point: Any, axis: int = 0) -> None:
        q = tfl.QuantizationParametersT()
        q.scale = np.atleast_1d(np.float32(scale)).reshape(-1)
        q.zeroPoint = np.broadcast_to(np.int64(zero_point).reshape(-1), q.scale.shape).copy()
        q.quantizedDimension = axis
        self.tensors[index].quantization = q

    def constant(self, weights: Weights, axis: int = 0) -> int:
        index = self.tensor(weights.array.dtype, weights.array.shape, weights)
        if weights.scale is not None:
            self.quantise(index, weights.scale, 0, axis)
        return index

    def emit(self, kind: str, inputs: list[int], node: onnx.NodeProto, options: Any = None) -> None:
        """The operator of a node and of the bias, activation and quantiser after it."""
        name, relu, quantiser = self.follow(node)
        shape = self.shapes[node.output[0]]
        stored = (*shape[:1], *shape[2:], shape[1]) if len(shape) == 4 else shape
        dtype = np.int8 if quantiser is not None else np.float32
        out = self.tensor(dtype, stored)
        if quantiser is not None:
            scale, zero = (self.consts[i].array for i in quantiser.input[1:])
            self.quantise(out, scale, zero)
        if relu:
            options.fusedActivationFunction = RELU
        operator = tfl.OperatorT()
        operator.opcodeIndex = list(CODES).index(kind)
        operator.inputs, operator.outputs = inputs, [out]
        if options is not None:
            operator.builtinOptionsType = getattr(tfl.BuiltinOptions, type(options).__name__[:-1])
            operator.builtinOptions = options
        self.operators.append(operator)
        self.at[name] = out, shape

    def follow(self, node: onnx.NodeProto) -> tuple[str, bool, onnx.NodeProto | None]:
        """The name of what is stored, whether a Relu comes before, and the quantiser."""
        name, relu = node.output[0], False
        while len(self.users.get(name, ())) == 1:
            (user,) = self.users[name]
            if user.op_type == "QuantizeLinear":
                self.done.add(user.name)
                return user.output[0], relu, user
            bias = user.op_type == "Add" and any(i in self.consts for i in user.input)
            if user.op_type != "Relu" and not (bias and node.op_type == "MatMul"):
                break
            relu |= user.op_type == "Relu"
            self.done.add(user.name)
            name = user.output[0]
        return name, relu, None

    def on_dequantizelinear(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        x, scale, zero = node.input
        if x in self.consts:
            self.consts[node.output[0]] = Weights(self.consts[x].array, self.consts[scale].array)
            return
        index, shape = self.at[x]
        if self.tensors[index].quantization is None:
            self.quantise(index, self.consts[scale].array, self.consts[zero].array)
        self.at[node.output[0]] = index, shape

    def on_quantizelinear(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        self.at[node.output[0]] = self.at[node.input[0]]  # moved values are quantised as they were

    def on_transpose(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        assert list(a["perm"]) == [0, 3, 1, 2], "only from channels last"
        self.at[node.output[0]] = self.at[node.input[0]][0], self.shapes[node.output[0]]

    def on_reshape(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        index, _ = self.at[node.input[0]]
        shape = self.shapes[node.output[0]]
        if len(shape) == 4:
            assert shape[1] == 1, "only one channel"
            self.at[node.output[0]] = index, shape
            return
        options = tfl.ReshapeOptionsT()
        options.newShape = list(shape)
        target = self.constant(Weights(np.int32(shape)))
        before = self.tensors[index].quantization
        self.emit("Reshape", [index, target], node, options)
        self.tensors[-1].type = self.tensors[index].type
        self.tensors[-1].quantization = before

    def on_conv(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        x, w, b = node.input
        index, shape = self.at[x]
        weights, group = self.consts[w], a.get("group", 1)
        same = [p != 0 for p in a.get("pads", [0] * 4)]
        options: Any
        if group == 1:
            options, kind, axis = tfl.Conv2DOptionsT(), "Conv", 0
            array = weights.array.transpose(0, 2, 3, 1)
        else:
            assert group == shape[1] == weights.array.shape[0], "only depthwise groups"
            options, kind, axis = tfl.DepthwiseConv2DOptionsT(), "Depthwise", 3
            array, options.depthMultiplier = weights.array.transpose(1, 2, 3, 0), 1
        options.strideH, options.strideW = a["strides"]
        options.dilationHFactor, options.dilationWFactor = a.get("dilations", (1, 1))
        options.padding = 0 if any(same) else 1
        filters = self.constant(Weights(array, weights.scale), axis)
        self.emit(kind, [index, filters, self.constant(self.consts[b])], node, options)

    def on_matmul(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        (adder,) = self.users[node.output[0]]
        bias = next(i for i in adder.input if i in self.consts)
        self.dense(node, self.consts[node.input[1]], self.consts[bias])

    def on_gemm(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        weights = self.consts[node.input[1]]
        array = weights.array.T if a.get("transB") else weights.array
        self.dense(node, Weights(array, weights.scale), self.consts[node.input[2]])

    def dense(self, node: onnx.NodeProto, weights: Weights, bias: Weights) -> None:
        filters = self.constant(Weights(weights.array.T, weights.scale))
        flat = Weights(bias.array.reshape(-1), bias.scale)
        inputs = [self.at[node.input[0]][0], filters, self.constant(flat)]
        self.emit("Dense", inputs, node, tfl.FullyConnectedOptionsT())

    def on_add(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        self.emit("Add", [self.at[i][0] for i in node.input], node, tfl.AddOptionsT())

    def on_averagepool(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        options = tfl.Pool2DOptionsT()
        options.filterHeight, options.filterWidth = a["kernel_shape"]
        options.strideH, options.strideW = a["strides"]
        options.padding = 1
        self.emit("AveragePool", [self.at[node.input[0]][0]], node, options)

    def on_softmax(self, node: onnx.NodeProto, a: dict[str, Any]) -> None:
        options = tfl.SoftmaxOptionsT()
        options.beta = 1.0
        self.emit("Softmax", [self.at[node.input[0]][0]], node, options)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def main() -> None:
    data = Maker(onnx.load(sys.argv[1])).file()
    run = Interpreter(model_content=data, num_threads=1)
    run.allocate_tensors()
    x, y = run.get_input_details()[0], run.get_output_details()[0]
    folder = Path(sys.argv[2])
    (sample,) = inputs_of(folder).values()
    run.set_tensor(x["index"], sample.reshape(x["shape"]))
    run.invoke()
    serve(folder, [run.get_tensor(y["index"])], run.invoke)


if __name__ == "__main__":
    main()
