"""Sums and products of two 8-bit tensors in integers, with the bits of the float chain.

A residual is QuantizeLinear(Relu(DequantizeLinear(a) + DequantizeLinear(b))): four conversions and
a division for each element, and a dozen library calls without an FPU. It has 65536 possible
results, all of which are computed here, in float32 as the chain does; then integers are looked for
with

    a sum:      t = a * ma + b * mb + add,                           result = clamp(t >> shift)
    a product:  t = ((a - za) * (b - zb) * 2^14 * m >> 32) + add,    the same

equal to every one of them. `add` may be anything between two bounds that the 65536 results set.
Float rounding decides by chance what lies within 10^-5 of one half: where it decides against the
form, once or twice in 65536, that value of t is an exception. The chain stays as it is if there are
more. A constant float tensor in place of b becomes one of integers: what is added, or multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np

from mlftool.ir.dtype import DType
from mlftool.ir.graph import Array, Graph, Node
from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rescaling
from mlftool.ops.base import Trait, is_a, record

LARGEST_SHIFT = 22
_WIDENED = 14  # a product of 17 bits, with its sign, fills 31
# Multipliers tried around the ideal ones, the nearest first: float rounding moves steps a little.
MOST_EXCEPTIONS = 2
_NEAR = sorted(product(range(-4, 5), repeat=2), key=lambda d: (d[0] ** 2 + d[1] ** 2, d))


@dataclass(frozen=True)
class Clamped:
    """clamp(t >> shift, low, high); where t is the first of an exception its second is added."""

    exceptions: tuple[tuple[Number, Number], ...]
    shift: Number
    low: Number
    high: Number

    @staticmethod
    def of(exceptions: Sequence[tuple[int, int]], shift: int, results: Array) -> Clamped:
        steps = tuple((Number(value), Number(step)) for value, step in exceptions)
        return Clamped(steps, *(Number(n) for n in (shift, results.min(), results.max())))

    def text(self, t: str) -> str:
        changed = t
        for value, step in self.exceptions:
            changed = f"({changed} + ({t} == {value} ? {step} : 0))"
        return f"mlf_shift_clamp_i32({changed}, {self.shift}, {self.low}, {self.high})"


@dataclass(frozen=True)
class Sum:
    """t = a * m + b * n + add"""

    m: Number
    n: Number
    add: Number

    def text(self, a: object, b: object) -> str:
        return f"{a} * {self.m} + {b} * {self.n} {_signed(self.add)}"


@dataclass(frozen=True)
class Biased:
    """t = a * m + b"""

    m: Number

    def text(self, a: object, b: object) -> str:
        return f"{a} * {self.m} + {b}"


@dataclass(frozen=True)
class Scaled:
    """t = (a - zero) * b + add"""

    zero: int
    add: int

    def text(self, a: object, b: object) -> str:
        return f"{_less(a, self.zero)} * {b} {_signed(self.add)}"


@dataclass(frozen=True)
class Product:
    """t = ((a - zero of a) * (b - zero of b) * 2^14 * m >> 32) + add"""

    zeros: tuple[int, int]
    m: Number
    add: Number

    def text(self, a: object, b: object) -> str:
        factors = " * ".join(_less(x, zero) for x, zero in zip((a, b), self.zeros, strict=True))
        return f"mlf_multiply_high({factors} * {2**_WIDENED}, {self.m}, {self.add})"


def _less(element: object, zero_point: int) -> str:
    return f"({element} {_signed(-zero_point)})" if zero_point else f"{element}"


def _signed(n: int) -> str:
    return f"{'-' if n < 0 else '+'} {Number(abs(n))}"


Form = Sum | Biased | Scaled | Product


@dataclass(frozen=True)
class Pair:
    """The inputs a and b, t of them, and what becomes of t. Where `b` is a constant float tensor,
    `array` has what stands for it in integers."""

    inputs: tuple[str, str]
    t: Form
    result: Clamped
    array: Array | None = None


@dataclass(frozen=True)
class _Side:
    """One of the two: its scale and zero point."""

    name: str
    dtype: DType
    scale: np.float32
    zero_point: int

    @property
    def values(self) -> Array:
        lo, hi = self.dtype.range
        return np.arange(lo, hi + 1, dtype=np.int64)

    @property
    def floats(self) -> Array:
        return (self.values - self.zero_point).astype(np.float32) * self.scale


@dataclass(frozen=True)
class _Tail:
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
    asked = _stored_pair(graph, nodes) or _chain(graph, nodes)
    if asked is None:
        return None
    names, (added, a, b, unit), key, results = asked
    if key not in _KNOWN:
        form: Any = ((_product, _factor), (_sum, _bias))[added][not isinstance(b, _Side)]
        _KNOWN[key] = form(a, b, unit, results())
    return _KNOWN[key] and Pair(names, *_KNOWN[key])


# The tensors; whether they are added, the sides or a constant, the results' unit; a key; results.
_Asked = tuple[
    tuple[str, str], tuple[bool, _Side, _Side | Array, np.float32], Any, Callable[[], Array]
]


def _chain(graph: Graph, nodes: Sequence[Node]) -> _Asked | None:
    middle = next((n for n in nodes if any(is_a(n, t) for t in _MIDDLE)), None)
    if middle is None or not is_a(nodes[-1], Trait.QUANTISER):
        return None
    added, others = is_a(middle, Trait.ADDITION), nodes.index(middle)
    tail = _tail(graph, nodes[others:])
    made = {n.outputs[0]: n for n in nodes}
    a, b = (_side(graph, made.get(name)) for name in middle.inputs)
    one, name = (a, middle.inputs[1]) if a else (b, middle.inputs[0])
    value = graph.consts.get(name)
    if not tail or not one or one.name in graph.consts:
        return None
    key: Any = (added, one, b, tail)
    other: Any = b
    x = one.floats[:, None]
    if a and b and a.name != b.name and others == 2:
        y, name = b.floats[None, :], b.name
    elif value is not None and others == 1 and value.dtype == np.float32:
        y, other, key = value.reshape(1, -1), value, (*key, value.tobytes(), value.shape)
    else:
        return None
    of = (added, one, other, tail.scale)
    return (one.name, name), of, key, lambda: tail.results(x + y if added else x * y)


def _stored_pair(graph: Graph, nodes: Sequence[Node]) -> _Asked | None:
    """Of an operator that reads two stored tensors and stores their sum or product."""
    if len(nodes) != 1 or len(record(nodes[0]).reads) < 2:
        return None
    node, about = nodes[0], record(nodes[0])
    given = [graph.consts.get(name) for name in node.inputs]
    (i, j), results = sorted(about.reads, key=lambda k: given[k] is not None), about.constant
    a, b = (_side(graph, node, k) for k in (i, j))
    unit, zero = _constants(graph, node, about.stores or 0)
    if not a or not b or not results or not unit or a.name == b.name or given[i] is not None:
        return None
    array = given[j]
    other: Any = b
    key = (node.op, i, a, b, unit, zero, None if array is None else (array.tobytes(), array.shape))
    if array is not None:
        other = (array.astype(np.int64) - b.zero_point).astype(np.float32) * b.scale
    given[i] = a.values[:, None]
    given[j] = (b.values if array is None else array).reshape(1, -1)
    of = (is_a(node, Trait.QUANTISED_SUM), a, other, unit)
    return (a.name, b.name), of, key, lambda: results(given, node.attrs, 0).astype(np.int64)


_MIDDLE = (Trait.ADDITION, Trait.MULTIPLICATION)
# Kernels that bid ask for the same chain again and again.
_KNOWN: dict[Any, Any] = {}


def _tail(graph: Graph, nodes: Sequence[Node]) -> _Tail | None:
    """Of the nodes from the sum or product on: at most one between it and the quantiser."""
    for before, node in pairwise(nodes):
        if node.inputs[0] != before.outputs[0]:
            return None
    scale, zero_point = _constants(graph, nodes[-1])
    out = graph.types[nodes[-1].outputs[0]].dtype
    limits = _limits(graph, nodes[1]) if len(nodes) == 3 else (-np.inf, np.inf)
    if scale is None or limits is None or not out.is_int8 or len(nodes) not in (2, 3):
        return None
    return _Tail(scale, zero_point, out, limits)


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


def _side(graph: Graph, node: Node | None, k: int = 0) -> _Side | None:
    """Input `k` of a node that reads it as a stored tensor."""
    if node is None or k not in record(node).reads:
        return None
    dtype = graph.types[node.inputs[k]].dtype
    scale, zero_point = _constants(graph, node, k + 1)
    if scale is None or not dtype.is_int8 or np.isinf(scale):
        return None
    return _Side(node.inputs[k], dtype, scale, zero_point)


def _limits(graph: Graph, node: Node) -> tuple[float, float] | None:
    """What the node between sum and quantiser limits values to."""
    limits, known = record(node).limits, [graph.consts.get(name) for name in node.inputs]
    pairs = zip(node.inputs[1:], known[1:], strict=True)
    if limits is None or any(name and (k is None or k.size != 1) for name, k in pairs):
        return None
    return limits(known)


@dataclass(frozen=True)
class _Integers:
    """One of two tensors that are rescaled, added and rescaled again, as `out` says."""

    dtype: DType
    how: Rescaling
    out: Rescaling

    @property
    def terms(self) -> _Terms:
        lo, hi = self.dtype.range
        return _Terms(np.arange(lo, hi + 1), self.how.before, self.how.real * self.out.real)


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
    return _sum_of(x, y, np.clip(a.out.apply(total), a.out.low, a.out.high))


@dataclass(frozen=True)
class _Terms:
    """The values of one operand, and what they are multiplied by less their zero point."""

    values: Array
    zero_point: int
    ratio: float


def _sum(a: _Side, b: _Side, unit: np.float32, results: Array) -> tuple[Sum, Clamped] | None:
    """The sum's form, None if there is none; `unit` is the scale of the results."""
    x, y = (_Terms(s.values, s.zero_point, float(s.scale) / float(unit)) for s in (a, b))
    return _sum_of(x, y, results)


def _sum_of(a: _Terms, b: _Terms, results: Array) -> tuple[Sum, Clamped] | None:
    """The form that gives results [256, 256], None if there is none."""
    ratios = [a.ratio, b.ratio]
    reach = max(1.0, sum(ratios) * 256 + 512)
    shift = min(LARGEST_SHIFT, int(30 - np.ceil(np.log2(reach))))
    if shift < 8:
        return None
    near = _near_steps(a, b)
    found: list[tuple[int, Array, tuple[int, int]]] = []
    for da, db in _NEAR:
        ma, mb = (round(r * 2**shift) + d for r, d in zip(ratios, (da, db), strict=True))
        sums = ma * a.values[:, None] + mb * b.values[None, :]
        wrong = _wrong(sums[near], results[near], shift, results)
        if wrong <= MOST_EXCEPTIONS:
            found.append((wrong, sums, (ma, mb)))
        if not wrong:
            break
    for _, sums, (ma, mb) in sorted(found, key=lambda f: f[0])[:4]:
        add, exceptions = _settled(sums, results, shift)
        if np.abs(sums).max() + abs(add) < 2**31 and exceptions is not None:
            total = Sum(Number(ma), Number(mb), Number(add))
            return total, Clamped.of(exceptions, shift, results)
    return None


def _near_steps(a: _Terms, b: _Terms) -> Array:
    """bool [256, 256]: where the sum is near one half, which is where multipliers differ. All other
    results are the same for each of them."""
    x = (a.values - a.zero_point)[:, None] * a.ratio
    y = (b.values - b.zero_point)[None, :] * b.ratio
    return np.asarray(np.abs((x + y) % 1 - 0.5) < 1 / 256)


def _bias(
    a: _Side, b: Array, unit: np.float32, results: Array
) -> tuple[Biased, Clamped, Array] | None:
    """The form of a sum with constants, and integers in place of the constants."""
    lo, hi = int(results.min()), int(results.max())
    ratio = float(a.scale) / float(unit)
    reach = ratio * 256 + float(np.abs(b).max(initial=0)) / float(unit) + 512
    if not np.isfinite(reach) or reach >= 2**22:
        return None
    shift = min(LARGEST_SHIFT, int(30 - np.ceil(np.log2(reach))))
    for d in (0, 1, -1, 2, -2, 3, -3):
        m = round(ratio * 2**shift) + d
        sums = m * a.values[:, None]
        far = 2**30
        above = np.where(results > lo, (results << shift) - sums, -far).max(axis=0)
        below = np.where(results < hi, ((results + 1) << shift) - 1 - sums, far).min(axis=0)
        add = np.where(above == -far, below, np.where(below == far, above, (above + below) // 2))
        fits = np.abs(sums).max() + np.abs(add).max() < 2**31
        if np.all(above <= below) and fits:
            array = add.astype(np.int32).reshape(b.shape)
            return Biased(Number(m)), Clamped.of((), shift, results), array
    return None


def _factor(
    a: _Side, b: Array, unit: np.float32, results: Array
) -> tuple[Scaled, Clamped, Array] | None:
    """The form of a product with constants, in the same way."""
    ratios = float(a.scale) / float(unit) * b.astype(np.float64)
    reach = float(np.abs(ratios).max(initial=0)) * 256 + 512
    if not np.isfinite(reach) or reach >= 2**22:
        return None
    shift = min(LARGEST_SHIFT, int(30 - np.ceil(np.log2(reach))))
    for d in (0, 1, -1, 2, -2):
        m = np.rint(ratios * 2**shift).astype(np.int64) + d
        products = (a.values - a.zero_point)[:, None] * m.reshape(1, -1)
        add, wrong = _best(*_bounds(products, results, shift, results))
        if not wrong and np.abs(products).max() + abs(add) < 2**31:
            t = Scaled(a.zero_point, add)
            return t, Clamped.of((), shift, results), m.astype(np.int32)
    return None


def _product(
    a: _Side, b: _Side, unit: np.float32, results: Array
) -> tuple[Product, Clamped] | None:
    """The product's form, None if there is none."""
    ratio = float(a.scale) * float(b.scale) / float(unit)
    left, right = a.values - a.zero_point, b.values - b.zero_point
    products = (left[:, None] * right[None, :]) << _WIDENED
    largest = int(np.abs(products).max())
    reach = largest / 2**_WIDENED * ratio + 512
    shift = int(min(30 - np.ceil(np.log2(reach)), np.floor(30.99 + _WIDENED - 32 - np.log2(ratio))))
    if not 8 <= shift <= 30 or largest >= 2**31:
        return None
    m = round(ratio * 2.0 ** (32 - _WIDENED + shift))
    high = (products * m) >> 32
    add, exceptions = _settled(high, results, shift)
    if np.abs(high).max() + abs(add) >= 2**31 or exceptions is None:
        return None
    t = Product((a.zero_point, b.zero_point), Number(m), Number(add))
    return t, Clamped.of(exceptions, shift, results)


def _bounds(sums: Array, results: Array, shift: int, every: Array) -> tuple[Array, Array]:
    """What may be added to the sums: no less where a result is not the lowest of all, no more where
    it is not the highest, so that (sum + it) >> shift, limited to them, is the result."""
    least = ((results << shift) - sums)[results > every.min()]
    most = (((results + 1) << shift) - 1 - sums)[results < every.max()]
    return np.sort(least), np.sort(most)


def _best(least: Array, most: Array) -> tuple[int, int]:
    """What to add such that the fewest bounds are broken, and how many are."""
    if not least.size or not most.size:
        return int(least[-1]) if least.size else int(most[0]) if most.size else 0, 0
    if least[-1] <= most[0]:
        return int(least[-1] + most[0]) // 2, 0
    tried = np.concatenate((least[-MOST_EXCEPTIONS - 1 :], most[: MOST_EXCEPTIONS + 1]))
    broken = least.size - np.searchsorted(least, tried, side="right")
    broken = broken + np.searchsorted(most, tried, side="left")
    k = int(np.argmin(broken))
    return int(tried[k]), int(broken[k])


def _wrong(sums: Array, results: Array, shift: int, every: Array) -> int:
    return _best(*_bounds(sums, results, shift, every))[1]


def _settled(
    sums: Array, results: Array, shift: int
) -> tuple[int, Sequence[tuple[int, int]] | None]:
    """What to add, and the exceptions: values of t and what brings them to the right side."""
    add, _ = _best(*_bounds(sums, results, shift, results))
    t = sums + add
    lo, hi = int(results.min()), int(results.max())
    off = results - np.clip(t >> shift, lo, hi)
    values = np.unique(t[off != 0])
    if values.size > MOST_EXCEPTIONS:
        return add, None
    exceptions = []
    for value in values.tolist():
        there = np.unique(off[t == value])  # other pairs with this t may want none
        if there.size != 1 or abs(int(there[0])) != 1:
            return add, None
        exceptions.append((value, int(there[0]) << (shift - 1)))
    for value, step in exceptions:
        t = np.where(t == value, t + step, t)
    right = np.array_equal(np.clip(t >> shift, lo, hi), results)
    return add, exceptions if right else None
