"""The first layers of a network band by band, so that their large tensors never exist whole.

A chain of convolutions is cut where that saves most. Its output is divided into bands of rows;
going backwards, each layer needs the rows that the next one's windows reach, so neighbouring bands
compute some rows twice. Whatever was padded stays padded, all else is the layers' own arithmetic:
the bits are those of the whole chain.

    x -> conv -> conv -> y  =>  x -> Patches { rows 0-13 -> conv -> conv -> rows 0-11 } -> y
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ops.base import Layout, Trait, contracts, is_a
from mlftool.ops.patches import NAME, key
from mlftool.plan.lower import lower
from mlftool.plan.program import Program
from mlftool.targets import Target

OFF, AUTO = "off", "auto"
MOST_BANDS = 64
TRIED = (2, 3, 4, 6, 8)
WORTH = 0.9  # `auto` cuts a chain only if the arena shrinks to this
MOST_LAYERS = 12

Rows = tuple[int, int]  # first, after the last


@dataclass(frozen=True)
class Choice:
    """The first nodes of `chain` in `bands`, and what the arena will be."""

    chain: tuple[Node, ...]
    bands: int
    arena_bytes: int


def check_patches(text: str) -> str:
    """Raises MlfError unless it is off, auto or a number of bands."""
    if text in (OFF, AUTO) or (text.isdecimal() and 2 <= int(text) <= MOST_BANDS):
        return text
    raise MlfError(Problem("MLF0400", f"patches '{text}', expected off, auto or 2 to {MOST_BANDS}"))


def in_patches(program: Program, asked: str, target: Target, file: str) -> Graph:
    """The program's graph with its best chain in bands; unchanged if there is nothing to gain."""
    graph = program.graph
    limit = program.memory.size_bytes * (WORTH if asked == AUTO else 1)
    choices = [
        choice
        for bands in (TRIED if asked == AUTO else (int(asked),))
        for chain in _chains(program)
        for choice in _judged(program, chain, bands, target, file)
        if choice.arena_bytes < limit
    ]
    if not choices:
        return graph
    best = min(choices, key=lambda c: (c.arena_bytes, c.bands, len(c.chain)))
    return _cut(graph, best.chain, best.bands)


def _chains(program: Program) -> Iterator[tuple[Node, ...]]:
    """Layers that each read the one before and are read by the next alone, as many as there are in
    a row, if the arena is full while one of them runs."""
    graph, peaks = program.graph, _peaks(program)
    full = {c.node.outputs for c, p in zip(program.calls, peaks, strict=True) if p == max(peaks)}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(node.inputs):
            readers.setdefault(name, []).append(node)
    taken: set[str] = set()
    for first in graph.nodes:
        chain: list[Node] = []
        name, node = first.core.inputs[0] if first.core.inputs else "", first
        while node.result not in taken and _by_rows(graph, node, name):
            chain.append(node)
            name = node.result
            taken.add(name)
            following = readers.get(name, [])
            if len(following) != 1 or name in graph.outputs or len(chain) == MOST_LAYERS:
                break
            node = following[0]
        if len(chain) > 1 and any(n.outputs in full for n in chain):
            yield tuple(chain)


def _by_rows(graph: Graph, node: Node, read: str) -> bool:
    """Whether the node is a convolution of one image, with nothing else to read but constants of a
    channel, so that rows of its output need rows of its input."""
    core = node.core
    c = contracts(core)
    if c is None or c.layout is not Layout.CONVOLUTION or core.inputs[0] != read:
        return False
    if c.bias is None or len(node.outputs) > 1:
        return False  # bare sums of integers have four times the bytes
    if any(i and i not in graph.consts for i in core.inputs[1:]):
        return False
    x, y = graph.types[read], graph.types[node.result]
    if len(x.shape) != 4 or x.shape[0] != 1 or x.dtype.packed or y.dtype.packed:
        return False
    above, _, below, _ = core.attrs.get("pads", (0,) * 4)
    if max(above, below) >= _reach(core):  # some rows would see padding alone
        return False
    behind = [n for n in node.body if n is not core]
    others = {i for n in behind for i in n.inputs if i} - {o for n in node.body for o in n.outputs}
    channels = (1, y.shape[-1])
    return all(is_a(n, Trait.ELEMENTWISE) for n in behind) and all(
        i in graph.consts and graph.types[i].elements in channels for i in others
    )


def _judged(
    program: Program, chain: tuple[Node, ...], bands: int, target: Target, file: str
) -> Iterator[Choice]:
    """The arena for each beginning of the chain: a band's own arena and the whole output."""
    graph = program.graph
    peaks = _peaks(program)
    outside = {*graph.inputs, *graph.outputs}
    position = {c.node.outputs: k for k, c in enumerate(program.calls)}
    for n in range(2, len(chain) + 1):
        y = graph.types[chain[n - 1].result]
        if y.shape[1] < 2 * bands:
            break
        band = _band(graph, chain[:n], _rows(y.shape[1], bands)[bands // 2])
        inner = lower(band[0], target, file).memory.size_bytes
        first = chain[0].core.inputs[0]
        own = sum(graph.types[t].bytes for t in {first, chain[n - 1].result} - outside)
        steps = {position[node.outputs] for node in chain[:n]}
        rest = max((p for k, p in enumerate(peaks) if k not in steps), default=0)
        yield Choice(chain[:n], bands, max(own + inner, rest))


def _peaks(program: Program) -> list[int]:
    """How far up the arena each step reaches."""
    peaks = [0] * len(program.calls)
    for b in program.memory.buffers:
        for step in range(b.first_step, min(b.last_step + 1, len(peaks))):  # none of only views
            peaks[step] = max(peaks[step], b.offset_bytes + b.size_bytes)
    return peaks


def _rows(height: int, bands: int) -> list[Rows]:
    """`height` rows in bands of the same size, the last with the remaining rows."""
    each = -(-height // bands)
    return [(k, min(height, k + each)) for k in range(0, height, each)]


def _band(graph: Graph, chain: Sequence[Node], rows: Rows) -> tuple[Graph, int]:
    """The chain for these rows of its output, and the first row of the input it reads."""
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in reversed(chain):
        core = node.core
        made, read = graph.types[node.result].shape[1], graph.types[core.inputs[0]].shape[1]
        names = {o for n in (*node.body, node) for o in n.outputs}
        for name in names:
            types[name] = _of_height(graph.types[name], rows[1] - rows[0])
        needed, pads = _window(core, rows, made, read)
        nodes.insert(0, _padded(node, pads))
        rows = needed
    first = chain[0].core.inputs[0]
    types[first] = _of_height(graph.types[first], rows[1] - rows[0])
    used = {i for n in nodes for m in (n, *n.body) for i in m.inputs if i in graph.consts}
    kept = used | {n for n in types if n not in graph.consts}
    band = Graph(
        "band",
        (first,),
        (chain[-1].result,),
        tuple(nodes),
        {n: t for n, t in types.items() if n in kept},
        {n: graph.consts[n] for n in graph.consts if n in used},
    )
    return band, rows[0]


def _of_height(type_: TensorType, height: int) -> TensorType:
    n, _, *others = type_.shape
    return TensorType(type_.dtype, (n, height, *others))


def _reach(core: Node) -> int:
    """How many rows a window covers."""
    k, dilation = core.attrs["kernel_shape"][0], core.attrs.get("dilations", (1, 1))[0]
    return int((k - 1) * dilation + 1)


def _window(core: Node, rows: Rows, made: int, read: int) -> tuple[Rows, tuple[int, int]]:
    """The rows of the input that these of the output need, and how many more are padding."""
    stride, above = core.attrs.get("strides", (1, 1))[0], core.attrs.get("pads", (0,) * 4)[0]
    start = rows[0] * stride - above
    end = (rows[1] - 1) * stride - above + _reach(core)
    needed = (max(0, start), min(read, end))
    return needed, (needed[0] - start, end - needed[1])


def _padded(node: Node, pads: tuple[int, int]) -> Node:
    """The node with other padding above and below."""

    def changed(n: Node) -> Node:
        if n.op != node.op:
            return n
        _, left, _, right = n.attrs.get("pads", (0,) * 4)
        attrs: dict[str, Any] = {**n.attrs, "pads": [pads[0], left, pads[1], right]}
        return replace(n, attrs=attrs)

    return replace(changed(node), body=tuple(map(changed, node.body)))


def _cut(graph: Graph, chain: Sequence[Node], bands: int) -> Graph:
    """The graph with `chain` as one node."""
    made = chain[-1].result
    cut = [(*_band(graph, chain, r), r[0]) for r in _rows(graph.types[made].shape[1], bands)]
    whole = Node(
        NAME,
        (chain[0].core.inputs[0],),
        (made,),
        {"starts": tuple((first, out) for _, first, out in cut)},
        f"{chain[0].name} to {chain[-1].name}",
        graphs={key(k): band for k, (band, _, _) in enumerate(cut)},
    )
    outputs = {n.outputs for n in chain}
    nodes = tuple(
        whole if n.outputs == chain[-1].outputs else n
        for n in graph.nodes
        if n.outputs not in outputs or n.outputs == chain[-1].outputs
    )
    return graph.replace(nodes=nodes)
