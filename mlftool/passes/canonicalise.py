"""One spelling for things ONNX can say in several ways.

%t = MatMul(%x, w)        =>   %y = Gemm(%x, w, b)
%y = Add(%t, b)
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mlftool.ir.dtype import BY_ONNX, HALVES, float32
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ops.base import Layout, Trait, contracts, is_a, record
from mlftool.passes.order import rewrite


@rewrite()
def canonicalise(graph: Graph) -> Graph:
    """No Identity or Dropout, views are Reshapes, products of matrices are Gemms."""
    e = Editor(graph)
    rules = (
        _drop_identities,
        _views,
        _matmul,
        _own_spelling,  # before an Add becomes a C, which beta would multiply
        _rounded_quotient,
        _gemm_bias,
        _separate_bias,
    )
    for rule in rules:
        # By their outputs: a rule may put another node in the place of one that comes later.
        for out in [next(filter(None, node.outputs)) for node in e.nodes]:
            node = e.producer(out)
            if node is not None:
                rule(e, node)
    return e.finish()


def _drop_identities(e: Editor, node: Node) -> None:
    if not is_a(node, Trait.IDENTITY) or e.types[node.inputs[0]] != e.types[node.outputs[0]]:
        return
    if node.outputs[0] not in e.outputs and len(node.outputs) == 1:
        e.remove(node)
        e.rename(node.outputs[0], node.inputs[0])
    else:
        one = replace(node, inputs=node.inputs[:1], outputs=node.outputs[:1])
        e.substitute([node], [replace(one, op="Reshape", attrs={})])


def _views(e: Editor, node: Node) -> None:
    """Reshape and its kin only differ in how they spell the result's shape, which types hold."""
    if is_a(node, Trait.VIEW):
        e.substitute([node], [replace(node, op="Reshape", inputs=node.inputs[:1], attrs={})])


def _own_spelling(e: Editor, node: Node) -> None:
    """What an operator says of the forms that it has."""
    if (canonical := record(node).canonical) is not None:
        canonical(e, node)


def _rounded_quotient(e: Editor, node: Node) -> None:
    """A QuantizeLinear's quotient that is rounded to a narrower type than its scale's is a node."""
    row = BY_ONNX.get(node.attrs.get("precision", 0)) if is_a(node, Trait.QUANTISER) else None
    if row is None or row.name not in HALVES or e.types[node.inputs[1]].dtype != float32:
        return
    (x, scale, *zero), attrs = node.inputs, {**node.attrs, "precision": 0}
    real, narrow = (e.fresh(x + ".steps", replace(e.types[x], dtype=d)) for d in (float32, row))
    one = e.const(scale + ".one", np.ones(e.types[scale].shape, row.numpy))
    e.substitute(
        [node],
        [
            e.add("Div", (x, scale), node, real),
            e.add("Cast", (real,), node, narrow, {"to": row.onnx}),
            replace(node, inputs=(narrow, one, *zero), attrs=attrs),
        ],
    )


def _matmul(e: Editor, node: Node) -> None:
    """x[..., K] @ w[K, N] is a Gemm on the rows of x."""
    c = contracts(node)
    if c is None or not c.rows or c.quantised or len(e.types[node.inputs[1]].shape) != 2:
        return
    x, y = e.types[node.inputs[0]], e.types[node.outputs[0]]
    if len(x.shape) == 2:
        e.substitute([node], [replace(node, op=c.rows)])
    else:
        rows = math.prod(x.shape[:-1])
        flat_x = e.fresh(node.inputs[0] + ".rows", TensorType(x.dtype, (rows, x.shape[-1])))
        flat_y = e.fresh(node.outputs[0] + ".rows", TensorType(y.dtype, (rows, y.shape[-1])))
        e.substitute(
            [node],
            [
                e.add("Reshape", (node.inputs[0],), node, flat_x),
                e.add(c.rows, (flat_x, node.inputs[1]), node, flat_y),
                e.add("Reshape", (flat_y,), node, node.outputs[0]),
            ],
        )


def _gemm_bias(e: Editor, node: Node) -> None:
    """Add of one value per output column becomes the Gemm's third input."""
    if not is_a(node, Trait.ADDITION):
        return
    for product, bias in (node.inputs, node.inputs[::-1]):
        gemm = e.producer(product)
        c = contracts(gemm)
        if gemm is None or c is None or c.layout is not Layout.MATRIX or c.quantised:
            continue
        if len(gemm.inputs) > 2 or not e.only_user(product):
            continue
        columns = e.types[product].shape[-1]
        shape = e.types[bias].shape
        if not shape or shape[-1] != columns or e.types[bias].elements != columns:
            continue
        if len(shape) > 2 or e.types[node.outputs[0]].shape != e.types[product].shape:
            continue
        if not _is_known(e, bias):
            continue
        e.substitute(
            [gemm, node], [replace(gemm, inputs=(*gemm.inputs, bias), outputs=node.outputs)]
        )
        return


def _is_known(e: Editor, name: str) -> bool:
    """Whether a bias is constant, or the DequantizeLinear of one."""
    source = e.producer(name)
    if is_a(source, Trait.DEQUANTISER):
        name = source.inputs[0]
    return name in e.consts


def _separate_bias(e: Editor, node: Node) -> None:
    """A bias that is computed, or is not one value per output channel, becomes an Add."""
    c = contracts(node)
    if c is None or not c.packs_bias or len(node.inputs) < 3:
        return
    bias, out = node.inputs[2], e.types[node.outputs[0]]
    channels = out.shape[1]
    b = e.types[bias]
    per_channel = b.elements == 1 or (b.elements == channels and b.shape[-1] == channels)
    if per_channel and _is_known(e, bias):
        return
    news = []
    if is_a(node, Trait.SPATIAL):
        shape = (1, channels, *(1,) * (len(out.shape) - 2))
        spread = e.fresh(bias + ".spread", TensorType(b.dtype, shape))
        news.append(e.add("Reshape", (bias,), node, spread))
        bias = spread
    operands, total = [*node.inputs[:2], bias], node.outputs[0]
    if out.dtype.name in HALVES:  # one rounding, as of any other operator
        for k, name in enumerate(operands):
            operands[k] = e.fresh(name + ".wide", replace(e.types[name], dtype=float32))
            news.append(e.add("Cast", (name,), node, operands[k], {"to": float32.onnx}))
        total = e.fresh(total + ".wide", replace(out, dtype=float32))
    product = e.fresh(node.outputs[0] + ".product", e.types[total])
    news.append(replace(node, inputs=tuple(operands[:2]), outputs=(product,)))
    news.append(e.add("Add", (product, operands[2]), node, total))
    if total != node.outputs[0]:
        news.append(e.add("Cast", (total,), node, node.outputs[0], {"to": out.dtype.onnx}))
    e.substitute([node], news)
