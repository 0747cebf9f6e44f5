"""Operators that move elements without looking at them: Transpose, Expand, Tile, and what their
family is made of; and those that only give a tensor another shape.

The output is walked in order and each element's place in the input follows from its indexes: by
strides alone, as here and in ops/parts.py, or from further tensors (ops/indexed.py, ops/pads.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlftool.ir.dtype import DType, int32
from mlftool.ir.graph import View
from mlftool.ir.holes import whole
from mlftool.ir.operations import LOOP, STEP, Operations, copies, of_text, times, total
from mlftool.ir.relay import Site, unary
from mlftool.onnx_rules.boxes import ALONE, as_it_is
from mlftool.onnx_rules.draft import Draft, attr_to_input
from mlftool.onnx_rules.scope import Scope
from mlftool.onnx_rules.shaping import of_first
from mlftool.ops import folded
from mlftool.ops.base import FIRST, Facts, Kernel, Operand, Trait, old, op, shown
from mlftool.ops.elementwise import index_text, merged, row_major
from mlftool.ops.scalar import around, conversions, fetch, put, tensor_operand
from mlftool.ops.shapers import expand_in_box, flatten_in_box, reshape_in_box, tile_in_box

WORTH_MEMCPY = 4  # elements
LEAST_BLOCKS = 4  # of a transpose in place: scratch is a quarter of the tensor at most
INDEXES = ("mlf/index.h",)


def strides_of(shape: Sequence[int]) -> list[int]:
    """How far apart neighbours along each axis lie, in elements."""
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


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
    beside: int = 1,
    reads: Sequence[Operand] = (),
    x: str = "",
    y: str = "",
) -> Kernel:
    """y = x[source] for all indexes i0, i1 ... below `dims`, `run` elements at a time; or `fill`
    where `inside` does not hold. Stored elements: only packed ones are taken apart. `beside`: how
    many elements stay beside each other, whose loop compilers make a memcpy of."""
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
        operations=math.prod(dims)
        * (_moved(run, raw) + total(*(of_text(s, int32) for s in (inside, *statements))))
        if beside <= WORTH_MEMCPY
        else math.prod(dims) // beside * (copies(beside * raw.bytes) + LOOP),
        includes=("mlf/kernel.h", *(INDEXES if head or statements else ()), *conversions(raw)),
    )


def _moved(run: int, row: DType) -> Operations:
    """Of so many elements that are copied together, in a loop of several axes."""
    return copies(run * row.bytes) + times(loop=1, whole=1) if run > 1 else STEP + times(whole=1)


def strided(
    v: View, name: str, shape: Sequence[int], strides: Sequence[int], start: int = 0
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
        text = str(start) if text == whole(0) else f"{start} + {text}"
    beside = dims[-1] if run == 1 and steps and steps[-1] == 1 and not v.y.dtype.packed else 1
    return copied(v, name, dims, text, run=run, beside=beside)


def _relay_tile(s: Site) -> str | None:
    repeats = s.ints(1)
    return None if repeats is None else s.call("tile", s.arg(), reps=repeats)


def _permutation(f: Facts) -> str:
    perm, shape = f.attrs.get("perm"), f.shape(0)
    if perm is None or shape is None or sorted(perm) == list(range(len(shape))):
        return ""
    return f"perm {shown(perm)} is not a permutation of {len(shape)} axes"


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


old(
    "Dropout",
    *(Trait.KEPT, Trait.LIKE_FIRST),
    checks=(_dropout,),
    resolve=_without_dropout,
    extents=as_it_is,
)
op(
    "Identity",
    *(Trait.VIEW, Trait.MOVES_DATA, Trait.ANY_BITS, Trait.IDENTITY),
    extents=as_it_is,
    bounds=of_first,
    relay=lambda s: s.arg(),
)(copy)


def _ones_apart(f: Facts) -> str:
    """Squeeze and Unsqueeze along computed axes have the output that the model declares."""
    count = (f.shape(1) or (None,))[0]
    one, other = ([n for n in shape if n != 1] for shape in (f.x, f.output.shape))
    by = abs(len(f.output.shape) - len(f.x))
    if one == other and (f.shape(1) is None or by == (1 if count is None else count)):
        return ""
    return f"input {shown(f.x)} does not fit output {shown(f.output.shape)}"


def _view(name: str, **fields: Any) -> None:
    op(
        *(name, Trait.VIEW, Trait.MOVES_DATA, Trait.ANY_BITS),
        relay=lambda s: s.call("reshape", s.arg(), newshape=list(s.out.shape)),
        **{"bounds": of_first, "extents": as_it_is, **fields},
    )(copy)


_view(
    "Reshape",
    extents=ALONE,
    shaped=reshape_in_box,
    older=((5, attr_to_input("shape", 1)),),
    constant=folded.reshape,
)
_view("Flatten", extents=ALONE, shaped=flatten_in_box, bounds=None, constant=folded.flatten)
for _name, _folded in (("Squeeze", folded.squeeze), ("Unsqueeze", folded.unsqueeze)):
    _view(_name, constant=_folded, checks=(_ones_apart,), older=((13, attr_to_input("axes", 1)),))


@op(
    "Transpose",
    *(Trait.MOVES_DATA, Trait.ANY_BITS, Trait.TRANSPOSITION),
    checks=(_permutation,),
    resolve=_explicit_perm,
    extents=as_it_is,
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
        (*around(v), Operand("block", row.c, "scratch", bytes=size * row.bytes)),
        operations=copies(size * row.bytes, dims[0]) + math.prod(dims) // run * _moved(run, row),
        inplace=(v.core.inputs[0],),
    )


@op(
    "Expand",
    *(Trait.MOVES_DATA, Trait.ANY_BITS),
    moved=FIRST,
    extents=ALONE,
    shaped=expand_in_box,
    relay=lambda s: s.call("broadcast_to", s.arg(), shape=list(s.out.shape)),
)
def expand(v: View) -> Kernel:
    """x repeated along axes where it has one element. The shape is the output's type."""
    shape = (1,) * (len(v.y.shape) - len(v.x(0).shape)) + v.x(0).shape
    pairs = zip(strides_of(shape), shape, strict=True)
    return strided(v, "expand", v.y.shape, [0 if n == 1 else s for s, n in pairs])


def _repeated(f: Facts) -> str:
    """What is wrong with an output that is declared, as repeats are computed, or ""."""
    pairs = zip(f.x, f.output.shape, strict=True)
    text = f"an output of shape {shown(f.output.shape)}; expected multiples of {shown(f.x)}"
    return text if any(out % n if n else out for n, out in pairs) else ""


@op(
    "Tile",
    *(Trait.MOVES_DATA, Trait.ANY_BITS, Trait.SAME_RANK),
    moved=FIRST,
    checks=(_repeated,),
    extents=ALONE,
    shaped=tile_in_box,
    relay=_relay_tile,
)
def tile(v: View) -> Kernel:
    """x again and again along each axis; how often is in the output's type."""
    shape: list[int] = []
    strides: list[int] = []
    for n, s, out in zip(v.x(0).shape, strides_of(v.x(0).shape), v.y.shape, strict=True):
        shape += [out // n if n else 0, n]
        strides += [0, s]
    return strided(v, "tile", shape, strides)
