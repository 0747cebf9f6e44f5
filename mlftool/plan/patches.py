"""Layers in bands of rows, so that their large tensors never exist whole.

A run of layers is cut where that saves most: convolutions, pools and elementwise operators that
read one tensor from elsewhere and make one. Residuals and tensors with several readers may be in
it. Its output is made band by band; rows that the next band reads again are kept (plan/rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.graph import Graph, Node
from mlftool.plan.program import Program
from mlftool.plan.rows import Again, Flow, by_rows, others, window_input

OFF, AUTO = "off", "auto"
MOST_BANDS = 64
HEIGHTS = (1, 2, 3, 4, 6, 8, 12, 16)  # of bands that are tried, in rows of the last output
TRIED = (2, 3, 4, 6, 8)  # numbers of bands that compute shared rows again
MOST_LAYERS = 24


@frozen
class Choice:
    """A run of layers in bands, and about what the arena will be."""

    flow: Flow
    arena_bytes: int

    @property
    def calls(self) -> int:
        return len(self.flow.nodes) * self.flow.bands

    @property
    def again(self) -> bool:
        return isinstance(self.flow, Again)


def check_patches(text: str) -> str:
    """Raises MlfError unless it is off, auto or a number of bands."""
    if text in (OFF, AUTO) or (text.isdecimal() and 2 <= int(text) <= MOST_BANDS):
        return text
    raise MlfError(Problem("MLF0400", f"patches '{text}', expected off, auto or 2 to {MOST_BANDS}"))


def choices(program: Program, bands: int | None = None) -> list[Choice]:
    """Runs of layers to cut, each in so many bands or in any number of them, if the arena is about
    to be smaller."""
    peaks, size = _peaks(program), program.memory.size_bytes
    found = []
    for nodes, read in _runs(program, peaks):
        height = program.graph.types[nodes[-1].result].shape[1]
        for count in [bands] if bands else (-(-height // rows) for rows in HEIGHTS):
            if 2 <= count <= min(height, MOST_BANDS):
                forms = [Flow(program.graph, nodes, read, count, apart) for apart in (False, True)]
                flow = min(forms, key=lambda f: f.bytes)
                again = Again(program.graph, nodes, read, count)
                flows = [flow, again] if again.is_chain and (bands or count in TRIED) else [flow]
                fitting = [
                    c
                    for f in flows
                    if (c := Choice(f, _arena(program, f, peaks))).arena_bytes < size
                ]
                if not fitting:
                    break  # bands of more rows need more
                found += fitting
    return found


def _runs(program: Program, peaks: Sequence[int]) -> Iterator[tuple[tuple[Node, ...], str]]:
    """Layers that follow each other in the program, read one tensor from elsewhere, and make one,
    if the arena is full while one of them runs; with that tensor, the longest first."""
    graph = program.graph
    full = {c.node.outputs for c, p in zip(program.calls, peaks, strict=True) if p == max(peaks)}
    users: dict[str, set[str]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            users.setdefault(name, set()).add(node.result)
    good = [by_rows(graph, n) for n in graph.nodes]
    for first, node in enumerate(graph.nodes):
        sources = _sources(graph, node)
        if not good[first] or len(sources) != 1:
            continue
        inside: set[str] = set()
        for last in range(first, min(first + MOST_LAYERS, len(graph.nodes))):
            node = graph.nodes[last]
            if not good[last] or not _sources(graph, node) <= inside | sources:
                break
            open_ = {n for n in inside if not users.get(n, set()) <= inside | {node.result}}
            inside.add(node.result)
            nodes = graph.nodes[first : last + 1]
            alone = not open_ and not inside & {*graph.outputs} - {node.result}
            if last > first and alone and any(n.outputs in full for n in nodes):
                yield nodes, next(iter(sources))


def _sources(graph: Graph, node: Node) -> set[str]:
    """What a layer reads but for constants."""
    read = window_input(node)
    return {*others(graph, node), *([read] if read else [])} - {*graph.consts}


def _arena(program: Program, flow: Flow, peaks: Sequence[int]) -> int:
    """About what the arena will be: what the run needs, or other steps."""
    graph = program.graph
    inside = {n.outputs for n in flow.nodes}
    rest = [p for c, p in zip(program.calls, peaks, strict=True) if c.node.outputs not in inside]
    outside = set() if program.workspace_io else {*graph.inputs, *graph.outputs}
    sizes = [graph.types[t].bytes for t in (flow.read, flow.made) if t not in outside]
    ends = sum(sizes)
    if len(sizes) == 2 and flow.ahead is not None:
        ends = max(sizes[1], sizes[0] + flow.ahead[0])
    return max(ends + flow.bytes, *rest, 0)


def _peaks(program: Program) -> list[int]:
    """Bytes that are in use at each step; those that an input and an output share count once."""
    found = []
    for step in range(len(program.calls)):
        alive = [b for b in program.memory.buffers if b.first_step <= step <= b.last_step]
        total = end = 0
        for b in sorted(alive, key=lambda b: (b.pool, b.offset_bytes)):
            start = max(b.offset_bytes, end)
            total += max(0, b.offset_bytes + b.size_bytes - start)
            end = max(end, b.offset_bytes + b.size_bytes)
        found.append(total)
    return found


def cut(choice: Choice) -> Graph:
    """The graph with the run of layers as one node, where the last of them was."""
    graph, flow = choice.flow.graph, choice.flow
    gone = {n.outputs for n in flow.nodes}
    last = flow.nodes[-1].outputs
    nodes = tuple(
        flow.node() if n.outputs == last else n
        for n in graph.nodes
        if n.outputs not in gone or n.outputs == last
    )
    return graph.replace(nodes=nodes)
