"""How far arrays are from a reference as a whole: RMSE, cosine and SQNR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mlftool.frozen import frozen

Array = npt.NDArray[Any]


@frozen
class Distance:
    """Sums over elements of a result and its reference, which add up over arrays.

    Values are as they are stored: integers without their scale and zero point. Elements that are
    nan or the same infinity on both sides are left out; one that only one side has makes the error
    infinite.
    """

    elements: int = 0
    error: float = 0.0  # the sum of squared differences
    reference: float = 0.0  # the sum of squares
    result: float = 0.0
    product: float = 0.0  # the sum of both, multiplied

    def __add__(self, other: Distance) -> Distance:
        sums = zip(vars(self).values(), vars(other).values(), strict=True)
        return Distance(*(a + b for a, b in sums))

    @property
    def rmse(self) -> float:
        """The root of the mean squared difference; 0 of no elements."""
        return math.sqrt(self.error / self.elements) if self.elements else 0.0

    @property
    def cosine(self) -> float | None:
        """Of the angle between both as vectors, from -1 to 1; None if one is all zeros, or too
        large for its squares."""
        lengths = math.sqrt(self.reference) * math.sqrt(self.result)
        if not (lengths and math.isfinite(lengths) and math.isfinite(self.product)):
            return None
        return max(-1.0, min(1.0, self.product / lengths))

    @property
    def sqnr(self) -> float | None:
        """The reference's power over the error's in decibels, infinite if there is no error; None
        of a reference that is all zeros."""
        if not self.reference:
            return None
        if math.isinf(self.error):
            return -math.inf
        return 10 * math.log10(self.reference / self.error) if self.error else math.inf


def distance(got: Array, reference: Array) -> Distance:
    """Of arrays of one shape. Strings have no distance: they do not count as elements."""
    if reference.dtype.kind == "S":
        return Distance()
    wide = np.complex128 if "c" in (got.dtype.kind, reference.dtype.kind) else np.float64
    a, b = got.astype(wide).reshape(-1), reference.astype(wide).reshape(-1)
    finite = np.isfinite(a) & np.isfinite(b)
    # Infinities are equal by ==, nans by being nans.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    x, y = a[finite], b[finite]
    with np.errstate(over="ignore"):
        error = float(np.sum(np.abs(x - y) ** 2))
        return Distance(
            elements=int(np.sum(finite | ~same)),
            error=error if bool(np.all(same | finite)) else math.inf,
            reference=float(np.sum(np.abs(y) ** 2)),
            result=float(np.sum(np.abs(x) ** 2)),
            product=float(np.real(np.vdot(y, x))),
        )
