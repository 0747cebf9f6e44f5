"""A row of a tensor that a loop replaces, as TensorFlow's converter spells TensorListSetItem:

    %y = CONCATENATION(SLICE(%x, 0, [%i, -1]), %row, SLICE(%x, [%i + 1, 0], -1))
                                              =>   %y = DYNAMIC_UPDATE_SLICE(%x, %row, [%i, -1])

The two slices have extents that are known only at run time, their sum is not. An index below zero
counts as zero, so the size of the first slice is where the row begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mlftool.frontends.tflite.model import Operator, Subgraph
from mlftool.frozen import replace
from mlftool.ir.graph import Array

VIEWS = ("RESHAPE", "EXPAND_DIMS")
Makers = Mapping[int, Operator]


def with_updates(graph: Subgraph) -> Subgraph:
    """The subgraph, in which a row is replaced by one operator."""
    makers = {place: node for node in graph.operators for place in node.outputs}
    readers = [*graph.outputs, *(i for node in graph.operators for i in node.inputs)]
    found = {n.outputs: made for n in graph.operators if (made := _update(graph, makers, n))}
    parts = {i for n in graph.operators if n.outputs in found for i in (n.inputs[0], n.inputs[2])}
    done = [place for place in parts if readers.count(place) == 1]
    kept = (n for n in graph.operators if not (n.kind == "SLICE" and n.outputs[0] in done))
    return replace(graph, operators=tuple(found.get(n.outputs, n) for n in kept))


def _update(graph: Subgraph, makers: Makers, node: Operator) -> Operator | None:
    if node.kind != "CONCATENATION" or len(node.inputs) != 3 or len(node.outputs) != 1:
        return None
    left, right = (makers.get(node.inputs[k]) for k in (0, 2))
    slices = [n for n in (left, right) if n is not None and n.kind == "SLICE"]
    if len(slices) != 2 or any(len(n.inputs) != 3 for n in slices):
        return None
    (source, begins, size), (other, begin, rest) = (n.inputs for n in slices)
    whole, row = (graph.tensors[k].type.shape for k in (source, node.inputs[1]))
    fits = (
        source == other
        and graph.tensors[source].type == graph.tensors[node.outputs[0]].type
        and len(row) == len(whole) > 0
        and row[1:] == whole[1:]
        and node.options.get("axis", 0) in (0, -len(whole))
        and not node.options.get("fused_activation_function", 0)
        and _all(graph, begins, 0)
        and _all(graph, rest, -1)
    )
    first = _headed(graph, makers, size, -1) if fits else None
    after = _headed(graph, makers, begin, 0) if fits else None
    if first is None or after is None or first not in _less(graph, makers, after, row[0]):
        return None
    return Operator("DYNAMIC_UPDATE_SLICE", (source, node.inputs[1], size), node.outputs)


def _data(graph: Subgraph, place: int) -> Array | None:
    return graph.tensors[place].data if place >= 0 else None


def _all(graph: Subgraph, place: int, value: int) -> bool:
    """Whether a tensor is constant, and each of its elements is `value`."""
    data = _data(graph, place)
    return data is not None and bool(np.all(data == value))


def _headed(graph: Subgraph, makers: Makers, place: int, rest: int) -> int | None:
    """The scalar that comes first in a vector whose other elements are all `rest`."""
    node = makers.get(place)
    if node is not None and node.kind == "CONCATENATION" and len(node.inputs) == 2:
        if not _all(graph, node.inputs[1], rest):
            return None
        place = node.inputs[0]
        node = makers.get(place)
    if graph.tensors[place].type.elements != 1:
        return None
    return node.inputs[0] if node is not None and node.kind in VIEWS else place


def _less(graph: Subgraph, makers: Makers, place: int, by: int) -> Iterator[int]:
    """The tensors to which `by` is added to make this one."""
    node = makers.get(place)
    if node is not None and node.kind == "ADD" and len(node.inputs) == 2:
        a, b = node.inputs
        yield from (x for x, step in ((a, b), (b, a)) if _all(graph, step, by))
