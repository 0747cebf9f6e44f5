"""Functions in TensorFlow Lite's fixed point, in numpy on int64: what tables are made with.

A number "of k" has k bits before its point: 1 is 2^(31 - k); of 0, 1 is 2^31 - 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ir.rounding import high, rescaled, shifted

ONE = 2**31 - 1
# e^-(2^e) of 0, for the bits of an exponent.
_FACTORS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)


def up(x: Any, by: int) -> Array:
    """x * 2^by, saturated."""
    return np.asarray(np.clip(np.asarray(x, np.int64) << by, -(2**31), ONE))


def half(a: Any, b: Any) -> Array:
    """(a + b) / 2, halves away from zero."""
    total = np.asarray(a, np.int64) + np.asarray(b, np.int64)
    return np.asarray(np.sign(total) * ((np.abs(total) + 1) // 2))


def exponential(a: Any, k: int) -> Array:
    """e^a of 0, for a <= 0 of k."""
    a = np.asarray(a, np.int64)
    fraction = 31 - k
    quarter = 1 << (fraction - 2)
    t = (a & (quarter - 1)) - quarter
    x = up(t, k) + 2**28
    x2 = high(x, x)
    x3, x4 = high(x2, x), high(x2, x2)
    y = shifted(high(shifted(x4, 2) + x3, 715827883) + x2, 1)
    r = 1895147668 + high(1895147668, x + y)
    rest = t - a
    for e, factor in _FACTORS:
        if k > e:
            r = np.where(rest & (1 << (fraction + e)), high(r, factor), r)
    if k > 5:
        r = np.where(a < -(1 << (36 - k)), 0, r)
    return np.where(a == 0, ONE, r)


def _newton(a: Any) -> Array:
    h = half(a, ONE)
    x = 1515870810 + high(h, -1010580540)
    for _ in range(3):
        x = x + up(high(x, 2**29 - high(h, x)), 2)
    return np.asarray(x)


def logistic(a: Any, k: int) -> Array:
    """1 / (1 + e^-a) of 0, for a of k."""
    a = np.asarray(a, np.int64)
    positive = up(_newton(exponential(-np.abs(a), k)), 1)
    return np.where(a == 0, 2**30, np.where(a > 0, positive, ONE - positive))


def tanh(a: Any, k: int) -> Array:
    """Of 0, for a of k."""
    a = np.asarray(a, np.int64)
    return np.asarray(np.sign(a) * up(_newton(exponential(-np.abs(a), k + 1)) - 2**29, 2))


def inverse_root(v: int) -> tuple[int, int]:
    """(r, e) with r * 2^(e - 31) next to 1 / sqrt(v), for v >= 0."""
    if v <= 1:
        return ONE, 0
    shift = 11
    while v >= 2**29:
        v, shift = v // 4, shift + 1
    more = (32 - v.bit_length() - 1) // 2 - 1
    shift -= more
    v <<= 2 * more
    f = v >> 1
    h, x = shifted(f, 1), np.asarray(2**28)
    for _ in range(5):
        cube = up(high(high(x, x), x), 6)
        x = up(high(402653184, x) - high(h, cube), 3)
    found = int(high(x, 1518500250))
    return (found << -shift, 0) if shift < 0 else (found, -shift)


def radius(k: int, left: int) -> int:
    """How far from zero what is shifted `left` stays inside numbers of k."""
    return math.floor(math.ldexp(2**k - 1, 31 - k - left))


def exponentials(m: int, left: int) -> Array:
    """int32 [256]: e^-d of 0 for distances d of int8, times a multiplier; 0 from where it is not
    computed."""
    d = -np.arange(256, dtype=np.int64)
    scaled = high(np.clip(d << left, -(2**31), 0), m)
    far = d < -radius(5, left)
    return np.where(far, 0, exponential(np.where(far, 0, scaled), 5)).astype(np.int32)


def between(f: Any, scale_in: float, zero_in: int, scale_out: float) -> Array:
    """int16 [513] for mlf_between: a function of floats by 512 lines, in float32 throughout."""
    f32 = np.float32
    first = f32(f32(scale_in) * f32(-32768 - zero_in))
    last = f32(f32(scale_in) * f32(32767 - zero_in))
    out = f32(scale_out)
    by = f32(f32(65536) / f32(f32(out * f32(32767)) - f32(out * f32(-32768))))
    step = f32(f32(last - first) / f32(512))

    def at(x: Any) -> Any:
        return f32(f(float(x)))

    table = []
    for i in range(512):
        left = f32(first + f32(f32(i) * step))
        here, middle = at(left), at(f32(left + f32(step / f32(2))))
        there = at(f32(first + f32(f32(i + 1) * step)))
        sample = _away(f32(here * by))
        line = _away(f32(f32(f32(there * by) + f32(sample)) / f32(2)))
        error = f32(line - _away(f32(middle * by)))
        table.append(sample - _away(f32(error / f32(2))))
    table.append(_away(f32(at(last) * by)))
    return np.clip(table, -32768, 32767).astype(np.int16)


def _away(x: Any) -> int:
    value = float(x)
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def logistic_table(scale: float, zero: int) -> Array:
    """int8 [256] for the bytes 0, 1 ..."""
    return _curve(scale, zero, lambda a: shifted(logistic(a, 4), 23) - 128)


def tanh_table(scale: float, zero: int) -> Array:
    return _curve(scale, zero, lambda a: shifted(tanh(a, 4), 24))


def _curve(scale: float, zero: int, f: Any) -> Array:
    fraction, left = math.frexp(scale * 2**27)
    m, far = math.floor(fraction * 2**31 + 0.5), 0
    far = radius(4, left)
    v = codes() - zero
    inside = np.clip(v, -far, far)
    y = np.clip(f(rescaled(inside, m, left)), -128, 127)
    return np.where(v <= -far, -128, np.where(v >= far, 127, y)).astype(np.int8)


def codes() -> Array:
    """int64: the values of the bytes 0, 1 ... 255 as int8."""
    return np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int64)
