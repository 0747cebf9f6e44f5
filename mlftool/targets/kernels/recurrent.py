"""Recurrent layers whose weights are constants: each matrix times a vector in panels of rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import pack_rows
from mlftool.ops.recurrent import GATES, Panels, recurrent
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.simd import AVX2, AVX512, SSE, Unit

EIGHT = {mode: Panels(8, f"mlf_{mode}_1x8", f"mlf/vfp_{mode}.h") for mode in ("exact", "fused")}
MOST = 8  # vectors in a panel: as many sums hide each other's latency


def _packs(v: View) -> bool:
    weights = v.const(1), v.const(2)
    return v.x(0).dtype.name == "float32" and all(w is not None for w in weights)


def _in(v: View, panels: Panels, name: str, each: float) -> Kernel | None:
    if not _packs(v):
        return None
    made = recurrent(v, panels, each)
    packed = tuple(_packed(v, panels, made.params["plain"], o) for o in made.operands)
    return replace(made, name=f"{name}.recurrent", operands=packed)


def _packed(v: View, panels: Panels, plain: int, operand: Operand) -> Operand:
    """An operand of the kernel: the weights x1 and x2 as panels, all others as they are."""
    if operand.name not in ("x1", "x2"):
        return operand
    parts = [
        pack_rows(part, panels.columns)
        for one in v.known(int(operand.name[1]))
        for part in (one[:plain], one[plain:])
        if len(part)
    ]
    number, array = int(operand.name[1]), np.concatenate(parts)
    name = v.core.inputs[number]
    return Operand(operand.name, operand.ctype, "const", array=array, holds=name)


@kernel(*GATES, needs="fpu", unless="fused vector")
def exact(v: View) -> Kernel | None:
    return _in(v, EIGHT["exact"], "panels", 2.12)


@kernel(*GATES, needs="fused", replaces_portable=True)
def fused(v: View) -> Kernel | None:
    made = _in(v, EIGHT["fused"], "fused.panels", 1.1)
    return made and replace(made, params={**made.params, "fused": True})


def _vectors(v: View, unit: Unit) -> Kernel | None:
    if not _packs(v):
        return None
    hidden, gates = v.x(2).shape[-1], GATES[v.core.op]
    # Gates that are multiplied together.
    rows = hidden * (gates - 1 if v.core.op == "GRU" else gates)
    wanted = -(-rows // unit.lanes)
    count = -(-wanted // -(-wanted // MOST))
    function = f"mlf_panel_x{unit.lanes}_{count}"
    panels = Panels(count * unit.lanes, function, "mlf/simd_panels.h")
    return _in(v, panels, unit.name, 2.0 / unit.lanes)


for _unit, _needs, _unless in (
    (SSE, "vector", "avx2"),
    (AVX2, "avx2", "avx512"),
    (AVX512, "avx512", ""),
):
    kernel(*GATES, needs=_needs, unless=f"fused {_unless}".strip())(partial(_vectors, unit=_unit))
