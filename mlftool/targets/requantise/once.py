"""Requantisation that rounds once, in the least instructions.

TensorFlow Lite's (acc * m + 2^(t - 1)) >> t with 15 bits of m is the upper half of acc * m * 2^k,
and a shift that is the same for all channels, where their t are near enough: a power of two moves
from the shift into the multiplier and changes no bit.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rounding, parts
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, largest, pad_rows
from mlftool.targets.requantise.twice import Read

MOST_SHIFT = 31


@frozen
class Once:
    """((acc * m >> 32) + add) >> shift"""

    m: Operand
    add: Number
    shift: Number
    limits: str

    def text(self, acc: str, at: Read) -> str:
        """C text of what is stored for a sum."""
        return f"mlf_requantize_fixed({acc}, {at('m')}, {self.add}, {self.shift}, {self.limits})"


def once(c: Contraction, q: Quantisation, multiple: int) -> Once | None:
    """None where sums leave int32, or the channels' shifts leave no room."""
    if q.rounding is not Rounding.ONCE or largest(c, q).max(initial=0) >= 2**31:
        return None
    m, by = (np.broadcast_to(part, (c.oc,)) for part in parts(q.factor))
    some = m > 0
    if not some.any() or m.max() >= 2**15:
        return None
    bits = np.floor(np.log2(np.maximum(m, 1))).astype(np.int64)
    shift = min(int((by - 2 - bits)[some].min()), MOST_SHIFT)  # so that multipliers fit int32
    if shift < max(1, int(by[some].max()) - 32):
        return None
    add = (int(q.y_zero_point) << shift) + (1 << (shift - 1))
    if abs(add) >= 2**30:
        return None
    moved = np.where(some, m << np.where(some, 32 + shift - by, 0), 0).astype(np.int32)
    operand = Operand("m", "int32_t", "const", array=pad_rows(moved, multiple))
    return Once(operand, Number(add), Number(shift), f"{q.lo}, {q.hi}")
