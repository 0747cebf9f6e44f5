"""What each kind of operator is in a stream. A rule gives the node's new inputs and attributes, and
the time of its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlftool.frontends.streaming.graph import (
    NoStreamError,
    Stream,
    Track,
    delayed,
    last_of,
    with_history,
)
from mlftool.ir.graph import Node, State
from mlftool.ops.base import Layout, Trait, contracts, is_a


@dataclass
class Form:
    """What replaces `node` in the stream. `others` are the times of results after the first, `ends`
    the states that are made of its results."""

    node: Node
    inputs: list[str]
    attrs: dict[str, Any]
    outputs: list[str]
    others: dict[str, Track] = field(default_factory=dict)
    ends: list[State] = field(default_factory=list)


Rule = Callable[[Stream, Form], Track]
ALL = "it needs all of the time at once"


def rule_of(node: Node) -> Rule | None:
    """The streaming form of an operator whose input has time."""
    named = NAMED.get(node.op)
    if named is not None:
        return named
    about = contracts(node)
    if about is not None and about.layout is Layout.CONVOLUTION:
        return _sliding
    if about is not None and about.layout in (Layout.MATRIX, Layout.MATRICES):
        return _rows
    if is_a(node, Trait.SPATIAL) and "kernel_shape" in node.attrs and about is None:
        return _sliding
    if is_a(node, Trait.TRANSPOSITION):
        return _transposed
    if is_a(node, Trait.ELEMENTWISE):
        return _elementwise
    if is_a(node, Trait.VIEW):
        return _view
    if is_a(node, Trait.AXIS) and is_a(node, Trait.SAME_RANK):
        return _along
    return None


def _length(s: Stream, node: Node) -> int:
    """The extent of the first input along its time in the whole model."""
    axis = s.tracks[node.inputs[0]].axis
    assert axis is not None
    return s.whole.types[node.inputs[0]].shape[axis]


def _time(s: Stream, names: Sequence[str]) -> tuple[Track, int]:
    """The time of the first input, and its axis."""
    track = s.tracks.get(names[0])
    if track is None or track.axis is None:
        raise NoStreamError("only its first input may depend on time")
    if any(n in s.tracks for n in names[1:]):
        raise NoStreamError("its other inputs depend on time, too")
    return track, track.axis


def _from_first(s: Stream, d: Form) -> tuple[Track, int]:
    """The same after the first input waited for what a Pad puts before it: the operator makes other
    values of these."""
    track, axis = _time(s, d.inputs)
    if track.offset > 0:
        d.inputs[0] = delayed(s, d.inputs[0], 0)
    return s.tracks[d.inputs[0]], axis


def _collapsed(s: Stream, d: Form) -> Track:
    """The first input becomes the last elements of its time, as many as the model has in all."""
    track = s.tracks[d.inputs[0]]
    d.inputs[0] = last_of(s, d.inputs[0], _length(s, d.node))
    return replace(track, axis=None, fill=0.0)


def _sliding(s: Stream, d: Form) -> Track:
    """Convolutions and pools: a window over a few elements of time. Its padding at the beginning is
    what its history holds at first; at the end a stream has none."""
    track, axis = _time(s, d.inputs)
    if axis < 2:
        raise NoStreamError(f"its window does not move along axis {axis}")
    attrs = d.attrs
    at, rank = axis - 2, len(s.type(d.inputs[0]).shape) - 2
    kernel = attrs["kernel_shape"][at]
    stride, dilation = (attrs.get(k, [1] * rank)[at] for k in ("strides", "dilations"))
    pads = list(attrs.get("pads", [0] * (2 * rank)))
    before, reach = pads[at], (kernel - 1) * dilation
    if s.whole.types[d.node.result].shape[axis] == 1 and not (before or pads[at + rank]):
        return _collapsed(s, d)
    if before and is_a(d.node, Trait.MEAN) and not attrs.get("count_include_pad", 0):
        raise NoStreamError("its averages at the beginning are of fewer elements")
    if track.count % stride:
        text = f"its stride {stride} does not divide the {track.count} elements of a run"
        raise NoStreamError(f"{text}; a larger step does")
    if len(d.node.outputs) > 1:
        raise NoStreamError("it has more than one output")
    count = track.count // stride
    last = (track.end - 1 - reach + before) // stride
    offset = min(0, last - count + 1)
    length = track.offset - (offset * stride - before)
    fill = _padding(s, d.node)
    if track.offset > 0 and before and track.fill != fill:
        raise NoStreamError(f"it is padded with {fill} after a padding with {track.fill}")
    start = track.fill if track.offset > 0 else fill
    joined = with_history(s, d.inputs[0], length, start, before > 0 and track.offset < 0)
    d.inputs[0] = s.cut(joined, axis, 0, (count - 1) * stride + reach + 1)
    pads[at] = pads[at + rank] = 0
    attrs["pads"] = pads
    if "ceil_mode" in attrs:
        attrs["ceil_mode"] = 0
    return Track(axis, count, offset)


def _spread(s: Stream, d: Form) -> Track:
    """ConvTranspose: an element of time is spread over a window. What a run gives is complete once
    the elements that reach into it from before are with its own."""
    track, axis = _time(s, d.inputs)
    if axis < 2:
        raise NoStreamError(f"its window does not move along axis {axis}")
    attrs = d.attrs
    at, rank = axis - 2, len(s.type(d.inputs[0]).shape) - 2
    stride, dilation = (attrs.get(k, [1] * rank)[at] for k in ("strides", "dilations"))
    pads = list(attrs.get("pads", [0] * (2 * rank)))
    reach = (attrs["kernel_shape"][at] - 1) * dilation
    if track.offset > 0:  # elements of a padding are spread, too
        d.inputs[0] = delayed(s, d.inputs[0], 0)
        track = s.tracks[d.inputs[0]]
    offset = track.offset * stride - pads[at]
    if offset > 0:
        raise NoStreamError("its negative padding along time")
    length = -(-reach // stride)
    d.inputs[0] = with_history(s, d.inputs[0], length, 0.0, length > 0 and track.offset < 0)
    pads[at], pads[at + rank] = length * stride, max(0, reach + 1 - stride)
    attrs["pads"] = pads
    return Track(axis, track.count * stride, offset)


def _repeated(s: Stream, d: Form) -> Track:
    """Nearest Resize, which repeats each element of time."""
    track, axis = _time(s, d.inputs)
    before, after = (s.whole.types[n].shape[axis] for n in (d.node.inputs[0], d.node.result))
    if before == after:
        return track
    word = d.attrs.get("coordinate_transformation_mode", "half_pixel")
    rounding = d.attrs.get("nearest_mode", "round_prefer_floor")
    floors = word == "asymmetric" and rounding == "floor"
    halves = word.startswith("half_pixel") and rounding.startswith("round")
    if after % before or not (floors or halves):
        raise NoStreamError("it does not repeat each element of time as often")
    times = after // before
    return replace(track, count=track.count * times, offset=track.offset * times)


def _padding(s: Stream, node: Node) -> float:
    """What stands around an operator's input: 0, of integers their zero point, which is input 2 of
    every operator that has one; of a maximum what is less than all else."""
    row = s.whole.types[node.inputs[0]].dtype
    if contracts(node) is None and is_a(node, Trait.ORDER_PRESERVING):
        return -np.inf if row.is_float else float(row.range[0])
    if row.is_float or len(node.inputs) < 3 or not node.inputs[2]:
        return 0.0
    zero = s.consts.get(node.inputs[2])
    if zero is None:
        raise NoStreamError("its zero point is not a constant")
    return float(zero.reshape(-1)[0])


def _rows(s: Stream, d: Form) -> Track:
    """Products of rows, of which time is no summed axis."""
    track, axis = _from_first(s, d)
    rank = len(s.type(d.inputs[0]).shape)
    if axis == rank - 1 - (1 if d.node.attrs.get("transA") else 0):
        raise NoStreamError("it sums over time")
    if d.node.attrs.get("transA"):
        raise NoStreamError("its rows are turned")
    if any(len(s.type(n).shape) > 2 for n in d.inputs[1:2]):
        raise NoStreamError("its second factor has more than two axes")
    if any(n and len(s.type(n).shape) > 1 and s.type(n).shape[0] > 1 for n in d.inputs[2:3]):
        raise NoStreamError("its addend differs from step to step")
    return track


def _transposed(s: Stream, d: Form) -> Track:
    track, axis = _time(s, d.inputs)
    return replace(track, axis=list(d.node.attrs["perm"]).index(axis))


def _elementwise(s: Stream, d: Form) -> Track:
    """Operands of one time; the earlier waits for the later."""
    out = len(s.whole.types[d.node.result].shape)
    timed = [k for k, n in enumerate(d.inputs) if n in s.tracks]
    places = {
        out - len(s.type(d.inputs[k]).shape) + (s.tracks[d.inputs[k]].axis or 0) for k in timed
    }
    if len(places) > 1 or any(s.tracks[d.inputs[k]].axis is None for k in timed):
        raise NoStreamError(ALL + ": one of its inputs is of all the time, or of another axis")
    (axis,) = places
    for k, name in enumerate(d.inputs):
        shape = s.type(name).shape if name else ()
        place = axis - (out - len(shape))
        if k not in timed and place >= 0 and shape[place] != 1 and not _per_axis(d.node, k):
            raise NoStreamError(f"its input '{name}' differs from step to step")
    if (
        _per_axis(d.node, 1)
        and s.type(d.inputs[1]).elements > 1
        and d.node.attrs.get("axis", 1) % out == axis
    ):
        raise NoStreamError("its scales differ from step to step")
    tracks = [s.tracks[d.inputs[k]] for k in timed]
    if len({t.count for t in tracks}) > 1:
        raise NoStreamError("its inputs have different numbers of steps")
    if _per_axis(d.node, 1) and tracks[0].offset > 0:
        return replace(tracks[0], axis=axis, fill=_stored(s, d.node, tracks[0].fill))
    offset = min(0, *(t.offset for t in tracks))
    for k in timed:
        d.inputs[k] = delayed(s, d.inputs[k], offset)
    return Track(axis, tracks[0].count, offset)


def _per_axis(node: Node, k: int) -> bool:
    """Whether input `k` is a scale or zero point, along an axis of its own."""
    return k > 0 and (is_a(node, Trait.QUANTISER) or is_a(node, Trait.DEQUANTISER))


def _stored(s: Stream, node: Node, fill: float) -> float:
    """The value of a padding after a quantisation, or before it."""
    zero = s.consts.get(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(())
    if zero is None or zero.size != 1 or fill not in (0.0, float(zero.item())):
        raise NoStreamError(f"it quantises a padding with {fill}")
    return float(zero.item()) if is_a(node, Trait.QUANTISER) else 0.0


def _view(s: Stream, d: Form) -> Track:
    """Another shape, in which time is an axis still; else the whole of the time is one."""
    track, axis = _time(s, d.inputs)
    whole, made = s.whole.types[d.node.inputs[0]].shape, s.whole.types[d.node.result].shape
    before, length = math.prod(whole[:axis]), whole[axis]
    is_reshape = len(d.inputs) > 1 and s.type(d.inputs[1]).elements == len(made) > 0
    for k, n in enumerate(made):
        if n == length and math.prod(made[:k]) == before:
            if is_reshape:
                shape = [track.count if a == k else m for a, m in enumerate(made)]
                d.inputs[1:2] = [s.const(f"{s.label}.shape", np.array(shape))]
            return replace(track, axis=k)
    return _collapsed(s, d)


def _along(s: Stream, d: Form) -> Track:
    track, axis = _from_first(s, d)
    if d.node.attrs.get("axis", -1) % len(s.type(d.inputs[0]).shape) == axis:
        raise NoStreamError(ALL)
    return track


def _joined(s: Stream, d: Form) -> Track:
    """Concat of other axes than time."""
    tracks = [s.tracks.get(n) for n in d.inputs]
    known = [t for t in tracks if t is not None]
    if len(known) < len(d.inputs) or len({(t.axis, t.count) for t in known}) > 1:
        raise NoStreamError("its inputs are not of one time")
    axis = known[0].axis
    rank = len(s.type(d.inputs[0]).shape)
    if axis is None or d.node.attrs["axis"] % rank == axis:
        raise NoStreamError("it joins along time")
    offset = min(0, *(t.offset for t in known))
    d.inputs[:] = [delayed(s, n, offset) for n in d.inputs]
    return Track(axis, known[0].count, offset)


def _sliced(s: Stream, d: Form) -> Track:
    """What is cut off the beginning makes later elements the first; the end of a stream is open."""
    track, axis = _time(s, d.inputs)
    values = [s.consts.get(n) if n else None for n in d.inputs[1:]]
    if any(v is None and n for v, n in zip(values, d.inputs[1:], strict=True)):
        raise NoStreamError("its windows are computed")
    starts, ends, axes, steps = (*values, None, None)[:4]
    assert starts is not None
    assert ends is not None
    rank, length = len(s.type(d.inputs[0]).shape), _length(s, d.node)
    axes = np.arange(starts.size) if axes is None else axes
    at = [int(a) % rank for a in axes.reshape(-1)]
    if axis not in at:
        return track
    k = at.index(axis)
    first, end = int(starts.reshape(-1)[k]), int(ends.reshape(-1)[k])
    if steps is not None and int(steps.reshape(-1)[k]) != 1:
        raise NoStreamError("its window has steps along time")
    first, end = (n + length if n < 0 else min(n, length) for n in (first, end))
    if end - first == 1 and end == length:
        return _last(s, d, k, values)
    if first >= length - first:
        raise NoStreamError("its window is at the end of the time")
    bounds = [v.copy() for v in (starts, ends)]
    bounds[0].reshape(-1)[k], bounds[1].reshape(-1)[k] = 0, track.count
    d.inputs[1:3] = [s.const(f"{s.label}.window", b) for b in bounds]
    return replace(track, offset=track.offset - first)


def _last(s: Stream, d: Form, k: int, values: Sequence[Any]) -> Track:
    """The last element of time: of the run it is the last, too."""
    track, _ = _time(s, d.inputs)
    bounds = [values[0].copy(), values[1].copy()]
    bounds[0].reshape(-1)[k], bounds[1].reshape(-1)[k] = track.count - 1, track.count
    d.inputs[1:3] = [s.const(f"{s.label}.window", b) for b in bounds]
    return replace(track, axis=None, fill=0.0)


def _picked(s: Stream, d: Form) -> Track:
    """Gather along another axis, or of the last element of time."""
    track, axis = _time(s, d.inputs)
    rank = len(s.type(d.inputs[0]).shape)
    at, index = d.node.attrs.get("axis", 0) % rank, s.consts.get(d.inputs[1])
    if at != axis:
        moved = len(s.whole.types[d.inputs[1]].shape) - 1 if axis > at else 0
        return replace(track, axis=axis + moved)
    length = _length(s, d.node)
    if index is None or index.size != 1 or int(index.item()) not in (-1, length - 1):
        raise NoStreamError("it picks elements along time that are not the last")
    d.inputs[1] = s.const(f"{s.label}.last", np.full_like(index, track.count - 1))
    return replace(track, axis=None, fill=0.0)


def _padded(s: Stream, d: Form) -> Track:
    """Padding before the first element of time is what later windows find there."""
    track, axis = _time(s, d.inputs)
    pads = s.consts.get(d.inputs[1])
    rank = len(s.type(d.inputs[0]).shape)
    if pads is None or (len(d.inputs) > 3 and d.inputs[3] and d.inputs[3] not in s.consts):
        raise NoStreamError("its pads are computed")
    axes = (
        s.consts[d.inputs[3]].reshape(-1) if len(d.inputs) > 3 and d.inputs[3] else np.arange(rank)
    )
    at = [int(a) % rank for a in axes]
    if axis not in at:
        return track
    k, given = at.index(axis), pads.copy().reshape(-1)
    before = int(given[k])
    mode = d.node.attrs.get("mode", "constant")
    if mode != "constant" and (before or given[k + len(at)]):
        raise NoStreamError(f"mode '{mode}' pads with elements of the time itself")
    value = s.consts.get(d.inputs[2]) if len(d.inputs) > 2 and d.inputs[2] else np.zeros(())
    if value is None or before < 0 or track.offset:
        raise NoStreamError(
            "its padding along time is computed, negative or follows another padding"
        )
    given[k] = given[k + len(at)] = 0
    d.inputs[1] = s.const(f"{s.label}.pads", given.reshape(pads.shape))
    return replace(track, offset=before, fill=float(value.item()))


def _reduced(s: Stream, d: Form) -> Track:
    """A mean, sum or maximum over other axes, or over all of the time."""
    track, axis = _time(s, d.inputs)
    rank = len(s.type(d.inputs[0]).shape)
    axes = d.node.attrs.get("axes")
    if axes is None and len(d.inputs) > 1 and d.inputs[1]:
        axes = s.consts[d.inputs[1]].reshape(-1) if d.inputs[1] in s.consts else None
    at = sorted(int(a) % rank for a in axes) if axes is not None else list(range(rank))
    if axis in at:
        return _collapsed(s, d)
    track, axis = _from_first(s, d)
    gone = 0 if d.node.attrs.get("keepdims", 1) else sum(a < axis for a in at)
    return replace(track, axis=axis - gone)


def _normalised(s: Stream, d: Form) -> Track:
    track, axis = _from_first(s, d)
    rank = len(s.type(d.inputs[0]).shape)
    if axis >= d.node.attrs.get("axis", -1) % rank:
        raise NoStreamError(ALL)
    return track


def _recurrent(s: Stream, d: Form) -> Track:
    """A recurrent layer goes on with the states that the run before left."""
    track, axis = _time(s, d.inputs)
    if axis != 0 or d.node.attrs.get("direction", "forward") != "forward":
        raise NoStreamError("it goes through the time backwards, too")
    if track.offset or (len(d.inputs) > 4 and d.inputs[4]):
        raise NoStreamError("it follows a delay, or has sequence lengths")
    d.inputs += [""] * (7 - len(d.inputs))
    d.outputs = [*d.outputs, "", ""][: 3 if d.node.op == "LSTM" else 2]
    for k in range(1, len(d.outputs)):
        shape = s.whole.types[d.inputs[2]].shape
        x = s.type(d.inputs[0])
        zeros = np.zeros((1, x.shape[1], shape[2]), x.dtype.numpy)
        start = s.consts.get(d.inputs[k + 4]) if d.inputs[k + 4] else zeros
        if start is None:
            raise NoStreamError("its first state is computed")
        d.inputs[k + 4] = s.state(start, "cell")
        d.outputs[k] = d.outputs[k] or s.fresh(f"{d.node.result}.cell", s.types[d.inputs[k + 4]])
        d.ends.append(State(d.inputs[k + 4], d.outputs[k], start))
        d.others[d.outputs[k]] = replace(track, axis=None)
    while not d.inputs[-1]:
        d.inputs.pop()
    return track


def _batch_normalised(s: Stream, d: Form) -> Track:
    track, axis = _from_first(s, d)
    if axis == 1 or d.attrs.get("training_mode", 0):
        raise NoStreamError(ALL)
    return track


NAMED: dict[str, Rule] = {
    "Concat": _joined,
    "Slice": _sliced,
    "Gather": _picked,
    "Pad": _padded,
    "ConvTranspose": _spread,
    "mlf.Nearest": _repeated,
    "LayerNormalization": _normalised,
    "BatchNormalization": _batch_normalised,
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), _reduced),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
}
