"""Networks in integers, as onnxruntime's quantiser writes them."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
from builders import Array, random_feeds
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: list[dict[str, Array]]) -> None:
        self.feeds: Iterator[dict[str, Array]] = iter(feeds)

    def get_next(self) -> dict[str, Array] | None:
        return next(self.feeds, None)


def quantised(
    model: onnx.ModelProto,
    form: QuantFormat,
    per_channel: bool = False,
    activations: QuantType | None = None,
    weights: QuantType = QuantType.QInt8,
) -> onnx.ModelProto:
    """The model with the ranges of a few random inputs; inputs and outputs stay floats. The type of
    activations is the one that most operators of `form` have kernels for."""
    unsigned = form == QuantFormat.QOperator
    logging.disable(logging.WARNING)  # it recommends a preparation that we do not want
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantised.onnx"
        onnx.save(onnx.shape_inference.infer_shapes(model), source)
        quantize_static(
            *(source, target, Calibration(random_feeds(model, 3, samples=8)), form),
            activation_type=activations or (QuantType.QUInt8 if unsigned else QuantType.QInt8),
            weight_type=weights,
            per_channel=per_channel,
        )
        logging.disable(logging.NOTSET)
        return onnx.load(target)


def without_floats(model: onnx.ModelProto) -> onnx.ModelProto:
    """A QDQ model with int8 inputs and outputs: their outermost quantisers are left to the caller,
    who has integers to begin with, as a sensor does."""
    graph = model.graph
    firsts = [n for n in graph.node if n.op_type == "QuantizeLinear"]
    renamed = {n.output[0]: n.input[0] for n in firsts if n.input[0] in _names(graph.input)}
    lasts = [n for n in graph.node if n.output[0] in _names(graph.output)]
    lasts = [n for n in lasts if n.op_type == "DequantizeLinear"]
    renamed |= {n.input[0]: n.output[0] for n in lasts}
    touched = {*renamed, *renamed.values()}
    for info in (*graph.input, *graph.output):
        if info.name in touched:
            info.type.tensor_type.elem_type = onnx.TensorProto.INT8
    dropped = {id(n) for n in (*firsts, *lasts) if {n.input[0], n.output[0]} <= touched}
    kept = [n for n in graph.node if id(n) not in dropped]
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in kept]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return model


def _names(infos: list[onnx.ValueInfoProto]) -> set[str]:
    return {info.name for info in infos}
