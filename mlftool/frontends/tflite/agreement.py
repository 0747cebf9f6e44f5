"""A guard of all rules: operands that ONNX wants of one type must be of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import onnx

from mlftool.ir.graph import Node, TensorType


def mixed(nodes: Iterable[Node], types: Mapping[str, TensorType]) -> str:
    """The first types that differ where a node's must be equal, in words; empty if there are none.
    A kernel would take the integers of one for numbers."""
    for node in nodes:
        found: dict[str, TensorType] = {}
        for variable, name in _typed(node):
            first = found.setdefault(variable, types[name])
            if first.dtype != types[name].dtype:
                return f"{first} and {types[name]}"
    return ""


def _typed(node: Node) -> Iterator[tuple[str, str]]:
    """A node's operands with what the standard calls their type."""
    most = max(len(node.inputs), len(node.outputs))
    for names, formal in zip((node.inputs, node.outputs), _variables(node.op, most), strict=True):
        for k, name in enumerate(names):
            if name and k < len(formal) and formal[k]:
                yield formal[k], name


@cache
def _variables(op: str, most: int) -> tuple[tuple[str, ...], ...]:
    """Of inputs and of outputs, at most so many; "" where types may differ, and nothing for
    operators of our own."""
    if not onnx.defs.has(op):
        return (), ()
    schema, several = onnx.defs.get_schema(op), onnx.defs.OpSchema.FormalParameterOption.Variadic
    sides = []
    for side in (schema.inputs, schema.outputs):
        names = [p.type_str if p.is_homogeneous else "" for p in side]
        if side and side[-1].option == several:  # the last one stands for all that follow
            names += [names[-1]] * most
        sides.append(tuple(names))
    return tuple(sides)
