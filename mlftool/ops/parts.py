"""Slice, Split and Concat: parts of a tensor, and a tensor of parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.operations import LOOP, copies, total
from mlftool.ir.relay import Site
from mlftool.onnx_rules.boxes import ALONE, first_alone
from mlftool.onnx_rules.draft import attr_to_input
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import (
    EXTENTS,
    KEEP,
    Next,
    Outcome,
    Refuse,
    Scope,
    Symbols,
    Work,
    stepwise,
)
from mlftool.onnx_rules.shaping import INT64, Box, Element, Shaping, UnboundedError, largest_of
from mlftool.onnx_rules.steps import Steps, standing_for
from mlftool.ops import folded
from mlftool.ops.base import FIRST, Facts, Kernel, Operand, Trait, UnsupportedError, op, shown
from mlftool.ops.movement import copied, strided, strides_of
from mlftool.ops.scalar import tensor_operand


def _relay_slice(s: Site) -> str | None:
    starts, ends = s.ints(1), s.ints(2)
    axes = s.ints(3) if s.has(3) else list(range(len(starts or ())))
    steps = s.ints(4) if s.has(4) else [1] * len(starts or ())
    if starts is None or ends is None or axes is None or steps is None:
        return None
    begin, end, strides = [0] * s.rank, list(s.type().shape), [1] * s.rank
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        extent = s.type().shape[axis]
        low, high, stride = slice(first, last, step).indices(extent)
        # An end before the first element is spelt as one that is negative twice over.
        begin[axis], end[axis] = low, high if high >= 0 else -extent - 1
        strides[axis] = stride
    return s.call("strided_slice", s.arg(), begin=begin, end=end, strides=strides)


def _windows(f: Facts) -> str:
    lists = [t for t in f.inputs[1:] if t is not None]
    if any(len(t.shape) != 1 or t.shape != lists[0].shape for t in lists):
        found = ", ".join(map(str, lists))
        return f"starts, ends, axes and steps {found}; expected as many of each"
    if lists and lists[0].elements > len(f.x):
        return f"{lists[0].elements} windows for the axes of {shown(f.x)}"
    axes, rank = f.attrs.get("axes", range(len(f.attrs.get("starts", ())))), len(f.x)
    if any(not -rank <= axis < rank for axis in axes):  # before opset 10
        return f"axes {[*axes]} of {shown(f.x)}"
    if any(out > n for n, out in zip(f.x, f.output.shape, strict=False)):  # as the model declares
        return f"output {shown(f.output.shape)} does not fit input {shown(f.x)}"
    return ""


def _picked(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element]:
    """By constant windows the very elements, else whichever is the largest."""
    flat = len(scope.types[node.inputs[0]].shape) == 1
    known = [scope.consts.get(i) for i in node.inputs[1:]]
    if flat and len(known) >= 2 and not any(k is None for k in known):
        start, end, *rest = (int(k.item()) for k in known if k is not None)
        return list(parts[0][slice(start, end, rest[1] if len(rest) > 1 else 1)])
    return [largest_of(parts[0])] * scope.types[node.result].elements


def _most(end: Element, extent: int) -> int:
    """The last element that a window may have behind it: `extent` if the end may be negative."""
    if end.most is None or end.least is None or end.least < 0:
        return extent
    return min(extent, end.most)


def _slice_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """No axis gets longer: the input's extents are bounds, and so are ends that are never negative.
    Constant windows of static axes are as they are."""
    if "starts" in attrs:
        raise UnboundedError
    x, count, windows = s.type(0).shape, s.type(1).elements, (s.known(1), s.known(2))
    along = s.constant(3, "axes", np.arange(count))
    by = s.constant(4, "steps", np.ones(count, INT64))
    if {s.type(1).shape, s.type(2).shape, along.shape, by.shape} != {(count,)}:
        raise UnsupportedError(f"starts {s.type(1)}, ends {s.type(2)}; expected as many of each")
    if not x:
        raise UnsupportedError(f"a slice of {s.type(0)}; expected 1 axis or more")
    axes, steps = [int(a) % len(x) for a in along], [int(n) for n in by]
    value, extents, known = s.steps.x(0), s.true_extents(), list(s.symbols)
    best: list[int | None] = list(x)
    places: list[range | None] = [None] * count
    heads = [""] * len(x)  # the extent that a window from the first element on is
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        best[axis] = -(-x[axis] // abs(step))
        first, last = (-1 if w is None else int(w[k]) for w in windows)
        if all(w is not None for w in windows) and (not known[axis] or min(first, last) >= 0):
            places[k] = range(x[axis])[first:last:step]
            best[axis] = len(places[k] or ())
        elif windows[0] is not None and min(first, step) >= 0:
            end = s.elements(s.steps.x(2))[k]
            most = _most(end, x[axis])
            best[axis] = len(range(first, most, step))
            is_head = (first, step) == (0, 1) and end.most == most and not known[axis]
            heads[axis] = end.symbol if is_head else ""
    bounds = s.bounds(best)
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        if places[k] == range(x[axis]):
            continue  # the whole, which goes together with what it is of
        if places[k] is not None and not known[axis]:
            value, extents[axis] = s("Gather", value, s.number(places[k]), axis=axis), bounds[axis]
            continue
        known[axis] = heads[axis]
        ends = s.at(s.steps.x(1), k), s.at(s.steps.x(2), k)
        start, extent = _window(s, *ends, extents[axis], step)
        away = s("Add", start, s.number(np.arange(bounds[axis]) * step))
        at = s("Clip", away, s.number(0), s.number(max(0, x[axis] - 1)))
        value, extents[axis] = s("Gather", value, at, axis=axis), extent
    s.result("Identity", value)
    return Box(bounds, tuple(extents), tuple(known))


def _window(s: Shaping, start: str, end: str, n: int | str, step: int) -> tuple[str, str]:
    """The first index of a window of an axis of `n`, and how many there are."""
    extent = s.extent(n)
    low = s.number(0 if step > 0 else -1)
    high = extent if step > 0 else s("Sub", extent, s.number(1))

    def inside(at: str) -> str:
        whole = s("Where", s("Less", at, s.number(0)), s("Add", at, extent), at)
        return s("Max", s("Min", whole, high), low)

    first, last = inside(start), inside(end)
    span = s("Sub", last, first) if step > 0 else s("Sub", first, last)
    if abs(step) > 1:
        up = s("Add", s("Max", span, s.number(0)), s.number(abs(step) - 1))
        span = s("Div", up, s.number(abs(step)))
    return first, span


@op(
    "Slice",
    *(Trait.MOVES_DATA, Trait.ANY_BITS, Trait.SAME_RANK),
    moved=FIRST,
    checks=(_windows,),
    older=tuple((10, attr_to_input(a, k + 1)) for k, a in enumerate(("starts", "ends", "axes"))),
    extents=ALONE,
    shaped=_slice_in_box,
    bounds=_picked,
    relay=_relay_slice,
    constant=folded.window,
)
def slice_(v: View) -> Kernel:
    """Every step-th element from start along each axis of `axes`; how many is the output's type.

    Windows that are computed are read at run time; one that leaves the tensor is cut off.
    """
    shape = v.x(0).shape
    windows = [v.const(k) if v.has(k) else None for k in range(1, 5)]
    if any(v.has(k) and windows[k - 1] is None for k in (1, 3, 4)):
        return _windows_at_run_time(v)
    starts, _, axes, steps = windows
    first, by = [0] * len(shape), [1] * len(shape)
    assert starts is not None
    for k, start in enumerate(starts.reshape(-1).tolist()):
        axis = int(axes.reshape(-1)[k]) % len(shape) if axes is not None else k
        by[axis] = int(steps.reshape(-1)[k]) if steps is not None else 1
        most = shape[axis] - 1 if by[axis] < 0 else shape[axis]
        first[axis] = max(0, min(most, start + shape[axis] if start < 0 else start))
    stride = strides_of(shape)
    start = sum(f * s for f, s in zip(first, stride, strict=True))
    return strided(v, "slice", v.y.shape, [b * s for b, s in zip(by, stride, strict=True)], start)


def _windows_at_run_time(v: View) -> Kernel:
    shape = v.x(0).shape
    rank, count = len(shape), v.x(1).elements
    reads = [tensor_operand(v.graph, f"w{k}", v.core.inputs[k]) for k in (1, 3, 4) if v.has(k)]
    axis = f"mlf_index(w3[k], {rank})" if v.has(3) else "k"
    head = [
        f"static const int32_t extent[{rank}] = {{{', '.join(map(str, shape))}}};",
        f"int32_t start[{rank}] = {{0}};",
        f"int64_t step[{rank}] = {{{', '.join(['1'] * rank)}}};",
        f"for (int32_t k = 0; k < {count}; k++) {{",
        f"  const int32_t axis = {axis};",
        # A step that goes beyond both ends is as good as one that is just as long as the axis.
        "  step[axis] = mlf_clamp_index(w4[k], -extent[axis], extent[axis]);" if v.has(4) else "",
        "  start[axis] = mlf_slice_start(w1[k], step[axis], extent[axis]);",
        "}",
    ]
    places = [
        f"mlf_slice_at(start[{k}], i{k}, step[{k}], {n})" + (f" * {s}" if s != 1 else "")
        for k, (n, s) in enumerate(zip(shape, strides_of(shape), strict=True))
    ]
    lines = [line for line in head if line]
    return copied(v, "slice", v.y.shape, " + ".join(places) or "0", head=lines, reads=reads)


def _relay_split(s: Site) -> tuple[str, ...]:
    axis = s.axis(0)
    extents = [type_.shape[axis] for type_ in s.made]
    ends = [sum(extents[: k + 1]) for k in range(len(extents) - 1)]
    parts = s.call("split", s.arg(), indices_or_sections=ends, axis=axis)
    return tuple(f"{parts}.{k}" for k in range(len(extents)))


@stepwise
def _split_box(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """Every part has the other axes' extents. Constant sizes also say how far the axis is that is
    split: a tracing exporter found as many."""
    x, axis = node.input[0], attributes(node).get("axis", 0)
    symbols, shape = list(scope.extents_of(x)), scope.types[x].shape
    axis %= len(shape)
    if not symbols[axis]:
        return Next(node)
    sizes = scope.consts.get(node.input[1]) if len(node.input) > 1 else None
    if sizes is None or sizes.sum() > shape[axis]:
        text = "splits an axis whose extent is known only at run time; expected constant sizes"
        return Refuse("MLF0302", text, EXTENTS)
    s = Steps(node, (), taken=scope.names)
    node.input[0] = s("Slice", x, *(s.const([k], np.int64) for k in (0, sizes.sum(), axis)))
    yield standing_for(scope.hiding({x}), [*s.made, node])
    symbols[axis] = ""
    scope.symbols.update(dict.fromkeys(node.output, tuple(symbols)) if any(symbols) else {})
    return KEEP


def _parted(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element] | None:
    return parts[0] if len(scope.types[node.inputs[0]].shape) == 1 else None


@op(
    "Split",
    *(Trait.MOVES_DATA, Trait.SAME_RANK, Trait.AXIS),
    moved=FIRST,
    extents=first_alone(_split_box),
    bounds=_parted,
    older=((13, attr_to_input("split", 1)),),
    relay=_relay_split,
)
def split(v: View) -> Kernel:
    """Consecutive parts of x along `axis`; their sizes are the outputs' types."""
    shape = v.x(0).shape
    axis = v.attr("axis", 0) % len(shape)
    if v.y.dtype.packed:
        raise UnsupportedError(f"Split of {v.y.dtype}; supported: types of whole bytes")
    inner, outer = math.prod(shape[axis + 1 :]), math.prod(shape[:axis])
    operands, parts, offset = [], [], 0
    for k, name in enumerate(v.node.outputs):
        if not name:
            raise UnsupportedError("Split with an output left out; supported: all outputs named")
        run = v.type(name).elements // max(1, outer)
        if run * outer == 0:
            continue
        operands.append(Operand(f"y{k}", v.y.dtype.c, "out", name))
        parts.append({"k": k, "run": run, "offset": offset})
        offset += run
    if offset != shape[axis] * inner:
        raise UnsupportedError(f"Split of {shape[axis]} elements into {offset // max(1, inner)}")
    return Kernel(
        "portable.split",
        "split.c.j2",
        {"outer": outer, "row": offset, "parts": parts},
        (tensor_operand(v.graph, "x", v.core.inputs[0]), *operands),
        operations=total(*(copies(p["run"] * v.y.dtype.bytes, outer) for p in parts))
        + outer * LOOP,
    )


def _join_boxes(scope: Scope, node: NodeProto) -> Outcome:
    """Along an axis with symbols the parts are joined; along another the box's kernel is right."""
    axis = attributes(node)["axis"] % len(scope.types[node.input[0]].shape)
    _matched(scope, node, axis)
    types = [scope.types[n] for n in node.input]
    rows = [scope.extents_of(n) for n in node.input]
    if len(rows) == 1:  # goes together with its part
        return Next(helper.make_node("Identity", node.input, node.output, node.name))
    if not any(r[axis] for r in rows):
        return Next(node)
    out, shape = node.output[0], list(types[0].shape)
    shape[axis] = sum(t.shape[axis] for t in types)
    symbol = scope.fresh(f"{out}.extent")
    scope.types[symbol] = TensorType(dtype.int32, ())
    scope.types[out] = TensorType(types[0].dtype, tuple(shape))
    same = _joined_before(scope, node, axis)
    scope.symbols[out] = (*rows[0][:axis], same or symbol, *rows[0][axis + 1 :])
    extents = [-1 if r[axis] else t.shape[axis] for r, t in zip(rows, types, strict=True)]
    inputs = (*node.input, *(r[axis] for r in rows if r[axis]))
    attrs = {"axis": axis, "extents": extents}
    scope.nodes.append(Node("mlf.Join", inputs, (out, symbol), attrs, node.name or out))
    return KEEP


def _matched(scope: Scope, node: NodeProto, axis: int) -> None:
    """Let the parts have the same boxes and symbols along the other axes, where the standard
    demands equal extents: what one part has there is what all have. Static extents decide, else
    the least bound does. Raises Refuse for a box that is too small for them."""
    for along in range(len(scope.types[node.input[0]].shape)):
        own = [(scope.extents_of(n)[along], scope.types[n].shape[along]) for n in node.input]
        if along == axis or len(set(own)) == 1:
            continue
        symbol, bound = min(own, key=lambda pair: (pair[0] != "", pair[1]))
        for k, (given, most) in enumerate(own):
            if most < bound:
                text = f"'{node.input[k]}' has at most {most} places on axis {along}"
                raise Refuse("MLF0302", f"{text}, another part has {bound}", EXTENTS)
            if (given, most) != (symbol, bound):
                node.input[k] = _first_places(scope, node.input[k], along, bound, symbol)


def _first_places(scope: Scope, name: str, axis: int, bound: int, symbol: str) -> str:
    """The first `bound` places of an axis; `symbol` says how many of them count."""
    type_, symbols, out = scope.types[name], list(scope.extents_of(name)), scope.fresh(name)
    shape = (*type_.shape[:axis], bound, *type_.shape[axis + 1 :])
    symbols[axis] = symbol
    window = [
        scope.new_const(f"{out}.{what}", np.array([value], INT64))
        for what, value in (("start", 0), ("end", bound), ("axis", axis))
    ]
    scope.types[out] = TensorType(type_.dtype, shape)
    if any(symbols):
        scope.symbols[out] = tuple(symbols)
    scope.nodes.append(Node("Slice", (name, *window), (out,), {}, out))
    return out


def _joined_before(scope: Scope, node: NodeProto, axis: int) -> str:
    """The extent of an earlier join of parts that have the same extents, "" if there is none: the
    two results go together."""

    def extents(names: Sequence[str], along: int) -> list[int | str]:
        return [scope.extents_of(n)[along] or scope.types[n].shape[along] for n in names]

    wanted, count = extents(node.input, axis), len(node.input)
    for other in scope.nodes:
        if other.op == "mlf.Join" and len(other.attrs["extents"]) == count:
            along = other.attrs["axis"]
            if extents(other.inputs[:count], along) == wanted:
                found: Symbols = scope.symbols_of(other.outputs[0])
                return found[along] if found else ""
    return ""


def _in_order(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element] | None:
    flat = len(scope.types[node.result].shape) == 1
    return [element for part in parts for element in part] if flat else None


@op(
    "Concat",
    *(Trait.JOIN, Trait.MOVES_DATA, Trait.AXIS, Trait.ORDER_PRESERVING),
    extents=_join_boxes,
    bounds=_in_order,
    turned=lambda attrs, perm: {"axis": perm[attrs["axis"] % len(perm)]},
    relay=lambda s: s.call("concatenate", s.tuple(s.args()), axis=s.axis(0)),
)
def concat(v: View) -> Kernel:
    """Inputs one after the other along `axis`."""
    if v.y.dtype.packed:
        raise UnsupportedError(f"Concat of {v.y.dtype}; supported: types of whole bytes")
    axis = v.attr("axis") % len(v.y.shape)
    outer, inner = math.prod(v.y.shape[:axis]), math.prod(v.y.shape[axis + 1 :])
    operands, parts, offset = [], [], 0
    for k, name in enumerate(v.core.inputs):
        type_ = v.type(name)
        run = type_.shape[axis] * inner
        if run * outer == 0:
            continue
        operands.append(tensor_operand(v.graph, f"x{k}", name))
        parts.append({"k": k, "run": run, "offset": offset, "apart": name in v.graph.inputs})
        offset += run
    unit = v.y.dtype.bytes
    copied = outer == 1 or all(p["run"] * unit >= _COPIED_BYTES for p in parts)
    return Kernel(
        "portable.concat",
        "concat.c.j2",
        {"outer": outer, "row": offset, "parts": parts, "copied": copied},
        (*operands, Operand("y", v.y.dtype.c, "out", v.node.outputs[0])),
        operations=total(*(copies(p["run"] * unit, outer) for p in parts)) + outer * LOOP,
        overlap=_places_of_parts(operands, parts, outer, offset, unit) if copied else {},
    )


_COPIED_BYTES = 12  # runs from here on are memcpy's; compilers make vectors of shorter ones' loops


def _places_of_parts(
    operands: Sequence[Operand], parts: Sequence[Mapping[str, int]], outer: int, row: int, unit: int
) -> dict[str, tuple[int, int]]:
    """A Kernel's `overlap`. Rows are written in order, so a part is whole until it is read if it
    is so far after the result's start that its last row is not reached before; no row then
    overlaps its copy. A part of a single row may stay where it is, but for the model's inputs and
    states, which are the caller's and are never there: `apart`."""
    far = 2 * outer * row * unit
    names = [o.value for o in operands]
    places = {}
    for name, part in zip(names, parts, strict=True):
        if part["apart"] and outer == 1:
            continue
        last = (outer - 1) * (row - part["run"]) + part["offset"]
        least = last if outer == 1 else last + part["run"]
        places[name] = least * unit, far
    return {n: place for n, place in places.items() if names.count(n) == 1}
