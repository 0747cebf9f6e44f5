"""With `optimize: size` weights of four bits stay four bits: the portable loops take two of them
from each byte. Cortex-M4 has a dedicated kernel, in dsp_small.py.

Not for vector kernels: there unpacking would cost most, and on a host flash is no concern.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.contract import Requantised, blocked
from mlftool.ops.contraction import packable
from mlftool.targets.kernels import BYTES, kernel
from mlftool.targets.kernels.integers import in_integers


@kernel(*BYTES, needs="size fpu", unless="mve vector registers")
def nibbles(v: View) -> Kernel | None:
    return _unpacked(v, 2)


@kernel(*BYTES, needs="size fpu registers", unless="mve vector")
def nibbles_of_three(v: View) -> Kernel | None:
    return _unpacked(v, 3)


@kernel(*BYTES, needs="size", unless="fpu mve vector registers")
def nibbles_in_integers(v: View) -> Kernel | None:
    return _unpacked(v, 2, in_integers)


@kernel(*BYTES, needs="size registers", unless="fpu mve vector")
def nibbles_of_three_in_integers(v: View) -> Kernel | None:
    return _unpacked(v, 3, in_integers)


def _unpacked(v: View, rows: int, form: Requantised | None = None) -> Kernel | None:
    """`rows` pixels share what is unpacked: three where thirty-two registers hold their sums."""
    made = blocked(v, rows, 4, form, nibbles=True) if packable(v) else None
    before = "integers." if form else ""
    return made and replace(made, name=f"{before}{made.name}", compact=True)
