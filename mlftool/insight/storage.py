"""What the graph of a graph executor says of calls, tensors and memory, for archives of TVM.

TVM's executor allocates each storage id once, for the largest of its tensors, and never frees it:
inputs, outputs and parameters have ids, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from mlftool.errors import MlfError, Problem
from mlftool.insight.description import Buffer, Description, Node, Pool
from mlftool.mlf import graph as graph_json
from mlftool.mlf.interface import numpy_dtype
from mlftool.mlf.records import ModuleRecord

STORAGE = "storage of the graph executor"


def graph_of(record: ModuleRecord, file: str) -> graph_json.Graph | None:
    """The module's graph; None where another executor calls its kernels. Raises MlfError."""
    if record.graph is None:
        return None
    member = f"executor-config/graph/{record.name}.graph"
    return graph_json.decode(record.graph, file, member)[0]


def planned(record: ModuleRecord, file: str, target: str) -> Description | None:
    """The calls of a graph and where its tensors are, one storage id after the other. What the
    kernels compute, and with how many multiplications, a graph does not say. Raises MlfError."""
    graph = graph_of(record, file)
    if graph is None:
        return None
    try:
        sizes = [_bytes(entry) for entry in graph.entries]
    except (ValueError, TypeError) as error:
        raise MlfError(Problem("MLF0607", str(error), file, path=record.name)) from None
    at: dict[int, int] = {}
    total = 0
    for storage, size in _storages(graph, sizes):
        at[storage], total = total, total + size
    calls = [n for n in graph.nodes if n.function]
    nodes = tuple(Node(n.name, n.function, "", n.function, 0) for n in calls)
    buffers = tuple(_buffers(graph, sizes, at))
    pool = Pool(STORAGE, total, _bound(buffers, len(nodes)), "", "")
    return Description(target, "graph", total, 0, 0, nodes, (pool,), buffers)


def _bytes(entry: graph_json.Entry) -> int:
    return int(numpy_dtype(entry.dtype).itemsize) * prod(entry.shape)


def _storages(graph: graph_json.Graph, sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Each storage id with its bytes, in the order of the ids."""
    largest: dict[int, int] = {}
    for entry, size in zip(graph.entries, sizes, strict=True):
        largest[entry.storage_id] = max(size, largest.get(entry.storage_id, 0))
    yield from sorted(largest.items())


def _buffers(graph: graph_json.Graph, sizes: list[int], at: dict[int, int]) -> Iterator[Buffer]:
    """Inputs and parameters are there before the first call, outputs after the last."""
    calls = [n for n in graph.nodes if n.function]
    last = max(0, len(calls) - 1)
    until = {e: k for k, n in enumerate(calls) for e in n.inputs}  # the last call that reads it
    until |= dict.fromkeys(graph.heads, last)
    begins = {e: k for k, n in enumerate(calls) for e in n.outputs}
    for node in graph.nodes:
        for number, e in enumerate(node.outputs):
            first = begins.get(e, 0)
            # The executor keeps what it was given: a parameter is there for the next inference.
            end = until.get(e, first) if node.function else last
            name = node.name if len(node.outputs) == 1 else f"{node.name}:{number}"
            offset = at[graph.entries[e].storage_id]
            yield Buffer(name, STORAGE, offset, sizes[e], first, max(first, end), not node.function)


def _bound(buffers: tuple[Buffer, ...], steps: int) -> int:
    """Most bytes of tensors that are there at one step."""
    return max(
        (sum(b.size for b in buffers if b.first <= k <= b.last) for k in range(max(1, steps))),
        default=0,
    )
