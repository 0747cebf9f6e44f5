"""Operators that make tensors whose extents depend on values (extents.py): NonZero, Unique ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from mlftool.importer.extents import attributes, filled
from mlftool.importer.protos import op_name, place, plain
from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType

if TYPE_CHECKING:
    from mlftool.importer.onnx import Importer


def produce(importer: Importer, node: NodeProto, index: int) -> bool:
    """Keep `node` if it makes a tensor whose extents depend on values; else False."""
    maker = MAKERS.get(op_name(node))
    if maker is None:
        return False
    attrs = {name: plain(value) for name, value in attributes(node).items()}
    made = maker(importer, node, attrs)
    if made is None:
        return False
    if isinstance(made, str):
        importer.problem("MLF0302", made, place(node, index))
        return True
    fixed = "" in made  # the extent's place, whatever outputs are left out
    position = made.pop("", len(made))
    symbol = importer.fresh(f"{node.output[0]}.extent")
    importer.types[symbol] = TensorType(dtype.int32, ())
    outputs = [""] * position
    for k, (row, shape, axis) in made.items():
        name = node.output[k] if k < len(node.output) else ""
        if k == 0:
            name = name or importer.fresh(f"{symbol}.of")
        if name:
            importer.types[name] = TensorType(row, shape)
            if axis >= 0:
                importer.symbols[name] = tuple(
                    symbol if a == axis else "" for a in range(len(shape))
                )
        outputs[k] = name
    while not fixed and outputs and not outputs[-1]:
        outputs.pop()
    name = node.name or f"{node.op_type}_{index}"
    importer.nodes.append(Node(node.op_type, tuple(node.input), (*outputs, symbol), attrs, name))
    return True


# position -> (element type, bounds, the axis with the extent or -1); "" -> the extent's position
Made = dict[Any, Any]


def _nonzero(importer: Importer, node: NodeProto, attrs: Mapping[str, Any]) -> Made | str:
    x = filled(importer, node, 0, 0)
    if not x.shape:
        return "of a scalar; supported: tensors with dimensions"
    return {0: (dtype.int64, (len(x.shape), x.elements), 1)}


def _compress(importer: Importer, node: NodeProto, attrs: Mapping[str, Any]) -> Made | str:
    x, condition = importer.types[node.input[0]], filled(importer, node, 1, False)
    if "axis" not in attrs:
        if importer.symbols.get(node.input[0]):
            return "of a flat tensor whose extents are known only at run time"
        return {0: (x.dtype, (min(x.elements, condition.elements),), 0)}
    axis = attrs["axis"] % len(x.shape)
    symbols = importer.symbols.get(node.input[0], ())
    if any(s for k, s in enumerate(symbols) if k != axis):
        return "of a tensor with other extents that are known only at run time"
    if symbols and not importer.symbols.get(node.input[1]):  # nothing lies beyond the extent
        filled(importer, node, 1, False, (symbols[axis],))
    bound = min(x.shape[axis], condition.elements)
    return {0: (x.dtype, (*x.shape[:axis], bound, *x.shape[axis + 1 :]), axis)}


def _unique(importer: Importer, node: NodeProto, attrs: Mapping[str, Any]) -> Made | str:
    x = importer.types[node.input[0]]
    if importer.symbols.get(node.input[0]):
        return "of a tensor whose extents are known only at run time"
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


def _non_max_suppression(
    importer: Importer, node: NodeProto, attrs: Mapping[str, Any]
) -> Made | str:
    boxes, scores = (importer.types[n] for n in node.input[:2])
    counts = [importer.symbols.get(n, ("",) * 3) for n in node.input[:2]]
    if any((*counts[0][::2], *counts[1][:2])):
        return "of a batch or of classes whose number is known only at run time"
    count = counts[0][1] or counts[1][2]
    if count:  # of the boxes: an input of our own
        node.input.extend([""] * (5 - len(node.input)) + [count])
    most = importer.consts.get(node.input[2]) if len(node.input) > 2 else np.zeros(1)
    each = boxes.shape[1]
    if most is not None:
        each = max(0, min(each, int(most.reshape(-1)[0])))
    return {0: (dtype.int64, (scores.shape[0] * scores.shape[1] * each, 3), 0)}


def _string_split(importer: Importer, node: NodeProto, attrs: Mapping[str, Any]) -> Made | str:
    """As many pieces as a slot has room for, or as the model says that there are."""
    x = importer.types[node.input[0]]
    if importer.symbols.get(node.input[0]):
        return "of a tensor whose extents are known only at run time"
    size = len(attrs.get("delimiter", "").encode())
    most = (dtype.TEXT_BYTES - 1) // size + 1 if size else dtype.TEXT_BYTES // 2
    if attrs.get("maxsplit", -1) >= 0:
        most = min(most, attrs["maxsplit"] + 1)
    declared = importer.declared.get(node.output[0])
    dims = declared.tensor_type.shape.dim if declared is not None else []
    if len(dims) == len(x.shape) + 1 and dims[-1].HasField("dim_value"):
        most = min(most, max(0, dims[-1].dim_value))
    counts = (dtype.int64, x.shape, -1)
    return {0: (x.dtype, (*x.shape, most), len(x.shape)), 1: counts, "": 2}


def _string_normalizer(
    importer: Importer, node: NodeProto, attrs: Mapping[str, Any]
) -> Made | str | None:
    x = importer.types[node.input[0]]
    if not attrs.get("stopwords"):
        return None
    if importer.symbols.get(node.input[0]):
        return "of a tensor whose extents are known only at run time"
    if not x.shape or x.shape[:-1] not in ((), (1,)):
        return f"of {x}; supported: [C] and [1, C]"
    return {0: (x.dtype, x.shape, len(x.shape) - 1)}


MAKERS: Mapping[str, Callable[[Importer, NodeProto, Mapping[str, Any]], Made | str | None]] = {
    "NonZero": _nonzero,
    "Compress": _compress,
    "Unique": _unique,
    "NonMaxSuppression": _non_max_suppression,
    "StringSplit": _string_split,
    "StringNormalizer": _string_normalizer,
}
