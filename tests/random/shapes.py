"""A third generator: one layer at a time, in every shape.

Kernels, passes and folds have forms for special shapes, and each may be right only for the shapes
that its author tried. So a network here is one operator with what makes compilers choose such forms
around it (quantisation, a convolution that asks for another layout, a fused operand that
broadcasts), and its extents are from a list: batches of one to three, odd channels, extents of one
and zero, ranks of three to five, groups, strides, dilations, and pads that differ on each side.
Networks take the operators in turn, so a few hundred have each of them several times.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from grow import Network, NotThisError, session_of
from other import F32, Maker, numbers
from shape_layers import LAYERS
from shape_parts import Layer

BATCHES, CHANNELS = (1, 1, 2, 3), (1, 2, 3, 4, 5, 8, 17)
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 9, 11)
MOST_ELEMENTS = 1600
BY_VALUES = {"NonZero", "Compress", "Unique"}


def shaped(seed: int, index: int) -> Network:
    """Network `index` of a seed, the same whenever it is asked for."""
    attempt = 0
    while True:
        rng = np.random.default_rng([seed, index, attempt, 3])
        try:
            network = _attempt(rng, f"s{seed}_{index}", LAYERS[index % len(LAYERS)])
            session_of(network.model)
            return network
        except Exception:  # onnxruntime has no such kernel, or a shape did not fit
            attempt += 1


def _attempt(rng: np.random.Generator, name: str, layer: Layer) -> Network:
    m = Maker(rng)
    m.opset = int(rng.integers(max(13, layer.since), 22))
    x = _input(m, layer)
    if layer.kind == F32 and m.odds(0.3):
        x = _before(m, x)
    if not layer.body(m, x):
        raise NotThisError
    if m.odds(0.4):
        _after(m)
    network = m.network(name)
    if BY_VALUES & {*network.operators}:  # no sample's shapes are those of another
        for output in network.model.graph.output:
            output.type.tensor_type.ClearField("shape")
    return replace(network, menu="shapes")


def _input(m: Maker, layer: Layer) -> str:
    rank = int(m.pick(layer.ranks))
    shape = [m.pick(BATCHES), m.pick(CHANNELS), *(m.pick(EXTENTS) for _ in range(rank - 2))][:rank]
    if layer.empty and m.odds(0.05):
        shape[m.upto(0, rank - 1)] = 0
    while math.prod(shape) > MOST_ELEMENTS // (2 if rank > 4 else 1):
        shape[int(np.argmax(shape))] = m.upto(1, 4)
    x = m.input(shape, layer.kind)
    if layer.kind == F32:  # of one magnitude, so that quantisation has something to say
        m.arrays[x] = m.rng.normal(size=shape).astype(np.float32)
    return x


def _before(m: Maker, x: str) -> str:
    """Something that leaves the shape and has an opinion about layout or memory."""
    shape = m.shape(x)
    kind = m.pick(("conv", "conv", "unary", "add", "turn"))
    if kind == "conv" and len(shape) > 2 and shape[1]:
        w = m.weights(shape[1], shape[1], *([1] * (len(shape) - 2)), scale=shape[1] ** -0.5)
        return m.do("Conv", x, w)
    if kind == "unary":
        return m.do(m.pick(("Relu", "Tanh", "Abs")), x)
    if kind == "turn":
        perm = m.rng.permutation(len(shape)).tolist()
        back = np.argsort(perm).tolist()
        return m.do("Transpose", m.do("Transpose", x, perm=perm), perm=back)
    return m.do("Add", x, m.weights(*(n if m.odds(0.5) else 1 for n in shape)))


def _after(m: Maker) -> None:
    """What may be fused with the last result: activations, operands that broadcast either way."""
    y = m.pool[-1]
    array = m.arrays[y]
    if array.dtype != F32:
        return
    for _ in range(m.upto(1, 2)):
        kind = m.pick(("unary", "const", "const", "input", "conv", "wide"))
        shape = m.shape(y)
        some = [n if m.odds(0.5) else 1 for n in shape]
        if kind == "unary":
            y = m.do(m.pick(("Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Clip")), y)
        elif kind == "const":
            y = m.do(m.pick(("Add", "Mul", "Sub", "PRelu", "Max")), y, m.weights(*some))
        elif kind == "input":
            other = m.input(some[m.upto(0, len(some)) :])
            m.arrays[other] = numbers(m.rng, F32, m.shape(other))
            pair = [y, other]
            m.rng.shuffle(pair)
            y = m.do(m.pick(("Add", "Mul", "Sub")), *pair)
        elif kind == "wide":
            y = m.do("Add", m.weights(m.upto(2, 3), *([1] * len(shape))), y)
        elif len(shape) > 2 and shape[1]:
            rest: Any = [1] * (len(shape) - 2)
            y = m.do("Conv", y, m.weights(m.upto(1, 5), shape[1], *rest, scale=shape[1] ** -0.5))
