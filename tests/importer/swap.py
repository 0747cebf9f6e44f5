"""Models whose types or operands changed places: each is what an author or an exporter may have
meant, and few of them were tried by whoever wrote the kernel.

In one tensor or in all of a type that type becomes another, constants with their values; or two
operands of a node, or two constants, change places.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from mutants import graphs, some_graph
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, ValueInfoProto
from onnx import numpy_helper as nh
from onnx.helper import tensor_dtype_to_np_dtype

P = TensorProto
COMMON = (P.FLOAT, P.DOUBLE, P.FLOAT16, P.INT8, P.UINT8, P.INT16, P.UINT16, P.INT32, P.INT64)
RARE = (P.UINT32, P.UINT64, P.BOOL, P.BFLOAT16, P.STRING, P.INT4, P.UINT4, P.FLOAT8E4M3FN)
KIND_ATTRIBUTES = ("to", "dtype", "output_dtype", "stash_type")


def swapped(chance: random.Random, made: ModelProto, _: ModelProto) -> bytes:
    copy = ModelProto()
    copy.CopyFrom(made)
    for _ in range(chance.choice([1, 1, 1, 2])):
        chance.choice([_swap_type, _swap_type, _swap_type, _swap_operands, _swap_weights])(
            chance, copy
        )
    return bytes(copy.SerializeToString())


def infos_of(graph: GraphProto) -> Iterator[ValueInfoProto]:
    for one in graphs(graph):
        yield from (*one.input, *one.value_info, *one.output)


def weights_of(graph: GraphProto) -> Iterator[TensorProto]:
    """Initializers and the values of Constant nodes."""
    for one in graphs(graph):
        yield from one.initializer
        for node in one.node:
            if node.op_type == "Constant":
                yield from (a.t for a in node.attribute if a.type == AttributeProto.TENSOR)


def forget_types(made: ModelProto) -> None:
    """Of everything but inputs: those who read the model find them."""
    for graph in graphs(made.graph):
        del graph.value_info[:]
    for info in made.graph.output:
        if info.type.HasField("tensor_type"):
            info.ClearField("type")


def _swap_type(chance: random.Random, made: ModelProto) -> None:
    infos = [i for i in infos_of(made.graph) if i.type.tensor_type.elem_type]
    weights = [*weights_of(made.graph)]
    here = sorted({i.type.tensor_type.elem_type for i in infos} | {w.data_type for w in weights})
    if not here:
        return
    old = chance.choice(here)
    new = chance.choice(COMMON if chance.random() < 0.8 else RARE)
    infos = [i for i in infos if i.type.tensor_type.elem_type == old]
    weights = [w for w in weights if w.data_type == old]
    if chance.random() < 0.35:
        one = chance.choice([*infos, *weights])
        infos = [i for i in infos if i is one]
        weights = [w for w in weights if w is one]
    else:
        for graph in graphs(made.graph):
            for a in (a for n in graph.node for a in n.attribute):
                if a.name in KIND_ATTRIBUTES and a.i == old:
                    a.i = new
    for weight in weights:
        retype(weight, new)
    for info in infos:
        info.type.tensor_type.elem_type = new
    forget_types(made)


def retype(weight: TensorProto, new: int) -> None:
    """The constant with its values as near as the type has them."""
    try:
        value: Any = nh.to_array(weight)
        dtype = tensor_dtype_to_np_dtype(new)
        if value.dtype.kind in "OU":
            value = np.arange(value.size).reshape(value.shape)
        with np.errstate(all="ignore"):
            if dtype == np.dtype(object):
                value = np.array([str(v) for v in value.flat], object).reshape(value.shape)
            elif np.dtype(dtype).kind in "iu":
                limits = np.iinfo(dtype)
                value = np.clip(np.nan_to_num(value.astype(np.float64)), limits.min, limits.max)
            made = nh.from_array(np.asarray(value).astype(dtype), weight.name)
    except Exception:  # no such conversion
        return
    made.data_type = new
    weight.CopyFrom(made)


def _swap_operands(chance: random.Random, made: ModelProto) -> None:
    """Two operands of a node, or its outputs."""
    nodes = [n for n in some_graph(chance, made).node if len(n.input) > 1 or len(n.output) > 1]
    if not nodes:
        return
    node = chance.choice(nodes)
    names = node.input if len(node.input) > 1 and chance.random() < 0.9 else node.output
    if len(names) > 1:
        a, b = chance.sample(range(len(names)), 2)
        names[a], names[b] = names[b], names[a]
    forget_types(made)


def _swap_weights(chance: random.Random, made: ModelProto) -> None:
    """The values of two constants, or one for all readers of another."""
    graph = some_graph(chance, made)
    if len(graph.initializer) < 2:
        _swap_operands(chance, made)
        return
    a, b = chance.sample(list(graph.initializer), 2)
    a.name, b.name = b.name, a.name
    forget_types(made)
