"""Values known before run time: the standard's own package evaluates them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, numpy_helper

from mlftool.importer.inference import stated
from mlftool.importer.protos import first_line, place
from mlftool.importer.schema import is_own
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Refuse, Scope
from mlftool.ops import Trait, has
from mlftool.ops.reference import evaluate_proto

MAX_FOLDED_BYTES = 2**28  # what one node may make of constants


def _is_known(scope: Scope, node: NodeProto) -> bool:
    """A constant with extents of its own is a box: only some of its elements are its value."""
    inputs = all(n in scope.consts and n not in scope.symbols for n in node.input if n)
    return inputs and not has(op_name(node), Trait.KEPT)


def empty(scope: Scope, node: NodeProto) -> Outcome:
    """Tensors without elements are known, whatever their producer reads."""
    names = list(filter(None, node.output))
    if _is_known(scope, node) or not all(_is_empty(scope.inferred.get(n)) for n in names):
        return Next(node)
    for name in names:
        stated(scope, name)
        scope.add_const(name, np.zeros(scope.types[name].shape, scope.types[name].dtype.numpy))
    return KEEP


def folded(scope: Scope, node: NodeProto) -> Outcome:
    """A node of constants makes constants."""
    if not _is_known(scope, node) or has(op_name(node), Trait.QUANTISE) or is_own(node):
        return Next(node)
    for name in filter(None, node.output):
        size = _bytes(scope.inferred.get(name))
        if size > MAX_FOLDED_BYTES:
            text = f"makes a constant '{name}' of {size} bytes; expected at most {MAX_FOLDED_BYTES}"
            return Refuse("MLF0206", text)
    try:
        inputs = [scope.consts.get(n) for n in node.input]
        results = evaluate_proto(node, inputs, scope.opsets)
    except Exception as error:
        return Refuse("MLF0303", f"cannot be evaluated: {first_line(error)}")
    for name, value in zip(node.output, results, strict=False):
        listed = isinstance(value, list)
        kind = "sequence" if listed else np.asarray(value).dtype
        if name and (listed or not dtype.is_known(np.asarray(value))):
            text = f"makes a constant of type {kind}; supported: {dtype.SUPPORTED}"
            scope.problem("MLF0205", text, place(node, scope.index))
        elif name:
            scope.add_const(name, np.asarray(value))
    return KEEP


def of_shapes(scope: Scope, node: NodeProto) -> Outcome:
    """A typed node whose value follows from types becomes a constant."""
    out = node.output[0]
    if has(op_name(node), Trait.OF_SHAPE):
        # Zeros that take no room, whatever their number.
        given = scope.types[next(filter(None, node.input))]
        stand_in = np.broadcast_to(np.zeros((), given.dtype.numpy), given.shape)
        scope.add_const(out, np.asarray(evaluate_proto(node, [stand_in], scope.opsets)[0]))
        return KEEP
    if op_name(node) == "ConstantOfShape" and out in scope.types:
        attrs = attributes(node)
        value = numpy_helper.to_array(attrs["value"]) if "value" in attrs else np.float32(0)
        assert scope.types[out].dtype == dtype.of(np.asarray(value))
        scope.add_const(out, np.full(scope.types[out].shape, np.asarray(value).reshape(())))
        return KEEP
    return Next(node)


def _bytes(proto: Any) -> int:
    """Of a tensor of a known type, as far as its shape is known; else 0."""
    if proto is None:
        return 0
    tensor = proto.tensor_type
    dims = tuple(d.dim_value for d in tensor.shape.dim)
    known = tensor.elem_type in dtype.BY_ONNX and all(d > 0 for d in dims)
    return TensorType(dtype.BY_ONNX[tensor.elem_type], dims).bytes if known else 0


def _is_empty(proto: Any) -> bool:
    """Whether a type has no elements, for certain."""
    if proto is None or not proto.HasField("tensor_type"):
        return False
    tensor = proto.tensor_type
    dims = tensor.shape.dim
    known = all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)
    return tensor.elem_type in dtype.BY_ONNX and known and any(d.dim_value == 0 for d in dims)
