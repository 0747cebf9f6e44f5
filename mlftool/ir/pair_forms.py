"""Integers that stand for sums and products of two 8-bit tensors, with the bits of their results.

The 65536 results are given, computed as the operator computes them in floats; integers are looked
for with

    a sum:      t = a * ma + b * mb + add,                           result = clamp(t >> shift)
    a product:  t = ((a - za) * (b - zb) * 2^14 * m >> 32) + add,    the same
    a slope:    t = (a - za) * m + min(a - za, 0) * b + add,         the same

equal to every one of them. `add` may be anything between two bounds that the 65536 results set.
Float rounding decides by chance what lies within 10^-5 of one half: where it decides against the
form, once or twice in 65536, that value of t is an exception; of a product, where factors that are
one product are rounded apart, some pairs of elements. If there are more, there is no form.
A constant float tensor in place of b becomes one of integers: what is added, or multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Array
from mlftool.ir.holes import Number

LARGEST_SHIFT = 22
_WIDENED = 14  # a product of 17 bits, with its sign, fills 31
# Multipliers tried around the ideal ones, the nearest first: float rounding moves steps a little.
MOST_EXCEPTIONS = 2
_MOST_PAIRS = 4
_NEAR_HALF = (0, -1, 1, -4, 4, -16, 16, -64, 64)  # tried of a slope
_FAR = 2**29  # beyond what is added or multiplied
_NEAR = sorted(product(range(-4, 5), repeat=2), key=lambda d: (d[0] ** 2 + d[1] ** 2, d))


@frozen
class Clamped:
    """clamp(t >> shift, low, high); where t is the first of an exception its second is added."""

    exceptions: tuple[tuple[Number, Number], ...]
    shift: Number
    low: Number
    high: Number

    @staticmethod
    def of(
        exceptions: Sequence[tuple[int, int]], shift: int, results: Array, t: Array | None = None
    ) -> Clamped:
        """A limit that no `t` is beyond is the type's own, for which cores have instructions."""
        steps = tuple((Number(value), Number(step)) for value, step in exceptions)
        low, high = int(results.min()), int(results.max())
        if t is not None and low >= -128 and high <= 127:
            low = low if int(t.min()) >> shift < low else -128
            high = high if int(t.max()) >> shift > high else 127
        return Clamped(steps, *(Number(n) for n in (shift, low, high)))

    def text(self, t: str) -> str:
        changed = t
        for value, step in self.exceptions:
            changed = f"({changed} + ({t} == {value} ? {step} : 0))"
        return f"mlf_shift_clamp_i32({changed}, {self.shift}, {self.low}, {self.high})"


@frozen
class Sum:
    """t = a * m + b * n + add"""

    m: Number
    n: Number
    add: Number

    def text(self, a: object, b: object) -> str:
        return f"{a} * {self.m} + {b} * {self.n} {_signed(self.add)}"


@frozen
class Biased:
    """t = a * m + b"""

    m: Number

    def text(self, a: object, b: object) -> str:
        return f"{a} * {self.m} + {b}"


@frozen
class Scaled:
    """t = (a - zero) * b + add"""

    zero: int
    add: int

    def text(self, a: object, b: object) -> str:
        return f"{_less(a, self.zero)} * {b} {_signed(self.add)}"


@frozen
class Product:
    """t = ((a - zero of a) * (b - zero of b) * 2^14 * m >> 32) + add. `pairs`: what is added to t
    where a * 256 + b is the first number of a pair."""

    zeros: tuple[int, int]
    m: Number
    add: Number
    pairs: tuple[tuple[Number, Number], ...] = ()

    def text(self, a: object, b: object) -> str:
        factors = " * ".join(_less(x, zero) for x, zero in zip((a, b), self.zeros, strict=True))
        t = f"mlf_multiply_high({factors} * {2**_WIDENED}, {self.m}, {self.add})"
        return t + "".join(f" + ({a} * 256 + {b} == {k} ? {n} : 0)" for k, n in self.pairs)


@frozen
class Sloped:
    """t = (a - zero) * m + min(a - zero, 0) * b + add"""

    zero: int
    m: Number
    add: Number

    def text(self, a: object, b: object) -> str:
        return f"mlf_slope_i32({_less(a, self.zero)}, {self.m}, {b}, {self.add})"


def _less(element: object, zero_point: int) -> str:
    return f"({element} {_signed(-zero_point)})" if zero_point else f"{element}"


def _signed(n: int) -> str:
    return f"{'-' if n < 0 else '+'} {Number(abs(n))}"


Form = Sum | Biased | Scaled | Product | Sloped


@frozen
class Side:
    """One of the two: its scale and zero point."""

    name: str
    dtype: DType
    scale: np.float32 | np.float64
    zero_point: int

    @property
    def values(self) -> Array:
        lo, hi = self.dtype.range
        return np.arange(lo, hi + 1, dtype=np.int64)

    @property
    def floats(self) -> Array:
        return (self.values - self.zero_point).astype(np.float32) * self.scale


@frozen
class Terms:
    """The values of one operand, and what they are multiplied by less their zero point."""

    values: Array
    zero_point: int
    ratio: float


def sum_form(a: Side, b: Side, unit: np.float32, results: Array) -> tuple[Sum, Clamped] | None:
    """The sum's form, None if there is none; `unit` is the scale of the results."""
    x, y = (Terms(s.values, s.zero_point, float(s.scale) / float(unit)) for s in (a, b))
    return sum_of(x, y, results)


def sum_of(a: Terms, b: Terms, results: Array) -> tuple[Sum, Clamped] | None:
    """The form that gives results [256, 256], None if there is none."""
    ratios = [a.ratio, b.ratio]
    reach = max(1.0, sum(ratios) * 256 + 512)
    shift = min(LARGEST_SHIFT, int(30 - np.ceil(np.log2(reach))))
    if shift < 8:
        return None
    i, j = np.nonzero(_near_steps(a, b))
    left, right, near = a.values[i], b.values[j], results[i, j]
    found: list[tuple[int, int, int]] = []
    for da, db in _NEAR:
        ma, mb = (round(r * 2**shift) + d for r, d in zip(ratios, (da, db), strict=True))
        _, wrong = _best(*_bounds(ma * left + mb * right, near, shift, results))
        if wrong <= MOST_EXCEPTIONS:
            found.append((wrong, ma, mb))
        if not wrong:
            break
    for _, ma, mb in sorted(found, key=lambda f: f[0])[:4]:
        sums = ma * a.values[:, None] + mb * b.values[None, :]
        add, exceptions = _settled(sums, results, shift)
        if np.abs(sums).max() + abs(add) < 2**31 and exceptions is not None:
            total = Sum(Number(ma), Number(mb), Number(add))
            return total, Clamped.of(exceptions, shift, results)
    return None


def _near_steps(a: Terms, b: Terms) -> Array:
    """bool [256, 256]: where the sum is near one half, which is where multipliers differ. All other
    results are the same for each of them."""
    x = (a.values - a.zero_point)[:, None] * a.ratio
    y = (b.values - b.zero_point)[None, :] * b.ratio
    return np.asarray(np.abs((x + y) % 1 - 0.5) < 1 / 256)


def _shift(reach: float, bits: int = 30) -> int | None:
    """The shift with which results that reach so far fit `bits`; None if they reach too far."""
    reach += 512
    if not np.isfinite(reach) or reach >= 2**22:
        return None
    return min(LARGEST_SHIFT, int(bits - np.ceil(np.log2(reach))))


def bias_form(
    a: Side, b: Array, unit: np.float32, results: Array
) -> tuple[Biased, Clamped, Array] | None:
    """The form of a sum with constants, and integers in place of the constants."""
    lo, hi = int(results.min()), int(results.max())
    ratio = float(a.scale) / float(unit)
    shift = _shift(ratio * 256 + float(np.abs(b).max(initial=0)) / float(unit))
    if shift is None:
        return None
    for d in (0, 1, -1, 2, -2, 3, -3):
        m = round(ratio * 2**shift) + d
        sums = m * a.values[:, None]
        far = 2**30
        above = np.where(results > lo, (results << shift) - sums, -far).max(axis=0)
        below = np.where(results < hi, ((results + 1) << shift) - 1 - sums, far).min(axis=0)
        add = np.where(above == -far, below, np.where(below == far, above, (above + below) // 2))
        fits = np.abs(sums).max() + np.abs(add).max() < 2**31
        if np.all(above <= below) and fits:
            array = add.astype(np.int32).reshape(b.shape)
            return Biased(Number(m)), Clamped.of((), shift, results), array
    return None


def factor_form(
    a: Side, b: Array, unit: np.float32, results: Array
) -> tuple[Scaled, Clamped, Array] | None:
    """The form of a product with constants, in the same way."""
    ratios = float(a.scale) / float(unit) * b.astype(np.float64)
    shift = _shift(float(np.abs(ratios).max(initial=0)) * 256)
    if shift is None:
        return None
    for d in (0, 1, -1, 2, -2):
        m = np.rint(ratios * 2**shift).astype(np.int64) + d
        products = (a.values - a.zero_point)[:, None] * m.reshape(1, -1)
        add, wrong = _best(*_bounds(products, results, shift, results))
        if not wrong and np.abs(products).max() + abs(add) < 2**31:
            t = Scaled(a.zero_point, add)
            return t, Clamped.of((), shift, results), m.astype(np.int32)
    return None


def slope_form(
    a: Side, b: Array, unit: np.float32, results: Array
) -> tuple[Sloped, Clamped, Array] | None:
    """The form of what is multiplied by constants below zero, in the same way."""
    ratio = float(a.scale) / float(unit)
    slopes = ratio * b.astype(np.float64).reshape(-1)
    shift = _shift(max(ratio, float(np.abs(slopes).max(initial=0))) * 256, 29)
    if shift is None:
        return None
    d = (a.values - a.zero_point)[:, None]
    up, down = d[:, 0] >= 0, d[:, 0] < 0
    start = int(results[up][0, 0]) << shift  # what is added gives the result of 0, too
    near = start + 2 ** (shift - 1) + np.array(_NEAR_HALF)
    for more in (0, 1, -1, 2, -2):
        m = round(ratio * 2**shift) + more
        least, most = _bounds(d[up] * m, results[up][:, :1], shift, results)
        first, last = int(least.max(initial=start)), int(most.min(initial=start + 2**shift - 1))
        for add in near[(first <= near) & (near <= last)].tolist():
            low, high = _slopes(d[down], results[down], add, shift, results)
            if np.all(low <= high):
                k = np.clip(np.rint(slopes * 2**shift).astype(np.int64), low, high) - m
                t = Sloped(a.zero_point, Number(m), Number(add))
                return t, Clamped.of((), shift, results), k.astype(np.int32).reshape(b.shape)
    return None


def _slopes(d: Array, results: Array, add: int, shift: int, every: Array) -> tuple[Array, Array]:
    """int64 [constant]: the least and the greatest n with which (d * n + add) >> shift is the
    result for each d, all below zero."""
    most = np.where(results > every.min(), ((results << shift) - add) // d, _FAR)
    least = np.where(results < every.max(), -((((results + 1) << shift) - 1 - add) // -d), -_FAR)
    return least.max(axis=0, initial=-_FAR), most.min(axis=0, initial=_FAR)


def product_form(
    a: Side, b: Side, unit: np.float32, results: Array
) -> tuple[Product, Clamped] | None:
    """The product's form, None if there is none."""
    ratio = float(a.scale) * float(b.scale) / float(unit)
    left, right = a.values - a.zero_point, b.values - b.zero_point
    products = (left[:, None] * right[None, :]) << _WIDENED
    largest = int(np.abs(products).max())
    reach = largest / 2**_WIDENED * ratio + 512
    shift = int(min(30 - np.ceil(np.log2(reach)), np.floor(30.99 + _WIDENED - 32 - np.log2(ratio))))
    if not 8 <= shift <= 30 or largest >= 2**31:
        return None
    m = round(ratio * 2.0 ** (32 - _WIDENED + shift))
    high = (products * m) >> 32
    add, exceptions = _settled(high, results, shift)
    if np.abs(high).max() + abs(add) >= 2**31:
        return None
    pairs = () if exceptions is not None else _apart(a, b, high + add, results, shift)
    if pairs is None:
        return None
    t = Product((a.zero_point, b.zero_point), Number(m), Number(add), pairs)
    return t, Clamped.of(exceptions or (), shift, results, high + add)


def _apart(
    a: Side, b: Side, t: Array, results: Array, shift: int
) -> tuple[tuple[Number, Number], ...] | None:
    """a * 256 + b of the few pairs of elements whose t gives a wrong result, and its correction."""
    off = results - np.clip(t >> shift, results.min(), results.max())
    i, j = np.nonzero(off)
    if i.size > _MOST_PAIRS or np.abs(off).max() > 1:
        return None
    moved = t.copy()
    moved[i, j] += off[i, j] << (shift - 1)
    if not np.array_equal(np.clip(moved >> shift, results.min(), results.max()), results):
        return None
    keys, steps = a.values[i] * 256 + b.values[j], off[i, j] << (shift - 1)
    return tuple((Number(k), Number(n)) for k, n in zip(keys.tolist(), steps.tolist(), strict=True))


def _bounds(sums: Array, results: Array, shift: int, every: Array) -> tuple[Array, Array]:
    """What may be added to the sums: no less where a result is not the lowest of all, no more where
    it is not the highest, so that (sum + it) >> shift, limited to them, is the result."""
    least = ((results << shift) - sums)[results > every.min()]
    most = (((results + 1) << shift) - 1 - sums)[results < every.max()]
    return least, most


def _best(least: Array, most: Array) -> tuple[int, int]:
    """What to add such that the fewest bounds are broken, and how many are."""
    if not least.size or not most.size:
        return int(least.max()) if least.size else int(most.min()) if most.size else 0, 0
    if least.max() <= most.min():
        return int(least.max() + most.min()) // 2, 0
    # The bounds that are broken first: sorting all takes twenty times as long.
    n = MOST_EXCEPTIONS + 1
    largest = np.sort(np.partition(least, -min(n, least.size))[-n:])
    smallest = np.sort(np.partition(most, min(n, most.size) - 1)[:n])
    tried = [*largest.tolist(), *smallest.tolist()]
    broken = [int(np.count_nonzero(least > t) + np.count_nonzero(most < t)) for t in tried]
    k = broken.index(min(broken))
    return tried[k], broken[k]


def _settled(
    sums: Array, results: Array, shift: int
) -> tuple[int, Sequence[tuple[int, int]] | None]:
    """What to add, and the exceptions: values of t and what brings them to the right side."""
    add, _ = _best(*_bounds(sums, results, shift, results))
    t = sums + add
    lo, hi = int(results.min()), int(results.max())
    off = results - np.clip(t >> shift, lo, hi)
    # Not np.unique, which imports numpy's masked arrays.
    values = sorted(set(t[off != 0].tolist()))
    if len(values) > MOST_EXCEPTIONS:
        return add, None
    exceptions = []
    for value in values:
        there = set(off[t == value].tolist())  # other pairs with this t may want none
        if there not in ({1}, {-1}):
            return add, None
        exceptions.append((value, there.pop() << (shift - 1)))
    for value, step in exceptions:
        t = np.where(t == value, t + step, t)
    right = np.array_equal(np.clip(t >> shift, lo, hi), results)
    return add, exceptions if right else None
