"""LayerNormalization of int8 in integers on Helium, as ops/standardise_integers.py computes it:
sixteen elements at a time for the sums, four for the results."""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops import OPS
from mlftool.ops.base import Kernel
from mlftool.ops.standardise_integers import NAME
from mlftool.targets.kernels import kernel

LANES = 4


@kernel(NAME, needs="mve")
def standardise(v: View) -> Kernel | None:
    """Of rows whose elements fill all lanes."""
    made = OPS[v.core.op].kernel(v)
    both = v.x(0).dtype.name == v.y.dtype.name == "int8"
    if made is None or not both or made.params["n"] % LANES:
        return None
    return replace(
        made.taking(1 / LANES),
        name="helium.standardise",
        template="helium_standardise.c.j2",
        includes=(*made.includes, "mlf/mve_standardise.h"),
    )
