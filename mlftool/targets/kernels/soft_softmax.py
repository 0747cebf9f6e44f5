"""Softmax from 8 bits to 8 bits for processors without FPU: the operations of the float form, one
by one, in integers (mlf/soft.h)."""

from __future__ import annotations

import math

from mlftool.ir.dtype import float32
from mlftool.ir.graph import Node, View
from mlftool.ops.base import ROUNDED, Kernel, Operand, Trait, is_a
from mlftool.ops.scalar import around, literal
from mlftool.targets.kernels import kernel


def _constants(v: View, node: Node) -> tuple[float, int] | None:
    """Scale and zero point of a quantiser, if each is one number."""
    values = [v.graph.consts.get(name) for name in node.inputs[1:] if name]
    if any(value is None or value.size != 1 for value in values):
        return None
    scale, *zero = (value.item() for value in values if value is not None)
    return scale, int(zero[0]) if zero else 0


@kernel("Softmax", needs="", unless="fpu", replaces_portable=True)
def soft_softmax(v: View) -> Kernel | None:
    body = v.node.body
    ends = len(body) == 3 and v.core is body[1]
    if not ends or not is_a(body[0], Trait.DEQUANTISER) or not is_a(body[2], Trait.QUANTISER):
        return None
    (x,), shape = body[0].inputs[:1], v.x(0).shape
    read, written = _constants(v, body[0]), _constants(v, body[2])
    in_bytes = v.type(x).dtype.is_int8 and v.out.dtype.is_int8 and v.y.dtype == float32
    if not read or not written or not in_bytes or v.attr("mlf.flattened", 0) or v.attr(ROUNDED):
        return None
    if not (0 < read[0] < 1e30 and 1e-30 < written[0] < 1e30):  # no infinity on the way
        return None
    axis = v.attr("axis", -1) % max(1, len(shape))
    n, inner = shape[axis], math.prod(shape[axis + 1 :])
    lo, hi = v.out.dtype.range
    return Kernel(
        "integers.softmax",
        "soft_softmax.c.j2",
        {
            "outer": math.prod(shape[:axis]),
            "n": n,
            "inner": inner,
            "least": v.type(x).dtype.range[0],
            "minus": f" - {literal(read[1], v.type(x).dtype)}" if read[1] else "",
            "scale": literal(read[0], float32),
            "y_scale": literal(written[0], float32),
            "zero": written[1],
            "lo": lo,
            "hi": hi,
        },
        around(v, Operand("e", "float", "scratch", bytes=4 * n), x=x),
        cost=v.y.elements * 3000.0,
        includes=("mlf/soft.h",),
        inplace=(x,),
    )
