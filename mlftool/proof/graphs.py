"""The calls of the graph executor's JSON, and whether its storages keep tensors apart.

The runtime gives each storage id as many bytes as its largest tensor has, and keeps parameters from
one run to the next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from mlftool.errors import MlfError
from mlftool.mlf import graph as graphs
from mlftool.mlf.graph import Entry, Graph, Node
from mlftool.proof import walk
from mlftool.proof.layout import CONSTANT, READ, WRITE, Access, Layout, Place, Step


def differences(layout: Layout, data: bytes, entry: str) -> Iterator[str]:
    """What the graph of the file `entry` does otherwise than a Layout, or its storages do not
    keep, a line each."""
    try:
        graph, _ = graphs.decode(data, member=entry)
    except MlfError as error:
        yield from (f"{p.path}: {p.message}" for p in error.problems)
        return
    called = [n for n in graph.nodes if n.function]
    if len(called) != len(layout.steps):
        yield f"the graph makes {len(called)} calls, expected {len(layout.steps)}"
        return
    holds: dict[int, str] = {}  # entry -> what it has
    names = [content for _, content in layout.given]
    for k, argument in enumerate(graph.arguments):
        holds[graph.nodes[argument].outputs[0]] = names[k] if k < len(names) else f"parameter {k}"
    given, steps = dict(holds), []
    for k, (node, step) in enumerate(zip(called, layout.steps, strict=True)):
        accesses = list(_passed(step, node))
        entries = (*node.inputs, *node.outputs)
        if step.symbol and step.symbol != node.function:
            yield f"call {k} is of {node.function}, expected {step.symbol}"
        if len(accesses) != len(entries):
            yield f"call {k} has {len(entries)} tensors, expected {len(accesses)}"
            return
        for access, e in zip(accesses, entries, strict=True):
            if access.role == WRITE:
                holds[e] = access.content
            yield from (f"call {k}: {text}" for text in _unlike(access, graph, e, holds))
        places = zip(accesses, entries, strict=True)
        made = tuple(_access(a, _place(graph, e), holds[e]) for a, e in places)
        steps.append(Step(node.function, made))
    heads = [(_place(graph, e), holds[e]) for e in graph.heads]
    if [content for _, content in heads] != [content for _, content in layout.kept]:
        yield "the graph's outputs are other tensors"
    first = [(_place(graph, e), content) for e, content in given.items()]
    parameters = first[len(names) :]
    own = Layout("graph", _storages(graph), tuple(first), (*heads, *parameters), tuple(steps))
    yield from walk.faults(own)


def _passed(step: Step, node: Node) -> Iterator[Access]:
    """The accesses that are tensors of the node: constants are, unless they are linked."""
    reads = [a for a in step.accesses if a.role in (READ, CONSTANT)]
    if len(reads) != len(node.inputs):
        reads = [a for a in reads if a.role == READ]
    yield from reads
    yield from (a for a in step.accesses if a.role == WRITE)


def _unlike(access: Access, graph: Graph, entry: int, holds: Mapping[int, str]) -> Iterator[str]:
    if access.role == CONSTANT:
        if not holds.get(entry, "").startswith("parameter "):
            yield f"reads '{holds.get(entry, '')}', expected a parameter"
    elif holds.get(entry) != access.content:
        yield f"reads '{holds.get(entry, '')}', expected '{access.content}'"
    if _bytes(graph.entries[entry]) != access.place.size_bytes:
        size = _bytes(graph.entries[entry])
        yield f"'{holds.get(entry, '')}' has {size} bytes, expected {access.place.size_bytes}"


def _access(access: Access, place: Place, content: str) -> Access:
    role = READ if access.role == CONSTANT else access.role
    return Access(role, content, place, access.apart)


def _place(graph: Graph, entry: int) -> Place:
    found = graph.entries[entry]
    return Place(f"storage {found.storage_id}", 0, _bytes(found))


def _storages(graph: Graph) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for k in range(len(graph.entries)):
        place = _place(graph, k)
        sizes[place.memory] = max(sizes.get(place.memory, 0), place.size_bytes)
    return sizes


def _bytes(entry: Entry) -> int:
    bits = re.match(r"[a-z]+(\d+)", entry.dtype)
    each = int(bits[1]) if bits else 8  # a bool
    return (math.prod(entry.shape) * each + 7) // 8
