"""Operators that move elements without looking at them; those that only rename are views.

The output is walked in order and each element's place in the input follows from its indexes: by
strides alone (Transpose, Expand, Tile, Slice ...), or from further tensors (ops/indexed.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlftool.ir.graph import View
from mlftool.ir.relay import Site, unary
from mlftool.onnx_rules.draft import Draft, attr_to_input
from mlftool.onnx_rules.scope import Scope
from mlftool.ops import folded
from mlftool.ops.base import (
    FIRST,
    Attributes,
    Facts,
    Kernel,
    Operand,
    Shape,
    Trait,
    Types,
    UnsupportedError,
    old,
    op,
    shown,
)
from mlftool.ops.elementwise import index_text, merged, row_major
from mlftool.ops.scalar import conversions, fetch, put, tensor_operand

WORTH_MEMCPY = 4  # elements
LEAST_BLOCKS = 4  # of a transpose in place: scratch is a quarter of the tensor at most
INDEXES = ("mlf/index.h",)


def copied(
    v: View,
    name: str,
    dims: Sequence[int],
    source: str,
    *,
    inside: str = "",
    fill: str = "0",
    head: Sequence[str] = (),
    statements: Sequence[str] = (),
    run: int = 1,
    reads: Sequence[Operand] = (),
    x: str = "",
    y: str = "",
) -> Kernel:
    """y = x[source] for all indexes i0, i1 ... below `dims`, `run` elements at a time; or `fill`
    where `inside` does not hold. Stored elements: only packed ones are taken apart."""
    y = y or v.node.outputs[0]
    row = v.type(y).dtype
    raw = row.raw
    target = index_text(row_major(tuple(dims)))
    value = fetch(raw, "x", source)
    if run > 1:
        store = f"memcpy(y + ({target}) * {run}, x + ({source}) * {run}, {run} * sizeof *y);"
    else:
        fill = 'mlf_string_of("")' if raw.kind == "s" and fill == "0" else fill
        value = f"{inside} ? {value} : {fill}" if inside else value
        store = put(raw, "y", target, value)
    return Kernel(
        f"portable.{name}",
        "elementwise.c.j2",
        {
            "head": head,
            "loops": [(f"i{k}", n) for k, n in enumerate(dims)],
            "statements": statements,
            "store": store,
        },
        (
            tensor_operand(v.graph, "x", x or v.core.inputs[0]),
            *reads,
            Operand("y", row.c, "out", y),
        ),
        cost=math.prod(dims) * (6.0 + run + 4 * len(statements)),
        includes=("mlf/kernel.h", *(INDEXES if head or statements else ()), *conversions(raw)),
    )


def strided(
    v: View, name: str, shape: Sequence[int], strides: Sequence[int], start: int = 0, y: str = ""
) -> Kernel:
    """y[i0, i1 ...] = x[start + i0 * strides[0] + ...] for an output seen as `shape`."""
    dims, by = merged(tuple(shape), {"x": tuple(strides)})
    steps, run = by["x"], 1
    if steps and steps[-1] == 1 and dims[-1] > WORTH_MEMCPY and not v.y.dtype.packed:
        run = dims[-1]
        if any(s % run for s in (*steps[:-1], start)):
            run = 1
        else:
            dims, steps, start = dims[:-1], tuple(s // run for s in steps[:-1]), start // run
    text = index_text(steps)
    if start:
        text = str(start) if text == "0" else f"{start} + {text}"
    return copied(v, name, dims, text, run=run, y=y)


def _relay_reshape(s: Site) -> str:
    """Also Flatten, Squeeze and Unsqueeze: the extents are known."""
    return s.call("reshape", s.arg(), newshape=list(s.out.shape))


def _relay_split(s: Site) -> tuple[str, ...]:
    axis = s.axis(0)
    extents = [type_.shape[axis] for type_ in s.made]
    ends = [sum(extents[: k + 1]) for k in range(len(extents) - 1)]
    parts = s.call("split", s.arg(), indices_or_sections=ends, axis=axis)
    return tuple(f"{parts}.{k}" for k in range(len(extents)))


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


def _relay_tile(s: Site) -> str | None:
    repeats = s.ints(1)
    return None if repeats is None else s.call("tile", s.arg(), reps=repeats)


def _permutation(f: Facts) -> str:
    perm, shape = f.attrs.get("perm"), f.shape(0)
    if perm is None or shape is None or sorted(perm) == list(range(len(shape))):
        return ""
    return f"perm {shown(perm)} is no permutation of {len(shape)} axes"


def _dropout(f: Facts) -> str:
    given = len(f.inputs) > 2 and f.inputs[2] is not None
    if given and (f.values[2] is None or bool(f.values[2])):
        return "may be in training mode, which draws random numbers; expected inference"
    return "" if f.attrs.get("is_test", 1) else "is in training mode; expected is_test"


def _without_dropout(scope: Scope, d: Draft) -> None:
    """Nothing is dropped outside of training; the mask is all true, in old opsets all 1."""
    x = d.types[0]
    if len(d.outputs) > 1 and d.outputs[1] and x is not None:
        mask = d.out_types[1]
        scope.add_const(d.outputs[1], np.ones(x.shape, mask.dtype.numpy))
    d.inputs, d.outputs = d.inputs[:1], d.outputs[:1]
    d.op, d.attrs = "Identity", {}


def _explicit_perm(scope: Scope, d: Draft) -> None:
    if d.types[0] is not None and "perm" not in d.attrs:
        d.attrs["perm"] = list(reversed(range(len(d.types[0].shape))))


@op("mlf.Copy", Trait.MOVES_DATA, relay=unary("copy"))
def copy(v: View) -> Kernel:
    """The input's bytes in the output's buffer, for outputs that are views of something else."""
    return copied(v, "copy", [v.y.elements], "i0")


old("Shape", constant=folded.shape)
old("Dropout", checks=(_dropout,), resolve=_without_dropout)
_VIEWS: dict[str, dict[str, Any]] = {
    "Reshape": {"older": ((5, attr_to_input("shape", 1)),)},
    "Flatten": {"constant": folded.flatten},
    "Squeeze": {"older": ((13, attr_to_input("axes", 1)),)},
    "Unsqueeze": {"older": ((13, attr_to_input("axes", 1)),)},
}
for _name, _said in _VIEWS.items():
    op(_name, Trait.VIEW, Trait.MOVES_DATA, relay=_relay_reshape, **_said)(copy)
op("Identity", Trait.VIEW, Trait.MOVES_DATA, Trait.IDENTITY, relay=lambda s: s.arg())(copy)


@op(
    "Transpose",
    *(Trait.MOVES_DATA, Trait.TRANSPOSITION),
    checks=(_permutation,),
    resolve=_explicit_perm,
    relay=lambda s: s.call("transpose", s.arg(), axes=list(s.attr("perm", ()))),
)
def transpose(v: View) -> Kernel:
    """y[i_perm] = x[i], with axes that stay together merged into one."""
    shape = v.x(0).shape
    perm = tuple(v.attr("perm", tuple(reversed(range(len(shape))))))
    steps = strides_of(shape)
    strides = [steps[p] for p in perm]
    return _in_blocks(v, strides) or strided(v, "transpose", v.y.shape, strides)


def _in_blocks(v: View, strides: Sequence[int]) -> Kernel | None:
    """A transpose that leaves the first axis where it is: each of its blocks waits in scratch while
    it is written, so the output may take over the input's memory."""
    dims, by = merged(v.y.shape, {"x": tuple(strides)})
    inner, steps = dims[1:], by["x"][1:]
    size, row = math.prod(inner), v.y.dtype
    small = len(dims) > 2 and dims[0] >= LEAST_BLOCKS and by["x"][0] == size
    if not small or row.packed or row.kind == "s":
        return None
    run = inner[-1] if steps[-1] == 1 and inner[-1] > WORTH_MEMCPY else 1
    if run > 1:
        run = math.gcd(run, *steps[:-1])
        inner, steps = [*inner[:-1], inner[-1] // run], tuple(s // run for s in (*steps[:-1], run))
    target, source = index_text(row_major((*inner,))), index_text(steps)
    move = f"to[{target}] = block[{source}];"
    if run > 1:
        target, source = (f"({text}) * {run}" for text in (target, source))
        move = f"memcpy(to + {target}, block + {source}, {run} * sizeof *to);"
    return Kernel(
        "portable.transpose",
        "transpose_blocks.c.j2",
        {
            "rows": dims[0],
            "size": size,
            "loops": [(f"i{k}", n) for k, n in enumerate(inner)],
            "store": move,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("y", row.c, "out", v.node.outputs[0]),
            Operand("block", row.c, "scratch", bytes=size * row.bytes),
        ),
        cost=math.prod(dims) // run * (6.0 + run) + math.prod(dims),
        inplace=(v.core.inputs[0],),
    )


@op(
    "Expand",
    Trait.MOVES_DATA,
    moved=FIRST,
    relay=lambda s: s.call("broadcast_to", s.arg(), shape=list(s.out.shape)),
)
def expand(v: View) -> Kernel:
    """x repeated along axes where it has one element. The shape is the output's type."""
    shape = (1,) * (len(v.y.shape) - len(v.x(0).shape)) + v.x(0).shape
    pairs = zip(strides_of(shape), shape, strict=True)
    return strided(v, "expand", v.y.shape, [0 if n == 1 else s for s, n in pairs])


@op("Tile", Trait.MOVES_DATA, Trait.SAME_RANK, moved=FIRST, relay=_relay_tile)
def tile(v: View) -> Kernel:
    """x again and again along each axis; how often is in the output's type."""
    shape: list[int] = []
    strides: list[int] = []
    for n, s, out in zip(v.x(0).shape, strides_of(v.x(0).shape), v.y.shape, strict=True):
        shape += [out // n if n else 0, n]
        strides += [0, s]
    return strided(v, "tile", shape, strides)


@op(
    "Split",
    *(Trait.MOVES_DATA, Trait.SAME_RANK, Trait.AXIS),
    moved=FIRST,
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
        run = v.type(name).shape[axis] * inner
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
        cost=v.x(0).elements * 5.0,
    )


@op(
    "Concat",
    *(Trait.MOVES_DATA, Trait.AXIS, Trait.ORDER_PRESERVING),
    turned=lambda attrs, perm: {"axis": perm[attrs["axis"] % len(perm)]},
    relay=lambda s: s.call("concatenate", s.tuple(s.args()), axis=s.axis(0)),
)
def concat(v: View) -> Kernel:
    """Inputs one after the other along `axis`."""
    axis = v.attr("axis") % len(v.y.shape)
    inner = math.prod(v.y.shape[axis + 1 :])
    outer = math.prod(v.y.shape[:axis])
    operands, parts, offset = [], [], 0
    for k, name in enumerate(v.core.inputs):
        type_ = v.type(name)
        run = type_.shape[axis] * inner
        if run * outer == 0:
            continue
        operands.append(tensor_operand(v.graph, f"x{k}", name))
        parts.append({"k": k, "run": run, "offset": offset})
        offset += run
    return Kernel(
        "portable.concat",
        "concat.c.j2",
        {"outer": outer, "row": offset, "parts": parts},
        (*operands, Operand("y", v.y.dtype.c, "out", v.node.outputs[0])),
        cost=v.y.elements * 5.0,
    )


def _windows(x: Shape, attrs: Attributes, inputs: Types) -> str:
    lists = [t for t in inputs[1:] if t is not None]
    if any(len(t.shape) != 1 or t.shape != lists[0].shape for t in lists):
        found = ", ".join(map(str, lists))
        return f"starts, ends, axes and steps {found}; expected as many of each"
    if lists and lists[0].elements > len(x):
        return f"{lists[0].elements} windows for the axes of {shown(x)}"
    return ""


@op(
    "Slice",
    *(Trait.MOVES_DATA, Trait.SAME_RANK),
    moved=FIRST,
    related=_windows,
    older=tuple((10, attr_to_input(a, k + 1)) for k, a in enumerate(("starts", "ends", "axes"))),
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


def strides_of(shape: Sequence[int]) -> list[int]:
    """How far apart neighbours along each axis lie, in elements."""
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]
