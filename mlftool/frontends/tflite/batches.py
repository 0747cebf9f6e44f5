"""First extents that a converter did not know, where the batch becomes part of the work:

    [1, 48, 6] SPACE_TO_BATCH_ND by 2 -> CONV_2D -> BATCH_TO_SPACE_ND [1, 40, 8]

is a dilated Conv1D of Keras. TensorFlow's converter writes 1 for each batch that is known only at
run time, also where it is 2 between these operators, and quantisers copy it. LiteRT computes all
extents anew, and so does this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlftool.frontends.tflite.model import Operator, Subgraph, Tensor
from mlftool.frozen import replace

TO_BATCH, TO_SPACE = "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"
VIEWS = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
UNKNOWN = 1  # what the converter writes for it


def with_batches(graph: Subgraph) -> Subgraph:
    """The subgraph whose tensors between such operators have the batch that these make. Rules
    compare it with what their operator gives, so a wrong one is refused."""
    tensors, moved = list(graph.tensors), set[int]()
    for node in graph.operators:
        starts = node.inputs[:1] if node.kind == TO_BATCH else ()
        source = next((i for i in node.inputs if i in moved or i in starts), -1)
        for place in node.outputs if source >= 0 and tensors[source].type.shape else ():
            type_ = tensors[place].type
            if tensors[place].data is None and type_.shape[:1] == (UNKNOWN,):
                first = _batch(node, tensors, source, type_.shape[1:])
                type_ = replace(type_, shape=(first, *type_.shape[1:]))
                tensors[place] = replace(tensors[place], type=type_)
                moved |= {place} if first != UNKNOWN else set()
    return replace(graph, tensors=tuple(tensors)) if moved else graph


def _batch(node: Operator, tensors: Sequence[Tensor], source: int, rest: tuple[int, ...]) -> int:
    """The first extent of an output whose others are `rest`."""
    type_ = tensors[source].type
    if node.kind in VIEWS:
        return type_.elements // max(1, math.prod(rest))
    given = tensors[node.inputs[1]].data if len(node.inputs) > 1 else None
    factor = 1 if given is None else max(1, math.prod(map(int, given.reshape(-1))))
    n = type_.shape[0]
    return {TO_BATCH: n * factor, TO_SPACE: n // factor}.get(node.kind, n)
