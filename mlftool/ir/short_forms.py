"""Integers that stand for values of 16 bits on another scale, for sums and for products of two,
with the bits of what floats give.

All 65536 results of one tensor are computed; of two tensors, which have 2^32, the error of floats
has a bound. A multiplication or two give the same results but near ties, where the rounding of
floats decides by chance: there C computes them as floats do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ir.pair_forms import Side

_WIDENED = 14  # a difference of 17 bits, with its sign, fills 31
_LARGEST_SHIFT = 22
_RARELY = 16  # of so many results at most one is computed as floats are
_SMALLEST = 2.0**-40  # of scales: all that floats compute is a normal number


@frozen
class Nearly:
    """t = (x * 2^widened * m >> 32) + add, where x is an element less its zero point, of two `m` a
    sum of two such, or of one the same of their product; within `near` of a multiple of 2^shift
    the result is what floats give, elsewhere clamp(t >> shift)."""

    m: tuple[Number, ...]
    add: Number
    shift: Number
    near: int
    low: Number
    high: Number
    widened: int = _WIDENED

    def text(self, moved: Sequence[str]) -> str:
        """C text of t, of elements less their zero points."""
        moved = moved if len(moved) == len(self.m) else [" * ".join(moved)]
        text = str(self.add)
        for x, m in zip(moved, self.m, strict=True):
            text = f"mlf_multiply_high({x} * {2**self.widened}, {m}, {text})"
        return text


def of_one(
    side: Side, unit: float, zero: int, bounds: tuple[int, int], results: Array
) -> Nearly | None:
    """Of one tensor, whose `results` are known, in steps of `unit` and a type with such bounds."""
    x, ratio = side.values - side.zero_point, float(side.scale) / unit
    low, high = int(results.min()), int(results.max())
    if not 0 < ratio < 2.0**14 or low == high:
        return None
    shift = _shift(float(np.abs(x).max()) * ratio + 2.0**17, [ratio], _WIDENED)
    if shift < 6:
        return None
    m = round(ratio * 2.0 ** (32 - _WIDENED + shift))
    add = (zero << shift) + (1 << (shift - 1))
    t = ((x << _WIDENED) * m >> 32) + add
    off = np.clip(t >> shift, low, high) != results
    part = t & ((1 << shift) - 1)
    near = int(np.minimum(part, (1 << shift) - part)[off].max(initial=-1)) + 1
    if 2 * near * _RARELY > 1 << shift:
        return None
    # A limit that no t is beyond is the type's own, which cores have instructions for.
    low = low if int(t.min()) >> shift < low else bounds[0]
    high = high if int(t.max()) >> shift > high else bounds[1]
    return Nearly((Number(m),), Number(add), Number(shift), near, Number(low), Number(high))


def of_two(
    sides: tuple[Side, Side], added: bool, unit: float, zero: int, bits: int, ends: tuple[int, int]
) -> Nearly | None:
    """Of the sum or the product of two tensors, stored in `bits`, between the least and the
    greatest result. Floats round a sum's terms, the sum and the quotient; a product's factors, the
    product and the quotient. The error of integers is less than 4."""
    a, b = (float(side.scale) for side in sides)
    far = [max(abs(n - side.zero_point) for n in side.dtype.range) for side in sides]
    if min(a, b, unit) < _SMALLEST or max(a, b, unit) > 1 / _SMALLEST or ends[0] == ends[1]:
        return None
    ratios, widened = [a / unit, b / unit], _WIDENED
    reach = far[0] * ratios[0] + far[1] * ratios[1]
    if not added:
        ratios, widened = [a * b / unit], 31 - (far[0] * far[1]).bit_length()
        reach = far[0] * far[1] * ratios[0]
    beyond = 2.0 ** (bits + 1)  # results are the type's last
    shift = _shift(reach + beyond, ratios, widened) if widened >= 0 else 0
    if shift < 6:
        return None
    most = min(reach, beyond)
    rounded = (reach + 2 * most if added else 4 * most) * 2.0**-24 * 1.01
    near = int(np.ceil(rounded * 2.0**shift)) + 4
    if 2 * near * _RARELY > 1 << shift:
        return None
    m = tuple(Number(round(ratio * 2.0 ** (32 - widened + shift))) for ratio in ratios)
    add = (zero << shift) + (1 << (shift - 1))
    low, high = map(Number, ends)
    return Nearly(m, Number(add), Number(shift), near, low, high, widened)


def _shift(reach: float, ratios: Sequence[float], widened: int) -> int:
    """The largest with which sums and multipliers stay in 31 bits."""
    room = int(np.floor(30.99 + widened - 32 - np.log2(max(ratios))))
    return min(_LARGEST_SHIFT, 30 - int(np.ceil(np.log2(reach))), room)
