"""Requantisation that rounds twice in the least instructions.

TensorFlow Lite's product, rounded to 2^-r of an output, is the upper half of 2 * acc * m, for which
Cortex-M4 has one instruction that also adds. What is added is the zero point and the half of the
shift that follows; below zero ties go the other way, so one is taken off there.

Outputs that a Relu limits to the zero point and above need no such thing, and then both roundings
are one comparison of acc * m with a number: so one multiplication, one addition and one shift that
is the same for all channels have the same bits, if the sum is first moved to the left, for a
fraction of r bits of the number that is added. Nothing is taken for granted: all steps are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rounding, parts
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, grows, pad_rows
from mlftool.targets.requantise.steps import MOST_FRACTION, Steps, extremes

MOST_LEFT = 8  # weights of int8 times 2^8 are int16
TRIED = 8  # multipliers on either side of the best one

Read = Callable[[str], str]  # C text of a channel's number, by the name of its operand


@frozen
class OneSided:
    """((acc * 2^left) * m >> 32) + add >> shift"""

    left: int
    operands: tuple[Operand, ...]  # m and add
    shift: Number
    limits: str

    def text(self, acc: str, at: Read) -> str:
        """C text of what is stored for acc * 2^left."""
        return f"mlf_requantize_fixed({acc}, {at('m')}, {at('add')}, {self.shift}, {self.limits})"


@frozen
class Away:
    """The two roundings themselves; `signed` if an output may be less than its zero point."""

    operands: tuple[Operand, ...]  # m, and where channels differ add and by
    same: tuple[Number, Number] | None  # add and by where they do not
    signed: bool
    limits: str
    left: int = 1

    def text(self, acc: str, at: Read) -> str:
        """C text of what is stored for 2 * acc."""
        add, by = self.same or (at("add"), at("by"))
        name = "mlf_requantize_away" if self.signed else "mlf_requantize_up"
        return f"{name}({acc}, {at('m')}, {add}, {by}, {self.limits})"


def one_sided(c: Contraction, q: Quantisation, multiple: int) -> OneSided | None:
    """None where outputs may be less than their zero point, or a channel has no such numbers."""
    if not takes(c, q) or q.lo < q.y_zero_point:
        return None
    steps = Steps.of(c, q)
    m, exponent = multipliers(c, q)
    some = m > 0
    if not some.any() or not steps.sure.all():
        return None
    largest = np.maximum(np.abs(steps.least), np.abs(steps.most))
    top = int(exponent[some].max())
    left = min(2 + top - int(exponent[some].min()), MOST_LEFT, 30 - int(largest.max()).bit_length())
    reach = float((largest * np.ldexp(m.astype(np.float64), exponent - 31)).max()) + 2 * 256 + 2
    shift = min(left - 1 - top, 30 - math.ceil(math.log2(reach)))
    if left < 0 or shift < 1:
        return None
    ideal = np.rint(np.ldexp(m.astype(np.float64), shift + 1 - left + exponent)).astype(np.int64)
    found, chosen, add = np.zeros(c.oc, bool), ideal.copy(), np.zeros(c.oc, np.int64)
    for tried in (0, TRIED):
        rows = np.flatnonzero(~found)
        candidates = np.clip(ideal[rows, None] + np.arange(-tried, tried + 1), 0, 2**31 - 1)
        found[rows], chosen[rows], add[rows] = steps.settled(rows, candidates, shift, 32, left)
    if not found.all() or np.abs(add).max() >= 2**30:
        return None
    operands = _int32("m", chosen, multiple), _int32("add", add, multiple)
    return OneSided(left, operands, Number(shift), f"{q.lo}, {q.hi}")


def away(c: Contraction, q: Quantisation, multiple: int) -> Away | None:
    """None where a channel multiplies by a half or more, or a sum twice does not fit."""
    if not takes(c, q):
        return None
    m, exponent = multipliers(c, q)
    by = np.where(m > 0, -exponent, 1)
    most = max(int(np.abs(end).max()) for end in extremes(c, q))
    if by.min() < 1 or by.max() > MOST_FRACTION or most >= 2**30 - 2**29:
        return None
    add = (int(q.y_zero_point) << by) + (1 << (by - 1))
    m_ = _int32("m", m, multiple)
    signed, limits = bool(q.lo < q.y_zero_point), f"{q.lo}, {q.hi}"
    if by.min() == by.max():
        return Away((m_,), (Number(add[0]), Number(by[0])), signed, limits)
    shifts = Operand("by", "int8_t", "const", array=pad_rows(by.astype(np.int8), multiple))
    return Away((m_, _int32("add", add, multiple), shifts), None, signed, limits)


def takes(c: Contraction, q: Quantisation) -> bool:
    """Whether sums become several bytes by rounding twice, and no left shift loses bits."""
    some = q.lo < q.hi and c.v.y.dtype.is_int8
    return q.rounding is Rounding.TWICE and some and grows(c, q)


def multipliers(c: Contraction, q: Quantisation) -> tuple[Array, Array]:
    """int64 [channel]: multipliers and exponents."""
    m, exponent = (np.broadcast_to(part, (c.oc,)) for part in parts(q.factor))
    return m, exponent


def _int32(name: str, values: Array, multiple: int) -> Operand:
    return Operand(name, "int32_t", "const", array=pad_rows(values.astype(np.int32), multiple))
