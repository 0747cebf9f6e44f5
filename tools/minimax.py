#!/usr/bin/env python3
"""The polynomials of crt/include/mlf/math.h and math64.h, computed anew: needs mpmath.

    python3 tools/minimax.py            prints each one's coefficients and the error of its fit

A polynomial is the least-squares fit at Chebyshev's nodes, which is within a small factor of the
minimax one. Coefficients are rounded to the working type one after the other, lowest first, and the
rest is fitted again to what the rounded ones leave, so that rounding costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """`function` on [low, high] as sum of c[k] * x^k, with error relative to `weight`."""

    name: str
    function: Function
    low: float
    high: float
    degree: int
    dtype: type = np.float64
    weight: Function = lambda x: mp.mpf(1)


def nodes(low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    half, middle = (high - low) / 2, (high + low) / 2
    return [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def solve(fit: Fit) -> list[float]:
    """The coefficients, lowest first."""
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    done: list[float] = []
    for first in range(fit.degree + 1):
        count = fit.degree + 1 - first
        points = nodes(low, high, 4 * (fit.degree + 1))
        rest = [fit.function(x) - sum(mp.mpf(c) * x**k for k, c in enumerate(done)) for x in points]
        matrix = mp.matrix(len(points), count)
        for row, x in enumerate(points):
            for column in range(count):
                matrix[row, column] = x ** (first + column)
        solution = mp.lu_solve(matrix, mp.matrix(rest))
        done.append(float(fit.dtype(float(solution[0]))))
    return done


def error(fit: Fit, coefficients: list[float]) -> mp.mpf:
    worst = mp.mpf(0)
    for x in nodes(mp.mpf(fit.low), mp.mpf(fit.high), 400):
        value = sum(mp.mpf(c) * x**k for k, c in enumerate(coefficients))
        worst = max(worst, abs((value - fit.function(x)) * fit.weight(x)))
    return worst


def series(f: Callable[[mp.mpf], mp.mpf], at_zero: float) -> Function:
    """`f` with its limit at zero, computed beyond the cancellation there."""

    def g(x: mp.mpf) -> mp.mpf:
        if x == 0:
            return mp.mpf(at_zero)
        with mp.workdps(140):
            return f(mp.mpf(x))

    return g


def scaled_erfc(t: mp.mpf) -> mp.mpf:
    """exp(x^2) erfc(x) for t = (x - 3) / (x + 3)."""
    x = 3 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x)


def around_fifteen_sixteenths(u: mp.mpf) -> mp.mpf:
    """erf less its value at 15/16, rounded to float."""
    return mp.erf(mp.mpf(0.9375) + u) - mp.mpf(float(np.float32(mp.erf(mp.mpf(0.9375)))))


HALF_LN2 = float(mp.log(2) / 2) * 1.001
S_MAX = float((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) * 1.001
FITS = (
    # exp(r) = 1 + r + r^2 P(r)
    Fit("exp", series(lambda r: (mp.exp(r) - 1 - r) / r**2, 0.5), -HALF_LN2, HALF_LN2, 10),
    # log((1 + s) / (1 - s)) = 2 s + s P(s^2)
    Fit(
        "log",
        series(lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z, 2 / 3),
        0,
        S_MAX**2,
        7,
    ),
    # sin(r) = r + r^3 P(r^2), cos(r) = 1 - r^2 / 2 + r^4 P(r^2)
    Fit("sin", series(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -1 / 6), 0, 0.6169, 6),
    Fit("cos", series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 1 / 24), 0, 0.6169, 6),
    # atan(t) = t + t^3 P(t^2)
    Fit(
        "atan", series(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -1 / 3), 0, 0.1717, 10
    ),
    # asin(t) = t + t^3 P(t^2)
    Fit("asin", series(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 1 / 6), 0, 0.2501, 12),
    # erf(x) = x P(x^2)
    Fit(
        "erf", series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z), 2 / mp.sqrt(mp.pi)), 0, 1.0001, 12
    ),
    Fit("erfc", scaled_erfc, -0.5001, 1 / 3 + 1e-4, 17),
    # In float: x + x P(x^2), around 15/16 a constant and P(x - 15/16), then 1 - exp(P(x - 5/4))
    Fit(
        "erff",
        series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1),
        *(0, 0.3907, 5, np.float32),
    ),
    Fit("erff, middle", around_fifteen_sixteenths, -0.3126, 0.3126, 7, np.float32),
    Fit(
        *("erff, log", lambda u: mp.log(mp.erfc(1.25 + u)), 0, 2.68, 7, np.float32),
        lambda u: mp.erfc(1.25 + u),
    ),
)


def main() -> None:
    for fit in FITS:
        found = solve(fit)
        print(f"{fit.name}: error 2^{float(mp.log(error(fit, found), 2)):.1f}")
        for c in found:
            print(f"  {np.format_float_scientific(fit.dtype(c), unique=True)}")


if __name__ == "__main__":
    main()
