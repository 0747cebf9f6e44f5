"""The same loops in other sizes, for tuning records to choose from: no estimate predicts the
compiler's code, and so the best one. All give the bits of the loops they are variants of.

Named after how many pixels x output channels, or fours of products, one round takes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.contract import blocked
from mlftool.ops.contraction import contraction, packable
from mlftool.targets.kernels import BYTES, FLOATS, kernel
from mlftool.targets.kernels.dsp import pairs
from mlftool.targets.kernels.dsp_dense import dense
from mlftool.targets.kernels.integers import in_integers
from mlftool.targets.kernels.parts import bytes_of

BYTE_BLOCKS = "1x2 1x4 1x8 2x4 4x1 4x2 4x4"
FLOAT_BLOCKS = "1x4 1x8 2x4 2x6 2x8 3x5 3x6 4x2 4x3 4x5 6x2 8x2"
UNROLLED = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18)


def _bytes(v: View, rows: int, columns: int, fpu: bool) -> Kernel | None:
    if not packable(v) or contraction(v).depthwise or contraction(v).pixels < rows:
        return None
    form = None if fpu else in_integers
    made = blocked(v, rows, 4, form, byte_columns=columns)
    before = "" if fpu else "integers."
    return made and replace(made, name=f"{before}{made.name}.{rows}x{columns}")


def _floats(v: View, rows: int, columns: int, fused: bool) -> Kernel | None:
    if not packable(v) or v.x(0).dtype.name != "float32":
        return None
    if contraction(v).depthwise or contraction(v).pixels < rows:
        return None
    made = blocked(v, rows, columns)
    if made is None:
        return None
    params = {**made.params, "fused": True} if fused else made.params
    before = "fused" if fused else "fpu"
    return replace(made, name=f"{before}.blocked.{rows}x{columns}", params=params)


def _pairs(v: View, unrolled: int) -> Kernel | None:
    found = bytes_of(v, signed=True)
    bid = dense if found and found[0].pixels == 1 else pairs
    usual, made = (bid(*found, n) if found else None for n in (0, unrolled))
    if usual is None or made is None or usual.params == made.params:
        return None
    return replace(made, name=f"{made.name}.{unrolled}").kernel


def _sizes(text: str) -> list[tuple[int, int]]:
    """(rows, columns) of each."""
    return [(int(a), int(b)) for a, b in (size.split("x") for size in text.split())]


for _rows, _columns in _sizes(BYTE_BLOCKS):
    for _fpu in (True, False):
        _bid = partial(_bytes, rows=_rows, columns=_columns, fpu=_fpu)
        _not = ("" if _fpu else "fpu ") + "dsp mve vector size"
        kernel(*BYTES, needs="fpu" if _fpu else "", unless=_not, measured=True)(_bid)
for _rows, _columns in _sizes(FLOAT_BLOCKS):
    for _fused in (False, True):
        _bid = partial(_floats, rows=_rows, columns=_columns, fused=_fused)
        _needs = "fused" if _fused else "fpu"
        _not = "vector size" if _fused else "fused vector size"
        kernel(*FLOATS, needs=_needs, unless=_not, measured=True)(_bid)
for _unrolled in UNROLLED:
    _bid = partial(_pairs, unrolled=_unrolled)
    kernel(*BYTES, needs="dsp", unless="mve size", measured=True)(_bid)
