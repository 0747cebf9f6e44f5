"""One spelling for things ONNX can say in several ways.

%t = MatMul(%x, w)        =>   %y = Gemm(%x, w, b)
%y = Add(%t, b)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ops import Trait, has


def canonicalise(graph: Graph) -> Graph:
    """No Identity or Dropout, views are Reshapes, products of matrices are Gemms."""
    e = Editor(graph)
    rules = (
        _drop_identities,
        _views,
        _matmul,
        _gemm_bias,
        _gemm_factors,
        _separate_bias,
        _quantisation_axis,
    )
    for rule in rules:
        # By their outputs: a rule may put another node in the place of one that comes later.
        for out in [next(filter(None, node.outputs)) for node in e.nodes]:
            node = e.producer(out)
            if node is not None:
                rule(e, node)
    return e.finish()


def _drop_identities(e: Editor, node: Node) -> None:
    same = node.op == "Identity" or (
        node.op == "Cast" and e.types[node.inputs[0]] == e.types[node.outputs[0]]
    )
    if same and node.outputs[0] not in e.outputs and len(node.outputs) == 1:
        e.remove(node)
        e.rename(node.outputs[0], node.inputs[0])
    elif same:
        e.substitute(
            [node],
            [
                replace(
                    node, op="Reshape", inputs=node.inputs[:1], outputs=node.outputs[:1], attrs={}
                )
            ],
        )


def _views(e: Editor, node: Node) -> None:
    """Reshape and its kin only differ in how they spell the result's shape, which types hold."""
    if has(node.op, Trait.VIEW):
        e.substitute([node], [replace(node, op="Reshape", inputs=node.inputs[:1], attrs={})])


def _matmul(e: Editor, node: Node) -> None:
    """x[..., K] @ w[K, N] is a Gemm on the rows of x."""
    if node.op != "MatMul" or len(e.types[node.inputs[1]].shape) != 2:
        return
    x, y = e.types[node.inputs[0]], e.types[node.outputs[0]]
    if len(x.shape) == 2:
        e.substitute([node], [replace(node, op="Gemm")])
    elif len(x.shape) > 2:
        rows = x.elements // x.shape[-1]
        flat_x = e.fresh(node.inputs[0] + ".rows", TensorType(x.dtype, (rows, x.shape[-1])))
        flat_y = e.fresh(node.outputs[0] + ".rows", TensorType(y.dtype, (rows, y.shape[-1])))
        e.substitute(
            [node],
            [
                e.add("Reshape", (node.inputs[0],), node, flat_x),
                e.add("Gemm", (flat_x, node.inputs[1]), node, flat_y),
                e.add("Reshape", (flat_y,), node, node.outputs[0]),
            ],
        )


def _gemm_bias(e: Editor, node: Node) -> None:
    """Add of one value per output column becomes the Gemm's third input."""
    if node.op != "Add":
        return
    for product, bias in (node.inputs, node.inputs[::-1]):
        gemm = e.producer(product)
        if gemm is None or gemm.op != "Gemm" or len(gemm.inputs) > 2 or not e.only_user(product):
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
    if source is not None and source.op == "DequantizeLinear":
        name = source.inputs[0]
    return name in e.consts


def _separate_bias(e: Editor, node: Node) -> None:
    """A bias that is computed, or is not one value per output channel, becomes an Add."""
    if node.op not in ("Gemm", "Conv") or len(node.inputs) < 3:
        return
    bias, out = node.inputs[2], e.types[node.outputs[0]]
    channels = out.shape[1]
    b = e.types[bias]
    per_channel = b.elements == 1 or (b.elements == channels and b.shape[-1] == channels)
    if per_channel and _is_known(e, bias):
        return
    news = []
    if node.op == "Conv":
        shape = (1, channels, *(1,) * (len(out.shape) - 2))
        spread = e.fresh(bias + ".spread", TensorType(b.dtype, shape))
        news.append(e.add("Reshape", (bias,), node, spread))
        bias = spread
    product = e.fresh(node.outputs[0] + ".product", out)
    news.append(replace(node, inputs=node.inputs[:2], outputs=(product,)))
    news.append(e.add("Add", (product, bias), node, node.outputs[0]))
    e.substitute([node], news)


def _gemm_factors(e: Editor, node: Node) -> None:
    """alpha and beta go into constant weights and bias, transA into constant or explicit form."""
    if node.op != "Gemm":
        return
    alpha, beta = node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)
    attrs = {"transB": node.attrs.get("transB", 0)}
    inputs = list(node.inputs)
    news = []
    for i, factor in ((1, alpha), (2, beta)):
        if i >= len(inputs) or factor == 1.0:
            continue
        if inputs[i] in e.consts:
            inputs[i] = e.const(
                inputs[i] + ".scaled", e.consts[inputs[i]] * e.consts[inputs[i]].dtype.type(factor)
            )
        else:
            by = e.const(inputs[i] + ".factor", np.array(factor, e.types[inputs[i]].dtype.numpy))
            scaled = e.fresh(inputs[i] + ".scaled", e.types[inputs[i]])
            news.append(e.add("Mul", (inputs[i], by), node, scaled))
            inputs[i] = scaled
    if node.attrs.get("transA", 0):
        x = e.types[inputs[0]]
        turned = e.fresh(inputs[0] + ".T", TensorType(x.dtype, x.shape[::-1]))
        news.append(e.add("Transpose", (inputs[0],), node, turned, {"perm": [1, 0]}))
        inputs[0] = turned
    e.substitute([node], [*news, replace(node, inputs=tuple(inputs), attrs=attrs)])


def _quantisation_axis(e: Editor, node: Node) -> None:
    """A scale per channel becomes one that broadcasts: Q and DQ are plain elementwise."""
    if node.op not in ("QuantizeLinear", "DequantizeLinear"):
        return
    x = e.types[node.inputs[0]]
    kept = {k: v for k, v in node.attrs.items() if k in ("saturate", "precision")}
    axis = node.attrs.get("axis", 1) % max(1, len(x.shape))
    block = node.attrs.get("block_size", 0)
    if block:
        whole = x.shape[axis] % block == 0
        (_by_blocks if whole else _by_broken_blocks)(e, node, axis, block, kept)
        return
    inputs = list(node.inputs)
    views: list[Node] = []
    for i in range(1, len(inputs)):
        type_ = e.types[inputs[i]] if inputs[i] else None
        if type_ is None or len(type_.shape) != 1:
            continue
        shape = [1] * len(x.shape)
        if type_.elements > 1:
            shape[axis] = type_.elements
        inputs[i] = _reshaped(e, node, inputs[i], tuple(shape), views)
    e.substitute([node], [*views, replace(node, inputs=tuple(inputs), attrs=kept)])


def _by_blocks(e: Editor, node: Node, axis: int, block: int, kept: dict[str, Any]) -> None:
    """The axis is split in two, blocks and what lies inside them, along which the scale repeats."""
    views: list[Node] = []
    x, y = e.types[node.inputs[0]], e.types[node.outputs[0]]
    count = x.shape[axis] // block
    inside = (*x.shape[:axis], count, block, *x.shape[axis + 1 :])
    scales = (*x.shape[:axis], count, 1, *x.shape[axis + 1 :])
    inputs = [_reshaped(e, node, node.inputs[0], inside, views)]
    inputs += [_reshaped(e, node, i, scales, views) if i else "" for i in node.inputs[1:]]
    split = e.fresh(node.outputs[0] + ".blocks", TensorType(y.dtype, inside))
    core = replace(node, inputs=tuple(inputs), outputs=(split,), attrs=kept)
    joined = e.add("Reshape", (split,), node, node.outputs[0])
    e.substitute([node], [*views, core, joined])


def _by_broken_blocks(e: Editor, node: Node, axis: int, block: int, kept: dict[str, Any]) -> None:
    """Where the last block is not whole, each element gets the scale of its block."""
    views: list[Node] = []
    x, inputs = e.types[node.inputs[0]], list(node.inputs)
    block_of = np.arange(x.shape[axis]) // block
    for i in range(1, len(inputs)):
        name = inputs[i]
        if name in e.consts:
            spread = e.consts[name].take(block_of, axis)
            inputs[i] = e.const(name + ".spread", np.ascontiguousarray(spread))
        elif name:
            inputs[i] = e.fresh(name + ".spread", TensorType(e.types[name].dtype, x.shape))
            which = e.const(name + ".blocks", block_of.astype(np.int64))
            views.append(e.add("Gather", (name, which), node, inputs[i], {"axis": axis}))
    e.substitute([node], [*views, replace(node, inputs=tuple(inputs), attrs=kept)])


def _reshaped(e: Editor, node: Node, name: str, shape: tuple[int, ...], views: list[Node]) -> str:
    """`name` in another shape; unless it is constant, by a node that is added to `views`."""
    if name in e.consts:
        return e.const(name + ".broadcast", e.consts[name].reshape(shape))
    view = e.fresh(name + ".broadcast", TensorType(e.types[name].dtype, shape))
    views.append(e.add("Reshape", (name,), node, view))
    return view
