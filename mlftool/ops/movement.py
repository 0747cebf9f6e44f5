"""Operators that move elements without looking at them: Transpose, Expand, Tile, and what their
family is made of; and those that only give a tensor another shape.

The output is walked in order and each element's place in the input follows from its indexes: by
strides alone, as here and in ops/parts.py, or from further tensors (ops/indexed.py, ops/pads.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.relay import Site, unary
from mlftool.onnx_rules.boxes import as_it_is, counted, first_alone
from mlftool.onnx_rules.draft import Draft, attr_to_input
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import KEEP, Outcome, Refuse, Scope
from mlftool.onnx_rules.shaping import Box, Shaping, of_first
from mlftool.ops import folded
from mlftool.ops.base import FIRST, Facts, Kernel, Operand, Trait, UnsupportedError, old, op, shown
from mlftool.ops.elementwise import index_text, merged, row_major
from mlftool.ops.scalar import conversions, fetch, put, tensor_operand

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


old("Dropout", checks=(_dropout,), resolve=_without_dropout)
op(
    "Identity",
    *(Trait.VIEW, Trait.MOVES_DATA, Trait.IDENTITY),
    extents=as_it_is,
    bounds=of_first,
    relay=lambda s: s.arg(),
)(copy)


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


@op(
    "Transpose",
    *(Trait.MOVES_DATA, Trait.TRANSPOSITION),
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
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("y", row.c, "out", v.node.outputs[0]),
            Operand("block", row.c, "scratch", bytes=size * row.bytes),
        ),
        cost=math.prod(dims) // run * (6.0 + run) + math.prod(dims),
        inplace=(v.core.inputs[0],),
    )


def _expand_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """Axes of x that are no 1 keep their extent."""
    x, asked = s.type(0).shape, s.type(1).elements
    rank = max(len(x), asked)
    own = (1,) * (rank - len(x)) + x
    first, most_asked = rank - asked, s.most(s.steps.x(1))
    best = [n if n != 1 or k < first else most_asked[k - first] for k, n in enumerate(own)]
    bounds = s.bounds(best)
    s.result("Expand", s.steps.x(0), s.number(bounds))
    extents: list[int | str] = [
        s.at(s.steps.x(1), k - first) if n == 1 and k >= first else n for k, n in enumerate(own)
    ]
    given = [""] * first + [element.symbol for element in s.elements(s.steps.x(1))]
    known = [g if isinstance(e, str) else "" for g, e in zip(given, extents, strict=True)]
    return Box(bounds, tuple(extents), () if any(s.symbols) else tuple(known))


@op(
    "Expand",
    Trait.MOVES_DATA,
    moved=FIRST,
    shaped=_expand_in_box,
    relay=lambda s: s.call("broadcast_to", s.arg(), shape=list(s.out.shape)),
)
def expand(v: View) -> Kernel:
    """x repeated along axes where it has one element. The shape is the output's type."""
    shape = (1,) * (len(v.y.shape) - len(v.x(0).shape)) + v.x(0).shape
    pairs = zip(strides_of(shape), shape, strict=True)
    return strided(v, "expand", v.y.shape, [0 if n == 1 else s for s, n in pairs])


def _tile_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    x = s.type(0).shape
    times = s.most(s.steps.x(1))
    if len(times) != len(x):
        raise Refuse("MLF0303", f"repeats has {len(times)} elements; expected {len(x)}")
    bounds = s.bounds([t if t is None else t * n for t, n in zip(times, x, strict=True)])
    value = s.steps.x(0)
    for k, n in enumerate(bounds):
        value = s("Gather", value, s.number(np.arange(n) % max(1, x[k])), axis=k)
    s.result("Identity", value)
    counts = [s("Mul", s.at(s.steps.x(1), k), s.number(n)) for k, n in enumerate(x)]
    return Box(bounds, tuple(counts))


@op(
    "Tile",
    *(Trait.MOVES_DATA, Trait.SAME_RANK),
    moved=FIRST,
    shaped=_tile_in_box,
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
