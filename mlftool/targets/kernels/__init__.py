"""Specialised kernels: each names the features it needs and bids on the nodes it can compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from mlftool.ops.base import Bid


@dataclass(frozen=True)
class Specialised:
    """A bid that is asked only on targets with all of `needs` and nothing of `unless`.

    With `measured`, only where a tuning record may name it: no estimate says when it is better.
    With `replaces_portable`, its kernel stands for the portable one, which does not bid then: the
    same loops in the form of that core.
    """

    bid: Bid
    needs: frozenset[str]
    unless: frozenset[str] = frozenset()
    measured: bool = False
    replaces_portable: bool = False

    def fits(self, features: frozenset[str]) -> bool:
        return self.needs <= features and not self.unless & features


KERNELS: dict[str, list[Specialised]] = {}


def kernel(
    *ops: str,
    needs: str,
    unless: str = "",
    measured: bool = False,
    replaces_portable: bool = False,
) -> Callable[[Bid], Bid]:
    """Register a specialised kernel for operators `ops` on targets with the features `needs`."""

    def register(bid: Bid) -> Bid:
        for op in ops:
            words = frozenset(needs.split()), frozenset(unless.split())
            KERNELS.setdefault(op, []).append(Specialised(bid, *words, measured, replaces_portable))
        return bid

    return register


for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")  # which registers itself

__all__ = ["KERNELS", "Specialised", "kernel"]
