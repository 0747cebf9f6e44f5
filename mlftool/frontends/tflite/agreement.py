"""Two guards of all rules: operands that ONNX wants of one type must be of one, those whose type it
fixes to bool must be bool, and results have the shapes that the standard gives them, whatever the
file says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from mlftool.ir import dtype
from mlftool.ir.graph import Array, Node, TensorType
from mlftool.ops.base import Trait, is_a


def mixed(nodes: Iterable[Node], types: Mapping[str, TensorType]) -> str:
    """What is wrong with the first types that differ where a node's must be equal, and what is
    supported; empty if there are none. A kernel would take the integers of one for numbers."""
    for node in nodes:
        found: dict[str, TensorType] = {}
        for variable, name in _typed(node):
            first, type_ = found.setdefault(variable, types[name]), types[name]
            if first.dtype != type_.dtype:
                return f"{first} and {type_}; supported: tensors of one type"
            if type_.dtype != _FIXED.get(variable, type_.dtype):
                return f"a tensor {type_}; expected {_FIXED[variable]}"
    return ""


def misshapen(
    nodes: Iterable[Node], types: Mapping[str, TensorType], consts: Mapping[str, Array]
) -> str:
    """The first result whose shape is not what its operator gives, in words; empty if there is
    none. A kernel takes its loops from one tensor and would leave another."""
    for node in nodes:
        try:
            shapes = _shapes(node, types, consts)
        except ValueError:
            return f"{types[node.result]} of inputs that do not broadcast"
        for name, shape in shapes.items():
            if shape != types[name].shape:
                return f"{types[name]}, which would have the shape {list(shape)}"
    return ""


def _shapes(
    node: Node, types: Mapping[str, TensorType], consts: Mapping[str, Array]
) -> dict[str, tuple[int, ...]]:
    """Of the results of a node, those that are known."""
    given = [types[name] for name in node.inputs if name]
    if is_a(node, Trait.ELEMENTWISE):
        return {node.result: np.broadcast_shapes(*(t.shape for t in given))}
    if node.graphs or not onnx.defs.has(node.op):
        return {}
    schema, version = onnx.defs.get_schema(node.op), onnx.defs.onnx_opset_version()
    attrs = {k: v for k, v in node.attrs.items() if k in schema.attributes}
    rows = {n: _row(types[n]) for n in node.inputs if n}
    made = {n: helper.make_tensor_type_proto(r, types[n].shape) for n, r in rows.items()}
    data = {n: numpy_helper.from_array(consts[n], n) for n in rows if n in consts}
    proto = helper.make_node(node.op, node.inputs, node.outputs, **attrs)
    try:
        imports = [helper.make_opsetid("", version)]
        found = infer_node_outputs(schema, proto, made, data, opset_imports=imports)
    except (InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError):
        return {}  # a form that only our operators have, as a Reshape without a shape
    dims = {n: t.tensor_type.shape.dim for n, t in found.items() if t.tensor_type.HasField("shape")}
    known = {n: d for n, d in dims.items() if all(e.WhichOneof("value") == "dim_value" for e in d)}
    return {n: tuple(e.dim_value for e in d) for n, d in known.items()}


def _row(type_: TensorType) -> int:
    """The element type as inference takes it, which knows no windows of int16."""
    return int((dtype.int8 if type_.dtype == dtype.int16 else type_.dtype).onnx)


def _typed(node: Node) -> Iterator[tuple[str, str]]:
    """A node's operands with what the standard calls their type."""
    most = max(len(node.inputs), len(node.outputs))
    for names, formal in zip((node.inputs, node.outputs), _variables(node.op, most), strict=True):
        for k, name in enumerate(names):
            if name and k < len(formal) and formal[k]:
                yield formal[k], name


# Types that a tensor must have, by what the standard calls them. (Indices may be int32 here.)
_FIXED = {"tensor(bool)": dtype.bool_}


def _variable(formal: onnx.defs.OpSchema.FormalParameter) -> str:
    """What operands of one type have in common: a name in the schema, or the only type."""
    (only, *others) = sorted(formal.types)
    if not others and only in _FIXED:
        return only
    return formal.type_str if formal.is_homogeneous else ""


@cache
def _variables(op: str, most: int) -> tuple[tuple[str, ...], ...]:
    """Of inputs and of outputs, at most so many; "" where types may differ, and nothing for
    operators of our own."""
    if not onnx.defs.has(op):
        return (), ()
    schema, several = onnx.defs.get_schema(op), onnx.defs.OpSchema.FormalParameterOption.Variadic
    sides = []
    for side in (schema.inputs, schema.outputs):
        names = [_variable(p) for p in side]
        if side and side[-1].option == several:  # the last one stands for all that follow
            names += [names[-1]] * most
        sides.append(tuple(names))
    return tuple(sides)
