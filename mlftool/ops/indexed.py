"""Operators that move elements to where further tensors say: the family of ops/movement.py, with
statements that find an element's place.

Indexes may be negative, counting from the end. One that leaves its axis is a mistake of whoever
computed it: it is moved to the nearest end (crt/include/mlf/index.h), so no memory but the tensor's
own is read or written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mlftool.ir.dtype import float32
from mlftool.ir.graph import View
from mlftool.ir.relay import Site
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Scope
from mlftool.ops import folded
from mlftool.ops.base import (
    FIRST,
    Attributes,
    Kernel,
    Moved,
    Operand,
    Shape,
    Trait,
    Types,
    of_form,
    op,
    shown,
)
from mlftool.ops.elementwise import index_text, row_major
from mlftool.ops.movement import copied, strides_of
from mlftool.ops.scalar import fetch, literal, tensor_operand


def place(terms: Sequence[str], shape: Sequence[int]) -> str:
    """C index of the element of a tensor of `shape` whose index on each axis is a term."""
    pairs = zip(terms, strides_of(shape), strict=True)
    return " + ".join(t if s == 1 else f"{t} * {s}" for t, s in pairs) or "0"


def _run(v: View, extent: int) -> int:
    """How many elements to copy at a time: as many as lie together, unless they are packed."""
    return 1 if v.y.dtype.packed else extent


def _relay_gather(s: Site) -> str | None:
    axis = s.axis(0)
    index = s.const(1)
    if index is not None and (index >= 0).all():
        return s.call("take", s.arg(0), s.arg(1), axis=axis)
    kind = str(s.type(1).dtype)
    wrapped = s.call("add", s.arg(1), s.literal(s.type().shape[axis], kind))
    negative = s.call("less", s.arg(1), s.literal(0, kind))
    return s.call("take", s.arg(0), s.call("where", negative, wrapped, s.arg(1)), axis=axis)


def _relay_pad(s: Site) -> str | None:
    pads, value = s.ints(1), s.scalar(2, 0.0)
    mode = s.attr("mode", "constant")
    if pads is None or value is None or s.has(3) or mode not in ("constant", "edge", "reflect"):
        return None
    if min(pads, default=0) < 0:
        return None
    widths = [[pads[k], pads[k + s.rank]] for k in range(s.rank)]
    return s.call("nn.pad", s.arg(), s.literal(value), pad_width=widths, pad_mode=mode)


@op("Gather", Trait.MOVES_DATA, Trait.AXIS, moved=FIRST, relay=_relay_gather)
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


@op(
    "GatherElements",
    *(Trait.MOVES_DATA, Trait.AXIS),
    moved=FIRST,
    constant=folded.gather_elements,
    relay=lambda s: s.call("gather", s.arg(0), s.arg(1), axis=s.axis(0)),
)
def gather_elements(v: View) -> Kernel:
    """y[i...] = x[i...] with the index along `axis` taken from indices[i...]."""
    shape = v.x(0).shape
    axis = v.attr("axis", 0) % len(shape)
    terms = [f"i{k}" for k in range(len(shape))]
    linear = index_text(row_major(v.y.shape))
    terms[axis] = f"mlf_index(indices[{linear}], {shape[axis]})"
    return copied(
        v,
        "gather_elements",
        v.y.shape,
        "at",
        statements=[f"const int32_t at = {place(terms, shape)};"],
        reads=[tensor_operand(v.graph, "indices", v.core.inputs[1])],
    )


def coordinates(v: View, indices: str, row: str, first: int, count: int) -> tuple[str, list[str]]:
    """For each of `count` coordinates in row `row` of tensor `indices`: the index on its axis of
    input 0, of which `first` is the first."""
    shape = v.x(0).shape[first : first + count]
    terms = [
        f"mlf_index({indices}[({row}) * {count} + {k}], {n})" if count > 1 or k else
        f"mlf_index({indices}[{row}], {n})"
        for k, n in enumerate(shape)
    ]  # fmt: skip
    return place(terms, shape), terms


def _gathered(x: Shape, attrs: Attributes, inputs: Types) -> str:
    places, batch = inputs[1], attrs.get("batch_dims", 0)
    if places is None or places.shape[:batch] != x[:batch]:
        return f"indices {places} for {batch} batch axes of {shown(x)}"
    return ""


@op("GatherND", Trait.MOVES_DATA, moved=FIRST, related=_gathered)
def gather_nd(v: View) -> Kernel:
    """y[b, j, i] = x[b, indices[b, j, 0], indices[b, j, 1] ..., i]."""
    shape, indices = v.x(0).shape, v.x(1).shape
    batch, count = v.attr("batch_dims", 0), indices[-1]
    batches, rows = math.prod(indices[:batch]), math.prod(indices[batch:-1])
    inner = math.prod(shape[batch + count :])
    at, _ = coordinates(v, "indices", f"i0 * {rows} + i1" if batches > 1 else "i1", batch, count)
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


def _reversed(x: Shape, attrs: Attributes, inputs: Types) -> str:
    axis, lengths = attrs.get("batch_axis", 1), inputs[1]
    if lengths is None or len(x) < 2 or not 0 <= axis < len(x) or lengths.shape != (x[axis],):
        return f"lengths {lengths} for batches along axis {axis} of {shown(x)}"
    return ""


@op("ReverseSequence", Trait.MOVES_DATA, moved=FIRST, related=_reversed)
def reverse_sequence(v: View) -> Kernel:
    """The first `lengths[b]` steps of each batch backwards, the others as they are."""
    shape = v.x(0).shape
    time, batch = v.attr("time_axis", 0) % len(shape), v.attr("batch_axis", 1) % len(shape)
    terms = [f"i{k}" for k in range(len(shape))]
    terms[time] = "at"
    return copied(
        v,
        "reverse_sequence",
        shape,
        place(terms, shape),
        statements=[
            f"const int32_t length = mlf_clamp_index(lengths[i{batch}], 0, {shape[time]});",
            f"const int32_t at = i{time} < length ? length - 1 - i{time} : i{time};",
        ],
        reads=[tensor_operand(v.graph, "lengths", v.core.inputs[1])],
    )


@op("Trilu", Trait.NARROW)
def trilu(v: View) -> Kernel:
    """The elements on one side of a diagonal, `k` above the main one; zeros on the other."""
    rows, columns = v.y.shape[-2:]
    k = v.const(1)
    given = v.has(1) and k is None
    diagonal = "(int64_t)i2 - i1" if given else "i2 - i1"
    value = "k[0]" if given else "0" if k is None else str(k.item())
    return copied(
        v,
        "trilu",
        [v.y.elements // max(1, rows * columns), rows, columns],
        f"(i0 * {rows} + i1) * {columns} + i2",
        inside=f"{diagonal} {'>=' if v.attr('upper', 1) else '<='} {value}",
        reads=[tensor_operand(v.graph, "k", v.core.inputs[1])] if given else [],
    )


@op("OneHot", Trait.NARROW)
def one_hot(v: View) -> Kernel:
    """values[1] where the index along `axis` is that of `indices`, values[0] elsewhere."""
    axis = v.attr("axis", -1) % len(v.y.shape)
    outer, depth = math.prod(v.y.shape[:axis]), v.y.shape[axis]
    inner = math.prod(v.y.shape[axis + 1 :])
    row = v.x(0).dtype
    index = fetch(row, "indices", f"i0 * {inner} + i2")
    return copied(
        v,
        "one_hot",
        [outer, depth, inner],
        f"at == i1 || at + {depth} == i1 ? 1 : 0",
        statements=[f"const int64_t at = (int64_t){index};"],
        reads=[tensor_operand(v.graph, "indices", v.core.inputs[0])],
        x=v.core.inputs[2],
    )


PADDED: dict[str, Callable[[str, int], str]] = {
    "reflect": lambda i, n: f"mlf_reflect({i}, {n})",
    "edge": lambda i, n: f"mlf_clamp_i32({i}, 0, {n - 1})",
    "wrap": lambda i, n: f"mlf_wrap({i}, {n})",
}


def _borders(x: Shape, attrs: Attributes, inputs: Types) -> str:
    pads = inputs[1] if len(inputs) > 1 else None
    axes = inputs[3] if len(inputs) > 3 else None
    count = len(x) if axes is None else axes.elements
    if pads is not None and pads.elements != 2 * count:
        return f"pads {pads}; expected two for each of {count} axes"
    return ""


def _pads_to_inputs(scope: Scope, d: Draft) -> None:
    """Pads were an attribute, of another name in the first opset, and so was the value."""
    row = d.types[0].dtype if d.types[0] is not None else float32
    pads = d.attrs.pop("pads", None) or d.attrs.pop("paddings", [])
    value = np.array(d.attrs.pop("value", 0.0), row.numpy)
    d.inputs += [
        d.constant(scope, "pads", np.array(pads, np.int64)),
        d.constant(scope, "value", value),
    ]


@op(
    "Pad",
    *(Trait.MOVES_DATA, Trait.SAME_RANK),
    moved=Moved((0,), fill=2),
    related=_borders,
    older=((11, _pads_to_inputs),),
    constant=folded.pad,
    relay=_relay_pad,
)
def pad(v: View) -> Kernel:
    """More elements before and behind each axis, fewer where a pad is negative."""
    rank = len(v.x(0).shape)
    axes = v.const(3) if v.has(3) else None
    head: list[str] = []
    reads: list[Operand] = []
    begins = [""] * rank
    known = v.const(1)
    if known is not None and (axes is not None or not v.has(3)):
        listed = range(rank) if axes is None else axes.reshape(-1).tolist()
        each = dict.fromkeys(range(rank), 0)
        each |= {a % rank: int(b) for a, b in zip(listed, known.reshape(-1), strict=False)}
        begins = [str(each[k]) for k in range(rank)]
    else:
        head, reads = _begins(v, rank)
        begins = [f"begin[{k}]" for k in range(rank)]
    return padded(v, "pad", begins, v.attr("mode", "constant"), head, reads)


def _begins(v: View, rank: int) -> tuple[list[str], list[Operand]]:
    """Statements that read how much is added before each axis."""
    count = v.x(1).elements // 2
    axis = f"mlf_index(axes[k], {rank})" if v.has(3) else "k"
    operands = {"pads": 1, "axes": 3} if v.has(3) else {"pads": 1}
    limit = 1 << 30
    head = [
        f"int32_t begin[{rank}] = {{0}};",
        f"for (int32_t k = 0; k < {count}; k++) {{",
        f"  begin[{axis}] = mlf_clamp_index(pads[k], -{limit}, {limit});",
        "}",
    ]
    return head, [tensor_operand(v.graph, n, v.core.inputs[k]) for n, k in operands.items()]


def padded(
    v: View,
    name: str,
    begins: Sequence[str],
    mode: str,
    head: Sequence[str] = (),
    reads: Sequence[Operand] = (),
) -> Kernel:
    """x with so many elements before each axis, and what the output's type leaves behind it."""
    shape, out = v.x(0).shape, v.y.shape
    moved = [k for k, b in enumerate(begins) if b != "0" or shape[k] != out[k]]
    terms = [f"p{k}" if k in moved else f"i{k}" for k in range(len(shape))]
    within = {k: f"p{k} >= 0 && p{k} < {shape[k]}" for k in moved}
    statements, inside, fill = [], "", "0"
    reads = list(reads)
    for k in moved:
        at = f"i{k} - ({begins[k]})" if begins[k] != "0" else f"i{k}"
        if mode != "constant":
            at = PADDED[mode](at, shape[k])
        statements.append(f"const int32_t p{k} = {at};")
    if mode == "constant":
        inside = " && ".join(within.values())
        value = v.const(2) if len(v.core.inputs) > 2 and v.has(2) and v.core.op == "Pad" else None
        if value is not None and not v.y.dtype.codec:
            fill = literal(value.item(), v.y.dtype)
        elif v.core.op == "Pad" and v.has(2) and moved:
            fill = fetch(v.y.dtype.raw, "value", "0")
            reads.append(tensor_operand(v.graph, "value", v.core.inputs[2]))
    return copied(
        v, name, out, place(terms, shape),
        inside=f"({inside})" if inside else "", fill=fill, head=head, statements=statements,
        reads=reads,
    )  # fmt: skip


@op("CenterCropPad", Trait.NARROW, Trait.SAME_RANK, forms=of_form("*", "?"))
def center_crop_pad(v: View) -> Kernel:
    """The middle of x, or x in the middle of zeros; the shape is the output's type."""
    sizes = zip(v.x(0).shape, v.y.shape, strict=True)
    begins = [str((out - n) // 2 if out >= n else -((n - out) // 2)) for n, out in sizes]
    return padded(v, "center_crop_pad", begins, "constant")
