"""Tensors whose extents are known only at run time, in boxes of their upper bounds: what rules do
so that a node is right on them (importer/extents.py).

An operator whose result depends on what lies beyond the extents gets its input filled with what
changes nothing: zeros for a sum, the least value for a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import NodeProto

from mlftool.ir.dtype import DType
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Rule, Scope, Symbols


def as_it_is(scope: Scope, node: NodeProto) -> Outcome:
    """The rule of operators that are right on boxes."""
    return Next(node)


def filled(scope: Scope, node: NodeProto, k: int, value: Any, symbols: Symbols = ()) -> TensorType:
    """Let input `k` hold `value` beyond its extents, or `symbols`; returns its type."""
    name = node.input[k]
    type_, symbols = scope.types[name], symbols or scope.symbols_of(name)
    if any(symbols):
        box = scope.fresh(f"{name}.filled")
        scope.types[box], scope.symbols[box] = type_, symbols
        axes = [a for a, s in enumerate(symbols) if s]
        inputs = (name, *(symbols[a] for a in axes))
        attrs = {"axes": axes, "value": value}
        scope.nodes.append(Node("mlf.FillBeyond", inputs, (box,), attrs, f"beyond {name}"))
        node.input[k] = box
    return type_


def first_alone(rule: Rule) -> Rule:
    """The rule of operators whose other inputs say what to do with the first one. How many they
    say it of may not depend on values."""

    def checked(scope: Scope, node: NodeProto) -> Outcome:
        late = [n for n in node.input[1:] if any(scope.symbols_of(n))]
        if late:
            return Refuse("MLF0302", f"the extents of '{late[0]}' are known only at run time")
        return rule(scope, node)

    return checked


def filling(neutral: Callable[[DType], Any], inputs: int = 1) -> Rule:
    """The rule of operators whose first `inputs` are filled with what changes nothing."""

    def rule(scope: Scope, node: NodeProto) -> Outcome:
        for k in range(inputs):
            filled(scope, node, k, neutral(scope.types[node.input[k]].dtype))
        return Next(node)

    return first_alone(rule) if inputs == 1 else rule


ZEROS = filling(lambda row: 0)
ALONE = first_alone(as_it_is)


def of_batches(scope: Scope, node: NodeProto) -> Outcome:
    """The rule of operators that compute each item of the first axis by itself."""
    if any(scope.extents_of(node.input[0])[1:]) or any(map(scope.symbols_of, node.input[1:])):
        return Refuse("MLF0302", "an extent other than the batch's is known only at run time")
    return Next(node)


def least(row: DType) -> float:
    return -math.inf if row.is_float else row.range[0]


def greatest(row: DType) -> float:
    return math.inf if row.is_float else row.range[1]


def keep_shape(scope: Scope, name: str, out: str, row: DType, part: slice = slice(None)) -> None:
    """A node that makes a vector of the true extents of `name`."""
    symbols = scope.extents_of(name)[part]
    static = [-1 if s else n for s, n in zip(symbols, scope.types[name].shape[part], strict=True)]
    scope.types[out] = TensorType(row, (len(static),))
    inputs = tuple(s for s in symbols if s)
    attrs = {"static": static, "of": name}
    scope.nodes.append(Node("mlf.Extents", inputs, (out,), attrs, f"shape of {name}"))


def counted(scope: Scope, out: str, symbols: Symbols, shape: Sequence[int], row: DType) -> None:
    """A node that multiplies extents."""
    factor = math.prod(n for s, n in zip(symbols, shape, strict=True) if not s)
    scope.types[out] = TensorType(row, ())
    inputs = tuple(s for s in symbols if s)
    scope.nodes.append(Node("mlf.Count", inputs, (out,), {"factor": factor}, out))


@dataclass(frozen=True)
class Made:
    """What a node makes whose extents depend on values: of each output, by its place, the element
    type, the bounds and the axis that has the extent, -1 if none has. The extent itself is the
    output after them, or output `extent`, whatever is left out."""

    outputs: Mapping[int, tuple[DType, tuple[int, ...], int]]
    extent: int | None = None


Maker = Callable[[Scope, NodeProto, Mapping[str, Any]], Made | None]


def static_input(scope: Scope, node: NodeProto) -> TensorType:
    """The first input's type. Raises Refuse if it has extents known only at run time."""
    if scope.symbols_of(node.input[0]):
        raise Refuse("MLF0302", "of a tensor whose extents are known only at run time")
    return scope.types[node.input[0]]
