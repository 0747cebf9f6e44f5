"""Nodes whose inputs are all constant are constants.

%w = DequantizeLinear(q, s, z)   =>   w
"""

from __future__ import annotations

from mlftool.ir import dtype
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, TensorType
from mlftool.ops.reference import evaluated
from mlftool.passes.order import rewrite


@rewrite(after="settle_weights")
def fold_constants(graph: Graph) -> Graph:
    """No node is left that could be evaluated now, but for what its kernel computes better; an
    output may become a constant."""
    e = Editor(graph)
    for node in list(e.nodes):
        out = node.outputs[0]
        value = evaluated(node, e.consts, e.types)
        if value is None:
            continue  # a kernel computes or refuses it
        e.remove(node)
        e.consts[out] = value
        e.types[out] = TensorType(dtype.of(value), tuple(value.shape))
    return e.finish()


@rewrite(after="cancel_transposes")
def fold_moved_constants(graph: Graph) -> Graph:
    """The same again, for views of constants that `layout` moved there."""
    return fold_constants(graph)
