"""Channels whose value no input can change are not computed.

    %t = QLinearConv(%x, w, b)       two of whose channels are always 7
    %y = QLinearConv(%t, v, c)  =>   %y = QLinearConv(%t', v', c + what those two add)

Training leaves such channels behind, sometimes most of a layer: all of their products together do
not move the output by one step, or an activation cuts off every value. A channel goes if each of
its readers can do without: a convolution of all channels takes what a constant adds into its bias,
unless padding makes that differ from pixel to pixel; a depthwise one goes on without the channel if
its own readers can. Results are the same bits: nothing is left out that could have another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node, TensorType, View
from mlftool.ops.base import Contracts, Layout, contracts
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    contraction,
    fits_int32,
    folded_bias,
    grows,
    packable,
    results,
)
from mlftool.passes.order import rewrite

GROUP = 8  # channels


@frozen
class _Layer:
    """A convolution that can lose channels: one of all channels, or a depthwise one."""

    node: Node
    operands: Contracts
    c: Contraction
    q: Quantisation

    @property
    def x(self) -> str:
        return self.node.inputs[0]

    @property
    def y(self) -> str:
        return self.node.outputs[0]

    @cached_property
    def sums(self) -> Array:
        """int64 [output channel, input channel of a group]: the weights' sums over the kernel."""
        w = self.c.weights.astype(np.int64)
        return np.asarray(w.sum(axis=tuple(range(1, w.ndim - 1))))


@frozen
class _Known:
    """Which channels of a tensor are constant, and their values."""

    constant: Array  # bool [channel]
    value: Array  # int64 [channel]


@rewrite(after="split_transposed", level=2)
def drop_constant_channels(graph: Graph) -> Graph:
    """No convolution computes a channel that is constant, where its readers allow."""
    layers = {y.y: y for y in (_layer(graph, n) for n in graph.nodes) if y is not None}
    known: dict[str, _Known] = {}
    for layer in layers.values():
        known[layer.y] = _constants(layer, known.get(layer.x))
    dropped = _dropped(graph, layers, known)
    if not any(d.any() for d in dropped.values()):
        return graph
    e = Editor(graph)
    for layer in layers.values():
        _rewrite(e, layer, dropped, known)
    return e.finish()


def _layer(graph: Graph, node: Node) -> _Layer | None:
    v, operands = View(graph, node), contracts(node)
    if operands is None or operands.layout is not Layout.CONVOLUTION or not operands.quantised:
        return None
    if not packable(v) or not v.y.dtype.is_int8:
        return None
    c, q = contraction(v), Quantisation.of(v)
    plain = c.group == 1 or c.depthwise
    if not plain or np.any(q.w_zero_point) or not (fits_int32(c, q) and grows(c, q)):
        return None
    return _Layer(node, operands, c, q)


def _constants(layer: _Layer, x: _Known | None) -> _Known:
    """The channels of a layer's output whose least and greatest value are one."""
    c, q = layer.c, layer.q
    lowest, highest = c.v.x(0).dtype.range
    w = c.weights.reshape(c.oc, -1, c.weights.shape[-1]).astype(np.int64)
    low, high = np.full(c.ic, lowest), np.full(c.ic, highest)
    if x is not None:
        # Around a padded window every value may also be the zero point.
        alone = x.constant & (not c.padded or x.value == q.x_zero_point)
        low, high = np.where(alone, x.value, low), np.where(alone, x.value, high)
    if c.depthwise:
        low, high = low[:, None], high[:, None]
    positive, negative = np.maximum(w, 0).sum(axis=1), np.minimum(w, 0).sum(axis=1)
    least = folded_bias(c, q) + (positive * low + negative * high).sum(axis=1)
    most = folded_bias(c, q) + (positive * high + negative * low).sum(axis=1)
    first, last = results(q, least), results(q, most)
    return _Known(first == last, first)


def _dropped(
    graph: Graph, layers: Mapping[str, _Layer], known: Mapping[str, _Known]
) -> dict[str, Array]:
    """For each layer's output the channels that go: first those that its readers can spare, then
    those of them that are the same before and after every depthwise convolution."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    dropped: dict[str, Array] = {}
    for name, layer in reversed(list(layers.items())):
        spare = np.full(layer.c.oc, name not in graph.outputs)
        for node in readers.get(name, []):
            spare &= _spared(layers.get(node.outputs[0]), name, known[name], dropped)
        if spare.all():
            spare[0] = False  # a tensor has one channel at least
        dropped[name] = spare
    depthwise = [y for y in layers.values() if y.c.depthwise]
    changed = True
    while changed:
        changed = False
        for layer in depthwise:
            x = dropped.get(layer.x, np.zeros(layer.c.ic, bool))
            changed = changed or bool(np.any(x != dropped[layer.y]))
            dropped[layer.y] = dropped[layer.y] & x
            if layer.x in dropped:
                dropped[layer.x] = dropped[layer.y]
    return {name: _in_groups(channels) for name, channels in dropped.items()}


def _in_groups(dropped: Array) -> Array:
    """As many of the channels that a whole number of groups is kept, or a power of two below one:
    kernels compute a few channels at once, and part of a group is slower than an idle channel."""
    kept = int(np.count_nonzero(~dropped))
    wanted = kept - kept % -GROUP if kept > GROUP else 1 << (kept - 1).bit_length()
    again = np.flatnonzero(dropped)[: wanted - kept]
    return np.asarray(dropped & ~np.isin(np.arange(dropped.size), again))


def _spared(reader: _Layer | None, name: str, known: _Known, dropped: Mapping[str, Array]) -> Array:
    """The channels that a reader of `name` can do without."""
    if reader is None or reader.node.inputs.count(name) != 1 or reader.x != name:
        return np.zeros(known.constant.size, bool)
    if reader.c.depthwise:
        return dropped[reader.y]
    unread = ~reader.c.weights.reshape(-1, reader.c.ic).any(axis=0)
    same = not reader.c.padded or known.value == reader.q.x_zero_point
    return np.asarray(unread | (known.constant & same))


def _rewrite(
    e: Editor, layer: _Layer, dropped: Mapping[str, Array], known: Mapping[str, _Known]
) -> None:
    """The layer without what goes of its input and its output."""
    node, c, weights = layer.node, layer.c, layer.operands.weights
    gone, kept = dropped.get(layer.x, np.zeros(c.ic, bool)), ~dropped[layer.y]
    if kept.all() and not gone.any():
        return
    inputs = list(node.inputs)
    bias = c.bias.astype(np.int64)
    w = e.consts[inputs[weights]]
    if not c.depthwise:
        w = w[:, ~gone]
        if gone.any():
            x = known[layer.x]  # what goes and is not constant has weights of zero
            bias = bias + layer.sums[:, gone] @ (x.value - layer.q.x_zero_point)[gone]
    inputs[weights] = e.const(inputs[weights] + ".kept", np.ascontiguousarray(w[kept]))
    bias_at = layer.operands.bias
    assert bias_at is not None
    for i in layer.operands.per_channel:
        if i != bias_at and e.consts[inputs[i]].size == c.oc > 1:
            values = e.consts[inputs[i]].reshape(-1)[kept]
            inputs[i] = e.const(inputs[i] + ".kept", values)
    bias_name = e.const(layer.y + ".bias", bias[kept].astype(np.int32))
    attrs = {**node.attrs, "group": int(kept.sum())} if c.depthwise else node.attrs
    type_ = e.types[layer.y]
    e.types[layer.y] = TensorType(type_.dtype, (*type_.shape[:-1], int(kept.sum())))
    made = replace(node, inputs=(*inputs[:bias_at], bias_name), attrs=attrs)
    e.substitute([node], [made])
