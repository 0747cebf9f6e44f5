"""Means of int8 windows on Helium: eight channels at a time, summed in int16."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.scalar import literal
from mlftool.ops.window import averages, constant_factor
from mlftool.targets.kernels import kernel

LANES = 8
MOST = 255  # elements of a window, whose sum fits int16


@kernel("com.microsoft.QLinearAveragePool", needs="mve")
def means(v: View) -> Kernel | None:
    """Of windows that are inside the input, if nothing is fused."""
    factor, area = constant_factor(v), math.prod(v.attr("kernel_shape"))
    if factor is None or area > MOST or v.node.body:
        return None
    if not (v.x(0).dtype.is_int8 and v.y.dtype.is_int8):
        return None
    made = averages(v, "mlf_requantize_wide")
    if made.params["padded"] or made.params["channels"] % LANES:
        return None
    scale = literal(factor, v.type(v.core.inputs[1]).dtype)
    params = {
        "axes": _merged(made.params["axes"]),
        "batch": made.params["batch"],
        "channels": made.params["channels"],
        "add": -area * int(v.known(2).item()),
        "factor": scale,
        "zero": int(v.known(4).item()),
    }
    return replace(
        made,
        name="helium.average",
        template="helium_pool.c.j2",
        params=params,
        cost=made.cost / LANES,
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
