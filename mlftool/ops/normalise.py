"""Operators that rescale along an axis: Softmax."""

from __future__ import annotations

import math

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.scalar import Load, Store


@op("Softmax", Trait.EPILOGUE, Trait.PROLOGUE)
def softmax(v: View) -> Kernel:
    """exp(x - max) / sum(exp(x - max)) along `axis`; three passes, no scratch.

    The exponentials are computed twice rather than stored: a quantised output has no room for them.
    """
    if v.y.dtype.name != "float32":
        raise UnsupportedError(f"Softmax on {v.y.dtype}; supported: float32 or its QDQ form")
    load, shape = Load(v), v.x(0).shape
    axis = v.attr("axis", -1) % max(1, len(shape))
    outer, n, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    index = f"base + k{f' * {inner}' if inner > 1 else ''}"
    # A per-channel operand is indexed by the last axis, which is `k` or the inner loop's variable.
    store = Store(v, "result", index, "k" if inner == 1 else f"(i % {shape[-1]})")
    return Kernel(
        "portable.softmax",
        "softmax.c.j2",
        {
            "outer": outer,
            "n": n,
            "inner": inner,
            "index": index,
            "load": load.expr(f"x[{index}]"),
            "store": store,
        },
        (
            Operand("x", load.dtype.c, "in", load.tensor),
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
        ),
        cost=outer * n * inner * 80.0,
        includes=("mlf/kernel.h", "mlf/math.h", *store.includes),
        inplace=((load.tensor,) if load.dtype.bytes == v.out.dtype.bytes else ()) + store.inplace,
    )
