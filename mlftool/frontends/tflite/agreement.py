"""A guard of all rules: operands that ONNX wants of one type must be of one, and those whose type
it fixes to bool, as a comparison's result, must be bool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import onnx

from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType


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
