"""Products of two computed int8 matrices with the ARMv7E-M DSP instructions, such as attention's.

Two columns of the right matrix at a time are turned, widened and freed of their zero point in
scratch. Then every four values of two rows cost two loads and four SXTB16, and eight SMLAD do the
sixteen products. What the left zero point takes from a column is known when it has been turned.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.dtype import float32, int32
from mlftool.ir.graph import View
from mlftool.ir.holes import Number
from mlftool.ir.operations import NOTHING
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.matmul import one_scale, product
from mlftool.ops.scalar import number
from mlftool.targets.kernels import PRODUCTS, kernel

_WIDTH = 2  # columns in scratch


def zero_point(v: View, i: int) -> int | None:
    """None where it is not one number that is known."""
    if not v.has(i):
        return 0
    value = v.const(i)
    return int(value.item()) if value is not None and value.size == 1 else None


@kernel(*PRODUCTS, needs="dsp")
def products(v: View) -> Kernel | None:
    a, b, scale = zero_point(v, 2), zero_point(v, 5), one_scale(v)
    bytes_ = v.x(0).dtype.is_int8 and v.x(3).dtype.is_int8 and v.y.dtype.is_int8
    if a is None or b is None or scale is None or not bytes_:
        return None
    depth = v.x(0).shape[-1]
    if depth < 4:
        return None
    largest = 2 * depth * 255 * 255  # of a sum, and of what zero points make of it on the way
    if largest >= 2**31:
        return None
    # Only below 2^22 is a sum's rounding exact before the limits.
    exact = largest * float(scale) < 2**22 - 1
    limits = ", ".join(f"{Number(n)}" for n in v.attr("activation", v.y.dtype.range))
    numbers = f"{number(scale, float32)}, {Number(v.known(7).item())}, {limits}"
    name = "mlf_requantize" if exact else "mlf_requantize_wide"
    finish = f"({v.y.dtype.c}){name}(acc, {numbers})"
    made = product(v, "products", int32, "", "", finish, {}, at=3)
    unsigned = v.x(0).dtype.name == "uint8"
    panel = Operand("panel", "int16_t", "scratch", bytes=2 * _WIDTH * depth)
    outputs = made.macs // depth
    turned = made.macs // int(made.params["rows"])
    return replace(
        made,
        name="dsp.products",
        template="dsp_products.c.j2",
        params={
            **made.params,
            "width": _WIDTH,
            "a_zero": Number(a - 128 if unsigned else a),
            "less_b": f"+ {Number(-b)}" if b < 0 else f"- {Number(b)}",
            "flip": " ^ 0x80808080u" if unsigned else "",
        },
        operands=(*made.operands, panel),
        cost=made.macs * 1.3 + outputs * 20.0 + turned * 5.0,
        operations=NOTHING,
        includes=(*made.includes, "mlf/dsp.h"),
    )
