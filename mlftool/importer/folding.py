"""Values known before run time: the standard's own package evaluates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from mlftool.importer.protos import first_line, place
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.ops.reference import evaluate_proto

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer

MAX_FOLDED_BYTES = 2**28  # what one node may make of constants


def without_elements(importer: Importer, node: NodeProto, found: Mapping[str, Any]) -> None:
    """Tensors without elements are known, whatever their producer reads."""
    for name in filter(None, node.output):
        tensor = found[name].tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        importer.add_const(name, np.zeros(shape, dtype.BY_ONNX[tensor.elem_type].numpy))


def affordable(importer: Importer, found: Mapping[str, Any], index: int, node: NodeProto) -> bool:
    """Whether a node's values are small enough to compute them."""
    for name, proto in found.items():
        if proto is None:
            continue
        tensor = proto.tensor_type
        dims = [d.dim_value for d in tensor.shape.dim]
        if tensor.elem_type in dtype.BY_ONNX and all(d > 0 for d in dims):
            type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], tuple(dims))
            if type_.bytes > MAX_FOLDED_BYTES:
                importer.problem(
                    "MLF0206",
                    f"makes a constant '{name}' of {type_.bytes} bytes; "
                    f"expected at most {MAX_FOLDED_BYTES}",
                    place(node, index),
                )
                return False
    return True


def evaluate(importer: Importer, node: NodeProto, index: int) -> None:
    try:
        results = evaluate_proto(
            node, [importer.consts.get(n) for n in node.input], importer.opsets
        )
    except Exception as error:
        importer.problem("MLF0303", f"cannot be evaluated: {first_line(error)}", place(node, index))
        return
    for name, value in zip(node.output, results, strict=False):
        listed = isinstance(value, list)
        kind = "sequence" if listed else np.asarray(value).dtype
        if name and (listed or not dtype.is_known(np.asarray(value))):
            importer.problem(
                "MLF0205",
                f"makes a constant of type {kind}; supported: {dtype.SUPPORTED}",
                place(node, index),
            )
        elif name:
            importer.add_const(name, np.asarray(value))


def is_empty(proto: Any) -> bool:
    """Whether a type has no elements, for certain."""
    if proto is None or not proto.HasField("tensor_type"):
        return False
    tensor = proto.tensor_type
    dims = tensor.shape.dim
    known = all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)
    return tensor.elem_type in dtype.BY_ONNX and known and any(d.dim_value == 0 for d in dims)
