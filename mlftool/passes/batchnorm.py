"""A factor and an addend per channel go into the weights and the bias before them.

%t = Conv(%x, w, b)                          =>   %y = Conv(%x, w * f, b * f + a)
%y = BatchNormalization(%t, s, o, m, v)           f = s / sqrt(v + eps), a = o - m * f

BatchNormalization is one; exporters that take it apart write Mul, Div, Add and Sub by constants.
Products are made in float64 and rounded once, so sums change by what a rounding of weights does.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node
from mlftool.ops.base import Trait, contracts, is_a, record
from mlftool.ops.reference import evaluate
from mlftool.passes.order import rewrite


@frozen
class Affine:
    """What a node makes of `data`: data * factor + addend, float64, per channel."""

    data: str
    factor: Array
    addend: Array


@rewrite(after="widen", level=2, tvm="FoldScaleAxis")
def fold_batchnorm(graph: Graph) -> Graph:
    """Every BatchNormalization, and every Mul, Div, Add and Sub by a constant per channel, goes
    into the Conv, ConvTranspose or Gemm that produces its data for it alone."""
    e = Editor(graph)
    for node in graph.nodes:
        affine = _affine(e, node)
        if affine is not None:
            _fold(e, node, affine)
    return e.finish()


@rewrite(after="fold_batchnorm")
def spread_batchnorm(graph: Graph) -> Graph:
    """Every other BatchNormalization with known parameters becomes a Mul and an Add."""
    e = Editor(graph)
    for node in e.nodes:
        affine = None if is_a(node, Trait.ELEMENTWISE) else _affine(e, node)
        if affine is not None:
            _spread(e, node, affine)
    return e.finish()


def _known(e: Editor, name: str) -> Array | None:
    """The value of a parameter that is constant, or dequantised from constants."""
    source = e.producer(name)
    if is_a(source, Trait.DEQUANTISER):
        inputs = [e.consts.get(i) for i in source.inputs]
        return None if any(i is None for i in inputs) else evaluate(source, inputs)
    return e.consts.get(name)


def _spread(e: Editor, node: Node, affine: Affine) -> None:
    x = e.types[node.inputs[0]]
    shape = (1, -1, *(1,) * (len(x.shape) - 2))
    real = np.result_type(np.float32, x.dtype.numpy)  # doubles keep their digits
    f = e.const(node.outputs[0] + ".factor", affine.factor.astype(real).reshape(shape))
    a = e.const(node.outputs[0] + ".addend", affine.addend.astype(real).reshape(shape))
    scaled = e.fresh(node.outputs[0] + ".scaled", e.types[node.outputs[0]])
    e.substitute(
        [node],
        [
            e.add("Mul", (node.inputs[0], f), node, scaled),
            e.add("Add", (scaled, a), node, node.outputs[0]),
        ],
    )


def _affine(e: Editor, node: Node) -> Affine | None:
    """The factor and addend of a node, if it has known ones; of an elementwise one only after a
    contraction."""
    rule = record(node).affine
    if rule is None:
        return None
    if not is_a(node, Trait.ELEMENTWISE):
        data, known = node.inputs[0], [None, *(_known(e, i) for i in node.inputs[1:])]
        known = [None if k is None else k.astype(np.float64) for k in known]
    else:
        left, right = node.inputs
        given, data = (left, right) if left in e.consts else (right, left)
        value = _per_channel(e, given, data, node)
        known = [value if name == given else None for name in node.inputs]
    found = rule(known, node.attrs)
    return found and Affine(data, *found)


def _per_channel(e: Editor, given: str, data: str, node: Node) -> Array | None:
    """The value of a constant float that is one number, or one for each channel of `data`."""
    source = _contraction(e, data)
    value, type_ = e.consts.get(given), e.types[data]
    if value is None or source is None or type_ != e.types[node.outputs[0]]:
        return None
    if value.dtype not in (np.float32, np.float64) or value.ndim > len(type_.shape):
        return None
    axis = _channels(source, len(type_.shape))
    shape = (1,) * (len(type_.shape) - value.ndim) + value.shape
    if any(extent != 1 for k, extent in enumerate(shape) if k != axis):
        return None
    return value.astype(np.float64).reshape(-1)


def _channels(contraction: Node, rank: int) -> int:
    """The axis of its result, of so many axes, that its output channels are."""
    return 1 if is_a(contraction, Trait.SPATIAL) else rank - 1


def _contraction(e: Editor, name: str) -> Node | None:
    """The Conv, ConvTranspose or Gemm that computes `name` from known weights for one reader only;
    a Gemm's result may be a stack of matrices, which keeps its columns."""
    source = e.producer(name)
    if is_a(source, Trait.VIEW) and e.only_user(name):
        before, after = e.types[source.inputs[0]].shape, e.types[name].shape
        name = source.inputs[0]
        source = e.producer(name)
        if is_a(source, Trait.SPATIAL) or not after or before[-1:] != after[-1:]:
            return None
    c = contracts(source)
    if source is None or c is None or c.bias is None or c.quantised or not e.only_user(name):
        return None
    return source if all(i in e.consts for i in source.inputs[1:] if i) else None


def _fold(e: Editor, node: Node, affine: Affine) -> None:
    """Puts `affine` into the contraction, unless a weight would leave the range of its type."""
    source = _contraction(e, affine.data)
    c = contracts(source)
    if source is None or c is None:
        return
    # A normalisation's channels are axis 1, which are no columns of a stack of matrices.
    rank = len(e.types[affine.data].shape)
    if not is_a(node, Trait.ELEMENTWISE) and _channels(source, rank) != 1:
        return
    weights = e.consts[source.inputs[c.weights]]
    axis, groups = c.axis(source.attrs, weights.ndim), c.groups(source.attrs)
    factor = np.broadcast_to(affine.factor, (weights.shape[axis] * groups,))
    bias = e.consts[source.inputs[2]] if len(source.inputs) > 2 and source.inputs[2] else 0.0
    new_w = _scaled(weights, factor, axis, groups)
    new_b = np.asarray(bias, np.float64).reshape(-1) * factor + affine.addend
    if not (_survives(new_w, weights.dtype) and _survives(new_b, weights.dtype)):
        return
    w = source.inputs[c.weights]
    if np.any(factor != 1):
        w = e.const(w + ".normalised", new_w.astype(weights.dtype))
    b = e.const(node.outputs[0] + ".bias", new_b.astype(weights.dtype))
    made = replace(source, inputs=(source.inputs[0], w, b))
    view = e.producer(affine.data)
    if view is source:
        e.substitute([source, node], [replace(made, outputs=node.outputs[:1])])
        return
    assert view is not None
    e.substitute([source], [made])
    e.substitute([view, node], [replace(view, outputs=node.outputs[:1])])


def _scaled(weights: Array, factor: Array, axis: int, groups: int) -> Array:
    """float64 weights, those of each output channel times its factor; groups of input channels
    come first."""
    parts = weights.astype(np.float64).reshape(
        groups, weights.shape[0] // groups, *weights.shape[1:]
    )
    shape = [1] * parts.ndim
    shape[0], shape[axis + 1] = groups, weights.shape[axis]
    return np.asarray(parts * factor.reshape(shape)).reshape(weights.shape)


def _survives(values: Array, dtype: np.dtype) -> bool:
    """Whether no number overflows, and none but zero loses bits to underflow."""
    limits = np.finfo(dtype) if dtype in (np.float32, np.float64) else np.finfo(np.float16)
    size = np.abs(values[values != 0])
    return bool(np.all((size >= float(limits.tiny)) & (size <= float(limits.max))))
