"""A model reduced to what reproduces a failure: fewer nodes, weights replaced.

Each step takes something away and keeps what is left if it still fails in the same way.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from mlftool.importer.structure import free_names

Fails = Callable[[ModelProto], bool]
SECONDS = 10.0


def minimise(model: ModelProto, fails: Fails) -> ModelProto:
    """The smallest model found in ten seconds for which `fails` is true, as it is for `model`."""
    end = time.monotonic() + SECONDS

    def still(candidate: ModelProto) -> bool:
        return time.monotonic() < end and fails(candidate)

    best = _fewer_nodes(model, still)
    blank = _blank(best)
    return blank if still(blank) else best


def _fewer_nodes(model: ModelProto, still: Fails) -> ModelProto:
    """Takes away halves, quarters ... of the nodes (Zeller's delta debugging)."""
    types = _types(model)
    nodes, best, parts = [*model.graph.node], model, 2
    while len(nodes) > 1:
        size = -(-len(nodes) // parts)
        for start in range(0, len(nodes), size):
            kept = nodes[:start] + nodes[start + size :]
            candidate = _with_nodes(model, kept, types)
            if kept and still(candidate):
                nodes, best, parts = kept, candidate, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(nodes), parts * 2)
    return best


def _types(model: ModelProto) -> dict[str, ValueInfoProto]:
    graph: GraphProto = model.graph
    if not model.functions:  # inference takes calls apart, which may be more than memory holds
        with contextlib.suppress(Exception):  # a model that fails may fail here, too
            graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    return {i.name: i for i in (*graph.value_info, *graph.output, *graph.input)}


def _with_nodes(
    model: ModelProto, nodes: Sequence[NodeProto], types: dict[str, ValueInfoProto]
) -> ModelProto:
    """The model with only those nodes: tensors that none of them computes become inputs."""
    made = {name for node in nodes for name in node.output if name}
    body = helper.make_graph(nodes, "part", [], [])
    read = free_names(body)
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for field in ("node", "input", "output", "initializer", "value_info", "sparse_initializer"):
        graph.ClearField(field)
    graph.node.extend(nodes)
    known = {w.name: w for w in model.graph.initializer}
    graph.initializer.extend(known[n] for n in read if n in known)
    graph.input.extend(types[n] for n in read if n not in known and n in types)
    inner = {n for node in nodes for n in node.input}
    asked = {o.name for o in model.graph.output}
    for name in (n for node in nodes for n in node.output if n in made):
        if name in asked or name not in inner:
            graph.output.append(types.get(name, ValueInfoProto(name=name)))
    return result


def _blank(model: ModelProto) -> ModelProto:
    """Zeros for weights, which are confidential."""
    result = ModelProto()
    result.CopyFrom(model)
    for weight in result.graph.initializer:
        size = len(weight.raw_data)
        if size > 64 and weight.data_location != TensorProto.EXTERNAL:
            weight.raw_data = bytes(size)
    return result
