"""Operators that rescale along an axis: Softmax and LogSoftmax."""

from __future__ import annotations

import math

from mlftool.ir.dtype import BY_NAME
from mlftool.ir.graph import View
from mlftool.ir.operations import Operations, of_text, times
from mlftool.ir.relay import Rule, Site
from mlftool.onnx_rules.boxes import filling, least
from mlftool.onnx_rules.draft import flattened
from mlftool.ops import folded, softmax_integers
from mlftool.ops.base import ROUNDED, Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.elementwise import Maths
from mlftool.ops.scalar import Load, Store, around, conversions, settle

KEPT = 256  # exponentials that are kept in scratch at most


def _last_axis(extent: int, inner: int, flattened: int) -> str:
    """C index along the last axis: `k` walks the normalised axis, `i` all that lie inside it."""
    if flattened:
        return f"(k % {extent})"
    return "k" if inner == 1 else f"(i % {extent})"


def _relay_softmax(op: str) -> Rule:
    def rule(s: Site) -> str:
        axis, shape = s.axis(-1), s.type().shape
        if not s.attr("mlf.flattened", 0):
            return s.call(op, s.arg(), axis=axis)
        rows = math.prod(shape[:axis])
        flat = s.call("reshape", s.arg(), newshape=[rows, s.type().elements // max(rows, 1)])
        return s.call("reshape", s.call(op, flat, axis=1), newshape=list(shape))

    return rule


TRAITS = (Trait.EPILOGUE, Trait.PROLOGUE, Trait.ROUNDS_STEPS, Trait.SAME_RANK, Trait.AXIS)


FLATTENED = ((13, flattened),)


@op(
    "Softmax",
    *TRAITS,
    older=FLATTENED,
    extents=filling(least),
    relay=_relay_softmax("nn.softmax"),
    constant=folded.softmax,
    quantised=softmax_integers.NAME,
    quantises=softmax_integers.fits,
)
def softmax(v: View) -> Kernel:
    """exp(x - max) / sum(exp(x - max)) along `axis` in three passes. LogSoftmax is
    x - max - log(sum(exp(x - max))).

    Where the axis is long the exponentials are computed twice: a quantised output has no room for
    them, and scratch of that size would count.
    """
    row = v.y.dtype
    if row.name not in ("float32", "float64"):
        raise UnsupportedError(f"{v.core.op} on {row}; supported: floats or its QDQ form")
    m = Maths(row, row)
    # A 16-bit float's own arithmetic rounds each step, and so does the standard's reference.
    steps = BY_NAME[v.attr(ROUNDED, row.name)]
    load, shape = Load(v), v.x(0).shape
    axis = v.attr("axis", -1) % max(1, len(shape))
    outer, n, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    flattened = v.attr("mlf.flattened", 0)  # opset 12 and older: all axes from `axis` are one
    if flattened:
        n, inner = n * inner, 1
    index = f"base + k{f' * {inner}' if inner > 1 else ''}"
    value = load.expr(f"x[{index}]")
    away = settle(steps, f"{value} - top")
    # A per-channel operand is indexed by the last axis, which is `k` or the inner loop's variable.
    store = Store(v, "result", index, _last_axis(shape[-1], inner, flattened))
    exp, log = settle(steps, m.call("exp", away)), v.core.op == "LogSoftmax"
    kept = n <= KEPT and not log
    scratch = (Operand("e", row.c, "scratch", bytes=n * row.bytes),) if kept else ()
    return Kernel(
        "portable.softmax",
        "softmax.c.j2",
        {
            "outer": outer,
            "n": n,
            "inner": inner,
            "index": index,
            "load": value,
            "type": row.c,
            "away": away,
            "exp": exp,
            "kept": kept,
            "sum": settle(steps, "sum"),
            "log": settle(steps, m.call("log", "sum")) if log else "",
            "store": store,
        },
        (*around(v, *store.operands, x=load.tensor), *scratch),
        operations=outer * inner * _of_line(n, (1 if kept or log else 2) * of_text(exp, row), log),
        includes=(
            "mlf/kernel.h",
            "mlf/math.h" if log or row.bits == 64 else "mlf/exp.h",
            *conversions(steps),
            *load.includes,
            *store.includes,
        ),
        inplace=((load.tensor,) if load.dtype.bytes == v.out.dtype.bytes else ()) + store.inplace,
    )


def _of_line(n: int, powers: Operations, log: bool) -> Operations:
    """Of n elements along the axis, each with its exponentials."""
    passes = powers + times(load=2, less=1, choose=1, loop=3, add=1, store=2, whole=3)
    return n * passes + times(log=1) if log else n * (passes + times(div=1))


op(
    "LogSoftmax",
    *TRAITS,
    older=FLATTENED,
    extents=filling(least),
    relay=_relay_softmax("nn.log_softmax"),
    constant=folded.log_softmax,
)(softmax)
