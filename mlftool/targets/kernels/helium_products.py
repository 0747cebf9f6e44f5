"""Products of two computed int8 matrices with Helium, such as attention's.

Some columns of the right matrix at a time are turned and packed as constant weights are
(helium.py), so two rows and four columns share their loads. What zero points take from a column is
known when it has been turned, what they take from a row is the sum of its bytes.
"""

from __future__ import annotations

import math

import numpy as np

from mlftool.ir.dtype import float32
from mlftool.ir.graph import View
from mlftool.ir.holes import Number
from mlftool.ops.base import STACK_LIMIT_BYTES, Kernel, Operand
from mlftool.ops.matmul import one_scale, one_zero_point, product
from mlftool.ops.scalar import number
from mlftool.targets.kernels import PRODUCTS, kernel
from mlftool.targets.kernels.helium import VECTOR
from mlftool.targets.kernels.helium_finish import limit, scaled
from mlftool.targets.kernels.parts import after_core

READ = ("loops", "rows", "columns", "depth", "a_from", "b_from", "b_step", "y")  # of `product`


@kernel(*PRODUCTS, needs="mve")
def products(v: View) -> Kernel | None:
    a, b, scale = one_zero_point(v, 2), one_zero_point(v, 5), one_scale(v)
    signed = v.x(0).dtype.name == v.x(3).dtype.name == "int8" and v.y.dtype.is_int8
    if a is None or b is None or scale is None or not signed or after_core(v):
        return None
    depth, normal = v.x(0).shape[-1], np.finfo(np.float32).tiny <= scale < np.inf
    if depth < 4 or not normal or depth * 255 * 255 >= 2**30:
        return None
    made = product(v, "products", float32, "", "", "", {}, at=3)
    p = made.params
    rows, columns, batch = p["rows"], p["columns"], math.prod(n for _, n in p["loops"])
    groups = -(-depth // VECTOR)
    room = max(4, STACK_LIMIT_BYTES // (groups * VECTOR) // 4 * 4)
    width = min(room, -(-columns // 4) * 4)
    low, high = v.attr("activation", v.y.dtype.range)
    zero = Number(v.known(7).item())
    quad = f"mlf_floats_all({number(scale, float32)})"
    whole = v.y.dtype.name != "int8"
    out = limit(scaled(f"{quad}, {quad}", zero, depth * 255 * 255 * float(scale)), low, high, whole)
    gathered = depth % VECTOR > 0 or rows % 2 > 0
    pair = Operand("pair", "int8_t", "scratch", bytes=2 * groups * VECTOR)
    turns, blocks = -(-rows // 2) * -(-columns // 4), -(-columns // width)
    cost = columns * depth * 5.0 + turns * (14.0 * groups + 36)
    cost += blocks * rows * (8.0 * groups + 20)
    return Kernel(
        "helium.products",
        "helium_products.c.j2",
        {
            **{
                k: p[k] for k in ("loops", "rows", "columns", "depth", "a_from", "b_from", "b_step")
            },
            "y": p["y"],
            "groups": groups,
            "width": width,
            "gathered": gathered,
            "a_zero": Number(a),
            "b_zero": Number(b),
            "both": Number(a * b * depth),
            "out": out,
        },
        (
            *made.operands,
            Operand("panel", "int8_t", "scratch", bytes=width * groups * VECTOR),
            Operand("base", "int32_t", "scratch", bytes=4 * width),
            *([pair] if gathered else []),
        ),
        cost=batch * cost,
        macs=made.macs,
        includes=("mlf/kernel.h", "mlf/mve.h"),
    )
