"""Nodes whose inputs are all constant are constants.

%w = DequantizeLinear(q, s, z)   =>   w
"""

from __future__ import annotations

from mlftool.ir import dtype
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops import Trait, is_a
from mlftool.ops.reference import evaluate, knows
from mlftool.passes.order import rewrite


@rewrite(after="settle_weights")
def fold_constants(graph: Graph) -> Graph:
    """No node is left that could be evaluated now, but for what its kernel computes better; an
    output may become a constant."""
    e = Editor(graph)
    for node in list(e.nodes):
        out = node.outputs[0]
        if len(node.outputs) > 1 or not knows(node):
            continue
        if not all(i in e.consts for i in node.inputs if i):
            continue
        value = _value(e, node)
        if value is None or value.shape != e.types[out].shape:
            continue  # a kernel computes or refuses it
        e.remove(node)
        e.consts[out] = value
        e.types[out] = TensorType(dtype.of(value), tuple(value.shape))
    return e.finish()


@rewrite(after="cancel_transposes")
def fold_moved_constants(graph: Graph) -> Graph:
    """The same again, for views of constants that `layout` moved there."""
    return fold_constants(graph)


def _value(e: Editor, node: Node) -> Array | None:
    """What a node with constant inputs gives, if the standard's reference knows: not where passes
    have said more of it than the standard can, or where it cannot be computed."""
    if is_a(node, Trait.VIEW):
        return e.consts[node.inputs[0]].reshape(e.types[node.outputs[0]].shape)
    if any(name.startswith("mlf.") for name in node.attrs):
        return None
    try:
        return evaluate(node, [e.consts[i] if i else None for i in node.inputs])
    except Exception:  # whatever the reference implementation raises
        return None
