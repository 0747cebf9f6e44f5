"""Specialised kernels: each names the features it needs and bids on the nodes it can compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlftool.ops.base import Bid


@dataclass(frozen=True)
class Specialised:
    """A bid that is asked only on targets with all of `needs` and nothing of `unless`."""

    bid: Bid
    needs: frozenset[str]
    unless: frozenset[str] = frozenset()

    def fits(self, features: frozenset[str]) -> bool:
        return self.needs <= features and not self.unless & features


KERNELS: dict[str, list[Specialised]] = {}


def kernel(*ops: str, needs: str, unless: str = "") -> Callable[[Bid], Bid]:
    """Register a specialised kernel for operators `ops` on targets with the features `needs`."""

    def register(bid: Bid) -> Bid:
        for op in ops:
            special = Specialised(bid, frozenset(needs.split()), frozenset(unless.split()))
            KERNELS.setdefault(op, []).append(special)
        return bid

    return register


from mlftool.targets.kernels import (  # noqa: E402  (they register themselves)
    dsp,
    dsp_depthwise,
    dsp_pairs,
    floats,
    helium,
    simd,
    simd_depthwise,
)

__all__ = [
    "KERNELS",
    "Specialised",
    "dsp",
    "dsp_depthwise",
    "dsp_pairs",
    "floats",
    "helium",
    "kernel",
    "simd",
    "simd_depthwise",
]
