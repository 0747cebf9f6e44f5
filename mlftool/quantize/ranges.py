"""Ranges of stored tensors: several ways to choose one, and the choice by what it costs.

minmax       everything that was seen
99.99 % ...  without so many of the outermost values
least error  the range whose roundings and cuts have the least squared error
+ 10 % ...   more than was seen, for what other samples have

Ends have eight bits of their mantissa: the float model's last bits are another processor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mlftool.ir.graph import Array
from mlftool.quantize.plan import Range, scale_of

PERCENTILES = (99.99, 99.9, 99.5)
ROOM = (10, 25)  # percent
LEAST = "least error"
WAYS = ("minmax", *(f"{p:g} %" for p in PERCENTILES), LEAST, *(f"+ {r} %" for r in ROOM))
_MOST = 1 << 18  # values of a tensor that are looked at
_FEW = 1 << 15  # the same, where each candidate looks again
_MASKING = 1e30  # what is as large stands for infinity, as paddings of maxima do; it is cut off


class Ways(Mapping[str, Range]):
    """A range for each of WAYS. The least error takes as long as all others, so it is looked for
    when it is asked for first."""

    def __init__(self, found: Mapping[str, Range], few: Array) -> None:
        self._found, self._few = dict(found), few

    def __getitem__(self, way: str) -> Range:
        if way == LEAST and way not in self._found:
            self._found[way] = _least_error(self._few, self._found["minmax"])
        return self._found[way]

    def __iter__(self) -> Iterator[str]:
        return iter(WAYS)

    def __len__(self) -> int:
        return len(WAYS)


def candidates(values: Array) -> Mapping[str, Range]:
    """A range for each of WAYS."""
    flat = values.reshape(-1).astype(np.float64)
    flat = flat[np.abs(flat) < _MASKING]
    if not flat.size:
        return dict.fromkeys(WAYS, (0.0, 0.0))
    ends = flat.min(), flat.max()
    if flat.size > _MOST:
        flat = np.append(flat[np.arange(_MOST) * flat.size // _MOST], ends)
    whole = _rough(ends[0], ends[1])
    found: dict[str, Range] = {"minmax": whole}
    for p in PERCENTILES:
        lo, hi = np.percentile(flat, [100 - p, p])
        found[f"{p:g} %"] = _rough(lo, hi)
    for r in ROOM:
        found[f"+ {r} %"] = whole[0] * (1 + r / 100), whole[1] * (1 + r / 100)
    few = flat if flat.size <= _FEW else np.append(flat[np.arange(_FEW) * flat.size // _FEW], ends)
    return Ways(found, few)


def _rough(low: float, high: float) -> Range:
    """With zero between them."""
    mantissas, exponents = np.frexp([min(0.0, low), max(0.0, high)])
    lo, hi = np.ldexp(np.rint(mantissas * 256) / 256, exponents)
    return float(lo), float(hi)


def _least_error(flat: Array, whole: Range) -> Range:
    """Both ends are moved inwards in turn."""
    steps = np.linspace(1.0, 0.3, 29)
    lo, hi = whole
    for _ in range(2):
        hi = min((s * whole[1] for s in steps), key=lambda end: error(flat, (lo, end)))
        lo = min((s * whole[0] for s in steps), key=lambda end: error(flat, (end, hi)))
    return float(lo), float(hi)


def error(flat: Array, limits: Range) -> float:
    """The mean squared error of storing reals in 8 bits."""
    s = scale_of(limits, 8)
    lo, hi = s.limits
    stored = np.clip(np.rint(flat / float(s.scale)) + s.zero, lo, hi)
    return float(np.mean((flat - (stored - s.zero) * float(s.scale)) ** 2))


def by_way(found: Mapping[str, Mapping[str, Range]], way: str) -> dict[str, Range]:
    """The range of each group in one way."""
    return {group: ranges[way] for group, ranges in found.items()}
