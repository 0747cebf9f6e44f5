"""Products of two computed int8 matrices, such as attention's, on processors without vectors.

Some columns of the right matrix at a time are turned, widened and freed of their zero point in
scratch, so their values follow each other and are shared by the rows. What the left zero point
takes from a column is known when it has been turned. With the ARMv7E-M DSP instructions every four
values of two rows cost two loads and four SXTB16, and eight SMLAD do the sixteen products.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import int32
from mlftool.ir.graph import View
from mlftool.ir.holes import Number
from mlftool.ir.operations import NOTHING
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.matmul import one_scale, one_zero_point, product, requantised
from mlftool.targets.kernels import PRODUCTS, kernel
from mlftool.targets.requantise.fixed import of_sums


@frozen
class Shape:
    """How a core computes: rows and columns at a time, whether four values at a time are widened
    and multiplied in pairs; instructions of a product, of an output, of a turned value."""

    name: str
    height: int
    width: int
    simd: bool
    costs: tuple[float, float, float]
    header: str


DSP = Shape("dsp.products", 2, 2, True, (1.3, 20.0, 5.0), "mlf/dsp.h")
PLAIN = Shape("turned.products", 2, 2, False, (2.6, 16.0, 7.0), "mlf/tiles.h")
NARROW = Shape("turned.products", 1, 4, False, (7.0, 40.0, 9.0), "mlf/tiles.h")
MANY = Shape("turned.products", 2, 4, False, (3.0, 16.0, 7.0), "mlf/tiles.h")


@kernel(*PRODUCTS, needs="dsp")
def products(v: View) -> Kernel | None:
    largest = _largest(v)
    if largest is None or v.x(0).shape[-1] < 4:
        return None
    scale = one_scale(v)
    # Only below 2^22 is a sum's rounding exact before the limits.
    exact = scale is not None and largest * abs(float(scale)) < 2**22 - 1
    return _turned(v, DSP, requantised(v, "mlf_requantize" if exact else "mlf_requantize_wide"))


@kernel(*PRODUCTS, needs="", unless="fpu size registers narrow")
def plain(v: View) -> Kernel | None:
    return _in_integers(v, PLAIN)


@kernel(*PRODUCTS, needs="narrow", unless="fpu size")
def narrow(v: View) -> Kernel | None:
    return _in_integers(v, NARROW)


@kernel(*PRODUCTS, needs="registers", unless="fpu size")
def many(v: View) -> Kernel | None:
    return _in_integers(v, MANY)


def _in_integers(v: View, shape: Shape) -> Kernel | None:
    finish = _largest(v) and integer_finish(v)
    return _turned(v, shape, finish) if finish else None


def integer_finish(v: View) -> str | None:
    """C text of an output of sum `acc` by one multiplication, which needs mlf/tiles.h; None where
    scale or zero points are not known, and where there is no such."""
    zeros, scale = (one_zero_point(v, 2), one_zero_point(v, 5)), one_scale(v)
    if None in zeros or scale is None or not v.y.dtype.is_int8:
        return None
    ends = [np.array(v.x(i).dtype.range) - z for i, z in zip((0, 3), zeros, strict=True)]
    sums = np.multiply.outer(*ends).astype(np.int64) * v.x(0).shape[-1]
    extremes = (sums.min(keepdims=True)[0], sums.max(keepdims=True)[0])
    limits = v.attr("activation", v.y.dtype.range)
    fix = of_sums(v, np.array([scale], np.float64), extremes, v.known(7).item(), limits)
    return fix.literal("acc") if fix else None


def _largest(v: View) -> int | None:
    """Of a sum of bytes whose zero points are known, and of what these make of it on the way; None
    if it leaves int32."""
    bytes_ = v.x(0).dtype.is_int8 and v.x(3).dtype.is_int8 and v.y.dtype.is_int8
    if None in (one_zero_point(v, 2), one_zero_point(v, 5), one_scale(v)) or not bytes_:
        return None
    largest = 2 * v.x(0).shape[-1] * 255 * 255
    return largest if largest < 2**31 else None


def _turned(v: View, shape: Shape, finish: str) -> Kernel:
    a, b = one_zero_point(v, 2) or 0, one_zero_point(v, 5) or 0
    made = product(v, "products", int32, "", "", f"({v.y.dtype.c}){finish}", {}, at=3)
    depth = v.x(0).shape[-1]
    unsigned = shape.simd and v.x(0).dtype.name == "uint8"
    panel = Operand("panel", "int16_t", "scratch", bytes=2 * shape.width * depth)
    outputs = made.macs // depth
    turned = made.macs // int(made.params["rows"])
    work = zip(shape.costs, (made.macs, outputs, turned), strict=True)
    return replace(
        made,
        name=shape.name,
        template="turned_products.c.j2",
        params={
            **made.params,
            "height": shape.height,
            "width": shape.width,
            "simd": shape.simd,
            "a_zero": Number(a - 128 if unsigned else a),
            "less_b": f"+ {Number(-b)}" if b < 0 else f"- {Number(b)}",
            "flip": " ^ 0x80808080u" if unsigned else "",
        },
        operands=(*made.operands, panel),
        cost=sum(each * n for each, n in work),
        operations=NOTHING,
        includes=(*made.includes, shape.header),
    )
