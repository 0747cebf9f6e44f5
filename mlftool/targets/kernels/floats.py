"""Float contractions for processors with an FPU, and those of the fused float mode.

More pixels at a time need fewer loads: a Cortex-M4 has 32 float registers. In the fused mode each
product is added with one rounding (C's fmaf), which is one instruction where the FPU has it and
the same bits everywhere, but not those of the exact mode.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.contract import any_rank, blocked, depthwise
from mlftool.ops.contraction import contraction, even_columns, packable
from mlftool.targets.kernels import FLOATS, kernel


def _is_float(v: View) -> bool:
    return packable(v) and v.x(0).dtype.name == "float32"


def _tall(v: View) -> Kernel | None:
    """Four pixels x at most four channels, or one x at most sixteen; the order of sums stays."""
    c = contraction(v) if _is_float(v) else None
    if c is None or c.depthwise:
        return None
    rows, columns = (4, 4) if c.pixels >= 4 else (1, 16)
    return blocked(v, rows, even_columns(c.oc, columns))


@kernel(*FLOATS, needs="fpu", unless="fused", replaces_portable=True)
def tall(v: View) -> Kernel | None:
    made = _tall(v)
    return made and replace(made, name="fpu.tall", cost=made.cost * 0.9)


@kernel(*FLOATS, needs="fused", replaces_portable=True)
def fused(v: View) -> Kernel | None:
    """The same loops with fmaf."""
    if not _is_float(v):
        return None
    made = depthwise(v) or _tall(v) or any_rank(v)
    return replace(
        made, name=f"fused.{made.name}", params={**made.params, "fused": True}, cost=made.cost * 0.7
    )
