"""Operators that make tensors whose extents depend on values (extents.py): NonZero, Unique ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.boxes import filled
from mlftool.onnx_rules.protos import op_name, plain_attributes
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Refuse, Rule, Scope


def produced(scope: Scope, node: NodeProto) -> Outcome:
    """Keep a node that makes a tensor whose extents depend on values."""
    rule = MAKERS.get(op_name(node))
    return rule(scope, node) if rule else Next(node)


# position -> (element type, bounds, the axis with the extent or -1); "" -> the extent's position
Made = dict[Any, Any]
Maker = Callable[[Scope, NodeProto, Mapping[str, Any]], Made | None]


def _made_by(maker: Maker) -> Rule:
    def rule(scope: Scope, node: NodeProto) -> Outcome:
        attrs = plain_attributes(node)
        made = maker(scope, node, attrs)
        if made is None:
            return Next(node)
        fixed = "" in made  # the extent's place, whatever outputs are left out
        position = made.pop("", len(made))
        symbol = scope.fresh(f"{node.output[0]}.extent")
        scope.types[symbol] = TensorType(dtype.int32, ())
        outputs = [""] * position
        for k, (row, shape, axis) in made.items():
            name = node.output[k] if k < len(node.output) else ""
            if k == 0:
                name = name or scope.fresh(f"{symbol}.of")
            if name:
                scope.types[name] = TensorType(row, shape)
                if axis >= 0:
                    scope.symbols[name] = tuple(
                        symbol if a == axis else "" for a in range(len(shape))
                    )
            outputs[k] = name
        while not fixed and outputs and not outputs[-1]:
            outputs.pop()
        inputs, label = tuple(node.input), scope.label(node)
        scope.nodes.append(Node(node.op_type, inputs, (*outputs, symbol), attrs, label))
        return KEEP

    return rule


def _nonzero(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    x = filled(scope, node, 0, 0)
    if not x.shape:
        raise Refuse("MLF0302", "of a scalar; supported: tensors with dimensions")
    return {0: (dtype.int64, (len(x.shape), x.elements), 1)}


def _compress(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    x, condition = scope.types[node.input[0]], filled(scope, node, 1, False)
    if "axis" not in attrs:
        if scope.symbols_of(node.input[0]):
            raise Refuse("MLF0302", "of a flat tensor whose extents are known only at run time")
        return {0: (x.dtype, (min(x.elements, condition.elements),), 0)}
    axis = attrs["axis"] % len(x.shape)
    symbols = scope.symbols_of(node.input[0])
    if any(s for k, s in enumerate(symbols) if k != axis):
        raise Refuse("MLF0302", "of a tensor with other extents that are known only at run time")
    if symbols and not scope.symbols_of(node.input[1]):  # nothing lies beyond the extent
        filled(scope, node, 1, False, (symbols[axis],))
    bound = min(x.shape[axis], condition.elements)
    return {0: (x.dtype, (*x.shape[:axis], bound, *x.shape[axis + 1 :]), axis)}


def _unique(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    x = scope.types[node.input[0]]
    if scope.symbols_of(node.input[0]):
        raise Refuse("MLF0302", "of a tensor whose extents are known only at run time")
    axis = attrs.get("axis")
    shape = (x.elements,) if axis is None else x.shape
    axis = 0 if axis is None else axis % len(shape)
    count = (shape[axis],)
    index = (dtype.int64, count, 0)
    return {
        0: (x.dtype, shape, axis),
        1: index,
        2: (dtype.int64, count, -1),
        3: index,
        "": 4,
    }


def _non_max_suppression(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    boxes, scores = (scope.types[n] for n in node.input[:2])
    counts = [scope.symbols_of(n) or ("",) * 3 for n in node.input[:2]]
    if any((*counts[0][::2], *counts[1][:2])):
        raise Refuse("MLF0302", "of a batch or of classes whose number is known only at run time")
    count = counts[0][1] or counts[1][2]
    if count:  # of the boxes: an input of our own
        node.input.extend([""] * (5 - len(node.input)) + [count])
    most = scope.consts.get(node.input[2]) if len(node.input) > 2 else np.zeros(1)
    each = boxes.shape[1]
    if most is not None:
        each = max(0, min(each, int(most.reshape(-1)[0])))
    return {0: (dtype.int64, (scores.shape[0] * scores.shape[1] * each, 3), 0)}


def _string_split(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    """As many pieces as a slot has room for, or as the model says that there are."""
    x = scope.types[node.input[0]]
    if scope.symbols_of(node.input[0]):
        raise Refuse("MLF0302", "of a tensor whose extents are known only at run time")
    size = len(attrs.get("delimiter", "").encode())
    most = (dtype.TEXT_BYTES - 1) // size + 1 if size else dtype.TEXT_BYTES // 2
    if attrs.get("maxsplit", -1) >= 0:
        most = min(most, attrs["maxsplit"] + 1)
    declared = scope.declared.get(node.output[0])
    dims = declared.tensor_type.shape.dim if declared is not None else []
    if len(dims) == len(x.shape) + 1 and dims[-1].HasField("dim_value"):
        most = min(most, max(0, dims[-1].dim_value))
    counts = (dtype.int64, x.shape, -1)
    return {0: (x.dtype, (*x.shape, most), len(x.shape)), 1: counts, "": 2}


def _string_normalizer(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made | None:
    x = scope.types[node.input[0]]
    if not attrs.get("stopwords"):
        return None
    if scope.symbols_of(node.input[0]):
        raise Refuse("MLF0302", "of a tensor whose extents are known only at run time")
    if not x.shape or x.shape[:-1] not in ((), (1,)):
        raise Refuse("MLF0302", f"of {x}; supported: [C] and [1, C]")
    return {0: (x.dtype, x.shape, len(x.shape) - 1)}


MAKERS: Mapping[str, Rule] = {
    "NonZero": _made_by(_nonzero),
    "Compress": _made_by(_compress),
    "Unique": _made_by(_unique),
    "NonMaxSuppression": _made_by(_non_max_suppression),
    "StringSplit": _made_by(_string_split),
    "StringNormalizer": _made_by(_string_normalizer),
}
