"""Softmax in integers with Helium: gathering loads bring what four distances are worth."""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ir.operations import NOTHING
from mlftool.ops import OPS
from mlftool.ops.base import Kernel
from mlftool.ops.softmax_integers import NAME
from mlftool.targets.kernels import kernel

ELEMENT, LINE = 6.0, 30.0  # instructions, but for a line's factor


@kernel(NAME, needs="mve")
def lines(v: View) -> Kernel | None:
    """Of neighbouring int8, where all distances have an entry of the table."""
    portable = OPS[v.core.op].kernel(v)
    if portable is None or portable.name != "portable.integer_softmax":
        return None
    p = portable.params
    signed, bytes_out = v.x(0).dtype.name == "int8", v.y.dtype.bytes == 1
    if not (p["whole"] and p["inner"] == 1 and signed and bytes_out):
        return None
    return replace(
        portable,
        name="helium.softmax",
        template="helium_softmax.c.j2",
        params={k: p[k] for k in ("outer", "n", "m", "shift", "zero", "last", "high")},
        cost=v.y.elements * ELEMENT + p["outer"] * LINE,
        operations=NOTHING,
        includes=("mlf/mve_softmax.h",),
    )
