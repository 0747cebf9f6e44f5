"""Values of 16 bits on another scale, sums and products of two, in integers with the bits of the
float chain (ir/short_forms.py).

Between a layer and its Relu quantisers put QuantizeLinear and DequantizeLinear: a conversion, a
product, a quotient and a rounding for each element, calls without an FPU. Once in a hundred
elements C computes them as floats do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Graph, Node
from mlftool.ir.pair_forms import Side
from mlftool.ir.rounding import Rounding
from mlftool.ir.short_forms import Nearly, of_one, of_two
from mlftool.ops.base import Trait, is_a
from mlftool.ops.pairs import Tail, side_of, tail_of

BITS = 16
_KNOWN: dict[Any, Any] = {}


@frozen
class Short:
    """The integers of a chain, and `rarely`, the C function of results near a tie."""

    sides: tuple[Side, ...]
    tail: Tail
    form: Nearly
    rarely: str


def short_form(graph: Graph, nodes: Sequence[Node]) -> Short | None:
    """The integer form of a chain of one tensor or of two, or None if it is of another kind or has
    none."""
    last = nodes[-1] if nodes else None
    if last is None or not is_a(last, Trait.QUANTISER) or Rounding.of(last) is not Rounding.EVEN:
        return None
    return _alone(graph, nodes) or _together(graph, nodes)


def _alone(graph: Graph, nodes: Sequence[Node]) -> Short | None:
    if len(nodes) not in (2, 3) or not is_a(nodes[0], Trait.DEQUANTISER):
        return None
    side, tail = side_of(graph, nodes[0], 0, BITS), tail_of(graph, nodes, BITS)
    if side is None or tail is None or side.name in graph.consts:
        return None
    key = (side, tail)
    if key not in _KNOWN:
        _KNOWN[key] = of_one(side, *_unit(tail), tail.out.range, tail.results(side.floats))
    form: Nearly | None = _KNOWN[key]
    return Short((side,), tail, form, "mlf_rescale_rarely") if form else None


def _together(graph: Graph, nodes: Sequence[Node]) -> Short | None:
    """Of two tensors that are added or multiplied; of bytes where the results of all of them have
    no form (ops/pairs.py)."""
    if len(nodes) not in (4, 5) or not all(is_a(n, Trait.DEQUANTISER) for n in nodes[:2]):
        return None
    made, middle = {n.outputs[0]: n for n in nodes[:2]}, nodes[2]
    added = is_a(middle, Trait.ADDITION)
    if not (added or is_a(middle, Trait.MULTIPLICATION)) or {*middle.inputs} != {*made}:
        return None
    of = ([side_of(graph, made[name], 0, bits) for bits in (BITS, 8)] for name in middle.inputs)
    a, b = (next(filter(None, found), None) for found in of)
    tail = tail_of(graph, nodes[2:], BITS) or tail_of(graph, nodes[2:], 8)
    if not a or not b or not tail or a.name == b.name or {a.name, b.name} & {*graph.consts}:
        return None
    low, high = (int(n) for n in tail.results(np.array([-np.inf, np.inf], np.float32)))
    form = of_two((a, b), added, *_unit(tail), tail.out.bits, (low, high))
    rarely = f"mlf_{'add' if added else 'multiply'}_rarely"
    return Short((a, b), tail, form, rarely) if form else None


def _unit(tail: Tail) -> tuple[float, int]:
    return float(tail.scale), tail.zero_point
