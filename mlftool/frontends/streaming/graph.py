"""A graph that is made a streaming one, tensor by tensor: what is known of each tensor's time, and
the nodes that keep a part of it until later runs.

Run c of the module, counted from 0, holds elements [c * count + offset, (c + 1) * count + offset)
of the tensor that the model has: an offset below 0 is a delay, by which what comes first stands for
nothing. With an offset above 0 the elements before it are those that a Pad puts there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir import dtype
from mlftool.ir.edit import unused
from mlftool.ir.graph import Array, Graph, Node, State, TensorType
from mlftool.ops.base import Trait, is_a


class NoStreamError(Exception):
    """Why a node has no streaming form."""


@frozen
class Track:
    """The time of a tensor; without an axis it follows from all of the time up to its last element.
    `fill` is what stands before its first element, 0 where the model says nothing."""

    axis: int | None
    count: int
    offset: int = 0
    fill: float = 0.0

    @property
    def end(self) -> int:
        """Elements that are known after the first run."""
        return self.count + self.offset


@dataclass
class Stream:
    """The new graph as it grows. `whole` is the model."""

    whole: Graph
    types: dict[str, TensorType] = field(default_factory=dict)
    consts: dict[str, Array] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    tracks: dict[str, Track] = field(default_factory=dict)
    kept: list[State] = field(default_factory=list)
    maker: dict[str, Node] = field(default_factory=dict)
    made: dict[Any, str] = field(default_factory=dict)  # of one meaning there is one
    label: str = ""

    def type(self, name: str) -> TensorType:
        return self.types[name]

    def fresh(self, hint: str, type_: TensorType) -> str:
        name = unused(hint, {*self.types, *self.whole.types})
        self.types[name] = type_
        return name

    def const(self, hint: str, value: Array) -> str:
        name = self.fresh(hint, TensorType(dtype.of(value), tuple(value.shape)))
        self.consts[name] = value
        return name

    def add(self, op: str, inputs: Sequence[str], shape: Sequence[int], **attrs: Any) -> str:
        """A node whose result is of the first input's type; returns the result."""
        type_ = TensorType(self.type(inputs[0]).dtype, tuple(shape))
        out = self.fresh(f"{self.label}.{op.lower()}", type_)
        self.keep(Node(op, tuple(inputs), (out,), attrs, self.label))
        return out

    def keep(self, node: Node) -> None:
        self.nodes.append(node)
        self.maker.update(dict.fromkeys(filter(None, node.outputs), node))

    def state(self, start: Array, hint: str = "history") -> str:
        """A tensor that the module keeps; `ends` says of what it is made."""
        return self.fresh(f"{self.label}.{hint}", TensorType(dtype.of(start), start.shape))

    def ends(self, state: str, value: str, start: Array) -> None:
        if value in self.whole.outputs:  # which the caller gets, too
            value = self.add("Identity", (value,), start.shape)
        self.kept.append(State(state, value, start))

    def cut(self, name: str, axis: int, first: int, end: int) -> str:
        """Elements [first, end) along an axis."""
        shape = list(self.type(name).shape)
        if (first, end) == (0, shape[axis]):
            return name
        shape[axis] = end - first
        window = [self.const(f"{self.label}.at", np.array([n])) for n in (first, end, axis)]
        return self.add("Slice", (name, *window), shape)


def with_history(s: Stream, name: str, length: int, fill: float, padded: bool) -> str:
    """The tensor after its `length` elements before; where nothing was yet there is `fill`. With
    `padded` what a delay brings first is `fill`, too: it stands before the beginning."""
    track = s.tracks[name]
    assert track.axis is not None
    maker = s.maker.get(name)
    if maker is not None and is_a(maker, Trait.DEQUANTISER) and fill in (0.0, -np.inf):
        return _before_dequantising(s, maker, length, fill, padded)
    key = ("history", name, length, fill, padded)
    if key not in s.made:
        source = _masked(s, name, fill) if padded and track.offset < 0 else name
        s.made[key] = _joined(s, source, track.axis, length, fill) if length else source
    return s.made[key]


def _before_dequantising(s: Stream, maker: Node, length: int, fill: float, padded: bool) -> str:
    """Of a dequantised tensor the integers are kept."""
    zero = (
        s.consts.get(maker.inputs[2]) if len(maker.inputs) > 2 and maker.inputs[2] else np.zeros(())
    )
    if zero is None or zero.size != 1:
        raise NoStreamError("its zero point is not a constant number")
    source = s.type(maker.inputs[0])
    number = float(zero.item()) if fill == 0.0 else float(source.dtype.range[0])
    name = with_history(s, maker.inputs[0], length, number, padded)
    shape = s.type(name).shape
    out = s.fresh(f"{maker.result}.history", TensorType(s.type(maker.result).dtype, shape))
    s.keep(replace(maker, inputs=(name, *maker.inputs[1:]), outputs=(out,)))
    return out


def _joined(s: Stream, name: str, axis: int, length: int, fill: float) -> str:
    """In the order of axes in which kernels read images: then nothing is turned for it."""
    type_ = s.type(name)
    rank = len(type_.shape)
    last = [0, *range(2, rank), 1] if rank > 2 else list(range(rank))
    inside = [type_.shape[k] for k in last]
    at = last.index(axis)
    turned = s.add("Transpose", (name,), inside, perm=last)
    start = np.full([length if k == at else n for k, n in enumerate(inside)], 0, type_.dtype.numpy)
    start[...] = fill
    state = s.state(start)
    total = [n + length if k == at else n for k, n in enumerate(inside)]
    joined = s.add("Concat", (state, turned), total, axis=at)
    count = type_.shape[axis]
    s.ends(state, s.cut(joined, at, count, count + length), start)
    back = [last.index(k) for k in range(rank)]
    return s.add("Transpose", (joined,), [total[k] for k in back], perm=back)


def _masked(s: Stream, name: str, fill: float) -> str:
    """The tensor with `fill` for elements before its first."""
    track, type_ = s.tracks[name], s.type(name)
    assert track.axis is not None
    shape = [track.count if k == track.axis else 1 for k in range(len(type_.shape))]
    numbers = s.const("stream.at", np.arange(track.count, dtype=np.int32).reshape(shape))
    each = s.const("stream.count", np.full([1] * len(shape), track.count, np.int32))
    first = s.const("stream.first", np.full([1] * len(shape), -track.offset, np.int32))
    enough = s.const("stream.enough", np.array([-(track.offset // track.count)], np.int32))
    runs = s.add("Min", (_runs(s), enough), (1,))  # all later runs are alike, and nothing overflows
    begun = s.add("Mul", (runs, each), [1] * len(shape))
    at = s.add("Add", (numbers, begun), shape)
    early = s.fresh(f"{s.label}.early", TensorType(dtype.of(np.zeros(0, bool)), tuple(shape)))
    s.keep(Node("Less", (at, first), (early,), {}, s.label))
    filler = s.const("stream.fill", np.asarray(fill, type_.dtype.numpy))
    out = s.fresh(f"{name}.begun", type_)
    s.keep(Node("Where", (early, filler, name), (out,), {}, s.label))
    return out


MOST_RUNS = 1 << 20  # of which the module knows the number


def _runs(s: Stream) -> str:
    """How many runs there were before."""
    if "runs" not in s.made:
        start = np.zeros(1, np.int32)
        state = s.state(start, "runs")
        one, most = (s.const("stream.runs", np.array([n], np.int32)) for n in (1, MOST_RUNS))
        more = s.add("Add", (state, one), (1,))
        s.ends(state, s.add("Min", (more, most), (1,)), start)
        s.made["runs"] = state
    return s.made["runs"]


def delayed(s: Stream, name: str, offset: int) -> str:
    """The tensor at an offset that is no larger than its own."""
    track = s.tracks[name]
    assert track.axis is not None
    if offset == track.offset:
        return name
    joined = with_history(s, name, track.offset - offset, track.fill, False)
    out = s.cut(joined, track.axis, 0, track.count)
    s.tracks[out] = replace(track, offset=offset, fill=0.0)
    return out


def last_of(s: Stream, name: str, length: int) -> str:
    """The last `length` elements along the tensor's time."""
    track = s.tracks[name]
    assert track.axis is not None
    if length <= track.count:
        return s.cut(name, track.axis, track.count - length, track.count)
    joined = with_history(s, name, length - track.count, track.fill, track.offset < 0)
    return joined
