"""Requantisation for ARMv6-M, which multiplies 32 bits by 32 and keeps 32: three multiplications.

The form of targets/requantise/fixed.py needs the upper half of 64 bits, which takes four
multiplications there and their additions. Here multipliers have no more bits than leave
floor(acc * m / 2^16) within 32:

    acc * (m >> 16) + (acc >> 16) * (m & 0xffff) + ((acc & 0xffff) * (m & 0xffff) >> 16)

is exactly that. What is added to it, zero point and rounding, differs by channel and is fine enough
to choose the side of a tie. So nearly all channels have a pair that steps where the float form
does, which is checked in integers for all steps. The others take the rounded product too, except
near the middle of two outputs: there the float form, in integers, says which.
"""

from __future__ import annotations

import math

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rounding, parts
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, grows, pad_rows, scale_text
from mlftool.targets.kernels.parts import constants, scale_of
from mlftool.targets.requantise.steps import Steps

TRIED = 64  # multipliers on either side of the best one


@frozen
class Halves:
    """The integer form of a layer's requantisation as C text."""

    q: Quantisation
    multiplier: Array  # int32 [output channel]; negative where floats must decide near a tie
    add: Array  # int32 [output channel]: zero point and one half, in units of 2^-shift
    shift: Number
    near: Number  # how near, in these units

    @property
    def rare(self) -> bool:
        return bool((self.multiplier < 0).any())

    def text(self, acc: str) -> str:
        """Of a channel whose numbers are the variables `factor` and `more`."""
        limits = f"{self.q.lo}, {self.q.hi}"
        return f"mlf_requantize_halves({acc}, factor, more, {self.shift}, {limits})"

    def rare_text(self, acc: str, channel: str) -> str:
        """If the factor is negative."""
        kind = "near" if self.q.rounding is Rounding.EVEN else "twice"
        scale = scale_text(self.q, channel)
        limits = f"{self.q.y_zero_point}, {self.q.lo}, {self.q.hi}"
        near = f"{self.shift}, {self.near}, {scale}, {limits}"
        return f"mlf_requantize_halves_{kind}({acc}, -factor, more, {near})"

    @property
    def rare_channels(self) -> Array:
        found: Array = np.flatnonzero(self.multiplier < 0).astype(np.uint16)
        return found

    def blocks(self, bias: Array, columns: int) -> Array:
        """For each block of channels their biases, then a multiplier and an addend of each."""
        m, add = pad_rows(self.multiplier, columns), pad_rows(self.add, columns)
        pairs = np.stack([m, add], axis=1).reshape(-1, 2 * columns)
        made: Array = np.concatenate([bias.reshape(-1, columns), pairs], axis=1).reshape(-1)
        return made

    def rare_operands(self, columns: int) -> tuple[Operand, ...]:
        """The channels without an exact multiplier, and what floats need."""
        return constants(rare=self.rare_channels, **self._scale(columns)) if self.rare else ()

    def operands(self, columns: int) -> tuple[Operand, ...]:
        m, add = pad_rows(self.multiplier, columns), pad_rows(self.add, columns)
        return constants(m=m, add=add, **self._scale(columns))

    def scale_operands(self, columns: int) -> tuple[Operand, ...]:
        return constants(**self._scale(columns))

    def _scale(self, columns: int) -> dict[str, Array]:
        return {"scale": scale_of(self.q, columns)} if self.rare else {}


@frozen
class Parts:
    """floor(acc * m / 2^bits) + add >> shift, where no acc times the lower `bits` of m leaves 31
    bits: two multiplications. Other channels have the form of `halves`, whatever that takes."""

    halves: Halves
    multiplier: Array  # int32 [output channel]: m >> bits, then the lower bits; negative without m
    add: Array  # int32 [output channel]
    bits: Number
    shift: Number

    @property
    def rare_channels(self) -> Array:
        found: Array = np.flatnonzero(self.multiplier < 0).astype(np.uint16)
        return found

    def rare_operands(self) -> tuple[Operand, ...]:
        """Of the channels without multipliers, and of all what floats need."""
        rare = self.rare_channels
        if not rare.size:
            return ()
        m, add = self.halves.multiplier[rare], self.halves.add[rare]
        return (*constants(rare=rare, rm=m, radd=add), *self.halves.scale_operands(1))

    def rare_text(self, acc: str, channel: str) -> str:
        """Of a channel whose numbers are the variables `factor` and `more`."""
        usual = self.halves.text(acc)
        if not self.halves.rare:
            return usual
        return f"(factor >= 0 ? {usual} : {self.halves.rare_text(acc, channel)})"


def in_halves(c: Contraction, q: Quantisation) -> Halves | None:
    """The form of a layer, or None where scales or accumulators leave no room for it."""
    if q.lo == q.hi or not grows(c, q) or not c.v.y.dtype.is_int8:
        return None
    steps = Steps.of(c, q)
    least, most = steps.least, steps.most
    scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float64)
    constant = _constant(steps)
    largest = np.where(constant, 0, np.maximum(np.abs(least), np.abs(most))).astype(np.float64)
    shift = _shift(largest, np.where(constant, 0, scale))
    if shift < 1:
        return None
    m, add, rare = _settled(q, steps, scale, shift, 16)
    far = np.minimum(largest, 257 / scale)[rare].max(initial=0)
    near = math.ceil(far / 2**16) + math.ceil(2.0 ** (shift - 15)) + 2
    near += _step_of(q, shift)
    m = np.where(rare, -m, m)
    multiplier, added = m.astype(np.int32), add.astype(np.int32)
    return Halves(q, multiplier, added, Number(shift), Number(near))


def in_parts(c: Contraction, q: Quantisation) -> Parts | None:
    """The same in two multiplications, whose lower part has the bits that sums leave it."""
    halves = in_halves(c, q)
    if halves is None:
        return None
    steps = Steps.of(c, q)
    scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float64)
    some = ~_constant(steps)
    largest = np.maximum(np.abs(steps.least), np.abs(steps.most))[some]
    bits = min(16, 31 - int(largest.max(initial=0)).bit_length())
    reach = float((largest * scale[some]).max(initial=0)) + 2 * 256
    top = float(scale[some].max(initial=0)) or 1.0
    shift = min(30 - math.ceil(math.log2(reach)), math.floor(15 - 1e-3 - math.log2(top)))
    if bits < 1 or shift < 1:
        return None
    m, add, rare = _settled(q, steps, scale, shift, bits)
    rare |= m >= 2 ** (15 + bits)
    coded = (m >> bits << 16) + (m & (2**bits - 1))
    coded = np.where(rare, -1, coded).astype(np.int32)
    return Parts(halves, coded, add.astype(np.int32), Number(bits), Number(shift))


def _constant(steps: Steps) -> Array:
    """The channels whose outputs are all the same."""
    found = steps.sure.all(axis=1) & ~(steps.reached & steps.missed).any(axis=1)
    return np.asarray(found)


def _settled(
    q: Quantisation, steps: Steps, scale: Array, shift: int, bits: int
) -> tuple[Array, Array, Array]:
    """Multipliers of acc * m >> bits, what is added in units of 2^-shift, and the channels in
    which no such numbers step where the float form does."""
    known, constant = steps.sure.all(axis=1), _constant(steps)
    m = np.maximum(1, np.rint(np.where(constant, 0, scale) * 2.0 ** (bits + shift)))
    m = np.where(constant, 0, m).astype(np.int64)
    fixed = q.lo + (steps.first <= steps.least[:, None]).sum(axis=1)
    add = np.where(constant, fixed, q.y_zero_point) * 2**shift + 2 ** (shift - 1)
    missing = known & ~constant
    for tried in (0, TRIED):
        rows = np.flatnonzero(missing)
        candidates = np.maximum(m[rows, None] + np.arange(-tried, tried + 1), 1)
        found, chosen, more = steps.settled(rows, candidates, shift, bits)
        m[rows[found]], add[rows[found]] = chosen[found], more[found]
        missing[rows[found]] = False
    return m, add, missing | ~known


def _step_of(q: Quantisation, shift: int) -> int:
    """How far the first of two roundings moves a tie: by half a unit of the rounded product."""
    if q.rounding is Rounding.EVEN:
        return 0
    fraction = max(0, -int(parts(q.factor)[1].max()))
    return math.ceil(2.0 ** (shift - fraction - 1)) + 1


def _shift(largest: Array, scale: Array) -> int:
    """How many bits of sums are fractions of an output, at least 1 if any can be: multipliers and
    accumulators have 46 bits together, and the sums 31."""
    bits = min(30, 46 - math.ceil(math.log2(largest.max() + 2)))
    reach = float((largest * scale).max()) + 2 * 256
    top = float(scale.max()) or 1.0
    room = 30 - math.ceil(math.log2(reach))
    return min(math.floor(bits - 1e-9 - math.log2(top)) - 16, room) if bits >= 16 else 0
