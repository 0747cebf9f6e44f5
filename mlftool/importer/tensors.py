"""Tensors that a model stores: what of them can be trusted."""

from __future__ import annotations

import math

from onnx import AttributeProto, NodeProto, TensorProto
from onnx import numpy_helper as np_helper

from mlftool.importer.protos import first_line, stored_fields, type_name
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Report, Scope

MAX_TENSOR_BYTES = 2**31 - 1  # offsets in generated C are int32


def checked_value(name: str, tensor: TensorProto, report: Report) -> Array | None:
    """The tensor's value, or None after a report."""
    where = f"tensor '{name}'"
    if stored_fields(tensor) > 1:
        report("MLF0206", "its data are in several fields; expected one", where)
        return None
    if tensor.data_type not in dtype.BY_ONNX:
        text = f"element type {type_name(tensor.data_type)}; supported: {dtype.SUPPORTED}"
        report("MLF0205", text, where)
        return None
    if any(d < 0 for d in tensor.dims):
        report("MLF0206", f"dimensions {list(tensor.dims)}; expected none negative", where)
        return None
    if text := too_large(TensorType(dtype.BY_ONNX[tensor.data_type], tuple(tensor.dims))):
        report("MLF0206", text, where)
        return None
    try:
        return _value_of(tensor)
    except Exception as error:
        text = f"its data do not fit its shape {list(tensor.dims)}: {first_line(error)}"
        report("MLF0206", text, where)
        return None


def sound(scope: Scope, node: NodeProto) -> Outcome:
    """Refuse a node whose attributes are wrong as stored. The value of a Constant is one of the
    model's and judged where it is evaluated."""
    found: list[str] = []
    for attribute in node.attribute:
        if not attribute.type:
            return Refuse("MLF0303", f"attribute '{attribute.name}' states no type")
        single = [attribute.t] if attribute.type == AttributeProto.TENSOR else []
        for tensor in (*single, *attribute.tensors) if node.op_type != "Constant" else ():
            checked_value("", tensor, lambda _, text, __: found.append(text))
        if found:
            return Refuse("MLF0303", f"attribute '{attribute.name}': {found[0]}")
    return Next(node)


def too_large(type_: TensorType) -> str:
    """Why generated C cannot address a tensor, or ""."""
    size = type_.dtype.size(math.prod(n or 1 for n in type_.shape))  # of one without elements, too
    text = f"{type_} has {size} bytes; expected at most {MAX_TENSOR_BYTES}"
    return text if size > MAX_TENSOR_BYTES else ""


def _value_of(tensor: TensorProto) -> Array:
    """The tensor as an array. Raises an exception if its data do not fit its shape."""
    row = dtype.BY_ONNX[tensor.data_type]
    wanted = row.size(math.prod(tensor.dims))
    if row.packed and tensor.raw_data and len(tensor.raw_data) != wanted:  # onnx lets these pass
        raise ValueError(f"they have {len(tensor.raw_data)} bytes instead of {wanted}")
    value: Array = np_helper.to_array(tensor)
    return dtype.slots(value)
