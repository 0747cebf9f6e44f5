"""Sums of quantised tensors: products of matrices, reductions and pools.

They are the loops of mlftool/ops with another end: `factor` is what Rounding.factors makes of the
scales, and what a sum is multiplied by.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mlftool.ir.dtype import int32, int64
from mlftool.ir.graph import View
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Contracts, Kernel, Layout, Trait, UnsupportedError, op
from mlftool.ops.matmul import product
from mlftool.ops.reduce import nest, reduced_axes
from mlftool.ops.scalar import literal
from mlftool.ops.window import divisor_of, pool


def stored(v: View, rounding: Rounding, total: str) -> str:
    """C text of what is stored for a sum."""
    low, high = v.y.dtype.range
    numbers = f"{literal(v.attr('factor'), int64)}, {v.attr('after')}, {low}, {high}"
    return f"({v.y.dtype.c}){rounding.function}({total}, {numbers})"


def _fits(count: int, each: int, more: int = 0) -> None:
    """Raises UnsupportedError where `count` numbers of at most `each` and `more` leave int32."""
    if count * each + more >= 2**31:
        raise UnsupportedError(f"sums of {count} numbers up to {each}, which 32 bits do not hold")


def _twice(kernel: Kernel) -> Kernel:
    return replace(kernel, includes=(*kernel.includes, *Rounding.TWICE.includes))


def _less(element: str, zero: int, row: str) -> str:
    return f"(({row}){element} - ({zero}))" if zero else f"({row}){element}"


@op("mlf.MatMulFixed", Trait.EPILOGUE, contracts=Contracts(Layout.MATRICES))
def products(v: View) -> Kernel:
    """The product of two tensors, in batches that broadcast; `zeros` are their zero points."""
    rounding = Rounding.of(v.core)
    row = int32 if rounding is Rounding.TWICE else int64
    if row is int32:
        _fits(v.x(0).shape[-1], 255**2)
    a, b = (_less(e, z, row.c) for e, z in zip(("x[ai]", "w[bi]"), v.attr("zeros"), strict=True))
    return product(v, "matmul_fixed", row, a, b, stored(v, rounding, "acc"), {})


@op("mlf.ReduceFixed")
def reduced(v: View) -> Kernel:
    """A sum along the axes that input 1 names, less `before`, the zero points; a mean has another
    factor."""
    axes = reduced_axes(v)
    if axes is None:
        raise UnsupportedError("sums along computed axes; supported: known axes")
    count = v.x(0).elements // max(1, v.y.elements)
    _fits(count, max(map(abs, v.x(0).dtype.range)), abs(v.attr("before") or 0))
    total = f"(acc - {literal(v.attr('before'), int32)})" if v.attr("before") else "acc"

    def texts(index: str, count: str) -> dict[str, str]:
        return {
            "type": "int32_t",
            "start": "0",
            "value": f"x[{index}]",
            "step": "acc + value",
            "finish": stored(v, Rounding.TWICE, total),
        }

    return _twice(nest(v, axes, int32, texts))


@op("mlf.AveragePoolFixed", Trait.SPATIAL, Trait.EPILOGUE)
def average(v: View) -> Kernel:
    """The mean of each window, halves away from zero; input and output have one zero point, so it
    plays no part."""
    low, high = v.attr("activation")
    count = math.prod(v.attr("kernel_shape"))
    _fits(count, max(map(abs, v.x(0).dtype.range)), count)
    divisor = divisor_of(v)
    mean = f"mlf_clamp_i32(mlf_mean_away(acc, {divisor}), {low}, {high})"
    name, finish = "portable.average_pool_fixed", f"({v.y.dtype.c}){mean}"
    made = pool(v, name, "0", "acc + value", finish, "int32_t", counts=(divisor,))
    return _twice(made)
