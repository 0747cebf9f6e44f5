"""Values of 16 bits on another scale, in integers with the bits of the float chain.

Between a layer and its Relu quantisers put QuantizeLinear and DequantizeLinear: a conversion, a
product, a quotient and a rounding for each element, calls without an FPU. All 65536 results are
computed here. One multiplication gives the same but near ties, where the rounding of floats decides
by chance: there, once in a hundred elements, C computes them as floats do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Graph, Node
from mlftool.ir.holes import Number
from mlftool.ir.pair_forms import Side
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Trait, is_a
from mlftool.ops.pairs import Tail, side_of, tail_of

BITS = 16
_WIDENED = 14  # a difference of 17 bits, with its sign, fills 31
_LARGEST_SHIFT = 22
_RARELY = 16  # of so many results at most one is computed as floats are
_KNOWN: dict[Any, Any] = {}


@frozen
class Short:
    """t = ((x - zero of x) * 2^14 * m >> 32) + add; within `near` of a multiple of 2^shift the
    result is what floats give, elsewhere clamp(t >> shift)."""

    side: Side
    tail: Tail
    m: Number
    add: Number
    shift: Number
    near: int
    low: Number
    high: Number


def alone(graph: Graph, nodes: Sequence[Node]) -> Short | None:
    """The integer form of a chain of one tensor, or None if it is of another kind or has none."""
    if len(nodes) not in (2, 3) or not is_a(nodes[0], Trait.DEQUANTISER):
        return None
    last = nodes[-1]
    if not is_a(last, Trait.QUANTISER) or Rounding.of(last) is not Rounding.EVEN:
        return None
    side, tail = side_of(graph, nodes[0], 0, BITS), tail_of(graph, nodes, BITS)
    if side is None or tail is None or side.name in graph.consts:
        return None
    key = (side, tail)
    if key not in _KNOWN:
        _KNOWN[key] = _short(side, tail)
    found: Short | None = _KNOWN[key]
    return found


def _short(side: Side, tail: Tail) -> Short | None:
    x, results = side.values - side.zero_point, tail.results(side.floats)
    ratio, low, high = float(side.scale) / float(tail.scale), int(results.min()), int(results.max())
    if not 0 < ratio < 2.0**14 or low == high:
        return None
    reach = int(np.ceil(np.log2(float(np.abs(x).max()) * ratio + 2.0 ** (BITS + 1))))
    room = int(np.floor(30.99 + _WIDENED - 32 - np.log2(ratio)))
    shift = min(_LARGEST_SHIFT, 30 - reach, room)
    if shift < 6:
        return None
    m = round(ratio * 2.0 ** (32 - _WIDENED + shift))
    add = (tail.zero_point << shift) + (1 << (shift - 1))
    t = ((x << _WIDENED) * m >> 32) + add
    off = np.clip(t >> shift, low, high) != results
    part = t & ((1 << shift) - 1)
    near = int(np.minimum(part, (1 << shift) - part)[off].max(initial=-1)) + 1
    if 2 * near * _RARELY > 1 << shift:
        return None
    # A limit that no t is beyond is the type's own, which cores have instructions for.
    low = low if int(t.min()) >> shift < low else tail.out.range[0]
    high = high if int(t.max()) >> shift > high else tail.out.range[1]
    return Short(side, tail, Number(m), Number(add), Number(shift), near, Number(low), Number(high))
