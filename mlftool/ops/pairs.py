"""Sums, products and slopes of two 8-bit tensors in integers, with the bits of the float chain.

A residual is QuantizeLinear(Relu(DequantizeLinear(a) + DequantizeLinear(b))): four conversions and
a division for each element, and a dozen library calls without an FPU. It has 65536 possible
results, all of which are computed here, in float32 as the chain does; ir/pair_forms.py looks for
integers that give them. Without such the chain stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Array, Graph, Node
from mlftool.ir.pair_forms import (
    Clamped,
    Form,
    Side,
    Sum,
    Terms,
    bias_form,
    factor_form,
    product_form,
    slope_form,
    sum_form,
    sum_of,
)
from mlftool.ir.rounding import RAISED, Rescaling
from mlftool.ops.base import Trait, is_a, record


@frozen
class Pair:
    """The inputs a and b, t of them, and what becomes of t. Where `b` is a constant float tensor,
    `array` has what stands for it in integers."""

    inputs: tuple[str, str]
    t: Form
    result: Clamped
    array: Array | None = None


@frozen
class Tail:
    """What becomes of the sum or product: limits, a scale and a zero point."""

    scale: np.float32
    zero_point: int
    out: DType
    limits: tuple[float, float]

    def results(self, value: Array) -> Array:
        """int64: step by step in float32, as the chain does."""
        value = np.clip(value, np.float32(self.limits[0]), np.float32(self.limits[1]))
        lo, hi = (np.float32(bound - self.zero_point) for bound in self.out.range)
        with np.errstate(invalid="ignore"):  # of an infinite scale
            ratio = np.fmin(np.fmax(value / self.scale, lo), hi)
        return np.asarray(np.rint(ratio).astype(np.int64) + self.zero_point)


def in_integers(graph: Graph, nodes: Sequence[Node]) -> Pair | None:
    """The integer form of a whole chain, or None if it is of another kind or has none."""
    if found := _rescaled(graph, nodes):
        sums = _rescaled_sum(*found[1:])
        return sums and Pair(found[0], *sums)
    asked = _stored_pair(graph, nodes) or _fixed_pair(graph, nodes) or _chain(graph, nodes)
    if asked is None:
        return None
    names, (kind, a, b, unit), key, results = asked
    if key not in _KNOWN:
        _, of_tensors, of_constants = _MIDDLE[kind]
        form = of_tensors if isinstance(b, Side) else of_constants
        _KNOWN[key] = form and form(a, b, unit, results())
    return _KNOWN[key] and Pair(names, *_KNOWN[key])


# The tensors; what is made of them, the sides or a constant, the results' unit; a key; results.
_Asked = tuple[
    tuple[str, str], tuple[Trait, Side, Side | Array, np.float32], Any, Callable[[], Array]
]


def _chain(graph: Graph, nodes: Sequence[Node]) -> _Asked | None:
    middle = next((n for n in nodes if any(is_a(n, t) for t in _MIDDLE)), None)
    if middle is None or not is_a(nodes[-1], Trait.QUANTISER):
        return None
    kind, others = next(t for t in _MIDDLE if is_a(middle, t)), nodes.index(middle)
    tail = tail_of(graph, nodes[others:])
    made = {n.outputs[0]: n for n in nodes}
    a, b = (side_of(graph, made.get(name)) for name in middle.inputs)
    one, name = (a, middle.inputs[1]) if a else (b, middle.inputs[0])
    value = graph.consts.get(name)
    if not tail or not one or one.name in graph.consts or (kind is Trait.SLOPE and not a):
        return None
    key: Any = (kind, one, b, tail)
    other: Any = b
    x = one.floats[:, None]
    if a and b and a.name != b.name and others == 2:
        y, name = b.floats[None, :], b.name
    elif value is not None and others == 1 and value.dtype == np.float32:
        y, other, key = value.reshape(1, -1), value, (*key, value.tobytes(), value.shape)
    else:
        return None
    of, made_of = (kind, one, other, tail.scale), _MIDDLE[kind][0]
    return (one.name, name), of, key, lambda: tail.results(made_of(x, y))


def _stored_pair(graph: Graph, nodes: Sequence[Node]) -> _Asked | None:
    """Of an operator that reads two stored tensors and stores their sum or product."""
    if len(nodes) != 1 or len(record(nodes[0]).reads) < 2:
        return None
    node, about = nodes[0], record(nodes[0])
    given = [graph.consts.get(name) for name in node.inputs]
    (i, j), results = sorted(about.reads, key=lambda k: given[k] is not None), about.constant
    a, b = (side_of(graph, node, k) for k in (i, j))
    unit, zero = _constants(graph, node, about.stores or 0)
    if not a or not b or not results or not unit or a.name == b.name or given[i] is not None:
        return None
    array = given[j]
    other: Any = b
    held = None if array is None else (array.tobytes(), array.shape)
    key = (node.op, i, a, b, unit, zero, node.attrs.get(RAISED, 0), held)
    if array is not None:
        other = (array.astype(np.int64) - b.zero_point).astype(np.float32) * b.scale
    given[i] = a.values[:, None]
    given[j] = (b.values if array is None else array).reshape(1, -1)
    kind = Trait.ADDITION if is_a(node, Trait.QUANTISED_SUM) else Trait.MULTIPLICATION
    of = (kind, a, other, unit)
    return (a.name, b.name), of, key, lambda: np.asarray(results(given, node.attrs, 0), np.int64)


def _fixed_pair(graph: Graph, nodes: Sequence[Node]) -> _Asked | None:
    """Of an operator that multiplies two tensors by a number in fixed point."""
    if len(nodes) != 1 or not is_a(nodes[0], Trait.RESCALER) or len(nodes[0].inputs) != 2:
        return None
    node = nodes[0]
    types = [graph.types[n].dtype for n in (*node.inputs, node.outputs[0])]
    constant = [n in graph.consts for n in node.inputs]
    if not all(t.is_int8 for t in types) or any(constant) or node.inputs[0] == node.inputs[1]:
        return None
    how = Rescaling.of(node.attrs)
    if how.m <= 0:
        return None
    zeros, scales = (how.before, node.attrs["zero"]), (np.float64(how.real), np.float64(1))
    both = zip(node.inputs, types, scales, zeros, strict=False)
    a, b = (Side(*side) for side in both)

    def results() -> Array:
        whole = (a.values - a.zero_point)[:, None] * (b.values - b.zero_point) + how.before
        return np.clip(how.apply(whole), how.low, how.high)

    of: Any = (Trait.MULTIPLICATION, a, b, np.float32(1))
    return (a.name, b.name), of, (a, b, how), results


def _sloped(x: Array, slope: Array) -> Array:
    return np.where(x < 0, slope * x, x)


# What is made of two floats, and the forms for two tensors and for one and constants.
_MIDDLE: dict[Trait, tuple[Callable[[Array, Array], Array], Any, Any]] = {
    Trait.ADDITION: (np.add, sum_form, bias_form),
    Trait.MULTIPLICATION: (np.multiply, product_form, factor_form),
    Trait.SLOPE: (_sloped, None, slope_form),
}
# Kernels that bid ask for the same chain again and again.
_KNOWN: dict[Any, Any] = {}


def tail_of(graph: Graph, nodes: Sequence[Node], bits: int = 8) -> Tail | None:
    """Of the nodes from the sum or product on, which is stored in `bits`: at most one between it
    and the quantiser."""
    for before, node in pairwise(nodes):
        if node.inputs[0] != before.outputs[0]:
            return None
    scale, zero_point = _constants(graph, nodes[-1])
    out = graph.types[nodes[-1].outputs[0]].dtype
    limits = _limits(graph, nodes[1]) if len(nodes) == 3 else (-np.inf, np.inf)
    whole = out.kind in "iu" and out.bits == bits
    if scale is None or limits is None or not whole or len(nodes) not in (2, 3):
        return None
    return Tail(scale, zero_point, out, limits)


def _constants(graph: Graph, node: Node, at: int = 1) -> tuple[np.float32 | None, int]:
    """Scale and zero point, from input `at` on, if both are single numbers, the scale a float."""
    values = [graph.consts.get(name) for name in node.inputs[at : at + 2] if name]
    if any(v is None or v.size != 1 for v in values) or not values:
        return None, 0
    scale, *zero = [v for v in values if v is not None]
    usual = (
        scale.dtype == np.float32 and float(scale.item()) > 0 and not node.attrs.get("precision")
    )
    return (np.float32(scale.item()), int(zero[0].item()) if zero else 0) if usual else (None, 0)


def side_of(graph: Graph, node: Node | None, k: int = 0, bits: int = 8) -> Side | None:
    """Input `k` of a node that reads it as a stored tensor of so many bits."""
    if node is None or k not in record(node).reads:
        return None
    dtype = graph.types[node.inputs[k]].dtype
    scale, zero_point = _constants(graph, node, k + 1)
    if scale is None or dtype.kind not in "iu" or dtype.bits != bits or np.isinf(scale):
        return None
    return Side(node.inputs[k], dtype, scale, zero_point - int(node.attrs.get(RAISED, 0)))


def _limits(graph: Graph, node: Node) -> tuple[float, float] | None:
    """What the node between sum and quantiser limits values to."""
    limits, known = record(node).limits, [graph.consts.get(name) for name in node.inputs]
    pairs = zip(node.inputs[1:], known[1:], strict=True)
    if limits is None or any(name and (k is None or k.size != 1) for name, k in pairs):
        return None
    return limits(known)


@frozen
class _Integers:
    """One of two tensors that are rescaled, added and rescaled again, as `out` says."""

    dtype: DType
    how: Rescaling
    out: Rescaling

    @property
    def terms(self) -> Terms:
        lo, hi = self.dtype.range
        return Terms(np.arange(lo, hi + 1), self.how.before, self.how.real * self.out.real)


def _rescaled(
    graph: Graph, nodes: Sequence[Node]
) -> tuple[tuple[str, str], _Integers, _Integers] | None:
    """The two tensors of bytes whose rescaled sum is rescaled, and their numbers."""
    if len(nodes) != 4 or not is_a(nodes[2], Trait.ADDITION):
        return None
    made = {n.outputs[0]: n for n in nodes[:2]}
    sides = [made.get(name) for name in nodes[2].inputs]
    rescalers = [n for n in (*sides, nodes[3]) if is_a(n, Trait.RESCALER)]
    if len(rescalers) != 3 or nodes[3].inputs[0] != nodes[2].outputs[0]:
        return None
    names = tuple(n.inputs[0] for n in rescalers[:2])
    dtypes = [graph.types[n].dtype for n in (*names, nodes[3].outputs[0])]
    if not all(d.name == "int8" for d in dtypes) or names[0] == names[1]:
        return None
    if any(n in graph.consts for n in names):
        return None
    a, b, out = (Rescaling.of(n.attrs) for n in rescalers)
    return (names[0], names[1]), _Integers(dtypes[0], a, out), _Integers(dtypes[1], b, out)


@cache
def _rescaled_sum(a: _Integers, b: _Integers) -> tuple[Sum, Clamped] | None:
    x, y = a.terms, b.terms
    total = a.how.apply(x.values)[:, None] + b.how.apply(y.values)[None, :]
    return sum_of(x, y, np.clip(a.out.apply(total), a.out.low, a.out.high))
