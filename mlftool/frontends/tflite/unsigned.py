"""Models of uint8, as converters wrote them before int8: their tensors become int8.

    %x uint8, zero point z        =>    QUANTIZE(%x) int8, zero point z - 128, the same scale

Every quantised tensor of uint8 holds 128 less, with its zero point, so its numbers are the same.
Inputs and outputs of the model stay uint8.
"""

from __future__ import annotations

from mlftool.frontends.tflite.model import Model, Operator, Subgraph, Tensor
from mlftool.frozen import replace
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType

# Element types between which QUANTIZE and DEQUANTIZE take uint8 as it is.
CONVERSIONS = {("uint8", "int8"), ("int8", "uint8"), ("uint8", "float32")}


def with_signed(model: Model) -> Model:
    """The model, without quantised tensors of uint8 inside if an operator computes with them."""
    if not any(map(_computes, model.subgraphs)):
        return model
    first, *others = model.subgraphs
    inner = (replace(g, tensors=tuple(map(_signed, g.tensors))) for g in others)
    return replace(model, subgraphs=(_bordered(first), *inner))


def _unsigned(tensor: Tensor) -> bool:
    q = tensor.quantised
    return tensor.type.dtype == dtype.uint8 and q is not None and q.scale.size == 1


def _computes(graph: Subgraph) -> bool:
    return any(_reads(graph, node) for node in graph.operators)


def _reads(graph: Subgraph, node: Operator) -> bool:
    places = [p for p in (*node.inputs, *node.outputs) if p >= 0]
    if node.kind in ("QUANTIZE", "DEQUANTIZE"):
        types = tuple(graph.tensors[p].type.dtype.name for p in places)
        return "uint8" in types and types not in CONVERSIONS
    return any(_unsigned(graph.tensors[p]) for p in places)


def _signed(tensor: Tensor) -> Tensor:
    if not _unsigned(tensor):
        return tensor
    assert tensor.quantised is not None
    data = None if tensor.data is None else (tensor.data ^ 0x80).view("int8")
    quantised = replace(tensor.quantised, zero_point=tensor.quantised.zero_point - 128)
    type_ = TensorType(dtype.int8, tensor.type.shape)
    return replace(tensor, type=type_, data=data, quantised=quantised, unsigned=True)


def _bordered(graph: Subgraph) -> Subgraph:
    """The main subgraph: its inputs and outputs have twins of int8, which its operators use."""
    ends = dict.fromkeys((*graph.inputs, *graph.outputs))
    given = [p for p in ends if _unsigned(graph.tensors[p]) and graph.tensors[p].data is None]
    twins = {place: len(graph.tensors) + k for k, place in enumerate(given)}
    inner = [t if p in twins else _signed(t) for p, t in enumerate(graph.tensors)]
    before = [Operator("QUANTIZE", (p,), (q,)) for p, q in twins.items() if p in graph.inputs]
    after = [
        Operator("QUANTIZE", (q,), (p,))
        for p, q in twins.items()
        if p in graph.outputs and p not in graph.inputs
    ]
    operators = [
        replace(
            node,
            inputs=tuple(twins.get(p, p) for p in node.inputs),
            outputs=tuple(twins.get(p, p) for p in node.outputs),
        )
        for node in graph.operators
    ]
    tensors = (*inner, *(_signed(graph.tensors[p]) for p in given))
    return replace(graph, tensors=tensors, operators=(*before, *operators, *after))
