"""Requantisation by one integer multiplication, with the bits of the float one.

A quantised output is round_even(float(acc) * scale) + zero_point. It only grows with acc, so it is
fully described by the accumulators where it steps from one value to the next, 255 at most. An
integer form, (acc * m + add * 2^32) >> (32 + shift), that steps at the same accumulators is equal
everywhere; for most channels some 31-bit m does. A scale of a quarter or more, as a depthwise layer
with weights of four bits has, needs more than 31 bits: there acc is multiplied by 2^left first.
Where no m does (several products lie within a float's rounding of one half, on either side), the
kernel multiplies as floats do. A processor without FPU does that near the middle of two outputs
only: elsewhere the rounded product says which it is.

Nothing here is approximate: a multiplier is used only if all steps were checked in integers.
"""

from __future__ import annotations

import math

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import float32
from mlftool.ir.graph import Array, View
from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, is_narrow
from mlftool.ops.scalar import number
from mlftool.targets.requantise.steps import extremes, first_at_least

_CODED = "requantisation; if negative, the bits of minus the scale"
LARGEST_SHIFT = 21  # keeps every comparison of `_multipliers` inside int64
MOST_LEFT = 8  # a weight of eight bits times 2^left is a halfword
FINE = 8  # the shift that `left` should make room for: results near a tie are then rare


@frozen
class Fixed:
    """The integer form of a layer's requantisation, of accumulators times 2^left; `multiplier` 0
    marks channels without one."""

    multiplier: Array  # int32 [output channel]
    scale: Array  # float32 [output channel]
    add: Number  # zero point and one half, in units of 2^-shift
    shift: Number
    zero_point: Number
    lo: Number
    hi: Number
    narrow: bool  # of the float form: contraction.is_narrow
    rough: Array  # int32: the multiplier, or less than zero the nearest one that is not right
    near: Number  # how near to a tie, in units of 2^-shift, results of the latter are not sure
    left: int = 0

    @property
    def exact(self) -> Array:
        """Which channels need the float form."""
        return np.asarray(self.multiplier == 0)

    def text(self, acc: str, m: str) -> str:
        """C text that turns an accumulator, times 2^left, into a stored value, given its value of
        `coded`."""
        numbers, limits = f"{acc}, {m}, {self.add}, {self.shift}", f"{self.lo}, {self.hi}"
        if not self.exact.any():
            return self.sure_text(acc, m)
        name = "mlf_requantize_either" + ("" if self.narrow else "_wide")
        return f"{name}({numbers}, {self.zero_point}, {limits})"

    def sure_text(self, acc: str, m: str) -> str:
        """The same of a channel that has a multiplier."""
        numbers, limits = f"{acc}, {m}, {self.add}, {self.shift}", f"{self.lo}, {self.hi}"
        return f"mlf_requantize_fixed({numbers}, {limits})"

    def group_text(self, acc: str, m: str) -> str:
        """The same of a group of channels: C variable `sure` says that all have a multiplier."""
        numbers = f"{acc}, {m}, {self.add}, {self.shift}"
        return f"mlf_requantize_group(sure, {numbers}, {self.zero_point}, {self.lo}, {self.hi})"

    def raised_by(self, bits: int, largest: Array) -> Fixed | None:
        """The form of accumulators times 2^bits; int64 [channel] `largest` are the greatest
        absolute values before that. None if 32 bits do not hold all, or if floats lose bits."""
        sums = float((largest * self.multiplier.astype(float)).max() * 2.0 ** (self.left - 32))
        most = (sums + abs(int(self.add)) + 1) * 2.0**bits
        fits = most < 2**31 and largest.max() * 2.0 ** (self.left + bits) < 2**31
        normal = self.scale.min() >= np.finfo(np.float32).tiny * 2.0 ** (self.left + bits)
        if not fits or not normal or self.shift + bits > 31:
            return None
        add, shift = self.add * (1 << bits), self.shift + bits
        return replace(self, add=add, shift=shift, left=self.left + bits)

    def soft_text(self, acc: str, m: str, scale: str, zero_point: int) -> str:
        """The same without operations on floats, given a rough multiplier, the scale of `lowered`
        and mlf/tiles.h."""
        usual = self.sure_text(acc, m)
        if not self.exact.any():
            return usual
        return f"({m} >= 0 ? {usual} : {self.near_text(acc, f'-{m}', scale, zero_point)})"

    def literal(self, acc: str) -> str:
        """`soft_text` of one channel, whose multiplier and scale are numbers."""
        scale, m = np.ldexp(self.scale[0], -self.left), int(self.rough[0])
        acc, sure = self.raised(acc), m >= 0
        if sure:
            return self.sure_text(acc, str(Number(m)))
        return self.near_text(acc, str(Number(-m)), number(scale, float32), self.zero_point)

    def near_text(
        self, acc: str, m: str, scale: str, zero_point: int, name: str = "mlf_requantize_near"
    ) -> str:
        """Of a channel without multiplier, given the one it has not."""
        numbers = f"{self.add}, {self.shift}, {self.near}"
        limits = f"{zero_point}, {self.lo}, {self.hi}"
        return f"{name}({acc}, {m}, {numbers}, {scale}, {limits})"

    def operand(self, multiple: int = 1, rough: bool = False) -> Operand:
        return _operand(self.rough if rough else self.multiplier, multiple)

    def raised(self, acc: str) -> str:
        """C text of an accumulator times 2^left."""
        return f"{acc} * {Number(1 << self.left)}" if self.left else acc

    def lowered(self, q: Quantisation) -> Quantisation:
        """With scales that are for accumulators times 2^left."""
        return replace(q, factor=np.ldexp(q.factor, -self.left)) if self.left else q

    def coded(self, multiple: int = 1) -> Operand:
        """Multipliers for `text`; a channel without one has the bits of its negated scale."""
        negated = (-np.ldexp(self.scale, -self.left)).view(np.int32)
        m = _operand(np.where(self.exact, negated, self.multiplier), multiple)
        return replace(m, note=_CODED if self.exact.any() else "")


def _operand(m: Array, multiple: int) -> Operand:
    return Operand("m", "int32_t", "const", array=np.pad(m, (0, -m.size % multiple)))


def fixed(c: Contraction, q: Quantisation) -> Fixed | None:
    """The integer form, or None where scales or accumulators leave no room for one, and where the
    limits leave one value."""
    if not c.v.y.dtype.is_int8 or q.to_float or q.rounding is not Rounding.EVEN:
        return None
    scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float64)
    return of_sums(c.v, scale, extremes(c, q), q.y_zero_point, (q.lo, q.hi))


def of_sums(
    v: View, scale: Array, ends: tuple[Array, Array], zero: int, limits: tuple[int, int]
) -> Fixed | None:
    """The same of 8-bit outputs of any sums, of which int64 [channel] `ends` are the least and the
    greatest, by float64 [channel] `scale`."""
    found = _scaling(scale, ends, 8) if limits[0] < limits[1] else None
    if found is None:
        return None
    (shift, left), (least, most), (lo, hi) = found, ends, limits
    t = np.arange(lo - zero + 1, hi - zero + 1)
    given = (scale, t, least[:, None], most[:, None], shift, left)
    key = ("multipliers", *(a.tobytes() for a in given[:4]), shift, left)
    m = v.once(key, lambda: _multipliers(*given))
    add = (zero << shift) + (1 << (shift - 1))
    ideal = np.clip(np.rint(scale * 2.0 ** (32 + shift - left)), 1, 2**31 - 1).astype(np.int64)
    m = m.astype(np.int32)
    rough = np.where(m == 0, -ideal, m).astype(np.int32)
    narrow = bool(np.all(_largest(ends) * scale < 2**22 - 1))
    floats, near = scale.astype(np.float32), Number(_near(shift, 8))
    said = Number(add), Number(shift), Number(zero), Number(lo), Number(hi)
    return Fixed(m, floats, *said, narrow, rough, near, left)


def rough(c: Contraction, q: Quantisation) -> Fixed | None:
    """The same without a search, for outputs of 16 bits: no channel has a multiplier, but most sums
    are far enough from a tie for one that is nearly right, `rough`."""
    usual = q.rounding is Rounding.EVEN and not q.to_float and q.lo < q.hi
    if c.v.y.dtype.bits != 16 or not usual:
        return None
    scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float64)
    found = _scaling(scale, extremes(c, q), 16)
    if found is None or found[1]:
        return None
    shift, _ = found
    near, add = _near(shift, 16), (q.y_zero_point << shift) + (1 << (shift - 1))
    if 4 * near > 1 << shift or abs(add) >= 2**30:
        return None
    ideal = np.clip(np.rint(scale * 2.0 ** (32 + shift)), 1, 2**31 - 1).astype(np.int32)
    none, said = np.zeros(c.oc, np.int32), (Number(add), Number(shift), q.y_zero_point, q.lo, q.hi)
    return Fixed(none, scale.astype(np.float32), *said, is_narrow(c, q), ideal, Number(near))


def _largest(ends: tuple[Array, Array]) -> Array:
    return np.maximum(np.abs(ends[0]), np.abs(ends[1]))


def _scaling(scale: Array, ends: tuple[Array, Array], bits: int) -> tuple[int, int] | None:
    """The largest shift that leaves room for what it is of, and `left`."""
    if not np.all(np.isfinite(scale) & (scale > 0)):
        return None
    largest = _largest(ends)
    reach = float((largest * scale).max()) + 2 * 2**bits + 2
    if largest.max() >= 2**31:
        return None
    room = math.floor(30.99 - 32 - math.log2(float(scale.max())))  # m below 2^31
    left = 0 if room > 0 else _left(int(largest.max()), scale, FINE - room)
    shift = min(room + left, 30 - math.ceil(math.log2(reach)), LARGEST_SHIFT)
    return None if shift < 1 else (shift, left)


def _left(largest: int, scale: Array, wanted: int) -> int:
    """By how many bits accumulators may be shifted: they stay in 31, scales stay normal."""
    least = math.floor(math.log2(float(scale.min() / np.finfo(np.float32).tiny)))
    return max(0, min(wanted, MOST_LEFT, 31 - largest.bit_length(), least))


def _near(shift: int, bits: int) -> int:
    """A unit for each of two roundings of m * acc, and two roundings of a float of an output's
    size and a half."""
    return 2 + math.ceil(2.0 ** (shift + bits - 22))


def _multipliers(scale: Array, t: Array, least: Array, most: Array, shift: int, left: int) -> Array:
    """int64 [channel]: a multiplier that steps where the float form does, or 0."""
    first, known = first_at_least(scale, t, least, most)
    # Where m * a must not be below, and where it must be below, the middle of t - 1 and t.
    middle = (2 * t - 1)[None, :] << (31 + shift)
    up, down = np.maximum(first, least) << left, np.minimum(first - 1, most) << left
    must, must_not = first <= most, first - 1 >= least
    with np.errstate(divide="ignore", invalid="ignore"):
        above, below = middle / up, middle / down
    low = np.max(
        np.where(must & (up > 0), above, np.where(must_not & (down < 0), below, -np.inf)), axis=1
    )
    low = np.maximum(low, np.max(np.where(must_not & (down < 0), below, -np.inf), axis=1))
    high = np.min(np.where(must_not & (down > 0), below, np.inf), axis=1)
    high = np.minimum(high, np.min(np.where(must & (up < 0), above, np.inf), axis=1))
    ideal = np.rint(scale * 2.0 ** (32 + shift - left))
    best = np.zeros(scale.size, np.int64)
    with np.errstate(invalid="ignore"):  # a channel that never steps has no limits
        between = np.floor((low + high) / 2)
    for guess in (ideal, np.ceil(low), np.floor(high), between):
        rows = np.flatnonzero((best == 0) & known.all(axis=1))  # mostly few after the first guess
        m = np.where(np.isfinite(guess), guess, ideal)[rows]
        m = np.clip(m, 1, 2**31 - 1).astype(np.int64)
        good = (m[:, None] * up[rows] >= middle) | ~must[rows]
        good &= (m[:, None] * down[rows] < middle) | ~must_not[rows]
        best[rows] = np.where(good.all(axis=1), m, 0)
    return best
