"""Operators whose result depends on shapes alone, which are known here: they become constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto, helper
from onnx import numpy_helper as np_helper

from mlftool.importer.protos import op_name
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType
from mlftool.ops.reference import evaluate_proto

OF_SHAPE = frozenset(["Shape", "Size", "EyeLike"])


def value_of_shapes(
    node: NodeProto,
    inputs: Sequence[TensorType],
    output: TensorType | None,
    opsets: Mapping[str, int],
) -> Array | None:
    """The value of `node` if it follows from these types, else None."""
    if op_name(node) in OF_SHAPE:
        # Zeros that take no room, whatever their number.
        stand_in = np.broadcast_to(np.zeros((), inputs[0].dtype.numpy), inputs[0].shape)
        return np.asarray(evaluate_proto(node, [stand_in], opsets)[0])
    if op_name(node) == "ConstantOfShape" and output is not None:
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        value = np_helper.to_array(attrs["value"]) if "value" in attrs else np.float32(0)
        assert output.dtype == dtype.of(np.asarray(value))
        return np.full(output.shape, np.asarray(value).reshape(()))
    return None
