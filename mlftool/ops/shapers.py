"""Reshape, Flatten, Expand and Tile whose result has a shape that is computed, of tensors or of
boxes: what fills the result's box, and what its true shape is (importer/shaped.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlftool.ir import dtype
from mlftool.onnx_rules.scope import Refuse, Scope
from mlftool.onnx_rules.shaping import Box, Element, Shaping, exactly
from mlftool.ops.base import UnsupportedError, record

Extent = int | str  # static, or the name of an int64 scalar
REST = exactly(-1)  # what is left of the elements


def elements(scope: Scope, name: str) -> list[Element]:
    """What is known of each element of an integer tensor: of constants, extents, truth values, and
    what picks, joins, compares and counts with those. A rule lists the elements of all outputs in
    turn."""
    if name in scope.consts and not scope.types[name].dtype.is_float:
        return [exactly(int(n)) for n in scope.consts[name].reshape(-1)]
    if name in scope.bounds:
        return [Element(scope.bounds[name], name, least=0)]
    node = next((n for n in reversed(scope.nodes) if name in n.outputs), None)
    type_ = scope.types[name]
    truth = type_.dtype == dtype.bool_
    unknown = [Element(1, least=0) if truth else Element()] * type_.elements
    rule = record(node).bounds if node is not None else None
    if node is None or rule is None:
        return unknown
    found = rule(scope, node, [elements(scope, i) for i in node.inputs if i])
    counts = [scope.types[o].elements if o else 0 for o in node.outputs]
    if found is None or len(found) != sum(counts):
        return unknown
    first = sum(counts[: node.outputs.index(name)])
    own = found[first : first + len(unknown)]
    return [u if e.most is None else e for e, u in zip(own, unknown, strict=True)]


def reshape_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """Zeros of the target mean the input's extent there, and -1 what is left."""
    own, true, keep = _own(s), s.true_extents(), not attrs.get("allowzero", 0)
    asked, extents = s.elements(s.steps.x(1)), list[Extent]()
    for k, element in enumerate(asked):
        may_be_own = keep and k < len(own)
        if element.exact:
            is_own = may_be_own and element.most == 0
            asked[k] = own[k] if is_own else element
            extents.append(true[k] if is_own else int(element.most or 0))
            continue
        value = s.at(s.steps.x(1), k)
        if may_be_own:
            value = s("Where", s("Equal", value, s.number(0)), s.extent(true[k]), value)
            if element.symbol != own[k].symbol:
                asked[k] = Element(element.most, least=element.least)
        extents.append(value)
    return _regrouped(s, asked, extents)


def flatten_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    own, true = _own(s), s.true_extents()
    axis = attrs.get("axis", 1) % (len(own) + 1)
    parts = slice(0, axis), slice(axis, None)
    asked = [_together(own[p]) for p in parts]
    return _regrouped(s, asked, [_product(s, true[p]) for p in parts])


def _together(axes: Sequence[Element]) -> Element:
    """What is known of the product of extents."""
    rest = [e for e in axes if e != exactly(1)]
    return rest[0] if len(rest) == 1 else Element(math.prod(e.most or 0 for e in axes), least=0)


def _own(s: Shaping) -> list[Element]:
    """What is known of the extents of x."""
    pairs = zip(s.type(0).shape, s.symbols, strict=True)
    return [Element(n, e, least=0) if e else exactly(n) for n, e in pairs]


def _regrouped(s: Shaping, asked: list[Element], extents: list[Extent]) -> Box:
    """The elements of x in their order, in a box of these extents."""
    x, true = s.type(0).shape, s.true_extents()
    if REST in asked:
        k = asked.index(REST)
        asked[k] = _rest(s, [*asked[:k], *asked[k + 1 :]])
        extents[k] = int(asked[k].most or 0) if asked[k].exact else -1
    pairs = zip(asked, extents, strict=True)
    asked = [exactly(e) if isinstance(e, int) and e >= 0 else a for a, e in pairs]
    best = [e.most if e.least is not None and e.least >= 0 else None for e in asked]
    bounds = s.bounds([math.prod(x)] if best == [None] else best)
    if math.prod(bounds) > 2**31 - 1:
        raise UnsupportedError(f"a box of {bounds} is too large")
    extents = _resolved(s, extents, true)
    if _is_view(s, bounds, asked):
        s.result("Reshape", s.steps.x(0), s.number(bounds))
    else:
        flat = s.number(np.zeros((1,) * len(bounds)))
        for k, extent in enumerate(extents):
            flat = s("Add", s("Mul", flat, s.extent(extent)), s.indexes(bounds[k], k, len(bounds)))
        at = s("Clip", _place(s, flat, true), s.number(0), s.number(max(0, math.prod(x) - 1)))
        s.result("Gather", s("Reshape", s.steps.x(0), s.number([-1])), at)
    return Box(bounds, tuple(extents), tuple(e.symbol for e in asked))


def _rest(s: Shaping, others: Sequence[Element]) -> Element:
    """What is left for an axis besides these."""
    left = [e for e in _own(s) if e.symbol]
    static = math.prod(int(e.most or 0) for e in _own(s) if e.exact)
    divisor = math.prod(max(1, int(e.most or 0)) for e in others if e.exact)
    open_ones = [e for e in others if not e.exact]
    is_known = all(e in left for e in open_ones) and static % divisor == 0
    for element in (e for e in open_ones if e in left):
        left.remove(element)
    most = static * math.prod(int(e.most or 0) for e in left) // divisor
    if is_known and not left:
        return exactly(most)
    symbol = left[0].symbol if is_known and len(left) == 1 and static == divisor else ""
    return Element(most, symbol, least=0)


def _resolved(s: Shaping, extents: Sequence[Extent], true: Sequence[Extent]) -> list[Extent]:
    """With what is left of the elements where an extent is -1, or may be."""
    # With -1 among them, the product is minus that of the others.
    others = s("Max", s("Abs", s.extent(_product(s, extents))), s.number(1))
    rest = s("Div", s.extent(_product(s, true)), others)
    computed = [
        e if isinstance(e, int) else s("Where", s("Less", e, s.number(0)), rest, e) for e in extents
    ]
    return [rest if e == -1 else e for e in computed]


def _product(s: Shaping, extents: Sequence[Extent]) -> Extent:
    product: Extent = math.prod(e for e in extents if isinstance(e, int))
    for name in (e for e in extents if isinstance(e, str)):
        product = name if product == 1 else s("Mul", s.extent(product), name)
    return product


def _is_view(s: Shaping, bounds: Sequence[int], asked: Sequence[Element]) -> bool:
    """Whether the elements of the two boxes lie at the same places: after axes that both have,
    only the first extent is not static."""
    x, own = s.type(0).shape, _own(s)
    same = 0
    while same < min(len(x), len(bounds)) and asked[same] == own[same] and x[same] == bounds[same]:
        same += 1
    after = (*own[same + 1 :], *asked[same + 1 :])
    return math.prod(x[same:]) == math.prod(bounds[same:]) and all(e.exact for e in after)


def _place(s: Shaping, flat: str, true: Sequence[Extent]) -> str:
    """Where in the box of x the element stands that is number `flat` of its true ones."""
    x = s.type(0).shape
    place, stride = s.number(0), 1
    for k in reversed(range(len(x))):
        extent = s("Max", s.extent(true[k]), s.number(1))
        index = s("Mod", flat, extent) if k else flat
        place = s("Add", place, s("Mul", index, s.number(stride)))
        flat, stride = s("Div", flat, extent), stride * x[k]
        if all(isinstance(e, int) for e in true[1:k]):
            return s("Add", place, s("Mul", flat, s.number(stride))) if k else place
    return s("Mul", flat, place)  # of a scalar


def expand_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """Axes of x that are no 1 keep their extent; a run-time extent may turn out to be 1."""
    x, value, asked = s.type(0).shape, s.steps.x(0), s.elements(s.steps.x(1))
    rank = max(len(x), len(asked))
    new, skipped = rank - len(x), rank - len(asked)
    extents: list[Extent] = [*(1,) * new, *s.true_extents()]
    best: list[int | None] = [*(1,) * new, *x]
    known, late = [*("",) * new, *s.symbols], list[int]()
    for k, element in enumerate(asked, skipped):
        if extents[k] == 1:
            extents[k] = s.extent_at(s.steps.x(1), k - skipped)
            best[k], known[k] = element.most, element.symbol
        elif known[k] and known[k] != element.symbol and element != exactly(1):
            best[k] = None if element.most is None else max(x[k - new], element.most)
            late.append(k)
    bounds = s.bounds(best)
    for k in late:
        is_one = s("Equal", s.extent(extents[k]), s.number(1))
        places = s.number(np.minimum(np.arange(bounds[k]), max(0, x[k - new] - 1)))
        value = s("Gather", value, s("Where", is_one, s.number(0), places), axis=k - new)
        wanted = s.at(s.steps.x(1), k - skipped)
        extents[k], known[k] = s("Where", is_one, wanted, s.extent(extents[k])), ""
    s.result("Expand", value, s.number(bounds))
    return Box(bounds, tuple(extents), tuple(known))


def tile_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    x, true, times = s.type(0).shape, s.true_extents(), s.most(s.steps.x(1))
    if len(times) != len(x):
        raise Refuse("MLF0303", f"repeats has {len(times)} elements; expected {len(x)}")
    bounds = s.bounds([t if t is None else t * n for t, n in zip(times, x, strict=True)])
    value = s.steps.x(0)
    for k, n in enumerate(bounds):
        at = s("Mod", s.number(np.arange(n)), s("Max", s.extent(true[k]), s.number(1)))
        value = s("Gather", value, at, axis=k)
    s.result("Identity", value)
    return Box(
        bounds, tuple(s("Mul", s.at(s.steps.x(1), k), s.extent(n)) for k, n in enumerate(true))
    )
