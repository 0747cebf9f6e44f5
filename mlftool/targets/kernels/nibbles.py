"""With `optimize: size` weights of four bits stay four bits: the portable loops take two of them
from each byte. Cortex-M4 has a dedicated kernel, in dsp_small.py.

Not for vector kernels: there unpacking would cost most, and on a host flash is no concern.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.contract import blocked
from mlftool.ops.contraction import packable
from mlftool.targets.kernels import BYTES, kernel
from mlftool.targets.kernels.integers import in_integers


@kernel(*BYTES, needs="size fpu", unless="mve vector")
def nibbles(v: View) -> Kernel | None:
    made = blocked(v, nibbles=True) if packable(v) else None
    return made and replace(made, compact=True)


@kernel(*BYTES, needs="size", unless="fpu mve vector")
def nibbles_in_integers(v: View) -> Kernel | None:
    made = blocked(v, 2, 4, in_integers, nibbles=True) if packable(v) else None
    return made and replace(made, name=f"integers.{made.name}", compact=True)
