"""float32 ONNX to int8 ONNX by onnxruntime's static quantisation, with int8 inputs and outputs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

_FUSED = re.compile("^ConvBnFusion_(W|BN_B)_")  # what onnxruntime puts before a folded parameter
Scale = tuple[float, int]  # real = scale * (quantised - zero_point)


class _Samples(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
    """Feeds the calibration one sample after the other."""

    def __init__(self, name: str, samples: NDArray[np.float32]) -> None:
        self._feeds = iter([{name: sample[np.newaxis]} for sample in samples])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self._feeds, None)


def quantise(
    source: Path, target: Path, calibration: NDArray[np.float32], fixed: Mapping[str, Scale]
) -> None:
    """Writes `target`: weights int8 per channel, activations int8 per tensor, biases int32.

    `calibration` [N, ...] gives the ranges of the activations, by their minimum and maximum;
    `fixed` states the quantisation of tensors whose scale is a matter of interface, not statistics.
    """
    overrides = {
        name: [{"scale": np.array(scale, np.float32), "zero_point": np.array(zero_point, np.int8)}]
        for name, (scale, zero_point) in fixed.items()
    }
    options: dict[str, Any] = {"TensorQuantOverrides": overrides, "WeightSymmetric": True}
    original = onnx.load(source)
    with tempfile.TemporaryDirectory() as folder:
        # Folds the batch normalisations, so that a convolution and its norm round only once.
        folded, quantised = Path(folder, "folded.onnx"), Path(folder, "quantised.onnx")
        quant_pre_process(str(source), str(folded), skip_symbolic_shape=True)
        quantize_static(
            str(folded),
            str(quantised),
            _Samples(original.graph.input[0].name, calibration),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options=options,
        )
        model = onnx.load(quantised)
    _integer_interface(model)
    _tidy(model)
    model.graph.name = target.stem
    model.doc_string = model.graph.doc_string = (
        original.doc_string + " Quantised to int8 by onnxruntime.quantization.quantize_static"
        " (QDQ, weights per channel)."
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, target)


def _integer_interface(model: onnx.ModelProto) -> None:
    """Drops the QuantizeLinear at the entry and the DequantizeLinear at the exit.

    The device then never sees a float: the sensor's integers go in and integer scores come out.
    """
    graph = model.graph
    (entry,) = (n for n in graph.node if n.input[0] == graph.input[0].name)
    (exit_,) = (n for n in graph.node if n.output[0] == graph.output[0].name)
    assert (entry.op_type, exit_.op_type) == ("QuantizeLinear", "DequantizeLinear")
    renamed = {entry.output[0]: graph.input[0].name, exit_.input[0]: graph.output[0].name}
    kept = [n for n in graph.node if n.name not in (entry.name, exit_.name)]
    for node in kept:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = renamed.get(name, name)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(kept)
    for value in (graph.input[0], graph.output[0]):
        value.type.tensor_type.elem_type = onnx.TensorProto.INT8
    used = {name for node in kept for name in node.input}
    initialisers = [t for t in graph.initializer if t.name in used]
    del graph.initializer[:]
    graph.initializer.extend(initialisers)


def _tidy(model: onnx.ModelProto) -> None:
    """Parameters under the names of their modules, and only the operator sets that are used."""
    for node in model.graph.node:
        node.name = _FUSED.sub("", node.name)
        for names in (node.input, node.output):
            names[:] = [_FUSED.sub("", name) for name in names]
    for tensor in model.graph.initializer:
        tensor.name = _FUSED.sub("", tensor.name)
    used = [o for o in model.opset_import if o.domain in {n.domain for n in model.graph.node}]
    del model.opset_import[:]
    model.opset_import.extend(used)


def to_int8(values: NDArray[np.float32], scale: Scale) -> NDArray[np.int8]:
    """`values` as the integers of a quantised tensor, rounded half to even as ONNX does."""
    return np.clip(np.rint(values / scale[0]) + scale[1], -128, 127).astype(np.int8)


def to_float(values: NDArray[Any], scale: Scale) -> NDArray[np.float32]:
    """The real numbers that the integers `values` stand for."""
    return ((values.astype(np.float32) - scale[1]) * scale[0]).astype(np.float32)
