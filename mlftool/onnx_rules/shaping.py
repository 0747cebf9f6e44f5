"""What the shapers of operators are written in: those whose output has a shape that is computed
(importer/shaped.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Node, TensorType
from mlftool.onnx_rules.scope import CONSTANT, EXTENTS, Refuse, Scope
from mlftool.onnx_rules.steps import Steps

Shape = tuple[int, ...]
INT64 = np.int64


@frozen
class Element:
    """Its bounds, None where they are not known; `symbol`: the extent that it is, or ""."""

    most: int | None = None
    symbol: str = ""
    least: int | None = None

    @property
    def exact(self) -> bool:
        return self.most is not None and self.most == self.least


def exactly(value: int) -> Element:
    return Element(value, least=value)


def least_of(values: Sequence[Element]) -> Element:
    """None of them is less than the least that is known."""
    return Element(min((v.most for v in values if v.most is not None), default=None))


def largest_of(values: Sequence[Element]) -> Element:
    known = [v.most for v in values if v.most is not None]
    return Element(max(known) if known and len(known) == len(values) else None)


def reckoned(
    of: Callable[[int, int], int | None], neutral: int, falls: bool = False
) -> Callable[[Sequence[Element]], Element]:
    """The bounds of what is computed of two numbers that are not negative: it grows with the first,
    and with the second unless it `falls` with that; a second one of `neutral` changes nothing."""

    def pick(pair: Sequence[Element]) -> Element:
        a, b = pair
        if exactly(neutral) in ((b,) if falls else pair):
            return a if b == exactly(neutral) else b
        if any(e.least is None or e.least < 0 for e in pair):
            return Element()
        ends = (a.least, b.most if falls else b.least), (a.most, b.least if falls else b.most)
        least, most = (None if x is None or y is None else of(x, y) for x, y in ends)
        return Element(most, least=least)

    return pick


@frozen
class Box:
    """What a shaper makes: per axis its bound, and the true extent: a static one, or a value's name
    (an int64 of one element). `known` are extents of other tensors that these are: such a tensor
    and this one go together."""

    bounds: Shape
    extents: tuple[int | str, ...]
    known: tuple[str, ...] = ()


class UnboundedError(Exception):
    """Raised by a shaper for an output of which it is not known how large it gets at most."""


class NotShapedError(Exception):
    """Raised by a shaper for a node that it leaves to the operator's other rules."""


@dataclass
class Shaping:
    """One node on its way in. `limit` is what the user says of its output, () if nothing; `symbols`
    are those of its first input."""

    steps: Steps
    consts: Mapping[str, Array]
    limit: Shape
    symbols: Sequence[str] = ()
    elements: Callable[[str], list[Element]] = lambda name: []  # what is known of a value

    def __call__(self, op: str, *inputs: str, **attrs: Any) -> str:
        return self.steps(op, *inputs, **attrs)

    def result(self, op: str, *inputs: str, **attrs: Any) -> None:
        self.steps(op, *inputs, out=0, **attrs)

    def known(self, i: int) -> Array | None:
        name = self.steps.x(i)
        return self.consts.get(name) if name else None

    def type(self, i: int) -> TensorType:
        return self.steps.type(i)

    def most(self, name: str) -> list[int | None]:
        """What each element is at most."""
        return [element.most for element in self.elements(name)]

    def constant(self, i: int, what: str, default: Array) -> Array:
        """Input `i`, or `default` where it was left out. Raises Refuse if it is computed."""
        found = self.known(i) if self.steps.x(i) else default
        if found is None:
            text = f"its {what} are known only at run time; expected constant {what}"
            raise Refuse("MLF0206", text, CONSTANT)
        return found

    def bounds(self, best: Sequence[int | None]) -> Shape:
        """The user's limit where there is one, and what is known all the same. Raises
        UnboundedError for an axis of which neither is there, Refuse for more elements than C
        has indices for."""
        limits: Sequence[int | None] = best
        if self.limit and len(self.limit) == len(best):
            pairs = zip(self.limit, best, strict=True)
            limits = [n if b is None else min(n, b) for n, b in pairs]
        known = tuple(b for b in limits if b is not None)
        if len(known) < len(best):
            raise UnboundedError
        if math.prod(known) >= 2**31:
            text = f"its output has up to {math.prod(known)} elements; supported: 2147483647"
            raise Refuse("MLF0302", text, EXTENTS)
        return known

    def number(self, value: Any) -> str:
        return self.steps.const(value, INT64)

    def true_extents(self) -> list[int | str]:
        """Of the first input: static ones, and names of int64 scalars."""
        pairs = zip(self.type(0).shape, self.symbols, strict=True)
        return [self("Cast", e, to=dtype.int64.onnx) if e else n for n, e in pairs]

    def extent(self, n: int | str) -> str:
        """An extent as a value."""
        return n if isinstance(n, str) else self.number(n)

    def at(self, vector: str, k: int) -> str:
        """Element `k` of a vector, as a scalar of int64."""
        return self("Cast", self("Gather", vector, self.number(k)), to=dtype.int64.onnx)

    def extent_at(self, vector: str, k: int) -> int | str:
        """Element `k` of a vector as an extent, static where it is certain."""
        element = self.elements(vector)[k]
        return element.most if element.exact and element.most is not None else self.at(vector, k)

    def indexes(self, count: int, k: int, rank: int) -> str:
        """0, 1 ... along axis `k` of `rank`."""
        shape = [count if a == k else 1 for a in range(rank)]
        return self.number(np.arange(count).reshape(shape))


Shaper = Callable[[Shaping, Mapping[str, Any]], Box]
# What is known of each element of a node's inputs -> of its output; None if nothing is.
Bounds = Callable[[Scope, Node, Sequence[list[Element]]], list[Element] | None]


def of_first(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element] | None:
    """The bounds of what has the elements of its first input."""
    return parts[0]
