"""Bounds of integer sums of products, and scales by which kernels divide.

Recomputed from weights and types alone: a bound that a kernel or pass worked out plays no part.
Each bound holds for every partial sum in any order, whether zero points are subtracted from
operands or folded into the bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Graph, Node
from mlftool.ops.base import Contracts, Trait, contracts, is_a
from mlftool.plan.program import Program

MOST = 2**31 - 1  # of an int32 accumulator
PART_ELEMENTS = 1 << 18


@frozen
class Sum:
    """A contraction of integers: the largest absolute value of its accumulator, None where no bound
    is known."""

    label: str
    bound: int | None

    @property
    def proven(self) -> bool:
        return self.bound is not None and self.bound <= MOST


def sums(program: Program) -> Iterator[Sum]:
    """Every contraction of integers, in subgraphs too."""
    for call in program.calls:
        core = call.node.core
        about = contracts(core)
        if about is not None and _is_integer(program.graph, core):
            yield Sum(call.node.label, _bound(program.graph, core, about))
        for part in call.parts.values():
            yield from sums(part)


def _is_integer(graph: Graph, node: Node) -> bool:
    return all(graph.types[name].dtype.kind in "iu" for name in (node.inputs[0], _weights(node)))


def _weights(node: Node) -> str:
    about = contracts(node)
    assert about is not None
    return node.inputs[about.weights]


def _bound(graph: Graph, node: Node, about: Contracts) -> int | None:
    x = graph.types[node.inputs[0]]
    product = _largest(x.dtype.name) + _zero(
        graph, node, 2 if about.quantised else None, x.dtype.name
    )
    products = product * _weight_sum(graph, node, about)
    bias = _bias(graph, node, about)
    return None if bias is None else products + bias


def _largest(dtype: str) -> int:
    """The largest absolute value of a type's elements; of packed ones too."""
    bits = int(dtype.lstrip("uint"))
    return (1 << bits) - 1 if dtype.startswith("u") else 1 << bits - 1


def _zero(graph: Graph, node: Node, at: int | None, dtype: str) -> int:
    """The largest absolute value of a zero point: the type's, if it is not known."""
    if at is None or at >= len(node.inputs):
        return _largest(dtype)
    if not node.inputs[at]:
        return 0
    value = graph.consts.get(node.inputs[at])
    return _largest(dtype) if value is None else int(np.abs(value.astype(np.int64)).max(initial=0))


def _weight_sum(graph: Graph, node: Node, about: Contracts) -> int:
    """The largest sum over one output channel of |weight| + |zero point|."""
    name = _weights(node)
    type_ = graph.types[name]
    zero = _zero(graph, node, 5 if about.quantised else None, type_.dtype.name)
    channels = type_.shape[about.axis(node.attrs, len(type_.shape))] if type_.shape else 1
    each = math.prod(type_.shape) // max(1, channels)
    value = graph.consts.get(name)
    if value is None:
        return each * (_largest(type_.dtype.name) + zero)
    rows = np.moveaxis(value, about.axis(node.attrs, value.ndim), 0) if value.ndim else value
    rows, largest = rows.reshape(channels, -1), 0
    few = max(1, PART_ELEMENTS // max(1, each))  # all at once would be eight times the weights
    for k in range(0, channels, few):
        found = np.abs(rows[k : k + few].astype(np.int64)).sum(axis=1)
        largest = max(largest, int(found.max(initial=0)))
    return largest + each * zero


def _bias(graph: Graph, node: Node, about: Contracts) -> int | None:
    """The largest absolute value that a sum begins with; a bias in floats is added afterwards."""
    at = about.bias
    name = node.inputs[at] if at is not None and at < len(node.inputs) else ""
    if not name or graph.types[name].dtype.kind not in "iu":
        return 0
    value = graph.consts.get(name)
    return None if value is None else int(np.abs(value.astype(np.int64)).max(initial=0))


def divisor_faults(program: Program) -> Iterator[str]:
    """Constant scales that are zero, or no finite number. Kernels divide by scales; integers that a
    model divides are tested in C, where they run."""
    for call in program.calls:
        for node in call.node.body or (call.node,):
            yield from (f"{node.label}: {text}" for text in _scales(program.graph, node))
        for part in call.parts.values():
            yield from divisor_faults(part)


def _scales(graph: Graph, node: Node) -> Iterator[str]:
    about = contracts(node)
    at = about.y_scale if about is not None else 1 if is_a(node, Trait.QUANTISER) else None
    name = node.inputs[at] if at is not None and at < len(node.inputs) else ""
    value = graph.consts.get(name)
    if value is not None:
        known = np.asarray(value, np.float64)
        if not np.all(np.isfinite(known)) or np.any(known == 0):
            yield f"scale '{name}' is zero or not finite"
