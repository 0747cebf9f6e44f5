"""Means of int8 windows in vectors of eight channels, for AVX2 and more.

The portable loop takes a channel after the other, each with all of its window, in bytes that lie
far apart.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.window import averages, constant_factor
from mlftool.targets.kernels import kernel

LANES = 8


@kernel("com.microsoft.QLinearAveragePool", needs="avx2")
def means(v: View) -> Kernel | None:
    """Of windows that are inside the input, and whose elements need no conversion."""
    if constant_factor(v) is None or v.x(0).dtype.name != "int8":
        return None
    made = averages(v, "mlf_requantize_wide")
    if made.params["padded"] or made.params["load"] != "*at" or made.params["channels"] % LANES:
        return None
    return replace(
        made,
        name="avx2.average",
        template="simd_pool.c.j2",
        cost=made.cost / LANES,
        includes=(*made.includes, "mlf/simd.h"),
    )
