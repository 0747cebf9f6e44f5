"""Nodes whose inputs are all constant are constants.

%w = DequantizeLinear(q, s, z)   =>   w
"""

from __future__ import annotations

from mlftool.ir import dtype
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, TensorType
from mlftool.ops.reference import evaluate


def fold_constants(graph: Graph) -> Graph:
    """No node is left that could be evaluated now; an output may become a constant."""
    e = Editor(graph)
    for node in list(e.nodes):
        out = node.outputs[0]
        if len(node.outputs) > 1 or "." in node.op:
            continue
        if not all(i in e.consts for i in node.inputs if i):
            continue
        if node.op == "Reshape":
            value = e.consts[node.inputs[0]].reshape(e.types[out].shape)
        else:
            value = evaluate(node, [e.consts[i] if i else None for i in node.inputs])
        e.remove(node)
        e.consts[out] = value
        e.types[out] = TensorType(dtype.of(value), tuple(value.shape))
    return e.finish()
