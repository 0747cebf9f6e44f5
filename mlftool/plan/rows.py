"""Layers as they pass rows on: which rows each of them computes in a band, and where rows wait.

    x -> conv 3x3 -> conv 3x3 -> y     a band of y is two rows

    step 1    rows 0-3 of t from rows 0-4 of x, rows 0-1 of y from rows 0-2 of t
    step 2    rows 2-3 of t are kept; row 4-5 from rows 3-6 of x, rows 2-3 of y from rows 1-4 of t

No row is computed twice. A tensor's rows wait in a buffer until the last layer that reads them
has done so; a residual is one more reader. Padding stays padding, so a layer that is computed
for some rows is that layer with other padding above and below, and its bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ops.base import Layout, Trait, contracts, is_a
from mlftool.ops.patches import INPUT, NAME, OUTPUT, ROWS, Layer, Move, key
from mlftool.plan.blocks import Distances, Interval, aligned
from mlftool.plan.loops import runs
from mlftool.plan.placement import first_fit

Rows = tuple[int, int]  # first, after the last
KEPT = "kept "  # and a tensor's name: the buffer of rows that are kept apart
APART = ".rows"  # the name of a tensor's rows that a layer reads in another place


def by_rows(graph: Graph, node: Node) -> bool:
    """Whether rows of the node's output need rows of its inputs alone: a convolution or a pool of
    one image, or an elementwise operator, with nothing else to read but constants of a channel."""
    core, y = node.core, graph.types[node.result]
    if len(node.outputs) > 1 or node.graphs or y.dtype.packed:
        return False
    if len(y.shape) < 3 or y.shape[0] != 1 or not all(y.shape):
        return False
    inner = {o for n in node.body for o in n.outputs}
    read = window_input(node)
    if read is None:
        if not is_a(core, Trait.ELEMENTWISE):
            return False
    elif read in inner or read in graph.consts or not _window_moves(graph, node, read):
        return False
    plain = [n for n in (node.body or (node,)) if read is None or n is not core]
    return all(
        is_a(n, Trait.ELEMENTWISE) and _of_channels(graph, n, y.shape) for n in plain
    ) and all(
        graph.types[i].shape == y.shape and not graph.types[i].dtype.packed
        for i in others(graph, node)
    )


def window_input(node: Node) -> str | None:
    """The tensor of which a row of the output needs a window of rows; None if there is none."""
    return node.core.inputs[0] if "kernel_shape" in node.core.attrs else None


def others(graph: Graph, node: Node) -> tuple[str, ...]:
    """What the node reads row by row."""
    read, nodes = window_input(node), node.body or (node,)
    inner = {o for n in nodes for o in n.outputs}
    plain = [n for n in nodes if read is None or n is not node.core]
    names = [i for n in plain for i in n.inputs if i and i not in inner and i not in graph.consts]
    return tuple(dict.fromkeys(names))


def _window_moves(graph: Graph, node: Node, read: str) -> bool:
    """Whether a convolution or pool gives the same for a part of its input with other padding."""
    core, x = node.core, graph.types[read]
    y = graph.types[core.outputs[0]]
    if len(x.shape) != len(y.shape) or x.shape[0] != 1 or x.dtype.packed or not all(x.shape):
        return False
    if any(i and i not in graph.consts for i in core.inputs[1:]):
        return False
    above, below = _pads(core)
    if max(above, below) >= _reach(core):  # some rows would see padding alone
        return False
    if found := contracts(core):
        # Bare sums of integers have four times the bytes.
        return found.layout is Layout.CONVOLUTION and found.bias is not None
    end = (y.shape[1] - 1) * _stride(core) - above + _reach(core)
    whole = not (above or below) and end <= x.shape[1]
    return is_a(core, Trait.SPATIAL) and (is_a(core, Trait.ORDER_PRESERVING) or whole)


def _of_channels(graph: Graph, node: Node, shape: Sequence[int]) -> bool:
    """Whether the constants of an elementwise node are the same for each row."""
    known = [graph.types[i] for i in node.inputs if i in graph.consts]
    several = [t for t in known if t.elements != 1]
    last = node.attrs.get("axis", -1) in (-1, len(shape) - 1)
    return not several or (last and all(t.shape[-1:] == (t.elements,) for t in several))


def _pads(core: Node) -> Rows:
    pads = core.attrs.get("pads") or (0, 0)
    return pads[0], pads[len(pads) // 2]


def _stride(core: Node) -> int:
    return int((core.attrs.get("strides") or (1,))[0])


def _reach(core: Node) -> int:
    """How many rows a window covers."""
    return int((core.attrs["kernel_shape"][0] - 1) * (core.attrs.get("dilations") or (1,))[0] + 1)


@frozen
class Reader:
    """How many rows from which one on a layer reads for `n` rows: of a window, or as many."""

    stride: int = 1
    above: int = 0
    reach: int = 1

    def first(self, row: int) -> int:
        return max(0, row * self.stride - self.above)

    def end(self, rows: int) -> int:
        """After the last row that is read for the first `rows` rows, padding counted. Of none, and
        of fewer, it is what should be there when bands before the first had been made."""
        return (rows - 1) * self.stride - self.above + self.reach

    @staticmethod
    def of(node: Node) -> Reader:
        core = node.core
        return Reader(_stride(core), _pads(core)[0], _reach(core))


@frozen
class Flow:
    """Layers that follow each other, in bands of so many rows of the last one's output.

    `read` is the one tensor that they read from elsewhere.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    read: str
    bands: int
    apart: bool = False  # kept rows wait elsewhere than where layers read them

    @property
    def made(self) -> str:
        return self.nodes[-1].result

    def height(self, name: str) -> int:
        return self.graph.types[name].shape[1]

    def row(self, name: str) -> int:
        """Bytes of a row."""
        return self.graph.types[name].bytes // self.height(name)

    @cached_property
    def readers(self) -> Mapping[str, Sequence[tuple[str, Reader]]]:
        """Who reads a tensor, by the result, and how."""
        found: dict[str, list[tuple[str, Reader]]] = {}
        for node in self.nodes:
            if read := window_input(node):
                found.setdefault(read, []).append((node.result, Reader.of(node)))
            for name in others(self.graph, node):
                found.setdefault(name, []).append((node.result, Reader()))
        return found

    @cached_property
    def done(self) -> Sequence[Mapping[str, int]]:
        """How many rows of each tensor there are after each step, at first none. Before the first
        band the layers start one after the other, so that no step makes more rows than others."""
        height = self.height(self.made)
        each = -(-height // self.bands)
        last = self._needed(height)
        steps: list[Mapping[str, int]] = []
        rows = each * self.bands
        while not steps or any(steps[-1].values()):
            needed = self._needed(rows)
            found = {n: min(last[n], self.height(n), max(0, k)) for n, k in needed.items()}
            if not steps or found != steps[-1]:
                steps.append(found)
            rows -= each
        return steps[::-1]

    def _needed(self, rows: int) -> dict[str, int]:
        """How many rows of each tensor so many of the output need, padding counted."""
        found = {self.made: rows}
        for name in (*(n.result for n in reversed(self.nodes[:-1])), self.read):
            found[name] = max(
                reader.end(min(found[by], self.height(by))) for by, reader in self.readers[name]
            )
        return found

    @cached_property
    def kept(self) -> Sequence[Mapping[str, int]]:
        """The first row of each tensor that is still to be read, before each step and at last."""
        last = self.done[-1]
        return [
            {
                name: min(
                    (r.first(before[by]) for by, r in readers if before[by] < last[by]),
                    default=before[name],
                )
                for name, readers in self.readers.items()
            }
            for before in self.done
        ]

    @cached_property
    def buffers(self) -> Mapping[str, tuple[int, int]]:
        """Where the rows of each tensor between the layers are, and how many bytes. They live as
        long as the loop, but for those whose rows are read in the step that makes them. With
        `apart` only kept rows do, in a buffer of their own, `KEPT` and the tensor's name."""
        place = {n.result: k for k, n in enumerate(self.nodes)}
        blocks = []
        for name in list(place)[:-1]:
            base = [self._base(k, name) for k in range(1, len(self.done))]
            most = max(rows[name] - b for rows, b in zip(self.done[1:], base, strict=True))
            kept = max(rows[name] - b for rows, b in zip(self.done, base, strict=False))
            last = max(place[by] for by, _ in self.readers[name])
            stays = kept and not self.apart
            ends = (0, len(place)) if stays else (place[name], last)
            blocks.append(Interval(name, aligned(most * self.row(name)), *ends))
            if kept and self.apart:
                size = aligned(kept * self.row(name))
                blocks.append(Interval(KEPT + name, size, 0, len(place)))
        order = sorted(blocks, key=lambda b: (b.first - b.last, -b.size_bytes, b.name))
        offsets = first_fit(order)
        return {b.name: (offsets[b.name], b.size_bytes) for b in blocks}

    def _base(self, k: int, name: str) -> int:
        """The row with which a tensor's buffer begins in step `k`, the first of which is 1."""
        return min(self.kept[k - 1][name], self.done[k - 1][name])

    @property
    def bytes(self) -> int:
        """Of all buffers."""
        return max((at + size for at, size in self.buffers.values()), default=0)

    @property
    def ahead(self) -> Distances | None:
        """How the output may overlap the input: rows are written when those that they need are
        read. None if the layer that writes them reads the input."""
        if self.made in {by for by, _ in self.readers[self.read]}:
            return None
        row_x, row_y = self.row(self.read), self.row(self.made)
        least = max(
            (
                done[self.made] * row_y - kept[self.read] * row_x
                for done, kept in zip(self.done[1:-1], self.kept[1:-1], strict=True)
            ),
            default=0,
        )
        types = self.graph.types
        return max(0, least), 2 * (types[self.read].bytes + types[self.made].bytes)

    def node(self) -> Node:
        """All of it as one node."""
        parts: dict[Part, tuple[str, Graph]] = {}
        steps = tuple(tuple(self._step(k, parts)) for k in range(1, len(self.done)))
        attrs = {"runs": tuple(runs(steps)), "bytes": self.bytes, "ahead": self.ahead}
        name = f"{self.nodes[0].name} to {self.nodes[-1].name}"
        graphs = dict(parts.values())
        return Node(NAME, (self.read,), (self.made,), attrs, name, graphs=graphs)

    def _step(self, k: int, parts: dict[Part, tuple[str, Graph]]) -> Iterator[Move | Layer]:
        """What step `k` does; layers that are new are added to `parts`."""
        before, after = self.done[k - 1], self.done[k]
        rows = {n.result: (before[n.result], after[n.result]) for n in self.nodes}
        called = [n.result for n in self.nodes if rows[n.result][0] < rows[n.result][1]]
        if not self.apart:
            yield from (m for n in self.buffers for m in self._shifted(k, n))
        for number, node in enumerate(self.nodes):
            name = node.result
            users = [by for by, _ in self.readers.get(name, ()) if by in called]
            if self.apart and (name in called or users):
                yield from self._fetched(k, name)
            if name in called:
                part, places = self._part(k, number, rows[name])
                if part not in parts:
                    parts[part] = key(len(parts)), part_graph(self.graph, node, part)
                yield Layer(parts[part][0], (*places, self._at(k, name, rows[name][0])))
            if self.apart:
                yield from (m for n in self._left(number, called) for m in self._saved(k, n))

    def _shifted(self, k: int, name: str) -> Iterator[Move]:
        """Kept rows move to the beginning of their buffer."""
        base, row, (at, _) = self._base(k, name), self.row(name), self.buffers[name]
        was, rows = self._base(k - 1, name) if k > 1 else 0, self.done[k - 1][name]
        if rows > base > was:
            yield Move(at, at + (base - was) * row, (rows - base) * row)

    def _fetched(self, k: int, name: str) -> Iterator[Move]:
        """Rows that were kept apart are put where layers read them."""
        rows = self.done[k - 1][name] - self._base(k, name) if name != self.made else 0
        if rows > 0:
            yield Move(self.buffers[name][0], self.buffers[KEPT + name][0], rows * self.row(name))

    def _left(self, number: int, called: Sequence[str]) -> Iterator[str]:
        """The tensors that no layer after this one reads, which were touched in this step."""
        place = {n.result: k for k, n in enumerate(self.nodes)}
        for name in list(place)[:-1]:
            users = [by for by, _ in self.readers[name]]
            if max(place[by] for by in users) == number and {name, *users} & {*called}:
                yield name

    def _saved(self, k: int, name: str) -> Iterator[Move]:
        """Rows that are read again are kept apart."""
        if k + 1 == len(self.done):
            return
        first, row = self._base(k + 1, name), self.row(name)
        if (rows := self.done[k][name] - first) > 0:
            start = self.buffers[name][0] + (first - self._base(k, name)) * row
            yield Move(self.buffers[KEPT + name][0], start, rows * row)

    def _part(self, k: int, number: int, rows: Rows) -> tuple[Part, list[tuple[str, int]]]:
        """A layer for these rows of its output, and where it reads."""
        node, height = self.nodes[number], rows[1] - rows[0]
        read, pads, heights, places = window_input(node), (0, 0), [], []
        if read is not None:
            needed, pads = _window(self.graph, node, rows, read)
            heights.append(needed[1] - needed[0])
            places.append(self._at(k, read, needed[0]))
        for name in others(self.graph, node):
            heights.append(height)
            places.append(self._at(k, name, rows[0]))
        return Part(number, height, tuple(heights), pads), places

    def _at(self, k: int, name: str, row: int) -> tuple[str, int]:
        """The place of a row in step `k`."""
        if name == self.read:
            return INPUT, row * self.row(name)
        if name == self.made:
            return OUTPUT, row * self.row(name)
        return ROWS, self.buffers[name][0] + (row - self._base(k, name)) * self.row(name)


@frozen
class Again(Flow):
    """A chain whose bands compute the rows that they share again: each band is a graph of all
    layers, planned as a whole, so that layers work in place and nothing is kept between bands."""

    @property
    def is_chain(self) -> bool:
        """Whether each layer reads the one before it, and nothing else."""
        reads = [window_input(n) for n in self.nodes]
        alone = not any(others(self.graph, n) for n in self.nodes)
        return alone and reads == [self.read, *(n.result for n in self.nodes[:-1])]

    @cached_property
    def done(self) -> Sequence[Mapping[str, int]]:
        height = self.height(self.made)
        each = -(-height // self.bands)
        ends = [0, *(min(height, k + each) for k in range(0, height, each))]
        found = [{n: min(self.height(n), k) for n, k in self._needed(e).items()} for e in ends]
        return [dict.fromkeys(found[0], 0), *found[1:]]

    @property
    def bytes(self) -> int:
        """What a band in the middle needs at least, where every layer works in place."""
        bands = self._bands()
        return max(
            r[1] * self.row(n.result)
            for n, r in zip(self.nodes, bands[len(bands) // 2], strict=True)
        )

    def _bands(self) -> list[list[Rows]]:
        """The first row and the number of rows that each layer computes in each band."""
        found = []
        for before, after in zip(self.done, self.done[1:], strict=False):
            rows = before[self.made], after[self.made]
            band: list[Rows] = []
            for node in reversed(self.nodes):
                band.insert(0, (rows[0], rows[1] - rows[0]))
                rows, _ = _window(self.graph, node, rows, window_input(node) or "")
            found.append(band)
        return found

    def node(self) -> Node:
        graphs: dict[str, Graph] = {}
        keys: dict[tuple[Part, ...], str] = {}
        steps = []
        for band in self._bands():
            parts: list[Part] = []
            first = 0
            for k in reversed(range(len(self.nodes))):
                node, (start, count) = self.nodes[k], band[k]
                needed, pads = _window(
                    self.graph, node, (start, start + count), window_input(node) or ""
                )
                parts.insert(0, Part(k, count, (needed[1] - needed[0],), pads))
                first = needed[0]
            if (form := tuple(parts)) not in keys:
                keys[form] = key(len(keys))
                graphs[keys[form]] = self._joined(form)
            places = (
                (INPUT, first * self.row(self.read)),
                (OUTPUT, band[-1][0] * self.row(self.made)),
            )
            steps.append((Layer(keys[form], places),))
        attrs = {"runs": tuple(runs(steps)), "bytes": 0, "ahead": None}
        name = f"{self.nodes[0].name} to {self.nodes[-1].name}"
        return Node(NAME, (self.read,), (self.made,), attrs, name, graphs=graphs)

    def _joined(self, parts: Sequence[Part]) -> Graph:
        made = [part_graph(self.graph, n, p) for n, p in zip(self.nodes, parts, strict=True)]
        types = {name: t for g in made for name, t in g.types.items()}
        consts = {name: value for g in made for name, value in g.consts.items()}
        nodes = tuple(n for g in made for n in g.nodes)
        return Graph("band", (self.read,), (self.made,), nodes, types, consts)


@frozen
class Part:
    """A layer for some rows: its number, how many rows it makes and reads of each input, and the
    padding above and below."""

    number: int
    made: int
    read: tuple[int, ...]
    pads: Rows


def part_graph(graph: Graph, node: Node, part: Part) -> Graph:
    """The graph of a layer for some rows."""
    read, plain = window_input(node), others(graph, node)
    types = dict(graph.types)
    for name in (*node.outputs, *(o for n in node.body for o in n.outputs)):
        types[name] = _of_height(graph.types[name], part.made)
    sources = [*([read] if read is not None else []), *plain]
    inputs = [f"{n}{APART}" if n in sources[:k] else n for k, n in enumerate(sources)]
    for name, source, height in zip(inputs, sources, part.read, strict=True):
        types[name] = _of_height(graph.types[source], height)
    alone = _padded(node, part.pads) if read is not None else node
    alone = _renamed(alone, read) if read in plain else alone
    used = {i for m in (alone, *alone.body) for i in m.inputs if i}
    made = {o for m in (alone, *alone.body) for o in m.outputs}
    return Graph(
        "band",
        tuple(inputs),
        (alone.result,),
        (alone,),
        {n: t for n, t in types.items() if n in used | made},
        {n: value for n, value in graph.consts.items() if n in used},
    )


def _window(graph: Graph, node: Node, rows: Rows, read: str) -> tuple[Rows, Rows]:
    """The rows of the input that these of the output need, and how many more are padding."""
    core = node.core
    start = rows[0] * _stride(core) - _pads(core)[0]
    end = (rows[1] - 1) * _stride(core) - _pads(core)[0] + _reach(core)
    needed = (max(0, start), min(graph.types[read].shape[1], end))
    return needed, (needed[0] - start, end - needed[1])


def _of_height(type_: TensorType, height: int) -> TensorType:
    n, _, *others = type_.shape
    return TensorType(type_.dtype, (n, height, *others))


def _padded(node: Node, pads: Rows) -> Node:
    """The node with other padding above and below."""

    def changed(n: Node) -> Node:
        if n.op != node.op:
            return n
        old = list(n.attrs.get("pads") or (0,) * (2 * len(n.attrs["kernel_shape"])))
        old[0], old[len(old) // 2] = pads
        attrs: dict[str, Any] = {**n.attrs, "pads": old}
        return replace(n, attrs=attrs)

    return replace(changed(node), body=tuple(map(changed, node.body)))


def _renamed(node: Node, read: str | None) -> Node:
    """The node whose elementwise part reads `read` under another name than its window."""

    def changed(n: Node) -> Node:
        if n is core:
            return n
        return replace(n, inputs=tuple(f"{i}{APART}" if i == read else i for i in n.inputs))

    core = node.core
    return replace(
        node, inputs=(*node.inputs, f"{read}{APART}"), body=tuple(map(changed, node.body))
    )
