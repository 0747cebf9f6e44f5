"""Operators that make elements from few numbers, or read the same bytes as another type."""

from __future__ import annotations

from mlftool.ir.dtype import float32
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, UnsupportedError, old, op
from mlftool.ops.scalar import conversions, fetch, put, settle, tensor_operand

old("Constant")


@op("Range")
def range_(v: View) -> Kernel:
    """start + i * delta. The count is known from the output's shape, so the limit is not read."""
    row = v.y.dtype
    start, delta = (fetch(row, name, "0") for name in ("start", "delta"))
    if row.is_float:
        kind = float32.c if row.codec else row.c
        text = settle(row, f"{start} + ({kind})i0 * {delta}")
    else:
        wide = "uint64_t" if row.bits == 64 else "uint32_t"  # wraps around
        text = f"({row.c})(({wide}){start} + ({wide})i0 * ({wide}){delta})"
    return Kernel(
        "portable.range",
        "elementwise.c.j2",
        {
            "loops": [("i0", v.y.elements)],
            "statements": [f"const {row.value_c} value = {text};"],
            "store": put(row, "y", "i0", "value"),
        },
        (
            tensor_operand(v.graph, "start", v.core.inputs[0]),
            tensor_operand(v.graph, "delta", v.core.inputs[2]),
            Operand("y", row.c, "out", v.node.outputs[0]),
        ),
        cost=v.y.elements * 5.0,
        includes=("mlf/kernel.h", *conversions(row)),
    )


@op("BitCast")
def bit_cast(v: View) -> Kernel:
    """The input's bytes under another type of the same size."""
    x, y = v.x(0), v.y
    if x.dtype.bits != y.dtype.bits:
        raise UnsupportedError(f"BitCast of {x.dtype} to {y.dtype}; supported: types of one size")
    return Kernel(
        "portable.bitcast",
        "bitcast.c.j2",
        {"bytes": y.bytes},
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("y", y.dtype.c, "out", v.node.outputs[0]),
        ),
        cost=y.bytes / 4,
    )
