"""The types of what a node makes, by the standard's own inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import NodeProto, helper
from onnx import numpy_helper as np_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from mlftool.importer.expansions import standard_form
from mlftool.importer.interface import completed
from mlftool.importer.own import is_own, result_types
from mlftool.importer.protos import domain_of, first_line, op_name, place, type_name, type_proto
from mlftool.importer.schema import mistyped
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.ops import UnsupportedError

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer

# Without inference of their own, or as good: the type is the input's.
LIKE_FIRST = ("GroupNormalization", "StringNormalizer")


def infer(importer: Importer, node: NodeProto, index: int) -> Mapping[str, Any] | None:
    """Types of the node's outputs by the standard's own inference."""
    where = place(node, index)
    if any(a.HasField("sparse_tensor") for a in node.attribute):
        importer.problem("MLF0205", "is a sparse constant; expected a dense one", where)
        return None
    if is_own(node):
        return _own(importer, node, where)
    unlike = mistyped(node, importer.opsets[domain_of(node)], importer.types)
    if unlike:
        importer.problem("MLF0303", unlike, where)
        return None
    types = {n: type_proto(importer.types[n], importer.symbols.get(n, ())) for n in node.input if n}
    data = {
        n: np_helper.from_array(dtype.texts(importer.consts[n]))
        for n in node.input
        if n in importer.consts and importer.consts[n].size <= 1024
    }
    imports = [helper.make_opsetid(d, v) for d, v in importer.opsets.items()]
    try:
        schema = onnx.defs.get_schema(
            node.op_type, importer.opsets[domain_of(node)], domain_of(node)
        )
        spoken = standard_form(node)
        found = infer_node_outputs(schema, spoken, types, data, opset_imports=imports)
    except (
        InferenceError,
        onnx.onnx_cpp2py_export.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        ValueError,
        RuntimeError,
    ) as error:
        importer.problem("MLF0303", f"is not valid: {first_line(error)}", where)
        return None
    if op_name(node) in LIKE_FIRST:
        found = {node.output[0]: types[node.input[0]]}
    elif op_name(node) == "PRelu" and importer.opsets[""] >= 7:
        shapes = [importer.types[n].shape for n in node.input]
        try:
            wider = np.broadcast_shapes(*shapes)
        except ValueError:
            shown = " and ".join(str(importer.types[n]) for n in node.input)
            importer.problem("MLF0303", f"{shown} do not broadcast", where)
            return None
        if wider != shapes[0]:
            row = importer.types[node.input[0]].dtype
            found = {node.output[0]: type_proto(TensorType(row, wider))}
    names = filter(None, node.output)
    known = importer.bounds
    return {n: completed(found.get(n), importer.declared.get(n), known) for n in names}


def _own(importer: Importer, node: NodeProto, where: str) -> Mapping[str, Any] | None:
    try:
        return result_types(node, importer.types)
    except UnsupportedError as error:
        importer.problem("MLF0303", f"is not valid: {error}", where)
        return None


def typed(importer: Importer, name: str, proto: Any, where: str) -> bool:
    if proto is None or not proto.HasField("tensor_type"):
        importer.problem("MLF0303", f"type of output '{name}' cannot be inferred", where)
        return False
    tensor = proto.tensor_type
    bounds = importer.bounds
    symbols = tuple(d.dim_param if d.dim_param in bounds else "" for d in tensor.shape.dim)
    dims = [
        d.dim_value if d.HasField("dim_value") else bounds.get(d.dim_param)
        for d in tensor.shape.dim
    ]
    if tensor.elem_type not in dtype.BY_ONNX:
        importer.problem(
            "MLF0205", f"output '{name}' has element type {type_name(tensor.elem_type)}", where
        )
        return False
    if any(d is not None and d < 0 for d in dims):
        shown = ",".join("?" if d is None else str(d) for d in dims)
        importer.problem(
            "MLF0206", f"output '{name}' has shape {shown}; expected none negative", where
        )
        return False
    if not tensor.HasField("shape") or None in dims:
        importer.problem(
            "MLF0206",
            f"shape of output '{name}' is not known before run time",
            where,
            "bind the model's symbolic dimensions with --input-shape",
        )
        return False
    type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], tuple(d for d in dims if d is not None))
    importer.types[name] = type_
    if any(symbols):
        importer.symbols[name] = symbols
    return not importer.too_large(type_, where)
