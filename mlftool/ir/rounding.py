"""How a quantised node makes its output of an integer sum: a property of the node.

ONNX multiplies by a float and rounds to even. TensorFlow Lite multiplies by a number in fixed
point: `multiplier` gives its 31 bits and its exponent. Its reference kernels round the product,
and then round it again when they shift it; those with sums of 64 bits round once, with a multiplier
of 15 bits. The functions here compute that in numpy, on int64 arrays that hold values of 32 bits;
mlf/rescale.h has the same in C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array, Node

ATTRIBUTE = "mlf.rounding"  # of a node: the value of a Rounding, EVEN where there is none
# Of a DequantizeLinear: what reads it is computed in floats, as TensorFlow Lite does. In ONNX an
# operator of floats between DequantizeLinear and QuantizeLinear is how one of integers is written,
# unless a scale is negative.
IN_FLOATS = "mlf.in_floats"
# Of a node whose zero points take part in the rounding, and so have to stay: how much less its
# bytes are than those zero points take for granted.
RAISED = "raised"


class Rounding(Enum):
    """`EVEN`: a float32 product, ties to even. `TWICE`: a product with 31 bits rounded, then
    shifted and rounded, ties away from zero. `ONCE`: a sum of 64 bits times 15 bits, shifted and
    rounded once, ties up. `LATE`: of a QuantizeLinear, EVEN after the zero point is added, which
    moves ties if it is odd."""

    EVEN = "even"
    TWICE = "twice"
    ONCE = "once"
    LATE = "late"

    @staticmethod
    def of(node: Node) -> Rounding:
        """How `node` rounds."""
        return Rounding(node.attrs.get(ATTRIBUTE, "even"))

    @property
    def includes(self) -> tuple[str, ...]:
        """The headers of `function`, besides mlf/kernel.h, which every kernel has."""
        return () if self is Rounding.EVEN else ("mlf/rescale.h",)

    @property
    def function(self) -> str:
        """Of mlf/rescale.h: (sum, factor, zero point, least, most) to a stored value."""
        return f"mlf_requantize_{self.value}"

    def factors(self, real: Array) -> Array:
        """int64 with the shape of `real`, which is float64: what `function` reads, the multiplier
        in the lower 32 bits and the shift above them."""
        pairs = [self.factor(float(r)) for r in real.reshape(-1)]
        packed = [(shift << 32) + (m & 0xFFFFFFFF) for m, shift in pairs]
        return np.array(packed, np.int64).reshape(real.shape)

    def factor(self, real: float) -> tuple[int, int]:
        """The multiplier, and for TWICE its exponent, for ONCE the shift to the right. Raises
        FactorError, for ONCE from 2^14 on, where that is none."""
        m, exponent = multiplier(real)
        if self is Rounding.ONCE and exponent > 14:
            raise FactorError(f"scales give the factor {real:g}; expected less than 2^14")
        return (m, exponent) if self is Rounding.TWICE else (short(m), 15 - exponent)

    def apply(self, x: Any, real: Array) -> Array:
        """int64: the integers `x` times `real`, rounded; the two broadcast."""
        pairs = [multiplier(float(r)) for r in real.reshape(-1)]
        m, exponent = (
            np.array(part, np.int64).reshape(real.shape) for part in zip(*pairs, strict=True)
        )
        made = rescaled if self is Rounding.TWICE else rescaled_once
        return made(np.asarray(x, np.int64), m, exponent)


@frozen
class Rescaling:
    """(x - before) * 2^left * m * 2^(exponent - 31) + after, rounded twice, within [low, high]
    where it is stored in 8 or 16 bits. Its fields are attributes of a node."""

    before: int = 0
    left: int = 0
    m: int = 0
    exponent: int = 0
    after: int = 0
    low: int = 0
    high: int = 0

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Rescaling:
        """The attributes of a node."""
        return cls(**{f.name: attrs[f.name] for f in fields(cls) if f.name in attrs})

    @property
    def real(self) -> float:
        """What a number is multiplied by, but for rounding."""
        return math.ldexp(self.m, self.left + self.exponent - 31)

    def apply(self, x: Any) -> Array:
        """int64: of integers, without the limits."""
        moved = wrapped(wrapped(np.asarray(x, np.int64) - self.before) << self.left)
        return rescaled(moved, self.m, self.exponent) + self.after


class FactorError(ValueError):
    """A factor that no multiplier of 31 bits and shift gives."""


def multiplier(real: float) -> tuple[int, int]:
    """(m, e) with m * 2^(e - 31) next to `real`, m of 31 bits; (0, 0) for what is below 2^-32.
    Raises FactorError below 0, whose ties kernels would round otherwise, and from 2^31 on."""
    if not 0 <= real < 2.0**31:
        raise FactorError(f"scales give the factor {real:g}; expected 0 to 2^31")
    fraction, exponent = math.frexp(real)
    m = math.floor(fraction * 2**31 + 0.5)
    m, exponent = (m // 2, exponent + 1) if m == 2**31 else (m, exponent)
    return (0, 0) if m == 0 or exponent < -31 else (m, exponent)


def parts(factors: Array) -> tuple[Array, Array]:
    """int64: the multipliers and the exponents of what `Rounding.factors` gave."""
    return factors & 0xFFFFFFFF, factors >> 32


def short(m: int) -> int:
    """A multiplier of 31 bits as one of 15."""
    return 0x7FFF if m >= 0x7FFF0000 else (m + (1 << 15)) >> 16


def wrapped(x: Any) -> Array:
    """The lower 32 bits, as signed numbers."""
    return np.asarray((np.asarray(x, np.int64) + 2**31) % 2**32 - 2**31)


def high(a: Any, b: Any) -> Array:
    """a * b / 2^31, ties up; of the least number twice, the greatest."""
    product = (np.asarray(a, np.int64) * np.asarray(b, np.int64) + 2**30) >> 31
    return np.asarray(np.minimum(product, 2**31 - 1))


def shifted(x: Any, by: Any) -> Array:
    """x / 2^by for `by` from 0 to 31, ties away from zero."""
    x, by = np.asarray(x, np.int64), np.asarray(by, np.int64)
    mask = (np.int64(1) << by) - 1
    return np.asarray((x >> by) + ((x & mask) > (mask >> 1) + (x < 0)))


def rescaled(x: Any, m: Any, exponent: Any) -> Array:
    """x * m * 2^(exponent - 31), rounded twice. What a left shift pushes out is lost."""
    e = np.asarray(exponent, np.int64)
    return shifted(high(wrapped(np.asarray(x, np.int64) << np.maximum(e, 0)), m), np.maximum(-e, 0))


def rescaled_once(x: Any, m: Any, exponent: Any) -> Array:
    """The same of a sum below 2^47, with 15 bits of `m`, rounded once."""
    e, by = np.asarray(exponent, np.int64), np.vectorize(short, otypes=[np.int64])(m)
    half = np.int64(1) << (14 - e)
    return wrapped((np.asarray(x, np.int64) * by + half) >> (15 - e))


def multiply_add(a: Any, b: Any, c: Any) -> Array:
    """a * b + c of floats with one rounding; mlf/multiply_add.h has the same in C."""
    product, c = np.float64(a) * np.float64(b), np.float64(c)
    total = product + c
    taken = total - product
    lost = (product - (total - taken)) + (c - taken)
    bits = np.asarray(total).view(np.int64)
    odd = np.where((lost > 0) == (total > 0), 1, -1) * (np.abs(lost) > 0) * (bits & 1 == 0)
    return np.asarray((bits + odd).view(np.float64).astype(np.float32))


def late_pair(added: bool, values: Sequence[Array], raised: int = 0) -> Array:
    """onnxruntime's sum, or product, of two stored tensors. `values` are each of them with its
    scale and zero point, then those of the result, whose type it has; bytes are `raised` less than
    their zero points take for granted. What is not a number becomes the least."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (v.astype(np.float32) for v in values)
    a, b, stored = a + np.float32(raised), b + np.float32(raised), values[-1].dtype
    with np.errstate(all="ignore"):
        if added:
            m, n = a_scale / scale, b_scale / scale
            fixed = zero - multiply_add(m, a_zero, n * b_zero)
            value = multiply_add(a, m, multiply_add(b, n, fixed))
        else:
            value = (a - a_zero) * (b - b_zero) * (a_scale * b_scale / scale) + zero
        low, high = map(np.float32, (np.iinfo(stored).min, np.iinfo(stored).max))
        made = np.rint(np.fmin(np.fmax(value, low), high))
        return np.asarray((made - raised).astype(np.int8 if raised else stored))
