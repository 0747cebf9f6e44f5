"""The types of what a node makes, by the standard's own inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, helper
from onnx import numpy_helper as np_helper
from onnx.defs import OpSchema
from onnx.shape_inference import InferenceError, infer_node_outputs

from mlftool.importer.interface import completed
from mlftool.importer.protos import first_line, type_name, type_proto
from mlftool.importer.schema import is_own, mistyped, opset_of, result_types, schema_of, untaken
from mlftool.importer.structure import has_shape, without_unread
from mlftool.importer.tensors import too_large
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import domain_of, op_name
from mlftool.onnx_rules.scope import CONSTANT, Next, Outcome, Refuse, Scope
from mlftool.ops import Trait, UnsupportedError, has
from mlftool.ops.base import known


def inferred(scope: Scope, node: NodeProto) -> Outcome:
    """Types of the node's outputs by the standard's own inference."""
    if any(a.HasField("sparse_tensor") for a in node.attribute):
        return Refuse("MLF0205", "is a sparse constant; expected a dense one")
    if is_own(node):
        found: Mapping[str, TypeProto | None]
        try:
            found = result_types(node, scope)
        except UnsupportedError as error:
            return Refuse("MLF0303", f"is not valid: {error}")
    else:
        said = {a.name: a.i for a in node.attribute}
        if (batch := said.get("batch_dims", 0)) < 0:  # onnx's inference would read outside of lists
            return Refuse("MLF0303", f"batch_dims is {batch}; expected 0 or more")
        if (parts := said.get("num_outputs", len(node.output))) != len(node.output):
            return Refuse("MLF0303", f"num_outputs is {parts}; expected {len(node.output)}")
        if unlike := mistyped(node, opset_of(node, scope.opsets), scope.types):
            return Refuse("MLF0303", unlike)
        found = _standard(scope, node)
        names = filter(None, node.output)
        found = {n: completed(found.get(n), scope.declared.get(n), scope.bounds) for n in names}
    scope.inferred.update({n: found.get(n) for n in node.output if n})
    return Next(without_unread(node, found, scope.unread))


def _standard(scope: Scope, node: NodeProto) -> Mapping[str, Any]:
    types = {n: type_proto(scope.types[n], scope.symbols_of(n)) for n in node.input if n}
    data = {
        n: np_helper.from_array(_wide(dtype.texts(scope.consts[n])))
        for n in node.input
        if n in scope.consts and scope.consts[n].size <= 1024
    }
    opset = opset_of(node, scope.opsets)
    if not onnx.defs.has(node.op_type, opset, domain_of(node)):  # in a body that was not walked
        raise Refuse("MLF0301", f"opset {opset} has no such operator")
    schema = schema_of(node.op_type, opset, domain_of(node))
    newest = schema_of(node.op_type, domain=domain_of(node))
    found = _asked(scope, node, schema, types, data)
    if isinstance(found, str) or not all(map(has_shape, found.values())):
        # Older records take fewer types, and leave shapes open that the newest infers.
        other = _asked(scope, node, newest, types, data) if _extends(newest, schema) else ""
        found = found if isinstance(other, str) else other
    if not isinstance(found, str) and _respelt_is_better(node, found):
        values = _as_inputs(node, newest)
        kinds = {n: type_proto(TensorType(dtype.int64, v.dims)) for n, v in values.items()}
        respelt = helper.make_node(node.op_type, [*node.input, *values], node.output)
        other = _asked(scope, respelt, newest, types | kinds, data | values) if values else ""
        found = found if isinstance(other, str) else other
    if has(op_name(node), Trait.LIKE_FIRST) and (isinstance(found, str) or _is_open(found)):
        if text := untaken(node, opset, scope.types):
            raise Refuse("MLF0303", text)
        return dict.fromkeys(node.output, types[node.input[0]])
    if isinstance(found, str):
        raise Refuse("MLF0303", f"is not valid: {found}")
    record = known(op_name(node))
    wanted = record.typed(scope, node) if record and record.typed else None
    return found if wanted is None else {node.output[0]: type_proto(wanted)}


def _is_open(found: Mapping[str, Any]) -> bool:
    """Whether some output has an unknown shape or extent."""
    dims = (d for p in found.values() for d in p.tensor_type.shape.dim)
    return not all(map(has_shape, found.values())) or not all(d.WhichOneof("value") for d in dims)


def _wide(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """int32 as int64, since onnx's inference reads no axes of Pad that are int32."""
    return value.astype(np.int64) if value.dtype == np.int32 else value


def _asked(
    scope: Scope, node: NodeProto, schema: OpSchema, types: dict[str, Any], data: dict[str, Any]
) -> Mapping[str, Any] | str:
    """What a schema infers, or why it does not."""
    imports = [helper.make_opsetid(d, v) for d, v in scope.opsets.items()]
    spoken = _standard_form(node, schema)
    try:
        return infer_node_outputs(schema, spoken, types, data, opset_imports=imports)
    except (InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        return first_line(error)
    except IndexError:
        return "an input has no elements"  # whose first inference reads


def _extends(newest: OpSchema, schema: OpSchema) -> bool:
    """Whether all that may be said of a node in one schema means the same in the other: operators
    whose inputs or attributes changed are not compared."""
    names = [[formal.name for formal in s.inputs] for s in (newest, schema)]
    return names[0] == names[1] and set(newest.attributes) >= set(schema.attributes)


def _respelt_is_better(node: NodeProto, found: Mapping[str, Any]) -> bool:
    """Whether a shape is open, as of an old Slice whose axes are in no order, or an extent, as of
    one that ends before it starts; or something counts from the end or is in no order, which onnx's
    inference of an old Squeeze or Unsqueeze takes for something else."""
    return _is_open(found) or any(
        min(a.ints) < 0 or [*a.ints] != sorted(a.ints) for a in node.attribute if a.ints
    )


def _as_inputs(node: NodeProto, newest: OpSchema) -> dict[str, TensorProto]:
    """Integers that are inputs in the newest spelling, if all that a node says are such."""
    names = [formal.name for formal in newest.inputs]
    said = sorted(node.attribute, key=lambda a: names.index(a.name) if a.name in names else -1)
    fit = names[len(node.input) :][: len(said)] == [a.name for a in said]
    fit = fit and all(a.ints for a in said)
    values = ((a.name, np.array(a.ints, np.int64)) for a in said if fit)
    return {f"{node.output[0]} {name}": np_helper.from_array(v) for name, v in values}


def _standard_form(node: NodeProto, schema: OpSchema) -> NodeProto:
    """`node` without attributes of our own, which onnx would not take, and with `onesided`, whose
    default onnx's inference takes for 0 where it is 1."""
    copy: NodeProto = NodeProto.FromString(node.SerializeToString())
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if not a.name.startswith("mlf."))
    known = schema.attributes.get("onesided")
    if known is not None and all(a.name != "onesided" for a in node.attribute):
        copy.attribute.append(known.default_value)
    return copy


def typed(scope: Scope, node: NodeProto) -> Outcome:
    """Every output has the type that was inferred."""
    for name in filter(None, node.output):
        stated(scope, name)
    return Next(node)


def stated(scope: Scope, name: str) -> None:
    """Gives a value the type that was inferred for it."""
    proto: Any = scope.inferred[name]
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
        raise Refuse("MLF0206", text, CONSTANT)
    type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], tuple(d for d in dims if d is not None))
    scope.types[name] = type_
    if any(symbols):
        scope.symbols[name] = symbols
    if text := too_large(type_):
        raise Refuse("MLF0206", text)
