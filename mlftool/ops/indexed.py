"""Operators that move elements to where further tensors say: the family of ops/movement.py, with
statements that find an element's place.

Indexes may be negative, counting from the end. One that leaves its axis is a mistake of what
computed it: it is moved to the nearest end (crt/include/mlf/index.h), so no memory but the tensor's
own is read or written. A model with a constant one is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import NodeProto

from mlftool.ir.dtype import int64
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.operations import of_text
from mlftool.ir.relay import Site
from mlftool.onnx_rules.boxes import ALONE, each_alone, filled, keep_shape
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Scope, Work, stepwise
from mlftool.onnx_rules.shaping import Element, largest_of
from mlftool.onnx_rules.steps import Steps, standing_for
from mlftool.ops import folded
from mlftool.ops.base import FIRST, Facts, Kernel, Trait, of_form, op, record, shown
from mlftool.ops.elementwise import index_text, row_major
from mlftool.ops.movement import copied, strides_of
from mlftool.ops.scalar import fetch, integer_of, tensor_operand


def place(terms: Sequence[str], shape: Sequence[int]) -> str:
    """C index of the element of a tensor of `shape` whose index on each axis is a term."""
    pairs = zip(terms, strides_of(shape), strict=True)
    return " + ".join(t if s == 1 else f"{t} * {s}" for t, s in pairs) or "0"


def along(shape: Sequence[int], axis: int, term: str) -> str:
    """The same of the loops' indexes, but for that on `axis`."""
    return place([term if k == axis else f"i{k}" for k in range(len(shape))], shape)


def _run(v: View, extent: int) -> int:
    """How many elements to copy at a time, at least one: as many as lie together, unless packed."""
    return 1 if v.y.dtype.packed else max(1, extent)


def _relay_gather(s: Site) -> str | None:
    axis = s.axis(0)
    index = s.const(1)
    if index is not None and (index >= 0).all():
        return s.call("take", s.arg(0), s.arg(1), axis=axis)
    kind = str(s.type(1).dtype)
    wrapped = s.call("add", s.arg(1), s.literal(s.type().shape[axis], kind))
    negative = s.call("less", s.arg(1), s.literal(0, kind))
    return s.call("take", s.arg(0), s.call("where", negative, wrapped, s.arg(1)), axis=axis)


@stepwise
def _gather_boxes(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """Indices beyond their extents must be indices too; those from the end count from the true one:

    %y = Gather(%x, %i)   =>   %y = Gather(%x, Where(%i < 0, %i + extent, %i))
    """
    if node.op_type == "GatherND" and (wrong := no_coordinates(scope, node)):
        return wrong
    filled(scope, node, 1, 0)
    symbols, steps = scope.symbols_of(node.input[0]), Steps(node, (), taken=scope.names)
    first, last = _indexed_axes(scope, node)
    if not any(symbols[first:last]) or _never_negative(scope, node.input[1]):
        return Next(node)
    node.input[1] = from_front(scope, steps, slice(first, last))
    yield standing_for(scope, steps.made)
    return Next(node)


def no_coordinates(scope: Scope, node: NodeProto) -> Refuse | None:
    """Indices of GatherND or ScatterND that have no axis of coordinates; onnx's inference checks it
    where the extents of all inputs are known."""
    if scope.types[node.input[1]].shape:
        return None
    return Refuse("MLF0303", f"indices '{node.input[1]}' are a scalar; expected an axis or more")


def from_front(scope: Scope, steps: Steps, axes: slice) -> str:
    """The indices of a node, which may count from the ends of these axes of its data."""
    data, indices = steps.x(0), steps.x(1)
    row, end = scope.types[indices].dtype, scope.fresh(f"{steps.node.output[0]}.end")
    keep_shape(scope, data, end, row, axes)
    if not scope.types[indices].shape:  # a sum with a vector would be one
        end = steps("Reshape", end, steps.const([], np.int64))
    below = steps("Less", indices, steps.const(0, row.numpy))
    return steps("Where", below, steps("Add", indices, end), indices)


def _indexed_axes(scope: Scope, node: NodeProto) -> tuple[int, int]:
    """The first and the end of the axes of the data that indices count along."""
    attrs, rank = attributes(node), len(scope.types[node.input[0]].shape)
    if node.op_type == "GatherND":
        first = attrs.get("batch_dims", 0)
        return first, first + scope.types[node.input[1]].shape[-1]
    axis = attrs.get("axis", 0) % max(1, rank)
    return axis, axis + 1


MOVES = {Trait.VIEW, Trait.TRANSPOSITION, Trait.IDENTITY}


def _never_negative(scope: Scope, name: str) -> bool:
    if name in scope.consts:
        return bool(scope.consts[name].min(initial=0) >= 0)
    node = next((n for n in reversed(scope.nodes) if name in n.outputs), None)
    if node is None:
        return False
    if record(node).traits & MOVES or node.op == "mlf.FillBeyond":
        return _never_negative(scope, node.inputs[0])
    return record(node).places == node.outputs.index(name)


def _picked(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element]:
    """By constant indices the very elements, else whichever is the largest."""
    known, whole = scope.consts.get(node.inputs[1]), parts[0]
    if known is not None and len(scope.types[node.inputs[0]].shape) == 1:
        return [whole[int(k)] for k in known.reshape(-1) if -len(whole) <= k < len(whole)]
    return [largest_of(whole)] * scope.types[node.result].elements


def on_axes(f: Facts, first: int, count: int = 1) -> str:
    """Constant indices are places on `count` axes of the first input, and stand side by side."""
    places = f.inputs[1]
    for k, n in enumerate(f.x[first : first + count]):
        if n == 0 and places is not None and places.elements:
            return f"indices on axis {first + k} of input {shown(f.x)}, which has no elements"
        axis = f"indices on axis {first + k} of input {shown(f.x)}"
        if wrong := f.beyond(1, -n, n - 1, axis, (..., k) if count > 1 else ...):
            return wrong
    return ""


def _on_axis(f: Facts) -> str:
    return on_axes(f, f.attrs.get("axis", 0) % max(1, len(f.x)))


@op(
    "Gather",
    *(Trait.MOVES_DATA, Trait.ANY_BITS, Trait.AXIS),
    moved=FIRST,
    checks=(_on_axis,),
    extents=_gather_boxes,
    bounds=_picked,
    relay=_relay_gather,
)
def gather(v: View) -> Kernel:
    """y[o, j, i] = x[o, indices[j], i]."""
    shape, count = v.x(0).shape, v.x(1).elements
    axis = v.attr("axis", 0) % max(1, len(shape))
    outer, n, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    run = _run(v, inner)
    rest = inner // run
    at = f"mlf_index({fetch(v.x(1).dtype, 'indices', 'i1')}, {n})"
    return copied(
        v,
        "gather",
        [outer, count, rest],
        f"(i0 * {n} + at) * {rest} + i2" if rest > 1 else f"i0 * {n} + at",
        statements=[f"const int32_t at = {at};"],
        run=run,
        reads=[tensor_operand(v.graph, "indices", v.core.inputs[1])],
    )


def elements_fit(f: Facts) -> str:
    """Places have x's rank, and no extent above x's but along the axis: no other bound is set."""
    places, axis = f.shape(1), f.attrs.get("axis", 0)
    if not f.x or places is None or len(places) != len(f.x):
        return f"indices {f.inputs[1]} for input {shown(f.x)}; expected the same rank"
    beside = [a for a in range(len(f.x)) if a != axis % len(f.x)]
    if any(places[a] > f.x[a] for a in beside):
        text = f"indices {f.inputs[1]} are larger than input {shown(f.x)}"
        return f"{text} along an axis other than {axis}"
    return on_axes(f, axis % len(f.x))


@op(
    "GatherElements",
    *(Trait.MOVES_DATA, Trait.ANY_BITS, Trait.AXIS),
    moved=FIRST,
    checks=(elements_fit,),
    extents=_gather_boxes,
    constant=folded.gather_elements,
    relay=lambda s: s.call("gather", s.arg(0), s.arg(1), axis=s.axis(0)),
)
def gather_elements(v: View) -> Kernel:
    """y[i...] = x[i...] with the index along `axis` taken from indices[i...]."""
    shape = v.x(0).shape
    axis = v.attr("axis", 0) % len(shape)
    at = f"mlf_index(indices[{index_text(row_major(v.y.shape))}], {shape[axis]})"
    return copied(
        v,
        "gather_elements",
        v.y.shape,
        "at",
        statements=[f"const int32_t at = {along(shape, axis, at)};"],
        reads=[tensor_operand(v.graph, "indices", v.core.inputs[1])],
    )


def coordinates(v: View, row: str, first: int, count: int) -> tuple[str, list[str]]:
    """For each of `count` coordinates in row `row` of `indices`: the index on its axis of input 0,
    of which `first` is the first."""
    shape = v.x(0).shape[first : first + count]
    terms = [
        f"mlf_index(indices[({row}) * {count} + {k}], {n})" if count > 1 or k else
        f"mlf_index(indices[{row}], {n})"
        for k, n in enumerate(shape)
    ]  # fmt: skip
    return place(terms, shape), terms


def _gathered(f: Facts) -> str:
    places, batch = f.inputs[1], f.attrs.get("batch_dims", 0)
    if places is None or places.shape[:batch] != f.x[:batch]:
        return f"indices {places} for {batch} batch axes of {shown(f.x)}"
    return on_axes(f, batch, places.shape[-1])


def _scalar(scope: Scope, node: NodeProto) -> TensorType | None:
    """Where indices pick one element."""
    x, indices = (scope.types[n] for n in node.input)
    one = indices.shape == (len(x.shape),) and not any(scope.symbols_of(node.input[1]))
    return TensorType(x.dtype, ()) if one else None


@op(
    "GatherND",
    *(Trait.MOVES_DATA, Trait.ANY_BITS),
    moved=FIRST,
    typed=_scalar,
    checks=(_gathered,),
    extents=_gather_boxes,
)
def gather_nd(v: View) -> Kernel:
    """y[b, j, i] = x[b, indices[b, j, 0], indices[b, j, 1] ..., i]."""
    shape, indices = v.x(0).shape, v.x(1).shape
    batch, count = v.attr("batch_dims", 0), indices[-1]
    batches, rows = math.prod(indices[:batch]), math.prod(indices[batch:-1])
    inner = math.prod(shape[batch + count :])
    at, _ = coordinates(v, f"i0 * {rows} + i1" if batches > 1 else "i1", batch, count)
    size = math.prod(shape[batch : batch + count])
    run = _run(v, inner)
    rest = inner // run
    whole = f"i0 * {size} + at" if batches > 1 else "at"
    return copied(
        v,
        "gather_nd",
        [batches, rows, rest],
        f"({whole}) * {rest} + i2" if rest > 1 else whole,
        statements=[f"const int32_t at = {at};"],
        run=run,
        reads=[tensor_operand(v.graph, "indices", v.core.inputs[1])],
    )


def _reversed(f: Facts) -> str:
    axes, lengths = (f.attrs.get("time_axis", 0), f.attrs.get("batch_axis", 1)), f.inputs[1]
    if sorted(axes) != [0, 1] or len(f.x) < 2:
        return f"time_axis {axes[0]} and batch_axis {axes[1]} of {shown(f.x)}; expected 0 and 1"
    if lengths is None or lengths.shape != (f.x[axes[1]],):
        return f"lengths {lengths} for batches along axis {axes[1]} of {shown(f.x)}"
    return f.beyond(1, 0, f.x[axes[0]], "lengths")


def _reversed_boxes(scope: Scope, node: NodeProto) -> Outcome:
    """Of other axes than that of time; beyond the last batch none is reversed."""
    time = attributes(node).get("time_axis", 0)
    free = lambda _, rank: {*range(rank)} - {time if rank > 1 else -1}  # noqa: E731
    outcome = each_alone(free, (0, 1))(scope, node)
    if isinstance(outcome, Next):
        filled(scope, node, 1, 0)
    return outcome


@op(
    "ReverseSequence",
    *(Trait.MOVES_DATA, Trait.ANY_BITS),
    moved=FIRST,
    checks=(_reversed,),
    extents=_reversed_boxes,
)
def reverse_sequence(v: View) -> Kernel:
    """The first `lengths[b]` steps of each batch backwards, the others as they are."""
    shape = v.x(0).shape
    time, batch = v.attr("time_axis", 0) % len(shape), v.attr("batch_axis", 1) % len(shape)
    return copied(
        v,
        "reverse_sequence",
        shape,
        along(shape, time, "at"),
        statements=[
            f"const int32_t length = mlf_clamp_index(lengths[i{batch}], 0, {shape[time]});",
            f"const int32_t at = i{time} < length ? length - 1 - i{time} : i{time};",
        ],
        reads=[tensor_operand(v.graph, "lengths", v.core.inputs[1])],
    )


@op("Trilu", Trait.NARROW, extents=ALONE, forms=of_form("*", "."))
def trilu(v: View) -> Kernel:
    """The elements on one side of a diagonal, `k` above the main one; zeros on the other."""
    rows, columns = v.y.shape[-2:]
    k = v.const(1)
    given = v.has(1) and k is None
    diagonal = "(int64_t)i2 - i1" if given else "i2 - i1"
    value = "k[0]" if given else "0" if k is None else str(min(max(k.item(), -rows), columns))
    return copied(
        v,
        "trilu",
        [v.y.elements // max(1, rows * columns), rows, columns],
        f"(i0 * {rows} + i1) * {columns} + i2",
        inside=f"{diagonal} {'>=' if v.attr('upper', 1) else '<='} {value}",
        reads=[tensor_operand(v.graph, "k", v.core.inputs[1])] if given else [],
    )


@op("OneHot", Trait.NARROW, extents=ALONE, constant=folded.one_hot)
def one_hot(v: View) -> Kernel:
    """values[1] where the index along `axis` is that of `indices`, values[0] elsewhere."""
    axis = v.attr("axis", -1) % len(v.y.shape)
    outer, depth = math.prod(v.y.shape[:axis]), v.y.shape[axis]
    inner = math.prod(v.y.shape[axis + 1 :])
    row = v.x(0).dtype
    index = fetch(row, "indices", f"i0 * {inner} + i2")
    at = integer_of(int64, row, index) if row.is_float else f"(int64_t)({index})"
    which = f"at == i1 || at == i1 - {depth} ? 1 : 0"
    kernel = copied(
        v,
        "one_hot",
        [outer, depth, inner],
        which,
        statements=[f"const int64_t at = {at};"],
        reads=[tensor_operand(v.graph, "indices", v.core.inputs[0])],
        x=v.core.inputs[2],
    )
    convert = ("mlf/convert.h",) if row.is_float else ()
    operations = kernel.operations + v.y.elements * of_text(which, int64)
    return replace(kernel, includes=(*kernel.includes, *convert), operations=operations)
