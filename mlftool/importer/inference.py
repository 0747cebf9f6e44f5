"""The types of what a node makes, by the standard's own inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TypeProto, helper
from onnx import numpy_helper as np_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from mlftool.importer.interface import completed
from mlftool.importer.protos import first_line, type_name, type_proto
from mlftool.importer.schema import is_own, mistyped, result_types
from mlftool.importer.structure import without_unread
from mlftool.importer.tensors import too_large
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import domain_of, op_name
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Scope
from mlftool.ops import UnsupportedError

# Without inference of their own, or as good: the type is the input's.
LIKE_FIRST = ("GroupNormalization", "StringNormalizer")


def inferred(scope: Scope, node: NodeProto) -> Outcome:
    """Types of the node's outputs by the standard's own inference."""
    if any(a.HasField("sparse_tensor") for a in node.attribute):
        return Refuse("MLF0205", "is a sparse constant; expected a dense one")
    if is_own(node):
        found: Mapping[str, TypeProto | None]
        try:
            found = result_types(node, scope.types)
        except UnsupportedError as error:
            return Refuse("MLF0303", f"is not valid: {error}")
    else:
        batch = next((a.i for a in node.attribute if a.name == "batch_dims"), 0)
        if batch < 0:  # onnx's inference would read outside of the shape
            return Refuse("MLF0303", f"batch_dims is {batch}; expected 0 or more")
        unlike = mistyped(node, scope.opsets[domain_of(node)], scope.types)
        if unlike:
            return Refuse("MLF0303", unlike)
        found = _standard(scope, node)
        known = scope.bounds
        names = filter(None, node.output)
        found = {n: completed(found.get(n), scope.declared.get(n), known) for n in names}
    scope.inferred.update({n: found.get(n) for n in node.output if n})
    return Next(without_unread(node, found, scope.unread))


def _standard(scope: Scope, node: NodeProto) -> Mapping[str, Any]:
    types = {n: type_proto(scope.types[n], scope.symbols_of(n)) for n in node.input if n}
    data = {
        n: np_helper.from_array(dtype.texts(scope.consts[n]))
        for n in node.input
        if n in scope.consts and scope.consts[n].size <= 1024
    }
    imports = [helper.make_opsetid(d, v) for d, v in scope.opsets.items()]
    try:
        schema = onnx.defs.get_schema(node.op_type, scope.opsets[domain_of(node)], domain_of(node))
        spoken = _standard_form(node)
        found: Mapping[str, Any] = infer_node_outputs(
            schema, spoken, types, data, opset_imports=imports
        )
    except (
        InferenceError,
        onnx.onnx_cpp2py_export.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        ValueError,
        RuntimeError,
    ) as error:
        raise Refuse("MLF0303", f"is not valid: {first_line(error)}") from None
    if op_name(node) in LIKE_FIRST:
        return {node.output[0]: types[node.input[0]]}
    if op_name(node) == "PRelu" and scope.opsets[""] >= 7:
        given = [scope.types[n] for n in node.input]
        try:
            wider = np.broadcast_shapes(*(t.shape for t in given))
        except ValueError:
            shown = " and ".join(map(str, given))
            raise Refuse("MLF0303", f"{shown} do not broadcast") from None
        if wider != given[0].shape:
            return {node.output[0]: type_proto(TensorType(given[0].dtype, wider))}
    return found


def _standard_form(node: NodeProto) -> NodeProto:
    """`node` without attributes of our own, which onnx would not take."""
    if not any(a.name.startswith("mlf.") for a in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if not a.name.startswith("mlf."))
    return copy


def typed(scope: Scope, node: NodeProto) -> Outcome:
    """Every output has the type that was inferred."""
    for name in filter(None, node.output):
        _type(scope, name, scope.inferred[name])
    return Next(node)


def _type(scope: Scope, name: str, proto: Any) -> None:
    if proto is None or not proto.HasField("tensor_type"):
        raise Refuse("MLF0303", f"type of output '{name}' cannot be inferred")
    tensor = proto.tensor_type
    bounds = scope.bounds
    symbols = tuple(d.dim_param if d.dim_param in bounds else "" for d in tensor.shape.dim)
    dims = [
        d.dim_value if d.HasField("dim_value") else bounds.get(d.dim_param)
        for d in tensor.shape.dim
    ]
    if tensor.elem_type not in dtype.BY_ONNX:
        kind = type_name(tensor.elem_type)
        raise Refuse("MLF0205", f"output '{name}' has element type {kind}")
    if any(d is not None and d < 0 for d in dims):
        shown = ",".join("?" if d is None else str(d) for d in dims)
        raise Refuse("MLF0206", f"output '{name}' has shape {shown}; expected none negative")
    if not tensor.HasField("shape") or None in dims:
        text = f"shape of output '{name}' is not known before run time"
        help = "if an input's value decides it, make that a constant: --input-value NAME:VALUE"
        raise Refuse("MLF0206", text, help)
    type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], tuple(d for d in dims if d is not None))
    scope.types[name] = type_
    if any(symbols):
        scope.symbols[name] = symbols
    if text := too_large(type_):
        raise Refuse("MLF0206", text)
