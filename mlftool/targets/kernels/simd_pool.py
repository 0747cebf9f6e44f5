"""Means of int8 windows in vectors of eight channels, for AVX2 and more.

The portable loop takes one channel after the other, each with its whole window, in bytes that are
far apart.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.scalar import literal
from mlftool.ops.window import averages, constant_factor
from mlftool.targets.kernels import kernel

LANES = 8


@kernel("com.microsoft.QLinearAveragePool", needs="avx2")
def means(v: View) -> Kernel | None:
    """Of windows that are inside the input, and whose elements need no conversion."""
    if constant_factor(v) is None or v.x(0).dtype.name != "int8":
        return None
    made = averages(v, "mlf_requantize_wide")
    if made.params["padded"] or made.params["channels"] % LANES:
        return None
    return replace(
        made,
        name="avx2.average",
        template="simd_pool.c.j2",
        params={**made.params, "vector": _vector(v)},
        cost=made.cost / LANES,
        includes=(*made.includes, "mlf/simd.h"),
    )


def _vector(v: View) -> dict[str, Any] | None:
    """How the sums of a vector are requantised together: the addend, then the factor.
    None if something follows, or if a product may be 2^22, from where rounding is not exact."""
    factor, area = constant_factor(v), math.prod(v.attr("kernel_shape"))
    assert factor is not None
    if v.node.body or v.y.dtype.name != "int8" or area * 255 * float(factor) >= 2**22 - 1:
        return None
    return {
        "add": -area * int(v.known(2).item()),
        "factor": literal(np.float32(factor), v.type(v.core.inputs[1]).dtype),
        "zero": int(v.known(4).item()),
    }
