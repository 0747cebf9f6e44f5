"""First extents that a file leaves open, where the batch becomes part of the work:

    [1, 48, 6] SPACE_TO_BATCH_ND by 2 -> CONV_2D -> BATCH_TO_SPACE_ND [1, 40, 8]

is a dilated Conv1D of Keras. Its converter writes 1 for every batch that is known only at run time,
also where it is 2 between these operators. A runtime computes the extents anew, and so does this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlftool.frontends.tflite.model import Operator, Subgraph, Tensor
from mlftool.frozen import replace

BLOCKS = ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
VIEWS = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")


def with_batches(graph: Subgraph) -> Subgraph:
    """The subgraph whose tensors between such operators have the batch that these make. Rules
    compare it with what their operator gives, so a wrong one is refused."""
    tensors, moved = list(graph.tensors), set[int]()
    for node in graph.operators:
        source = next((i for i in node.inputs if i >= 0 and tensors[i].open), -1)
        if source < 0 or not (node.kind == BLOCKS[0] or moved & set(node.inputs)):
            continue
        for place in node.outputs:
            shape = tensors[place].type.shape
            first = _batch(node, tensors, source, shape[1:])
            if tensors[place].open and shape and first != shape[0]:
                type_ = replace(tensors[place].type, shape=(first, *shape[1:]))
                tensors[place] = replace(tensors[place], type=type_)
                moved.add(place)
    return replace(graph, tensors=tuple(tensors))


def _batch(node: Operator, tensors: Sequence[Tensor], source: int, rest: tuple[int, ...]) -> int:
    """The first extent of an output whose others are `rest`."""
    type_ = tensors[source].type
    if node.kind in VIEWS:
        return type_.elements // max(1, math.prod(rest))
    block = tensors[node.inputs[1]].data if node.kind in BLOCKS and len(node.inputs) > 1 else None
    factor = max(1, math.prod(map(int, block.reshape(-1)))) if block is not None else 1
    n = type_.shape[0]
    return n * factor if node.kind == BLOCKS[0] else n // factor
