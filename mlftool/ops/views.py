"""Operators that only give a tensor another shape: Reshape, Flatten, Squeeze, Unsqueeze."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType
from mlftool.ir.relay import Site
from mlftool.onnx_rules.boxes import as_it_is, counted, first_alone
from mlftool.onnx_rules.draft import attr_to_input
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import KEEP, Outcome, Refuse, Scope
from mlftool.onnx_rules.shaping import Box, Shaping, of_first
from mlftool.ops import folded
from mlftool.ops.base import Trait, UnsupportedError, op
from mlftool.ops.movement import copy


def _relay_reshape(s: Site) -> str:
    """Also Flatten, Squeeze and Unsqueeze: the extents are known."""
    return s.call("reshape", s.arg(), newshape=list(s.out.shape))


@first_alone
def _reshape_boxes(scope: Scope, node: NodeProto) -> Outcome:
    """Where only the first extent is a symbol, a box is as contiguous as a tensor."""
    name, out = node.input[0], node.output[0]
    type_, symbols = scope.types[name], scope.symbols[name]
    if any(symbols[1:]):
        return Refuse("MLF0302", "only a first extent may be known at run time here")
    inner = math.prod(type_.shape[1:])
    target = _target(scope, node, type_.shape)
    if target is None:
        return Refuse("MLF0302", "the new shape is known only at run time")
    rest = math.prod(target[1:])
    if target[0] != -1 or any(n < 0 for n in target[1:]) or rest == 0 or inner % rest:
        rows = f"supported: [-1, ...], which leaves rows of {inner} whole or splits them"
        return Refuse("MLF0302", f"to {target}; {rows}")
    symbol = symbols[0]
    if inner != rest:
        symbol = scope.fresh(f"{out}.extent")
        counted(scope, symbol, (symbols[0], ""), (0, inner // rest), dtype.int32)
    bound = type_.shape[0] * (inner // rest)
    scope.types[out] = TensorType(type_.dtype, (bound, *target[1:]))
    scope.symbols[out] = (symbol, *("" for _ in target[1:]))
    shape = scope.new_const(f"{out}.target", np.array([bound, *target[1:]], np.int64))
    scope.nodes.append(Node("Reshape", (name, shape), (out,), {}, node.name or out))
    return KEEP


def _target(scope: Scope, node: NodeProto, shape: Sequence[int]) -> list[int] | None:
    """The shape that a Reshape or Flatten asks for, its first extent -1 where that is the rest."""
    if node.op_type == "Flatten":
        axis = attributes(node).get("axis", 1) % (len(shape) + 1)
        return [-1, math.prod(shape[axis:])] if axis else [1, -1]
    given = scope.consts.get(node.input[1])
    if given is None:
        return None
    keep = not attributes(node).get("allowzero", 0)
    target = [int(n) for n in given.reshape(-1)]
    target = [shape[k] if n == 0 and keep and k else n for k, n in enumerate(target)]
    if target and target[0] == 0 and keep:
        target[0] = -1
        rest = math.prod(shape[1:]) // max(1, -math.prod(target[1:]))
        target = [target[0], *(rest if n == -1 else n for n in target[1:])]
    return target


def _reshape_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """Element [i0, i1 ...] of the box is the one of x that stands there for the true extents."""
    x, rank = s.type(0), s.type(1).elements
    bounds = s.bounds([x.elements if rank == 1 else None] * rank)
    if math.prod(bounds) > 2**31 - 1:
        raise UnsupportedError(f"a box of {bounds} is too large")
    asked = [s.at(s.steps.x(1), k) for k in range(rank)]
    if not attrs.get("allowzero", 0):
        for k, n in enumerate(x.shape[:rank]):
            asked[k] = s("Where", s("Equal", asked[k], s.number(0)), s.number(n), asked[k])
    product = asked[0] if asked else s.number(1)
    for extent in asked[1:]:
        product = s("Mul", product, extent)
    # With -1 among them, the product is minus that of the others.
    others = s("Max", s("Abs", product), s.number(1))
    rest = s("Div", s.number(x.elements), others)
    extents = [s("Where", s("Less", e, s.number(0)), rest, e) for e in asked]
    flat = s.number(np.zeros((1,) * rank))
    for k, extent in enumerate(extents):
        flat = s("Add", s("Mul", flat, extent), s.indexes(bounds[k], k, rank))
    at = s("Clip", flat, s.number(0), s.number(max(0, x.elements - 1)))
    s.result("Gather", s("Reshape", s.steps.x(0), s.number([-1])), at)
    return Box(bounds, tuple(extents))


def _view(name: str, **fields: Any) -> None:
    fields = {"bounds": of_first, "extents": as_it_is, "relay": _relay_reshape, **fields}
    op(name, Trait.VIEW, Trait.MOVES_DATA, **fields)(copy)


_view(
    "Reshape",
    extents=_reshape_boxes,
    shaped=_reshape_in_box,
    older=((5, attr_to_input("shape", 1)),),
)
_view("Flatten", extents=_reshape_boxes, bounds=None, constant=folded.flatten)
for _name in ("Squeeze", "Unsqueeze"):
    _view(_name, older=((13, attr_to_input("axes", 1)),))
