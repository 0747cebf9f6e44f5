"""Tensors whose extents are known only at run time.

Such a tensor is a box of its upper bounds; what is true of it lies in the box's first corner, and
each extent that may be smaller is an int32 of its own, which the node that makes it stores beside
the box. Kernels of other operators work on whole boxes and never need to know (importer/extents.py
says when a box must be filled for that). What lies beyond the extents of an output is zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.graph import Node, View
from mlftool.onnx_rules.boxes import Made, counted, filled, keep_shape, static_input
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import EXTENTS, KEEP, Outcome, Refuse, Replace, Scope
from mlftool.onnx_rules.shaping import Element, exactly
from mlftool.onnx_rules.steps import Steps, standing_for
from mlftool.ops import folded
from mlftool.ops.base import Kernel, Operand, Trait, UnsupportedError, of_form, old, op
from mlftool.ops.movement import strides_of
from mlftool.ops.plain import plain_kernel
from mlftool.ops.scalar import literal

# Templates -> headers they need beside mlf/kernel.h.
HEADERS = {"extents_nms": ("mlf/boxes.h",), "lists_split": ("mlf/index.h",)}


def boxed(v: View, template: str, params: dict[str, Any], *more: Operand) -> Kernel:
    """A plain kernel of types that C has."""
    for name in (*v.node.inputs, *v.node.outputs):
        if name and (v.type(name).dtype.codec or v.type(name).dtype.packed):
            raise UnsupportedError(f"{v.node.op} on {v.type(name).dtype}")
    name, more_includes = template.removeprefix("extents_"), HEADERS.get(template, ())
    template = f"{template}.c.j2"
    return plain_kernel(v, name, params, *more, template=template, includes=more_includes)


def _all_places(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    x = filled(scope, node, 0, 0)
    if not x.shape:
        raise Refuse("MLF0302", "of a scalar; supported: tensors with dimensions")
    return Made({0: (dtype.int64, (len(x.shape), x.elements), 1)})


@op("NonZero", makes=_all_places, places=0)
def nonzero(v: View) -> Kernel:
    """[rank, bound] coordinates in order, and how many there are."""
    shape = v.x(0).shape
    return boxed(
        v,
        "extents_nonzero",
        {
            "elements": v.x(0).elements,
            "bound": v.y.shape[1],
            "axes": list(zip(strides_of(shape), shape, strict=True)),
        },
    )


def _compressed(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made | Replace:
    x, known = scope.types[node.input[0]], scope.consts.get(node.input[1])
    if known is not None and not any(map(scope.symbols_of, node.input)):  # what a Gather does
        steps = Steps(node, [], scope.consts, scope.names)
        data, axis = node.input[0], attrs.get("axis", 0)
        flat = "" if "axis" in attrs else steps("Reshape", data, steps.const([-1], np.int64))
        places = np.flatnonzero(known[: x.elements if flat else x.shape[axis]])
        steps("Gather", flat or data, steps.const(places, np.int64), out=0, axis=axis)
        return standing_for(scope, steps.made)
    condition = filled(scope, node, 1, False)
    if "axis" not in attrs:
        if scope.symbols_of(node.input[0]):
            raise Refuse("MLF0302", "of a flat tensor of extents known only at run time", EXTENTS)
        return Made({0: (x.dtype, (min(x.elements, condition.elements),), 0)})
    axis = attrs["axis"] % len(x.shape)
    symbols = scope.symbols_of(node.input[0])
    if any(s for k, s in enumerate(symbols) if k != axis):
        raise Refuse("MLF0302", "of a tensor with other extents that are known only at run time")
    if symbols and not condition.shape:
        raise Refuse("MLF0302", "of an extent that is known only at run time, by a scalar")
    if symbols and not scope.symbols_of(node.input[1]):  # nothing lies beyond the extent
        filled(scope, node, 1, False, (symbols[axis],))
    bound = min(x.shape[axis], condition.elements)
    return Made({0: (x.dtype, (*x.shape[:axis], bound, *x.shape[axis + 1 :]), axis)})


def _along(v: View) -> tuple[tuple[int, ...], int]:
    """The extents and `axis`; those of the flat tensor without one."""
    axis = v.attr("axis")
    return ((v.x(0).elements,), 0) if axis is None else (v.x(0).shape, axis % len(v.x(0).shape))


@op("Compress", Trait.AXIS, makes=_compressed, constant=folded.compress)
def compress(v: View) -> Kernel:
    """The slices along `axis` (of the flat tensor without one) whose condition holds."""
    shape, axis = _along(v)
    return boxed(
        v,
        "extents_compress",
        {
            "outer": math.prod(shape[:axis]),
            "extent": shape[axis],
            "bound": v.y.shape[axis if v.attr("axis") is not None else 0],
            "conditions": min(v.x(1).elements, shape[axis]),
            "inner": math.prod(shape[axis + 1 :]),
        },
    )


def _all_different(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    x = static_input(scope, node)
    axis = attrs.get("axis")
    shape = (x.elements,) if axis is None else x.shape
    axis = 0 if axis is None else axis % len(shape)
    count = (shape[axis],)
    index = (dtype.int64, count, 0)
    outputs = {0: (x.dtype, shape, axis), 1: index, 2: (dtype.int64, count, -1), 3: index}
    return Made(outputs, 4)


@op("Unique", makes=_all_different, constant=folded.unique)
def unique(v: View) -> Kernel:
    """The different slices along `axis` (elements without one), where each first stood, which one
    each is, how often it stood there, and how many there are."""
    shape, axis = _along(v)
    count, text = shape[axis], v.x(0).dtype.kind == "s"
    tables = [Operand(n, "int32_t", "scratch", bytes=4 * count) for n in ("first", "order", "rank")]
    return boxed(
        v,
        "extents_unique",
        {
            "outer": math.prod(shape[:axis]),
            "count": count,
            "inner": math.prod(shape[axis + 1 :]),
            "sorted": bool(v.attr("sorted", 1)),
            "same": "mlf_string_equal(&x0[a], &x0[b])" if text else "x0[a] == x0[b]",
            "less": "mlf_string_compare(&x0[a], &x0[b]) < 0" if text else "x0[a] < x0[b]",
        },
        *tables,
    )


def _boxes_left(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    boxes, scores = (scope.types[n] for n in node.input[:2])
    if (len(boxes.shape), len(scores.shape)) != (3, 3):
        raise Refuse("MLF0303", f"boxes {boxes} and scores {scores}; expected 3 axes each")
    counts = [scope.extents_of(n) for n in node.input[:2]]
    if any((*counts[0][::2], *counts[1][:2])):
        raise Refuse("MLF0302", "of a batch or of classes whose number is known only at run time")
    count = counts[0][1] or counts[1][2]
    if count:  # of the boxes: an input of our own
        node.input.extend([""] * (5 - len(node.input)) + [count])
    most = scope.consts.get(node.input[2]) if len(node.input) > 2 else np.zeros(1)
    each = boxes.shape[1]
    if most is not None and most.size:
        each = max(0, min(each, int(most.reshape(-1)[0])))
    return Made({0: (dtype.int64, (scores.shape[0] * scores.shape[1] * each, 3), 0)})


@op("NonMaxSuppression", Trait.KEPT, makes=_boxes_left, forms=of_form("bn4", "bcn"))
def non_max_suppression(v: View) -> Kernel:
    """[bound, 3] of (batch, class, box), best scores first, and how many there are.

    Inputs: boxes [batch, boxes, 4], scores [batch, classes, boxes], boxes per class at most,
    threshold of the intersection over union, threshold of the score, and how many boxes there are
    where that is known only at run time.
    """
    boxes = v.x(0).shape[1]
    batch, classes = v.x(1).shape[:2]
    if not all(v.x(k).elements for k in (2, 3, 4) if v.has(k)):
        raise UnsupportedError("a limit or threshold without elements; expected one of each")
    return boxed(
        v,
        "extents_nms",
        {
            "batch": batch,
            "classes": classes,
            "boxes": boxes,
            "bound": v.y.shape[0],
            "center": bool(v.attr("center_point_box", 0)),
        },
        Operand("done", "uint8_t", "scratch", bytes=boxes),
    )


def _or_value(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element] | None:
    """Each is as it was, or the value."""
    value = node.attrs["value"]
    if scope.types[node.result].dtype.kind not in "iub":
        return None
    return [
        Element()
        if e.most is None or e.least is None
        else Element(max(e.most, int(value)), least=min(e.least, int(value)))
        for e in parts[0]
    ]


@op("mlf.FillBeyond", bounds=_or_value)
def fill_beyond(v: View) -> Kernel:
    """The box with `value` wherever an index on one of `axes` is not below its extent."""
    shape = v.x(0).shape
    strides = strides_of(shape)
    return boxed(
        v,
        "extents_fill",
        {
            "elements": v.x(0).elements,
            "axes": [
                (max(1, strides[a]), max(1, shape[a]), f"x{k + 1}")
                for k, a in enumerate(v.attr("axes"))
            ],
            "value": literal(v.attr("value"), v.y.dtype),
        },
    )


def _true_shape(scope: Scope, node: NodeProto) -> Outcome:
    name, attrs = node.input[0], attributes(node)
    part = slice(attrs.get("start", 0), attrs.get("end"))
    keep_shape(scope, name, node.output[0], dtype.int64, part)
    return KEEP


def _true_size(scope: Scope, node: NodeProto) -> Outcome:
    name = node.input[0]
    symbols, shape = scope.symbols[name], scope.types[name].shape
    counted(scope, node.output[0], symbols, shape, dtype.int64)
    return KEEP


old("Shape", Trait.OF_SHAPE, extents=_true_shape, constant=folded.shape)
old("Size", Trait.OF_SHAPE, extents=_true_size)


def _each_extent(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element]:
    symbols, bounds = iter(node.inputs), scope.bounds
    each = [next(symbols) if n < 0 else n for n in node.attrs["static"]]
    return [exactly(n) if isinstance(n, int) else Element(bounds.get(n), n, least=0) for n in each]


def _product(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element]:
    counts = [scope.bounds.get(s) for s in node.inputs]
    known = [n for n in counts if n is not None]
    whole = len(known) == len(counts)
    return [Element(math.prod([node.attrs["factor"], *known]) if whole else None, least=0)]


@op("mlf.Extents", Trait.SHAPE, bounds=_each_extent)
def extents(v: View) -> Kernel:
    """A shape as a vector: `static` extents, and where those are -1 the inputs in turn."""
    given = iter(range(len(v.node.inputs)))
    values = [f"*x{next(given)}" if n < 0 else str(n) for n in v.attr("static")]
    return boxed(v, "extents_values", {"values": values})


@op("mlf.Count", bounds=_product)
def count(v: View) -> Kernel:
    """`factor` times the product of all inputs, as a scalar of the output's type."""
    product = " * ".join([f"*x{k}" for k in range(len(v.node.inputs))] + [str(v.attr("factor"))])
    return boxed(v, "extents_values", {"values": [f"({v.y.dtype.c})({product})"]})


@op("mlf.BroadcastExtent")
def broadcast_extent(v: View) -> Kernel:
    """The extent to which those of the inputs broadcast: the first that is not 1."""
    *others, last = [f"*x{k}" for k in range(len(v.node.inputs))]
    value = "".join(f"{x} != 1 ? {x} : " for x in others) + last
    return boxed(v, "extents_values", {"values": [value]})


@op("mlf.Stretch")
def stretch(v: View) -> Kernel:
    """x0, whose extent along `axis` is *x1, in a box of another bound; a single slice repeated."""
    axis, shape = v.attr("axis"), v.x(0).shape
    params = {
        "outer": math.prod(shape[:axis]),
        "inner": math.prod(shape[axis + 1 :]),
        "extent": shape[axis],
        "bound": v.y.shape[axis],
    }
    return boxed(v, "extents_stretch", params)


@op("mlf.Join")
def join(v: View) -> Kernel:
    """Concat along an axis where extents are known only at run time; also the sum of them.

    `extents` has for each tensor its static extent, or -1: then the next of the inputs after the
    tensors.
    """
    axis, parts = v.attr("axis"), v.attr("extents")
    given = iter(range(len(parts), len(v.node.inputs)))
    pieces = [
        (f"x{k}", f"*x{next(given)}" if n < 0 else str(n), v.x(k).shape[axis])
        for k, n in enumerate(parts)
    ]
    shape = v.y.shape
    return boxed(
        v,
        "extents_join",
        {
            "outer": math.prod(shape[:axis]),
            "inner": math.prod(shape[axis + 1 :]),
            "bound": shape[axis],
            "pieces": pieces,
        },
    )


@op("mlf.Choose")
def choose(v: View) -> Kernel:
    """Tensor number *x0 of x1, x2 ... in the corner of a box that has room for each, and its extent
    along each of `axes`. A number beyond them is moved to the nearest end.

    After the tensors come extents of theirs that are known at run time: `extents` has for each
    tensor and axis a number, or -1 for the next of them.
    """
    count, box = v.attr("count"), v.y.shape
    given = iter(range(1 + count, len(v.node.inputs)))
    parts = []
    for k in range(count):
        shape = v.x(1 + k).shape
        known = v.attr("extents")[k * len(shape) : (k + 1) * len(shape)]
        true = [f"*x{next(given)}" if n < 0 else str(n) for n in known]
        parts.append({"x": f"x{1 + k}", "rows": _rows(shape, box), "true": true})
    params: dict[str, Any] = {
        "parts": parts,
        "elements": v.y.elements,
        "outs": [(k + 1, axis) for k, axis in enumerate(v.attr("axes"))],
    }
    return boxed(v, "lists_choose", params)


def _rows(shape: tuple[int, ...], box: tuple[int, ...]) -> dict[str, Any]:
    """How to copy a tensor into the corner of a box: loops over rows, and a row's length."""
    cut = next((k for k in reversed(range(len(shape))) if shape[k] != box[k]), 0)
    length = math.prod(shape[cut:])
    loops = list(enumerate(shape[:cut]))
    source = [math.prod(shape[k + 1 :]) for k in range(cut)]
    target = [math.prod(box[k + 1 :]) for k in range(cut)]
    return {
        "loops": loops,
        "length": length,
        "source": " + ".join(f"i{k} * {s}" for k, s in enumerate(source)) or "0",
        "target": " + ".join(f"i{k} * {s}" for k, s in enumerate(target)) or "0",
    }


@op("mlf.SplitAt")
def split_at(v: View) -> Kernel:
    """Consecutive parts of x0 along `axis`, whose sizes x1 holds: one for each part, or one for all
    but the last, which are then as many as it takes. Outputs are all boxes, all sizes, and for one
    size the number of parts."""
    shape, axis, parts = v.x(0).shape, v.attr("axis"), v.attr("parts")
    bounds = [v.type(name).shape[axis] for name in v.node.outputs[:parts]]
    params = {
        "outer": math.prod(shape[:axis]),
        "inner": math.prod(shape[axis + 1 :]),
        "extent": shape[axis],
        "pieces": [
            {"y": f"y{k}", "bound": bounds[k], "size": f"y{parts + k}", "k": k}
            for k in range(parts)
        ],
        "single": len(v.node.outputs) > 2 * parts,
        "count": f"y{2 * parts}",
    }
    return boxed(v, "lists_split", params)
