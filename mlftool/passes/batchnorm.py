"""BatchNormalization is a factor and an addend per channel; a Conv or Gemm before it takes both.

%t = Conv(%x, w, b)                          =>   %y = Conv(%x, w * f, b * f + a)
%y = BatchNormalization(%t, s, o, m, v)           f = s / sqrt(v + eps), a = o - m * f
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node
from mlftool.ops.reference import evaluate

TAKES_FACTORS = ("Conv", "Gemm")


def fold_batchnorm(graph: Graph) -> Graph:
    """Every BatchNormalization that can be goes into its producer."""
    e = Editor(graph)
    for node, factor, addend in _factors(e):
        producer = e.producer(node.inputs[0])
        if (
            producer is not None
            and producer.op in TAKES_FACTORS
            and e.only_user(node.inputs[0])
            and all(i in e.consts for i in producer.inputs[1:])
        ):
            _into_producer(e, producer, node, factor, addend)
    return e.finish()


def spread_batchnorm(graph: Graph) -> Graph:
    """Every other BatchNormalization with known parameters becomes a Mul and an Add."""
    e = Editor(graph)
    for node, factor, addend in _factors(e):
        _spread(e, node, factor, addend)
    return e.finish()


def _factors(e: Editor) -> Iterator[tuple[Node, Array, Array]]:
    """Each BatchNormalization with its factor and addend per channel."""
    for node in list(e.nodes):
        if node.op != "BatchNormalization" or node.attrs.get("training_mode", 0):
            continue
        known = [_known(e, i) for i in node.inputs[1:5]]
        parameters = [p.astype(np.float64) for p in known if p is not None]
        if len(parameters) == 4:
            scale, offset, mean, variance = parameters
            factor = scale / np.sqrt(variance + node.attrs.get("epsilon", 1e-5))
            yield node, factor, offset - mean * factor


def _known(e: Editor, name: str) -> Array | None:
    """The value of a parameter that is constant, or dequantised from constants."""
    source = e.producer(name)
    if source is not None and source.op == "DequantizeLinear":
        inputs = [e.consts.get(i) for i in source.inputs]
        return None if any(i is None for i in inputs) else evaluate(source, inputs)
    return e.consts.get(name)


def _spread(e: Editor, node: Node, factor: Array, addend: Array) -> None:
    rank = len(e.types[node.inputs[0]].shape)
    shape = (1, -1, *(1,) * (rank - 2))
    f = e.const(node.outputs[0] + ".factor", factor.astype(np.float32).reshape(shape))
    a = e.const(node.outputs[0] + ".addend", addend.astype(np.float32).reshape(shape))
    scaled = e.fresh(node.outputs[0] + ".scaled", e.types[node.outputs[0]])
    e.substitute(
        [node],
        [
            e.add("Mul", (node.inputs[0], f), node, scaled),
            e.add("Add", (scaled, a), node, node.outputs[0]),
        ],
    )


def _into_producer(e: Editor, producer: Node, node: Node, factor: Array, addend: Array) -> None:
    w = e.consts[producer.inputs[1]].astype(np.float64)
    axis = 0 if producer.op == "Conv" or producer.attrs.get("transB", 0) else 1
    shape = [1] * w.ndim
    shape[axis] = -1
    bias = e.consts[producer.inputs[2]].astype(np.float64) if len(producer.inputs) > 2 else 0.0
    new_w = e.const(
        producer.inputs[1] + ".normalised", (w * factor.reshape(shape)).astype(np.float32)
    )
    new_b = e.const(node.outputs[0] + ".bias", (bias * factor + addend).astype(np.float32))
    e.substitute(
        [producer, node],
        [replace(producer, inputs=(producer.inputs[0], new_w, new_b), outputs=node.outputs[:1])],
    )
