"""int8 contractions for processors without FPU: the weights of four output channels side by side.

A product costs a load and a multiplication at least. Here the loads are shared, an activation's by
four channels and a weight's by two pixels, and one pointer for all weights leaves registers for the
sums. A Cortex-M0, whose instructions reach eight registers, has too few.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.contract import blocked
from mlftool.ops.contraction import contraction, even_columns, pack_rows, packable
from mlftool.targets.kernels import BYTES, kernel
from mlftool.targets.kernels.integers import in_integers

ROWS, MOST_COLUMNS = 2, 4


@kernel(*BYTES, needs="", unless="fpu size narrow registers")
def interleaved(v: View) -> Kernel | None:
    return _interleaved(v, 0.95)


@kernel(*BYTES, needs="registers", unless="fpu size")
def interleaved_without_multiply_add(v: View) -> Kernel | None:
    return _interleaved(v, 1.35)


def _interleaved(v: View, times: float) -> Kernel | None:
    """`times` as many instructions as the portable form takes with an FPU, counted."""
    if not packable(v):
        return None
    columns = even_columns(contraction(v).oc, MOST_COLUMNS)
    made = blocked(v, ROWS, columns, in_integers, byte_columns=columns)
    if made is None or made.params["minus"]("oc"):
        return None
    c = contraction(v).planar()
    # Alone, a pixel leaves registers for loading four steps ahead.
    run = c.depth if made.params["dense"] else c.kernel[1] * c.ic
    single = made.params["rows"] == 1 and run % 4 == 0
    weights = pack_rows(c.weights, made.params["columns"])
    return replace(
        made.taking(times),
        name="interleaved.blocked",
        template="interleaved_s8.c.j2",
        params={**made.params, "steps": 4 if single else 1},
        operands=tuple(replace(o, array=weights) if o.name == "w" else o for o in made.operands),
    )
