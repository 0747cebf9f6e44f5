"""Convolutions of computed bytes in groups, depthwise ones among them, in int32, as dynamic
quantisation of MobileNet has them (integer_products.py has those of one group).

Weights are stored less their zero points, as int16 if these are no bytes. A window inside the image
is read where it is, another one is copied with the input's zero point around it; what the zero
point makes of a sum is a constant of each channel.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.dtype import of
from mlftool.ir.graph import View
from mlftool.ir.holes import Number
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import geometry, pack_rows, shape_of
from mlftool.ops.scalar import Store, around, read_by
from mlftool.targets.kernels import kernel

MOST_UNROLLED = 25  # taps of a channel alone
MOST_DEPTH = 2**12  # products of a sum, which fits int32 then


@kernel("ConvInteger", needs="", unless="vector")
def groups(v: View) -> Kernel | None:
    """Channel by channel of each pixel."""
    c = shape_of(v)
    w, zero = v.const(1), v.const(3) if v.has(3) else np.zeros(1, np.int8)
    if w is None or zero is None or not w.size or not v.y.elements or c.group == 1:
        return None
    single = not v.has(2) or v.x(2).elements == 1
    if len(c.inputs) > 2 or c.depth > MOST_DEPTH or zero.size not in (1, c.oc) or not single:
        return None
    if not v.x(0).dtype.is_int8 or not v.x(1).dtype.is_int8:
        return None
    weights = c.weights.reshape(c.oc, -1).astype(np.int16) - zero.reshape(-1, 1).astype(np.int16)
    sums, c = weights.sum(axis=1, dtype=np.int32), c.planar()
    if weights.min() >= -128 and weights.max() <= 127:
        weights = weights.astype(np.int8)
    store = Store(v, "total", f"p * {Number(c.oc)} + oc", "oc")
    each_in, each_out = c.ic // c.group, c.oc // c.group
    columns = next(n for n in (4, 3, 2, 1) if each_out % n == 0)
    reach, x = (c.kernel[1] - 1) * c.dilations[1] + 1, v.x(0).dtype
    window = Operand("window", x.c, "scratch", bytes=c.kernel[0] * reach * c.ic)
    constants = {"w": pack_rows(weights, columns).reshape(-1), "sums": sums}
    if not v.has(2):
        del constants["sums"]
    return Kernel(
        "groups.integer_products",
        "integer_groups.c.j2",
        {
            **geometry(c),
            "batch": c.batch,
            "group": Number(c.group),
            "each_in": each_in,
            "each_out": each_out,
            "columns": columns,
            "reach": reach,
            "unrolled": each_in == columns == 1 and c.depth <= MOST_UNROLLED,
            "zero": "xz[0]" if v.has(2) else "",
            "store": store,
        },
        around(
            v,
            *read_by(v, {"xz": 2} if v.has(2) else {}),
            *(Operand(name, of(a).c, "const", array=a) for name, a in constants.items()),
            *store.operands,
            *([window] if c.padded else []),
        ),
        cost=c.macs * 4.0 + c.pixels * (c.oc * 12.0 + 30.0),
        macs=c.macs,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )
