"""First extents that a converter did not know, where the batch becomes part of the work:

    [1, 48, 6] SPACE_TO_BATCH_ND by 2 -> CONV_2D -> BATCH_TO_SPACE_ND [1, 40, 8]

is a dilated Conv1D of Keras, and a Dense of a sequence is a RESHAPE [1, 9, 8] -> [9, 8] and back.
TensorFlow's converter writes 1 for each batch that is known only at run time, also where it is 2 or
9 between these operators, and quantisers copy it. LiteRT computes all extents anew, and so does
this.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mlftool.frontends.tflite.model import Operator, Subgraph, Tensor
from mlftool.frozen import replace

TO_BATCH, TO_SPACE = "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"
VIEWS = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
STARTS = (TO_BATCH, "RESHAPE")
UNKNOWN = 1  # what the converter writes for it


def with_batches(graph: Subgraph) -> Subgraph:
    """The subgraph whose tensors between such operators have the batch that these make. Rules
    compare it with what their operator gives, so a wrong one is refused."""
    tensors, moved = list(graph.tensors), set[int]()
    columns = dict(_columns(graph))
    for node in graph.operators:
        starts = node.inputs[:1] if node.kind in STARTS else ()
        source = next((i for i in node.inputs if i in moved or i in starts), -1)
        for place in node.outputs if source >= 0 and tensors[source].type.shape else ():
            type_ = tensors[place].type
            if tensors[place].data is None and type_.shape[:1] == (UNKNOWN,):
                rest = type_.shape[1:]
                if rest == (UNKNOWN,) and node.kind == "RESHAPE":
                    rest = (columns.get(place, UNKNOWN),)
                first = _batch(node, tensors, source, rest)
                type_ = replace(type_, shape=(first, *rest))
                tensors[place] = replace(tensors[place], type=type_)
                moved |= {place} if first != UNKNOWN else set()
    return replace(graph, tensors=tuple(tensors)) if moved else graph


def _columns(graph: Subgraph) -> Iterator[tuple[int, int]]:
    """Of what a Dense reads, as many as its weights have."""
    for node in graph.operators:
        if node.kind == "FULLY_CONNECTED" and len(node.inputs) > 1:
            weights = graph.tensors[node.inputs[1]].type.shape
            if len(weights) == 2 and node.inputs[0] >= 0 <= node.inputs[1]:
                yield node.inputs[0], weights[1]


def _batch(node: Operator, tensors: Sequence[Tensor], source: int, rest: tuple[int, ...]) -> int:
    """The first extent of an output whose others are `rest`."""
    type_ = tensors[source].type
    if node.kind in VIEWS:
        return type_.elements // max(1, math.prod(rest))
    given = tensors[node.inputs[1]].data if len(node.inputs) > 1 else None
    factor = 1 if given is None else max(1, math.prod(map(int, given.reshape(-1))))
    n = type_.shape[0]
    return {TO_BATCH: n * factor, TO_SPACE: n // factor}.get(node.kind, n)
