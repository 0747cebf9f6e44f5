"""Means of int8 windows on Helium: eight channels at a time, summed in int16."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlftool.ir.graph import View
from mlftool.ops import OPS
from mlftool.ops.base import Kernel
from mlftool.ops.scalar import literal
from mlftool.ops.window import averages, constant_factor
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.helium_finish import limit, scaled

LANES = 8
MOST = 256  # elements of a window, whose sum fits int16


@kernel("com.microsoft.QLinearAveragePool", needs="mve")
def means(v: View) -> Kernel | None:
    """Of windows that are inside the input, if nothing is fused."""
    factor, area = constant_factor(v), math.prod(v.attr("kernel_shape"))
    if factor is None:
        return None
    scale = literal(factor, v.type(v.core.inputs[1]).dtype)
    add, zero = -area * int(v.known(2).item()), int(v.known(4).item())
    out = scaled("factor, factor", zero, area * 255 * float(factor))
    finish = (
        f"const mlf_octet acc = mlf_octet_plus(mlf_halves_widen(sums), {add});",
        f"const mlf_quad factor = mlf_floats_all({scale});",
        f"const mlf_halves out = mlf_halves_saturate({out});",
    )
    return _bid(v, averages(v, "mlf_requantize_wide"), finish)


@kernel("mlf.AveragePoolFixed", needs="mve")
def means_away(v: View) -> Kernel | None:
    """The same with the halves of TensorFlow Lite, away from zero."""
    low, high = v.attr("activation")
    n = math.prod(v.attr("kernel_shape"))
    if n in (1, MOST):
        return None
    # Of sums below 2^15 and n below 2^8, the upper word of a product with this is the quotient.
    reciprocal = -(-(1 << 32) // n)
    mean = f"mlf_octet_mean_away(mlf_halves_widen(sums), {reciprocal}u, {n // 2})"
    limited = limit(f"mlf_octet_narrow({mean})", low, high, False)
    return _bid(v, OPS[v.core.op].kernel(v), (f"const mlf_halves out = {limited};",))


def _bid(v: View, portable: Kernel | None, finish: tuple[str, ...]) -> Kernel | None:
    """The loops of `portable`, eight channels in one; `finish` makes `out` of int16 `sums`."""
    if portable is None or math.prod(v.attr("kernel_shape")) > MOST or v.node.body:
        return None
    if not v.x(0).dtype.name == v.y.dtype.name == "int8":
        return None
    channels = portable.params["channels"]
    if portable.params["padded"] or channels % LANES:
        return None
    return replace(
        portable.taking(1 / LANES),
        name="helium.average",
        template="helium_pool.c.j2",
        params={
            "axes": _merged(portable.params["axes"]),
            "batch": portable.params["batch"],
            "channels": channels,
            "finish": finish,
        },
        includes=("mlf/mve_sums.h",),
    )


def _merged(axes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A window over the whole of the inner axes is one run of pixels."""
    merged = [axes[-1]]
    for axis in reversed(axes[:-1]):
        inner = merged[0]
        if inner["o"] == 1 and inner["kernel"] == inner["n"] and axis["dilation"] == 1:
            n = inner["n"]
            run = {"n": axis["n"] * n, "kernel": axis["kernel"] * n, "stride": axis["stride"] * n}
            merged[0] = {**axis, **run, "k": inner["k"]}
        else:
            merged.insert(0, axis)
    return merged
