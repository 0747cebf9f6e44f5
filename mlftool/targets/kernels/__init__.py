"""Specialised kernels: each names the features it needs and bids on the nodes it can compute."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from mlftool.frozen import frozen
from mlftool.ops import OPS, Trait
from mlftool.ops.base import Bid, Layout


@frozen
class Specialised:
    """A bid for targets with all of `needs` and none of `unless`.

    With `measured`, only a tuning record may choose it: no estimate says when it is better.
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


def _contractions(*layouts: Layout, quantised: bool) -> tuple[str, ...]:
    """The operators that are sums of products with such weights, and whose biases can be packed."""
    found = ((o.name, o.contracts) for o in OPS.values() if o.contracts)
    wanted = [(name, c) for name, c in found if c.layout in layouts and c.quantised == quantised]
    return tuple(name for name, c in wanted if quantised or c.packs_bias)


_PACKED = (Layout.CONVOLUTION, Layout.MATRIX)
BYTES = _contractions(*_PACKED, quantised=True)
FLOATS = _contractions(*_PACKED, quantised=False)
PRODUCTS = _contractions(Layout.MATRICES, quantised=True)  # of bytes that are both computed
TRANSPOSED = _contractions(Layout.TRANSPOSED, quantised=True)
TABLES = tuple(o.name for o in OPS.values() if Trait.TABLE in o.traits)


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
