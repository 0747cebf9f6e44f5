"""Checks the nodes that rules make: operands that must have one type in ONNX have one, those that
must be bool are bool, and each result has the shape that the standard infers, whatever the file
says."""

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
    """What is wrong with the first node whose operands have different types where the standard
    wants one, or "". A kernel would read the integers of one type as those of another."""
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
    """What is wrong with the first result whose shape is not the inferred one, or "". A kernel has
    the loops of one tensor and would read or write beyond another."""
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
    """The inferred shapes of a node's results, without those that inference cannot know."""
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
        return {}  # a form that only our operators have, such as Reshape without a shape
    dims = {n: t.tensor_type.shape.dim for n, t in found.items() if t.tensor_type.HasField("shape")}
    known = {n: d for n, d in dims.items() if all(e.WhichOneof("value") == "dim_value" for e in d)}
    return {n: tuple(e.dim_value for e in d) for n, d in known.items()}


def _row(type_: TensorType) -> int:
    """The element type for inference, which refuses convolutions and pools of int16."""
    return int((dtype.int8 if type_.dtype == dtype.int16 else type_.dtype).onnx)


def _typed(node: Node) -> Iterator[tuple[str, str]]:
    """The type variables of a node's operands in the standard, and the operands."""
    most = max(len(node.inputs), len(node.outputs))
    for names, formal in zip((node.inputs, node.outputs), _variables(node.op, most), strict=True):
        for k, name in enumerate(names):
            if name and k < len(formal) and formal[k]:
                yield formal[k], name


# Types that an operand must have, by their names in the schema. (Indices may be int32 here.)
_FIXED = {"tensor(bool)": dtype.bool_}


def _variable(formal: onnx.defs.OpSchema.FormalParameter) -> str:
    """The name that operands of one type share: the type variable, or the only type."""
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
