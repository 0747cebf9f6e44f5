"""How far results are from a reference, element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mlftool.frozen import field, frozen
from mlftool.runtime.distance import Distance, distance

Array = npt.NDArray[Any]


@frozen
class Tolerance:
    """An element passes where |got - expected| <= absolute + relative x |expected|.

    This is numpy.allclose's rule with equal_nan; both 0 means equal. `dtype` is the data type whose
    default it is, "" if it was given.
    """

    absolute: float = 0.0
    relative: float = 0.0
    dtype: str = ""

    def __str__(self) -> str:
        text = f"{self.absolute:g}"
        if self.relative:
            text += f" + {self.relative:g} x |expected|"
        return text + (f" (default for {self.dtype})" if self.dtype else "")


# What sums in another order may differ by; integers, truth values and strings must be equal.
_BY_TYPE = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float16": 1e-3,
    "bfloat16": 1e-2,
}


def tolerance_of(
    dtype: np.dtype[Any], absolute: float | None = None, relative: float | None = None
) -> Tolerance:
    """What is given, one without the other being 0; else the default of the data type."""
    if absolute is None and relative is None:
        allowed = _BY_TYPE.get(dtype.name, 0.0)
        return Tolerance(allowed, allowed, "strings" if dtype.kind == "S" else dtype.name)
    return Tolerance(absolute or 0.0, relative or 0.0)


@frozen
class Comparison:
    """`mismatches` of `elements` are outside the tolerance; `worst` describes the largest error.

    Errors are infinite where only one side is nan or infinite, and of strings that differ; the
    relative error is over references that are not zero. `tolerances` has each output that was
    compared, and `distance` all of them together.
    """

    elements: int
    mismatches: int
    max_abs_error: float
    max_rel_error: float
    worst: str
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    distance: Distance = field(default_factory=Distance)

    @property
    def passed(self) -> bool:
        return self.mismatches == 0

    @property
    def allowed(self) -> str:
        """The tolerances in words, such as "1e-05 + 1e-05 x |expected| (default for float32)"."""
        return ", ".join(dict.fromkeys(map(str, self.tolerances.values())))


def compare(
    got: Sequence[Mapping[str, Array]],
    expected: Sequence[Mapping[str, Array]],
    absolute: float | None = None,
    relative: float | None = None,
) -> Comparison:
    """Compares samples, each tensor within its `tolerance_of`.

    Two nans are equal, and so are infinities of one sign; zeros are equal whatever their sign.
    Only tensors that `expected` names are compared.
    """
    elements = mismatches = 0
    max_abs = max_rel = 0.0
    worst = ""
    tolerances: dict[str, Tolerance] = {}
    whole = Distance()
    for index, (ours, reference) in enumerate(zip(got, expected, strict=True)):
        for name, ref in reference.items():
            elements += ref.size
            allowed = tolerances.setdefault(name, tolerance_of(ref.dtype, absolute, relative))
            if ours[name].shape != ref.shape:
                mismatches += max(1, ref.size)
                max_abs = max_rel = math.inf
                whole += Distance(max(1, ref.size), math.inf)
                shapes = f"{list(ours[name].shape)}, expected {list(ref.shape)}"
                worst = f"sample {index}, '{name}': got shape {shapes}"
                continue
            error, rel, bad = _errors(ours[name], ref, allowed)
            mismatches += int(bad.sum())
            whole += distance(ours[name], ref)
            if ref.size == 0:
                continue
            max_rel = max(max_rel, float(rel.max()))
            at = int(error.argmax())
            if error.flat[at] > max_abs:
                max_abs = float(error.flat[at])
                where = [int(i) for i in np.unravel_index(at, ref.shape)]
                pair = f"got {_shown(ours[name].flat[at])}, expected {_shown(ref.flat[at])}"
                worst = f"sample {index}, '{name}'{where}: {pair}"
    return Comparison(elements, mismatches, max_abs, max_rel, worst, tolerances, whole)


def _errors(
    got: Array, ref: Array, tolerance: Tolerance
) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    if ref.dtype.kind == "S":  # strings are equal or not
        differ = got != ref
        error = np.where(differ, np.inf, 0.0)
        return error, error, differ
    # 80-bit floats hold every int64 exactly; float64 would not.
    wide = np.clongdouble if "c" in (got.dtype.kind, ref.dtype.kind) else np.longdouble
    a, b = got.astype(wide), ref.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.where(same, 0.0, np.abs(a - b))
        error = np.where(np.isnan(error), np.inf, error)
        rel = np.where(same | (b == 0), 0.0, error / np.abs(b))
        rel = np.where(np.isnan(rel), np.inf, rel)
        share = np.where(np.isfinite(b), tolerance.relative * np.abs(b), 0.0)
        allowed = tolerance.absolute + share
    return error, rel, ~same & ~(error <= allowed)


def _shown(value: Any) -> str:
    return repr(value.decode("utf-8", "replace")) if isinstance(value, bytes) else f"{value}"


def accuracy(outputs: Sequence[Array], labels: Array) -> float:
    """The share of samples whose greatest output is the one the label names; an output
    without elements, as NonZero may give, names none."""
    pairs = zip(outputs, labels, strict=True)
    hits = sum(bool(o.size) and int(np.argmax(o)) == int(y) for o, y in pairs)
    return hits / len(outputs)
