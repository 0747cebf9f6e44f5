"""Tables of 256 bytes for bytes on Helium: one gathering load brings sixteen results."""

from __future__ import annotations

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.scalar import around
from mlftool.targets.kernels import TABLES, kernel


@kernel(*TABLES, needs="mve")
def table(v: View) -> Kernel | None:
    if v.y.dtype.bytes != 1:
        return None
    x = v.core.inputs[0]
    return Kernel(
        "helium.table",
        "helium_table.c.j2",
        {"elements": v.y.elements},
        around(v, Operand("table", v.y.dtype.c, "const", array=v.known(1)), x=x),
        cost=v.y.elements * 0.3,
        includes=("mlf/mve.h",),
        inplace=(x,),
    )
