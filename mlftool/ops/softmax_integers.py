"""Softmax from 8 bits to integers, without floats: what a distance from the greatest element is
worth is the product of two entries of small tables, and a line's sum becomes one factor for all its
elements (mlf/softmax.h). Where there are many elements, the products are a table.

An exponential is off by less than 2^-30. In a line of n elements a share, which is one at most, is
off by less than (n + 4) * 2^-30 before it is rounded to steps of the output.

onnxruntime's QLinearSoftmax takes float32 exponentials from a table, and its errors decide where a
share is a tie, such as that of two equal elements. A node with FLOATS does the same where equal
elements can tie: not with the 256 steps that quantisers write.
"""

from __future__ import annotations

import math

import numpy as np

from mlftool.ir.dtype import float32
from mlftool.ir.graph import Array, TensorType, View
from mlftool.ir.operations import times
from mlftool.ops.base import Attributes, Kernel, Known, Operand, Trait, op
from mlftool.ops.scalar import around, literal

NAME = "mlf.QLinearSoftmax"
FLOATS = "mlf.floats"
ONE = 2.0**31  # in the table
STEPS = 2**20  # that one may consist of, at most
FINE = 16  # distances that share an entry of the coarse table
NOTES = {  # of the tables, for comments
    "table": "2^31 * e^-d for an input that is d below the largest",
    "coarse": "2^31 * e^-d for every sixteenth distance d from the largest input",
    "fine": "2^32 * (1 - e^-d) for distances d from 0 to 15",
}
WORDS = 4  # elements for each word of a table of all distances, at least


def fits(attrs: Attributes, x: TensorType, y: TensorType, known: Known) -> bool:
    """Whether distances have a table, and shares are so many steps of the output."""
    x_scale, y_scale = (float(k.item()) for k in (known[1], known[3]) if k is not None)
    finite = 0 < x_scale < math.inf and 1 / STEPS < y_scale <= 1
    return x.dtype.is_int8 and y.dtype.bits <= 16 and x.elements > 0 and finite


def tables(x_scale: float) -> tuple[Array, Array]:
    """e^-d for distances from 0 in units of the input, at each sixteenth up to the first that is
    worth nothing, and what the fifteen after it lack, as a part of it of 32 bits."""
    far = np.exp(np.arange(0, 256, FINE) * -x_scale) * ONE
    coarse: Array = np.floor(far).astype(np.uint32)  # products are cut and so are worth more
    lacks = -np.expm1(np.arange(FINE) * -x_scale) * 2.0**32
    fine: Array = np.minimum(np.rint(lacks), 2.0**32 - 1).astype(np.uint32)
    return coarse[: np.count_nonzero(coarse) + 1], fine


def worths(coarse: Array, fine: Array) -> Array:
    """What all distances are worth, as mlf_softmax_worth has it, up to the first that is worth
    nothing, after which all are."""
    wide = coarse.astype(np.uint64)[:, None]
    worth: Array = (wide - (wide * fine >> np.uint64(32))).astype(np.uint32).ravel()
    return worth[: np.count_nonzero(worth) + 1]


def _steps(y_scale: float) -> tuple[int, int]:
    """1 / y_scale as m * 2^-shift, m of 31 bits. It is whole if half of it is in float32: halves,
    the shares of two equal elements, are ties where the standard's quotient is one."""
    double = 2 * float(np.float32(0.5) / np.float32(y_scale))
    m, exponent = math.frexp(double if double.is_integer() else 1 / y_scale)
    whole = min(round(m * 2**31), 2**31 - 1)
    return whole, 31 - exponent


def _exponentials(x_scale: float, n: int) -> Array:
    """float32 of what distances are worth, up to the first that is worth nothing. onnxruntime's
    greatest is e^-5 of the largest float32, divided by n; times a power of two the rest stays the
    same, and no product with a number of steps overflows, as its own do in lines of one element."""
    room = float(np.log(np.finfo(np.float32).max / np.float32(n))) - 5
    far = (np.arange(0, -256, -1.0) + max(0.0, room) / x_scale) * x_scale
    table: Array = np.ldexp(np.exp(far).astype(np.float32), -24)
    table[table < np.finfo(np.float32).tiny] = 0
    return table[: np.count_nonzero(table) + 1]


def _has_ties(n: int, steps: int) -> bool:
    """Whether some of n elements, if they are equal and worth all, have half a step each: 2 of an
    odd number of steps, 512 of 256."""
    return n >= 2 * (steps & -steps)


# The greatest element, the sum and the shares; and what an exponential is worth.
_ELEMENT = times(load=3, loop=3, whole=7, choose=1, softmax_share=1, clamp_i32=1, store=1)
_WHOLE, _PARTS = times(load=1, min_i32=1), times(softmax_worth=1, min_i32=1)


@op(NAME, Trait.SAME_RANK, Trait.AXIS, reads=(0,), stores=3)
def softmax(v: View) -> Kernel:
    """Inputs are x, its scale and zero point, which has no effect, and those of the output."""
    x_scale, y_scale, zero = (v.known(k).item() for k in (1, 3, 4))
    shape, x = v.x(0).shape, v.core.inputs[0]
    axis = v.attr("axis", -1) % max(1, len(shape))
    n, inner = (shape[axis] if shape else 1), math.prod(shape[axis + 1 :])
    if v.attr("mlf.flattened", 0):  # opset 12 and older: all axes from `axis` are one
        n, inner = n * inner, 1
    low, high = v.y.dtype.range
    place = {"outer": math.prod(shape[:axis]), "n": n, "inner": inner}
    if v.attr(FLOATS, 0) and _has_ties(n, round(1 / y_scale)):
        table = _exponentials(x_scale, n)
        return Kernel(
            "portable.table_softmax",
            "softmax_table.c.j2",
            {
                **place,
                **{"steps": literal(round(1 / y_scale), float32), "last": table.size - 1},
                **{"zero": zero, "low": low, "high": high},
            },
            around(v, Operand("table", "float", "const", array=table), x=x),
            operations=v.y.elements
            * times(load=4, add=1, mul=1, div=1, quantize=1, loop=3, whole=6, choose=1, store=1),
            inplace=(x,) if v.y.dtype.bytes == 1 else (),
        )
    m, shift = _steps(y_scale)
    coarse, fine = tables(x_scale)
    table = worths(coarse, fine)
    whole = table.size <= max(coarse.size + fine.size, v.y.elements // WORDS)
    parts = {"table": table} if whole else {"coarse": coarse, "fine": fine}
    return Kernel(
        "portable.integer_softmax",
        "softmax_integers.c.j2",
        {
            **place,
            **{"m": m, "shift": shift, "zero": zero, "low": low, "high": high},
            **{"last": table.size - 1, "whole": whole},
        },
        around(
            v,
            *(Operand(k, "uint32_t", "const", array=a, note=NOTES[k]) for k, a in parts.items()),
            x=x,
        ),
        operations=v.y.elements * (_ELEMENT + 2 * (_WHOLE if whole else _PARTS))
        + v.y.elements / n * times(softmax_factor=1, whole=4),
        includes=("mlf/softmax.h",),
        inplace=(x,) if v.y.dtype.bytes == 1 else (),
    )
