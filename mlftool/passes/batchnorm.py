"""A factor and an addend per channel go into the weights and the bias before them.

%t = Conv(%x, w, b)                          =>   %y = Conv(%x, w * f, b * f + a)
%y = BatchNormalization(%t, s, o, m, v)           f = s / sqrt(v + eps), a = o - m * f

BatchNormalization is one; exporters that take it apart write Mul, Div, Add and Sub by constants.
Products are made in float64 and rounded once, so sums change by what a rounding of weights does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node
from mlftool.ops.reference import evaluate


@dataclass(frozen=True)
class Affine:
    """What a node makes of `data`: data * factor + addend, float64, per channel."""

    data: str
    factor: Array
    addend: Array


def fold_batchnorm(graph: Graph) -> Graph:
    """Every BatchNormalization, and every Mul, Div, Add and Sub by a constant per channel, goes
    into the Conv, ConvTranspose or Gemm that produces its data for it alone."""
    e = Editor(graph)
    for node in graph.nodes:
        affine = _affine(e, node)
        if affine is not None:
            _fold(e, node, affine)
    return e.finish()


def spread_batchnorm(graph: Graph) -> Graph:
    """Every other BatchNormalization with known parameters becomes a Mul and an Add."""
    e = Editor(graph)
    for node, factor, addend in _factors(e, e.nodes):
        _spread(e, node, factor, addend)
    return e.finish()


def _factors(e: Editor, nodes: Iterable[Node]) -> Iterator[tuple[Node, Array, Array]]:
    """Each BatchNormalization with its factor and addend per channel."""
    for node in nodes:
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


def _affine(e: Editor, node: Node) -> Affine | None:
    """The factor and addend of a node behind a contraction, if it has known ones."""
    if node.op == "BatchNormalization":
        found = next(_factors(e, [node]), None)
        return found and Affine(node.inputs[0], *found[1:])
    if node.op not in ("Mul", "Div", "Add", "Sub"):
        return None
    left, right = node.inputs
    given, data = (left, right) if left in e.consts else (right, left)
    value = _per_channel(e, given, data, node)
    if value is None or (node.op == "Div" and (given == left or np.any(value == 0))):
        return None
    if node.op in ("Mul", "Div"):
        return Affine(data, value if node.op == "Mul" else 1 / value, np.zeros(1))
    if node.op == "Sub" and given == left:
        return Affine(data, np.array([-1.0]), value)
    return Affine(data, np.ones(1), value if node.op == "Add" else -value)


def _per_channel(e: Editor, given: str, data: str, node: Node) -> Array | None:
    """The value of a constant float that is one number, or one for each channel of `data`."""
    source = _contraction(e, data)
    value, type_ = e.consts.get(given), e.types[data]
    if value is None or source is None or type_ != e.types[node.outputs[0]]:
        return None
    if value.dtype not in (np.float32, np.float64) or value.ndim > len(type_.shape):
        return None
    axis = len(type_.shape) - 1 if source.op == "Gemm" else 1
    shape = (1,) * (len(type_.shape) - value.ndim) + value.shape
    if any(extent != 1 for k, extent in enumerate(shape) if k != axis):
        return None
    return value.astype(np.float64).reshape(-1)


def _contraction(e: Editor, name: str) -> Node | None:
    """The Conv, ConvTranspose or Gemm that computes `name` from known weights for one reader only;
    a Gemm's result may be a stack of matrices, which keeps its columns."""
    source = e.producer(name)
    if source is not None and source.op == "Reshape" and e.only_user(name):
        before, after = e.types[source.inputs[0]].shape, e.types[name].shape
        name = source.inputs[0]
        source = e.producer(name)
        if source is None or source.op != "Gemm" or not after or before[-1] != after[-1]:
            return None
    known = source is not None and all(i in e.consts for i in source.inputs[1:] if i)
    taken = source is not None and source.op in ("Conv", "ConvTranspose", "Gemm")
    return source if known and taken and e.only_user(name) else None


def _fold(e: Editor, node: Node, affine: Affine) -> None:
    """Puts `affine` into the contraction, unless a weight would leave the range of its type."""
    source = _contraction(e, affine.data)
    if source is None:
        return
    weights = e.consts[source.inputs[1]]
    channels = _channels(source, weights)
    factor = np.broadcast_to(affine.factor, (channels,))
    bias = e.consts[source.inputs[2]] if len(source.inputs) > 2 and source.inputs[2] else 0.0
    new_w = _scaled(source, weights, factor)
    new_b = np.asarray(bias, np.float64).reshape(-1) * factor + affine.addend
    if not (_survives(new_w, weights.dtype) and _survives(new_b, weights.dtype)):
        return
    w = source.inputs[1]
    if np.any(factor != 1):
        w = e.const(source.inputs[1] + ".normalised", new_w.astype(weights.dtype))
    b = e.const(node.outputs[0] + ".bias", new_b.astype(weights.dtype))
    made = replace(source, inputs=(source.inputs[0], w, b))
    view = e.producer(affine.data)
    if view is source:
        e.substitute([source, node], [replace(made, outputs=node.outputs[:1])])
        return
    assert view is not None
    e.substitute([source], [made])
    e.substitute([view, node], [replace(view, outputs=node.outputs[:1])])


def _channels(source: Node, weights: Array) -> int:
    """How many channels a contraction has."""
    if source.op == "ConvTranspose":
        return int(weights.shape[1] * source.attrs.get("group", 1))
    columns = source.op == "Gemm" and not source.attrs.get("transB", 0)
    return int(weights.shape[1 if columns else 0])


def _scaled(source: Node, weights: Array, factor: Array) -> Array:
    """float64 weights, those of each output channel times its factor."""
    wide = weights.astype(np.float64)
    if source.op == "ConvTranspose":  # [C, M / group, ...]
        group = source.attrs.get("group", 1)
        parts = wide.reshape(group, -1, *wide.shape[1:])
        by = factor.reshape(group, 1, -1, *(1,) * (wide.ndim - 2))
        return np.asarray(parts * by).reshape(wide.shape)
    if source.op == "Gemm" and not source.attrs.get("transB", 0):
        return wide * factor
    return wide * factor.reshape(-1, *(1,) * (wide.ndim - 1))


def _survives(values: Array, dtype: np.dtype) -> bool:
    """Whether no number overflows, and none but zero loses bits to underflow."""
    limits = np.finfo(dtype) if dtype in (np.float32, np.float64) else np.finfo(np.float16)
    size = np.abs(values[values != 0])
    return bool(np.all((size >= float(limits.tiny)) & (size <= float(limits.max))))
