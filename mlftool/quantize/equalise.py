"""Cross-layer equalisation: channels of a tensor get ranges alike, so that its one scale fits all.

    %t = Relu(w1 * %x + b1)         =>   %t' = Relu((w1 / s) * %x + b1 / s)
    %y = w2 * %t                         %y = (w2 * s) * %t'

The function is the same, since what lies between the layers takes a positive factor through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.quantize.factors import Factors
from mlftool.quantize.network import THROUGH, Layer, Network, readers_of, with_weights
from mlftool.quantize.studio import Studio, input_of

STRENGTHS = (0.5, 1.0)  # how far ranges are made alike, at the weights' expense
SPREAD = 4.0  # deviations from its mean that a value of other samples may have
STEPS = 8  # factors to each doubling: those between are no better, and last bits choose none


@frozen
class Pair:
    """Two layers, of which the second alone reads what the first makes, channel by channel.
    `between` are the tensors from the one's result to what the other reads."""

    first: Layer
    second: Layer
    between: tuple[str, ...]


def pairs(net: Network) -> tuple[Pair, ...]:
    return tuple(_pairs(net))


def _pairs(net: Network) -> Iterator[Pair]:
    readers = readers_of(net.model)
    shown = {o.name for o in net.model.graph.output}
    layers = {layer.name: layer for layer in net.layers}
    for first in net.layers:
        if not first.bias or first.transposed:
            continue
        name, between = first.y, [first.y]
        while name not in shown and len(readers.get(name, ())) == 1:
            (reader,) = readers[name]
            second = layers.get(reader.name)
            if second is not None and second.x == name:
                if _in_axis(net, second) is not None and _alike(first, second):
                    yield Pair(first, second, tuple(between))
                break
            if reader.op_type not in THROUGH:
                break
            name = reader.output[0]
            between.append(name)


def _alike(first: Layer, second: Layer) -> bool:
    """Whether both count channels on the same axis."""
    return first.windowed == second.windowed


def _in_axis(net: Network, layer: Layer) -> int | None:
    """The axis of the weights that counts input channels, one factor for each."""
    shape = net.constants[layer.weight].shape
    if layer.windowed:
        if layer.group == 1:
            return 1
        return 0 if shape[0] == layer.group and shape[1] == 1 else None
    return 1 - layer.axis if layer.in_rows else None


def reached(net: Network, studio: Studio) -> dict[str, Array]:
    """What each channel that a second layer reads may be, by the layer's name: the largest absolute
    value seen, or SPREAD deviations above the first layer's mean. A channel that an activation
    hardly let through on these samples is no small one: on others it may be as large as any."""
    found = {}
    for pair in pairs(net):
        first, second = pair.first, pair.second
        seen = _by_channel(np.abs(input_of(second, studio)), second).max(axis=1)
        before = _by_channel(studio.run(None, [first.y])[first.y], first).astype(np.float64)
        likely = before.mean(axis=1) + SPREAD * before.std(axis=1)
        found[second.name] = np.maximum(seen.astype(np.float64), likely)
    return found


def _by_channel(x: Array, layer: Layer) -> Array:
    """[channels, values] of [samples, batch, ...]; a stack of rows counts channels last."""
    own = x.ndim - 1 if layer.in_rows else 2
    made: Array = np.moveaxis(x, own, 0).reshape(x.shape[own], -1)
    return made


def equalised(net: Network, reach: Mapping[str, Array], strength: float) -> Network:
    """`reach` has the size of the channels that each second layer of a pair reads."""
    changed, factors = dict(net.constants), dict(net.factors)
    for pair in pairs(net):
        first, second = pair.first, pair.second
        axis = _in_axis(net, second)
        assert axis is not None
        factor = _factors(reach[second.name], changed[second.weight], axis, strength)
        undo = Factors(1, tuple(map(float, factor)))  # a first layer is no stack of rows
        factors |= dict.fromkeys(pair.between, undo)
        w, b = changed[first.weight], changed[first.bias]
        shape = [-1 if k == first.axis else 1 for k in range(w.ndim)]
        changed[first.weight] = w / factor.reshape(shape)
        changed[first.bias] = b / factor
        v = changed[second.weight]
        changed[second.weight] = v * factor.reshape([-1 if k == axis else 1 for k in range(v.ndim)])
    names = {n for layer in net.layers for n in (layer.weight, layer.bias) if n}
    model = with_weights(net.model, {n: changed[n] for n in sorted(names)})
    return replace(net, model=model, factors=factors)


def _factors(seen: Array, weights: Array, axis: int, strength: float) -> Array:
    """One for each channel, of geometric mean 1 but for the roundings: eighths of an octave, with
    eight bits of their mantissa, so that weights keep their last bits."""
    size = np.abs(np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)).max(axis=1)
    alive = (seen > 0) & (size > 0)
    if not alive.any():
        return np.ones(len(seen))
    if weights.shape[1] > 1 or axis == 1:  # each output adds up several channels
        factor = np.where(alive, seen, 1.0) ** strength
        factor /= np.where(alive, size, 1.0).astype(np.float64) ** (1 - strength)
    else:  # a depthwise filter has a scale of its own
        factor = np.where(alive, seen, 1.0)
    mean = np.exp(np.log(factor[alive]).mean())
    octaves = np.rint(STEPS * np.log2(np.where(alive, factor / mean, 1.0))) / STEPS
    whole = np.floor(np.clip(octaves, -10, 10))
    part = np.rint(np.exp2(np.clip(octaves, -10, 10) - whole) * 256) / 256
    limited: Array = part * np.exp2(whole)
    return limited
