"""Where a quantised output steps from one value to the next.

An output only grows with its sum, so the sums at which it steps, 255 at most for each channel, say
all about its requantisation, however it rounds. An integer form that steps at the same sums has the
same bits: kernels search for one (fixed.py, twice.py, kernels/narrow_requantise.py)
and check it against these.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.rounding import Rounding, parts
from mlftool.ops.contraction import Contraction, Quantisation, folded_bias, halves

FAR = 2**40  # beyond any sum
MOST_FRACTION = 22  # bits of a rounded product, so that 2^31 times it stays inside int64


def extremes(c: Contraction, q: Quantisation) -> tuple[Array, Array]:
    """int64 [channel]: no accumulator, whatever the input, is less or more."""
    positive, negative = halves(c, q)
    lowest, highest = c.v.x(0).dtype.range  # zero is in it
    bias = folded_bias(c, q)
    least = bias + lowest * positive + highest * negative
    return least, bias + highest * positive + lowest * negative


@frozen
class Steps:
    """Where outputs step to `values`: first [channel, value] is the least accumulator that gives
    the value or more, if it is `sure`; `reached` if an accumulator does, `missed` if one does not.
    """

    values: Array
    first: Array
    sure: Array
    least: Array  # [channel]: no accumulator is less
    most: Array

    @staticmethod
    def of(c: Contraction, q: Quantisation) -> Steps:
        """Of a layer that rounds to even, or twice; `grows` holds of it."""
        least, most = extremes(c, q)
        values = np.arange(q.lo + 1, q.hi + 1)
        t = values - q.y_zero_point
        if q.rounding is Rounding.TWICE:
            return Steps(values, *_twice_at_least(q, c.oc, t), least, most)
        scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float64)
        first, sure = first_at_least(scale, t, least[:, None], most[:, None])
        return Steps(values, first, sure, least, most)

    @property
    def reached(self) -> Array:
        return np.asarray(self.first <= self.most[:, None])

    @property
    def missed(self) -> Array:
        return np.asarray(self.first > self.least[:, None])

    def room(self, rows: Array, m: Array, shift: int, bits: int, left: int) -> tuple[Array, Array]:
        """The least and the most that may be added to acc * 2^left * m >> bits, of which `shift`
        bits are a fraction, for multipliers m [row, candidate]."""
        at = self.first[rows][:, None, :] << left
        below = at - (1 << left)
        wanted = (self.values << shift)[None, None, :]
        reached, missed = self.reached[rows][:, None, :], self.missed[rows][:, None, :]
        high = (m[:, :, None] * np.where(reached, at, 0)) >> bits
        low = (m[:, :, None] * np.where(missed, below, 0)) >> bits
        least = np.where(reached, wanted - high, -FAR).max(axis=2)
        return least, np.where(missed, wanted - 1 - low, FAR).min(axis=2)

    def settled(
        self, rows: Array, m: Array, shift: int, bits: int, left: int = 0
    ) -> tuple[Array, Array, Array]:
        """For each row whether one of its candidates `m` is right, the one with the most room, and
        what is to be added."""
        low, high = self.room(rows, m, shift, bits, left)
        best = (high - low).argmax(axis=1)[:, None]
        low, high, chosen = (np.take_along_axis(a, best, 1)[:, 0] for a in (low, high, m))
        return low <= high, chosen, (low + high) // 2


def first_at_least(scale: Array, t: Array, least: Array, most: Array) -> tuple[Array, Array]:
    """[channel, t]: the first accumulator whose float result is t or more, and whether it is sure.

    An estimate, then three steps either way; sure if the result really steps there, or if the step
    is too far outside the range of accumulators for the difference to matter.
    """
    small = scale.astype(np.float32)[:, None]

    def result(acc: Array) -> Array:
        return np.asarray(np.rint(acc.astype(np.float32) * small))

    steps = t.astype(np.float32)  # exact, and quick to compare
    estimate = np.ceil((t[None, :] - 0.5) / scale[:, None])
    estimate = np.clip(estimate, -(2.0**40), 2.0**40).astype(np.int64)
    margin = 16 + (np.abs(estimate) >> 20)
    first = estimate + 3
    for step in (2, 1, 0, -1, -2):
        first = np.where(result(estimate + step) >= steps, estimate + step, first)
    sure = (result(first) >= steps) & (result(first - 1) < steps)
    return first, sure | (estimate + margin < least) | (estimate - margin > most)


def _twice_at_least(q: Quantisation, channels: int, t: Array) -> tuple[Array, Array]:
    """The same for what is rounded twice. The shift's ties go away from zero, so below zero a
    product must be beyond the tie; the product's go up."""
    m, exponent = (np.broadcast_to(part, (channels,))[:, None] for part in parts(q.factor))
    fraction, left = np.clip(-exponent, 0, MOST_FRACTION), np.clip(exponent, 0, 31)
    half = (np.int64(1) << fraction) >> 1
    product = (t << fraction) - half + ((t <= 0) & (fraction > 0))
    first = _ceiling((product << 31) - (1 << 30), np.maximum(m, 1))
    first = _ceiling(first, np.int64(1) << left)
    never = np.where(t <= 0, -FAR, FAR)  # a multiplier of 0 always gives 0
    first = np.clip(np.where(m == 0, never, first), -FAR, FAR)
    return first, np.broadcast_to((m == 0) | (-exponent <= MOST_FRACTION), first.shape)


def _ceiling(a: Array, b: Array) -> Array:
    return np.asarray(-(-a // b))
