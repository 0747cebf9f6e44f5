"""Operators that put elements where further tensors say: a copy of x, then a walk over the updates.

Indexes are those of ops/indexed.py: negative ones count from the end, wrong ones are moved to the
nearest end. Where several updates meet, they are joined in order, the last one winning without a
`reduction`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from mlftool.ir.dtype import int32
from mlftool.ir.graph import View
from mlftool.ir.operations import STEP, copies, of_text, times, total
from mlftool.onnx_rules.boxes import filled, of_batches, whole
from mlftool.onnx_rules.draft import EVERY_OPSET, Draft
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import KEEP, Outcome, Refuse, Scope, Work, stepwise
from mlftool.onnx_rules.steps import Steps, standing_for
from mlftool.onnx_rules.windows import placed
from mlftool.ops.base import Facts, Kernel, Moved, Operand, Trait, UnsupportedError, old, op, shown
from mlftool.ops.elementwise import index_text, row_major
from mlftool.ops.indexed import (
    along,
    coordinates,
    elements_fit,
    from_front,
    no_coordinates,
    on_axes,
    place,
)
from mlftool.ops.reduce import joined
from mlftool.ops.scalar import conversions, fetch, narrow, read_by

REDUCTIONS = {"none": "", "add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}


def scattered(
    v: View,
    name: str,
    dims: Sequence[int],
    statements: Sequence[str],
    *,
    reads: dict[str, int],
    updates: str = "updates",
    inside: str = "",
    reduction: str = "none",
    head: Sequence[str] = (),
) -> Kernel:
    """y[at] = y[at] joined with the update, for all indexes below `dims`; `statements` find `at`.

    `reads` are the operands by their place in the inputs; without an "x" among them y begins as
    zeros.
    """
    row = v.y.dtype
    if row.packed:
        raise UnsupportedError(f"{v.core.op} on {row}; supported: types of whole bytes")
    kind = row.raw if reduction == "none" else row
    value = fetch(kind, updates, index_text(row_major(tuple(dims))))
    if reduction != "none":
        value = narrow(row, joined(REDUCTIONS[reduction], row, fetch(row, "y", "at"), value))
    begin = "memcpy(y, x" if "x" in reads else "memset(y, 0"
    store = f"y[at] = {value};"
    return Kernel(
        f"portable.{name}",
        "elementwise.c.j2",
        {
            "head": [f"{begin}, sizeof *y * {v.y.elements});", *head],
            "loops": [(f"i{k}", n) for k, n in enumerate(dims)],
            "statements": statements,
            "store": f"if ({inside}) {{ {store} }}" if inside else store,
        },
        (*read_by(v, reads), Operand("y", row.c, "out", v.node.outputs[0])),
        operations=copies(v.y.bytes)
        + math.prod(dims)
        * (total(*(of_text(s, int32) for s in statements)) + STEP + times(whole=2)),
        includes=("mlf/kernel.h", "mlf/index.h", *conversions(row)),
    )


def _reduction(v: View) -> str:
    name = str(v.attr("reduction", "none"))
    if name not in REDUCTIONS:
        raise UnsupportedError(f"reduction '{name}'; supported: {', '.join(REDUCTIONS)}")
    return name


def _renamed(scope: Scope, d: Draft) -> None:
    """The first name of ScatterElements."""
    d.op = "ScatterElements"


old("Scatter", checks=(Facts.has_axes,), older=((EVERY_OPSET, _renamed),))


@stepwise
def _scattered_boxes(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """Updates beyond their extents go to a row that the data has not, and that is taken off again:

    %y = ScatterElements(%x, %i, %u)   =>   %t = ScatterElements(Concat(%x, 0), %i, %u); %y = %t[:n]

    So does ScatterND, along the first axis: a row's other coordinates then do not matter.
    """
    data, attrs = node.input[0], attributes(node)
    shape, symbols = scope.types[data].shape, scope.extents_of(data)
    axis = attrs.get("axis", 0) % len(shape)
    if node.op_type == "ScatterND" and (wrong := no_coordinates(scope, node)):
        return wrong
    depth = scope.types[node.input[1]].shape[-1] if node.op_type == "ScatterND" else 1
    if not depth:  # an index of no coordinates is of the whole, which has no row to spare
        return Refuse("MLF0302", "indices without coordinates and extents known only at run time")
    filled(scope, node, 1, shape[axis])
    s = Steps(node, (), taken=scope.names)
    at, updates = _as_many(scope, s, from_front(scope, s, slice(axis, axis + depth)))
    one_more = (*shape[:axis], 1, *shape[axis + 1 :])
    spare = s.const(np.zeros(one_more), scope.types[data].dtype.numpy)
    made = s(node.op_type, s("Concat", data, spare, axis=axis), at, updates, **attrs)
    ends = (s.const([n], np.int64) for n in (0, shape[axis], axis))
    s("Slice", made, *ends, out=0)
    yield standing_for(scope.hiding(scope.symbols), s.made)
    if any(symbols):
        scope.symbols[node.output[0]] = symbols
    return KEEP


def _as_many(scope: Scope, s: Steps, at: str) -> tuple[str, str]:
    """Indices `at` and updates in boxes of the same extents, of which there are equally many at
    run time: each is at most the smaller of the two bounds."""
    both = [scope.types[s.x(k)].shape for k in (1, 2)]
    late = [scope.extents_of(s.x(k)) for k in (1, 2)]
    ends = {
        k: min(n, m)
        for k, (n, m, *symbols) in enumerate(zip(*both, *late, strict=False))
        if n != m and any(symbols)
    }
    updates = s.x(2)
    for k, end in ends.items():
        one = [s.const([n], np.int64) for n in (0, end, k)]
        at, updates = (s("Slice", x, *one) for x in (at, updates))
    return at, updates


def _updates_fit(f: Facts) -> str:
    if f.shape(1) != f.shape(2):
        return f"indices {f.inputs[1]} and updates {f.inputs[2]} differ in shape"
    return elements_fit(f)


@op(
    "ScatterElements",
    *(Trait.NARROW, Trait.MOVES_DATA, Trait.AXIS),
    moved=Moved((0, 2)),
    checks=(Facts.has_axes, _updates_fit),
    extents=_scattered_boxes,
)
def scatter_elements(v: View) -> Kernel:
    """y[i...], its index along `axis` taken from indices[i...], is updates[i...]."""
    shape, dims = v.x(0).shape, v.x(1).shape
    axis = v.attr("axis", 0) % len(shape)
    at = f"mlf_index(indices[{index_text(row_major(dims))}], {shape[axis]})"
    return scattered(
        v,
        "scatter_elements",
        dims,
        [f"const int32_t at = {along(shape, axis, at)};"],
        reads={"x": 0, "indices": 1, "updates": 2},
        reduction=_reduction(v),
    )


def _scattered(f: Facts) -> str:
    places, updates = f.inputs[1], f.inputs[2]
    if places is None or updates is None or not places.shape:
        return "has no indices or updates"
    depth = places.shape[-1]
    if depth > len(f.x) or updates.shape != (*places.shape[:-1], *f.x[depth:]):
        return f"indices {places} and updates {updates} do not fit input {shown(f.x)}"
    return on_axes(f, 0, depth)


@op(
    "ScatterND",
    *(Trait.NARROW, Trait.MOVES_DATA),
    moved=Moved((0, 2)),
    checks=(_scattered,),
    extents=_scattered_boxes,
)
def scatter_nd(v: View) -> Kernel:
    """y[indices[j, 0], indices[j, 1] ..., i] is updates[j, i]."""
    shape, indices = v.x(0).shape, v.x(1).shape
    inner = math.prod(shape[indices[-1] :])
    whole, _ = coordinates(v, "i0", 0, indices[-1])
    return scattered(
        v,
        "scatter_nd",
        [math.prod(indices[:-1]), inner],
        [f"const int32_t at = ({whole}) * {inner} + i1;"],
        reads={"x": 0, "indices": 1, "updates": 2},
        reduction=_reduction(v),
    )


def _steps_fit(f: Facts) -> str:
    axis, rank, updates = f.attrs.get("axis", -2), len(f.x), f.shape(1) or ()
    if not -rank <= axis < rank or len(updates) != rank:
        return f"updates {shown(updates)} along axis {axis} of {shown(f.x)}"
    if f.attrs.get("mode", "linear") == "circular":
        return ""
    return f.beyond(2, 0, f.x[axis] - updates[axis], "write_indices")


WRITES = {"mode": ("linear", "circular")}


@op("TensorScatter", Trait.NARROW, checks=(_steps_fit,), words=WRITES)
def tensor_scatter(v: View) -> Kernel:
    """A cache with steps along `axis` replaced from each batch's write index on, or from 0."""
    shape, dims = v.x(0).shape, v.x(1).shape
    axis = v.attr("axis", -2) % len(shape)
    n = shape[axis]
    circular = v.attr("mode", "linear") == "circular"
    start = f"mlf_index(starts[i0], {n})" if v.has(2) else "0"
    if circular and v.has(2):  # it may count rounds
        start = f"mlf_wrap((int32_t)(starts[i0] % {n}), {n})"
    at = f"(({start} + i{axis}) % {n})" if circular else f"({start} + i{axis})"
    return scattered(
        v,
        "tensor_scatter",
        dims,
        [f"const int32_t at = {along(shape, axis, at)};"],
        reads={"x": 0, "updates": 1, **({"starts": 2} if v.has(2) else {})},
        inside="" if circular else f"{at} < {n}",
    )


@op("Col2Im", extents=of_batches(0, then=whole))
def col_to_image(v: View) -> Kernel:
    """The sum of all blocks, each put back where it was cut from the image."""
    image = v.y.shape[2:]
    block = v.const(2)
    if block is None:
        return _blocks_at_run_time(v, image)
    return _columns(v, image, [str(int(k)) for k in block.reshape(-1)], [])


def _blocks_at_run_time(v: View, image: tuple[int, ...]) -> Kernel:
    head = [
        f"const int32_t block{k} = mlf_clamp_index(block[{k}], 1, {n});"
        for k, n in enumerate(image)
    ]
    return _columns(v, image, [f"block{k}" for k in range(len(image))], head)


def _columns(v: View, image: tuple[int, ...], block: list[str], head: list[str]) -> Kernel:
    rank, channels = len(image), v.y.shape[1]
    strides, dilations, pads = placed(v.core.attrs, rank)
    batch, taps, columns = v.x(0).shape
    statements = ["int32_t tap = i2;", "int32_t column = i3;"]
    for k in reversed(range(rank)):
        n, s, d = image[k], strides[k], dilations[k]
        fits = f"({n + pads[k] + pads[k + rank]} - {d} * ({block[k]} - 1) - 1) / {s} + 1"
        statements += [
            f"const int32_t steps{k} = mlf_clamp_index({fits}, 1, {n + pads[k] + pads[k + rank]});",
            f"const int32_t p{k} = column % steps{k} * {s} - {pads[k]} + tap % {block[k]} * {d};",
            *([f"column /= steps{k};", f"tap /= {block[k]};"] if k else []),
        ]
    inside = " && ".join(f"p{k} >= 0 && p{k} < {n}" for k, n in enumerate(image))
    at = place(["i0", "i1", *(f"p{k}" for k in range(rank))], v.y.shape)
    return scattered(
        v,
        "col2im",
        [batch, channels, taps // channels, columns],
        [*statements, f"const int32_t at = {at};"],
        reads={"updates": 0, **({"block": 2} if head else {})},
        inside=inside,
        reduction="add",
        head=head,
    )
