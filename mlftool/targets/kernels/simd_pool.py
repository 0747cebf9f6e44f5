"""Windows in vectors of channels, for AVX2 and more: means of bytes and floats, maxima.

The portable loop takes one channel after the other, each with its whole window, in elements that
are far apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mlftool.ir.graph import View
from mlftool.ops import OPS
from mlftool.ops.base import Kernel
from mlftool.ops.scalar import literal
from mlftool.ops.window import averages, constant_factor
from mlftool.targets.kernels import kernel

# The vectors of mlf/simd_pool.h, by the type of their elements: the C type, the suffix of its
# functions, the lanes.
VECTORS = {
    "float32": ("mlf_f32x8", "f32", 8),
    "int8": ("mlf_i8x16", "s8x16", 16),
    "uint8": ("mlf_u8x16", "u8x16", 16),
}


@kernel("com.microsoft.QLinearAveragePool", needs="avx2")
def means(v: View) -> Kernel | None:
    """Of windows that are inside the input, and whose elements need no conversion."""
    if constant_factor(v) is None or v.x(0).dtype.name != "int8":
        return None
    made = averages(v, "mlf_requantize_wide")
    if made.params["padded"]:
        return None
    taken = "kept + mlf_load_s8_x8(at)"
    return _in_vectors(v, made, "avx2.average", ("mlf_i32x8", 8), "{0}", taken, _scaled(v))


def _scaled(v: View) -> Sequence[str]:
    """How the sums of a vector are requantised together and stored. Nothing if something follows,
    or if a product may be 2^22, from where rounding is not exact."""
    factor, area = constant_factor(v), math.prod(v.attr("kernel_shape"))
    assert factor is not None
    if v.node.body or v.y.dtype.name != "int8" or area * 255 * float(factor) >= 2**22 - 1:
        return ()
    add, zero = -area * int(v.known(2).item()), int(v.known(4).item())
    by = literal(np.float32(factor), v.type(v.core.inputs[1]).dtype)
    sums = f"mlf_requantize_x8(kept + ({add}), mlf_all_f32x8({by}), {zero})"
    return (f"mlf_put_s8_x8(y + {_place(v)}, {sums}, -128, 127);",)


@kernel("AveragePool", needs="avx2")
def float_means(v: View) -> Kernel | None:
    return _of_elements(v, OPS[v.core.op].kernel(v), "avx2.mean", "kept + {value}")


@kernel("MaxPool", needs="avx2")
def maxima(v: View) -> Kernel | None:
    made = OPS[v.core.op].kernel(v)
    if made is None or made.params["place"]:
        return None
    or_nan = v.y.dtype.is_float and not v.attr("drops_nan", 0)
    taken = f"mlf_max_{'or_nan_' if or_nan else ''}{{suffix}}(kept, {{value}})"
    return _of_elements(v, made, "avx2.max_pool", taken)


def _place(v: View) -> str:
    return f"p * {v.y.shape[-1]} + first"


def _of_elements(v: View, made: Kernel | None, name: str, taken: str) -> Kernel | None:
    """Where vectors have the type of the input's elements, and no conversion is fused. `taken` is
    what vector `kept` becomes with the next `value`."""
    found = VECTORS.get(v.x(0).dtype.name)
    if made is None or found is None or made.params["load"] != "*at":
        return None
    vector, suffix, lanes = found
    start = f"mlf_all_{suffix}({made.params['init']})"
    taken = taken.format(suffix=suffix, value=f"mlf_window_{suffix}(at)")
    lines = (
        f"const {vector} acc = kept;",
        f"const {vector} result = {made.params['finish']};",
        f"memcpy(y + {_place(v)}, &result, sizeof result);",
    )
    return _in_vectors(v, made, name, (vector, lanes), start, taken, () if v.node.body else lines)


def _in_vectors(
    v: View,
    made: Kernel,
    name: str,
    vector: tuple[str, int],
    start: str,
    taken: str,
    lines: Sequence[str],
) -> Kernel | None:
    """The loops of the portable kernel `made`, with a vector in place of a channel; `lines` store
    it, or else its elements are stored one by one."""
    if made.params["channels"] % vector[1]:
        return None
    how = {"vector": vector[0], "lanes": vector[1], "start": start, "taken": taken, "lines": lines}
    return replace(
        made.taking(1 / vector[1]),
        name=name,
        template="simd_pool.c.j2",
        params={**made.params, **how},
        includes=(*made.includes, "mlf/simd_pool.h"),
    )
