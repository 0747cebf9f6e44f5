"""Operators that rescale rows of a tensor by a statistic of each: layer, instance, group and RMS
normalisation; LRN; and BatchNormalization, whose rows are not contiguous.

A row is `n` elements that lie together. With `centre` its mean is taken off first. The squares of
what is left are added up, `factor` makes one number of that sum, and every element is multiplied by
it, then by its scale, and its bias is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import DType
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.operations import NOTHING, Operations, of_text, times
from mlftool.ir.relay import Site
from mlftool.onnx_rules.boxes import OF_BATCHES, OF_ROWS, as_it_is, each_alone
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.steps import Steps
from mlftool.ops import folded, standardise_integers
from mlftool.ops.base import (
    Affine,
    Attributes,
    Facts,
    Kernel,
    Known,
    Operand,
    Trait,
    UnsupportedError,
    expands,
    op,
    shown,
)
from mlftool.ops.elementwise import Maths, broadcast_strides
from mlftool.ops.plain import float_of, maths, plain_kernel
from mlftool.ops.scalar import Load, Store, around, read_by

BLOCK = 256  # of elements whose sum is added to the row's, as contractions do


@frozen
class Rows:
    """How a tensor falls into rows."""

    outer: int
    n: int

    index = "base + k"


def _standard(m: Maths, rows: Rows, epsilon: float) -> str:
    """One over the standard deviation, or over the root of the mean square."""
    return f"{m.lit(1)} / {m.root(f'sum / {m.lit(rows.n)} + {m.lit(epsilon)}')}"


def _rows(v: View, rows: Rows, centre: bool, factor: str, places: list[str]) -> Kernel:
    """`places` has the C indices of scale and bias, for as many of them as there are."""
    load, m = Load(v), maths(v)
    float_of(v, m.dtype)
    store = Store(v, "result", rows.index, f"({rows.index}) % {v.y.shape[-1]}")
    reads = {name: k for k, name in enumerate(["scale", "bias"][: len(places)], 1)}
    extra = dict(zip(("means", "factors"), v.core.outputs[1:], strict=False))
    kinds = {n: v.type(t).dtype.c for n, t in extra.items() if t}  # floats, also of doubles
    result = "(value - mean) * factor" if centre else "value * factor"
    if places:
        result = f"{result} * scale[{places[0]}]"
    if len(places) > 1:
        result = f"{result} + bias[{places[1]}]"
    shrinks = load.dtype.bytes == v.out.dtype.bytes and not kinds
    return Kernel(
        "portable.standardise",
        "standardise.c.j2",
        {
            "rows": rows,
            "block": BLOCK if rows.n > BLOCK else 0,
            "centre": centre,
            "load": load.expr(f"x[{rows.index}]"),
            "factor": factor,
            "result": result,
            "store": store,
            "floating": m.dtype.c,
            "zero": m.lit(0),
            "count": m.lit(rows.n),
            "statistics": {n: "" if c == m.dtype.c else f"({c})" for n, c in kinds.items()},
        },
        (
            *around(v, *read_by(v, reads), *store.operands, x=load.tensor),
            *(Operand(n, c, "out", extra[n]) for n, c in kinds.items()),
        ),
        operations=v.y.elements * _of_element(result, m.dtype, centre)
        + rows.outer * (of_text(factor, m.dtype) + times(div=1, whole=4)),
        includes=("mlf/kernel.h", "mlf/math.h", *load.includes, *store.includes),
        inplace=((load.tensor,) if shrinks else ()) + store.inplace,
    )


def _of_element(result: str, row: DType, centre: bool) -> Operations:
    """A pass for the mean, one for the squares and one for the result."""
    passes = 3 if centre else 2
    sums = of_text("sum += (x[k] - mean) * (x[k] - mean)", row)
    made = sums + of_text(result, row) + times(load=1, loop=passes, store=1, whole=1)
    return made + (of_text("total += x[k]", row) + of_text("x - mean", row) if centre else NOTHING)


def _layer(v: View, centre: bool) -> Kernel:
    shape = v.x(0).shape
    axis = v.attr("axis", -1) % len(shape)
    rows = Rows(math.prod(shape[:axis]), math.prod(shape[axis:]))
    places = [_place(v, k, axis, rows) for k in (1, 2) if v.has(k)]
    return _rows(v, rows, centre, _standard(maths(v), rows, v.attr("epsilon", 1e-5)), places)


def _place(v: View, i: int, axis: int, rows: Rows) -> str:
    """The index of the element of parameter `i` for element k of a row."""
    shape, own = v.x(0).shape, v.x(i).shape
    if own == shape[axis:]:
        return "k"
    strides = broadcast_strides(own, shape)
    terms = [
        f"({rows.index}) / {math.prod(shape[a + 1 :])} % {shape[a]} * {s}"
        for a, s in enumerate(strides)
        if s
    ]
    return " + ".join(terms) or "0"


def _relay_batch_norm(s: Site) -> str | None:
    if len(s.node.outputs) > 1:
        return None
    y = s.call("nn.batch_norm", *s.args(), epsilon=float(s.attr("epsilon", 1e-5)))
    return f"{y}.0"


def _relay_layer_norm(s: Site) -> str | None:
    if s.axis(-1) != s.rank - 1 or len(s.node.outputs) > 1:
        return None
    # Relay ignores beta where `center` is false, but has the operand.
    said: dict[str, Any] = {"axis": s.rank - 1, "epsilon": float(s.attr("epsilon", 1e-5))}
    if s.has(2):
        return s.call("nn.layer_norm", *s.args(), **said)
    return s.call("nn.layer_norm", s.arg(0), s.arg(1), s.arg(1), **said, center=False)


def _relay_lrn(s: Site) -> str:
    given = {n: float(s.attr(n, d)) for n, d in (("bias", 1.0), ("alpha", 1e-4), ("beta", 0.75))}
    return s.call("nn.lrn", s.arg(), size=s.attr("size", 1), axis=1, **given)


@expands("MeanVarianceNormalization", traits=(Trait.EARLY,), extents=as_it_is)
def _mean_variance(s: Steps) -> None:
    """As onnxruntime: the standard's difference of mean squares cancels."""
    axes = s.const(s.attrs.get("axes", [0, 2, 3]), np.int64)
    off = s("Sub", s.x(0), s("ReduceMean", s.x(0), axes))
    deviation = s("Sqrt", s("ReduceMean", s("Mul", off, off), axes))
    s("Div", off, s("Add", deviation, s("CastLike", s.const(1e-9), s.x(0))), out=0)


def _broadcasting(f: Facts) -> str:
    """Scale and bias broadcast to the input, and do not widen it."""
    for type_ in f.inputs[1:3]:
        own = f.x if type_ is None else type_.shape
        tail = f.x[len(f.x) - len(own) :]
        if len(own) > len(f.x) or any(n not in (1, m) for n, m in zip(own, tail, strict=True)):
            return f"an input of shape {shown(own)} does not broadcast to {shown(f.x)}"
    return ""


def _from_an_axis(f: Facts) -> str:
    rank, axis = len(f.x), f.attrs.get("axis", -1)
    return "" if -rank <= axis < rank else f"axis {axis} of {shown(f.x)}"


@op(
    "LayerNormalization",
    *(Trait.EPILOGUE, Trait.PROLOGUE, Trait.EARLY),
    extents=OF_ROWS,
    relay=_relay_layer_norm,
    checks=(_from_an_axis, _broadcasting),
    constant=folded.layer_normalization,
    quantised=standardise_integers.NAME,
    quantises=standardise_integers.fits,
)
def layer_normalisation(v: View) -> Kernel:
    """Rows are all axes from `axis` on; their means and factors may be outputs."""
    return _layer(v, True)


@op(
    "RMSNormalization",
    *(Trait.EPILOGUE, Trait.PROLOGUE),
    extents=OF_ROWS,
    checks=(_from_an_axis, _broadcasting),
)
def rms_normalisation(v: View) -> Kernel:
    """Like layer normalisation, but nothing is taken off."""
    return _layer(v, False)


def _grouped(v: View, groups: int) -> Kernel:
    shape = v.x(0).shape
    channels, spatial = shape[1] // groups, math.prod(shape[2:])
    rows = Rows(shape[0] * groups, channels * spatial)
    channel = f"o % {groups}" if channels == 1 else f"(o % {groups} * {channels} + k / {spatial})"
    by = ["o % " + str(groups) if v.x(i).elements == groups else channel for i in (1, 2)]
    factor = _standard(maths(v), rows, v.attr("epsilon", 1e-5))
    return _rows(v, rows, True, factor, by)


def _channels(f: Facts) -> str:
    """Scale and bias are vectors of an element for each channel, or for each group. Groups of
    channels need no extents in space, as in onnxruntime; without groups, one element would be a
    row."""
    least = 2 if "num_groups" in f.attrs else 3
    if len(f.x) < least:
        return f"an input of shape {shown(f.x)}; expected {least} axes or more"
    for type_ in f.inputs[1:3]:
        if type_ is not None and len(type_.shape) != 1:
            return f"an input of shape {shown(type_.shape)}; expected 1 axis"
    groups = f.attrs.get("num_groups", f.x[1])
    if "num_groups" in f.attrs and (groups < 1 or f.x[1] % groups):
        return f"num_groups {groups}; expected a divisor of {f.x[1]} channels"
    for type_ in f.inputs[1:3]:
        if type_ is not None and type_.shape[0] not in (groups, f.x[1]):
            return f"an input of shape {shown(type_.shape)} for {f.x[1]} channels"
    return ""


@op(
    "InstanceNormalization",
    *(Trait.EPILOGUE, Trait.PROLOGUE),
    extents=OF_BATCHES,
    relay=lambda s: s.call("nn.instance_norm", *s.args(), epsilon=float(s.attr("epsilon", 1e-5))),
    checks=(_channels,),
)
def instance_normalisation(v: View) -> Kernel:
    """A row is a channel of an image."""
    return _grouped(v, v.x(0).shape[1])


@op(
    "GroupNormalization",
    *(Trait.KEPT, Trait.EPILOGUE, Trait.PROLOGUE, Trait.LIKE_FIRST),
    extents=OF_BATCHES,
    checks=(_channels,),
)
def group_normalisation(v: View) -> Kernel:
    """A row is a group of channels; before opset 21 scale and bias were per group."""
    return _grouped(v, v.attr("num_groups"))


def _has_channels(f: Facts) -> str:
    if len(f.x) < 2:
        return f"an input of shape {shown(f.x)}; expected a second axis"
    size = f.attrs.get("size", 1)
    return "" if size > 0 else f"a sum over {size} channels; expected 1 at least"


@op(
    "LRN",
    *(Trait.KEPT, Trait.SPATIAL),
    extents=OF_BATCHES,
    relay=_relay_lrn,
    checks=(_has_channels,),
)
def local_response(v: View) -> Kernel:
    """Each element by a power of the squares of its neighbours among the channels."""
    row, channels = float_of(v, v.y.dtype), v.y.shape[-1]
    m, size = Maths(row, row), v.attr("size")
    base = f"{m.lit(v.attr('bias', 1.0))} + {m.lit(v.attr('alpha', 1e-4) / size)} * sum"
    return plain_kernel(
        v,
        "lrn",
        {
            "pixels": v.y.elements // channels,
            "channels": channels,
            "before": (size - 1) // 2,
            "after": size // 2,
            "floating": row.c,
            "zero": m.lit(0),
            "power": m.call("pow", base, m.lit(v.attr("beta", 0.75))),
        },
        operations=v.y.elements
        * (of_text(m.call("pow", base, ""), row) + size * of_text("sum += x[k] * x[k]", row))
        + v.y.elements * (times(load=1, div=1, store=1, loop=size + 1, whole=10)),
        includes=("mlf/math.h",),
    )


def _affine(known: Known, attrs: Attributes) -> Affine:
    """One of each for every channel."""
    if attrs.get("training_mode", 0) or any(k is None for k in known[1:5]):
        return None
    scale, offset, mean, variance = (k for k in known[1:5] if k is not None)
    with np.errstate(all="ignore"):  # of a variance below zero
        factor = scale / np.sqrt(variance + attrs.get("epsilon", 1e-5))
        return factor, offset - mean * factor


def _fits(f: Facts) -> str:
    x = f.shape(0)
    shapes = [f.shape(i) for i in range(1, 5)]
    per_element = not f.attrs.get("spatial", 1) and x is not None and len(x) > 1
    wanted = None if x is None else x[1:] if per_element and shapes[0] == x[1:] else x[1:2]
    if x is None or len(x) < 2 or any(s != wanted for s in shapes):
        return f"input {shown(x)} does not fit parameters {', '.join(map(shown, shapes))}"
    return ""


def _of_channels(e: Editor, node: Node) -> None:
    """Parameters of every element, as spatial=0 meant before opset 9, become those of as many
    channels."""
    x, shape = e.types[node.inputs[0]], e.types[node.inputs[1]].shape
    if len(shape) < 2:
        return
    flat, views = (x.shape[0], math.prod(shape)), []
    for name, wanted in zip(node.inputs, (flat, *[flat[1:]] * 4), strict=True):
        view = e.fresh(name + ".flat", TensorType(e.types[name].dtype, wanted))
        views.append(e.add("Reshape", (name,), node, view))
    out = e.fresh(node.outputs[0] + ".flat", TensorType(x.dtype, flat))
    core = replace(node, inputs=tuple(v.outputs[0] for v in views), outputs=(out,))
    e.substitute([node], [*views, core, e.add("Reshape", (out,), node, node.outputs[0])])


def _not_of_channels(node: NodeProto, rank: int) -> Sequence[int]:
    """Statistics that are given are of channels; those of the batch itself are of all."""
    return () if attributes(node).get("training_mode") else (0, *range(2, rank))


@op(
    "BatchNormalization",
    extents=each_alone(_not_of_channels),
    affine=_affine,
    canonical=_of_channels,
    checks=(_fits,),
    relay=_relay_batch_norm,
)
def batch_normalisation(v: View) -> Kernel:
    """Parameters known only at run time, or statistics of the batch itself, in training."""
    training = bool(v.attr("training_mode", 0))
    if len(v.core.outputs) > 1 and not training:
        raise UnsupportedError("outputs after the first; supported: those of training_mode 1")
    rows = [v.x(i).dtype for i in range(5)]
    if len({float_of(v, row).name for row in rows}) > 1:
        raise UnsupportedError("parameters of another type; supported: the type of the input")
    shape, m = v.x(0).shape, maths(v)
    spatial, momentum = math.prod(shape[2:]), v.attr("momentum", float(np.float32(0.9)))
    return plain_kernel(
        v,
        "batchnorm",
        {
            "batch": shape[0],
            "channels": shape[1],
            "spatial": spatial,
            "training": training,
            "floating": rows[0].c,
            "zero": m.lit(0),
            "count": m.lit(shape[0] * spatial),
            "kept": m.lit(momentum),
            "taken": m.lit(1 - momentum),
            "root": m.root(f"variance + {m.lit(v.attr('epsilon', 1e-5))}"),
        },
        includes=("mlf/root.h",),
    )
