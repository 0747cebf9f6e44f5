"""How far results are from a reference, element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Comparison:
    """`mismatches` of `elements` are outside the tolerance; `worst` describes the largest error.

    Errors are infinite where only one side is nan or infinite; the relative error is over
    references that are not zero.
    """

    elements: int
    mismatches: int
    max_abs_error: float
    max_rel_error: float
    worst: str

    @property
    def passed(self) -> bool:
        return self.mismatches == 0


def compare(
    got: Sequence[Mapping[str, Array]],
    expected: Sequence[Mapping[str, Array]],
    absolute: float = 0.0,
    relative: float = 0.0,
) -> Comparison:
    """Compares samples; an element passes if its error <= max(absolute, relative * |reference|).

    Two nans are equal, and so are infinities of one sign; zeros are equal whatever their sign.
    Only tensors that `expected` names are compared.
    """
    elements = mismatches = 0
    max_abs = max_rel = 0.0
    worst = ""
    for index, (ours, reference) in enumerate(zip(got, expected, strict=True)):
        for name, ref in reference.items():
            elements += ref.size
            if ours[name].shape != ref.shape:
                mismatches += max(1, ref.size)
                max_abs = max_rel = math.inf
                shapes = f"{list(ours[name].shape)}, expected {list(ref.shape)}"
                worst = f"sample {index}, '{name}': got shape {shapes}"
                continue
            error, rel, bad = _errors(ours[name], ref, absolute, relative)
            mismatches += int(bad.sum())
            if ref.size == 0:
                continue
            max_rel = max(max_rel, float(rel.max()))
            at = int(error.argmax())
            if error.flat[at] > max_abs:
                max_abs = float(error.flat[at])
                where = [int(i) for i in np.unravel_index(at, ref.shape)]
                pair = f"got {ours[name].flat[at]}, expected {ref.flat[at]}"
                worst = f"sample {index}, '{name}'{where}: {pair}"
    return Comparison(elements, mismatches, max_abs, max_rel, worst)


def _errors(
    got: Array, ref: Array, absolute: float, relative: float
) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    # 80-bit floats hold every int64 exactly; float64 would not.
    a, b = got.astype(np.longdouble), ref.astype(np.longdouble)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.where(same, 0.0, np.abs(a - b))
        error = np.where(np.isnan(error), np.inf, error)
        rel = np.where(same | (b == 0), 0.0, error / np.abs(b))
        rel = np.where(np.isnan(rel), np.inf, rel)
        allowed = np.maximum(absolute, np.where(np.isfinite(b), relative * np.abs(b), 0.0))
    return error, rel, ~same & ~(error <= allowed)


def accuracy(outputs: Sequence[Array], labels: Array) -> float:
    """The share of samples whose greatest output is the one the label names."""
    hits = sum(int(np.argmax(o)) == int(y) for o, y in zip(outputs, labels, strict=True))
    return hits / len(outputs)
