"""Models whose extents, axes or attributes are off by a little: the mistakes of exporters, and
the sizes just beside those that tests have.

An extent changes by one in a tensor or wherever it stands; an axis of 1 comes or goes; whole
numbers in attributes and in constants that mean shapes or axes change by one; attributes are
spelt out as their defaults, or left out.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from mutants import graphs, some_graph
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper
from onnx import numpy_helper as nh
from swap import forget_types, infos_of, weights_of

LARGEST = 1 << 16  # elements of a constant


def dented(chance: random.Random, made: ModelProto, _: ModelProto) -> bytes:
    copy = ModelProto()
    copy.CopyFrom(made)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        chance.choice(DENTS)(chance, copy)
    return bytes(copy.SerializeToString())


def _extent_everywhere(chance: random.Random, made: ModelProto) -> None:
    """Every extent of n becomes another: often a model as good as the one before."""
    dims = [d for i in infos_of(made.graph) for d in i.type.tensor_type.shape.dim]
    sizes = [d.dim_value for d in dims if d.dim_value] + [
        n for w in weights_of(made.graph) for n in w.dims
    ]
    if not sizes:
        return
    old = chance.choice(sizes)
    new = max(0, old + chance.choice([-1, 1, 1, 2, -old, 1 - old]))
    for dim in dims:
        if dim.HasField("dim_value") and dim.dim_value == old:
            dim.dim_value = new
    for weight in weights_of(made.graph):
        for axis in range(len(weight.dims)):
            if weight.dims[axis] == old:
                resize(weight, axis, new)
    forget_types(made)


def _extent(chance: random.Random, made: ModelProto) -> None:
    """One extent of one tensor, or a rank."""
    infos = [i.type.tensor_type for i in infos_of(made.graph) if i.type.HasField("tensor_type")]
    kind: Any = chance.choice([*infos, *weights_of(made.graph)] or [None])
    if kind is None:
        return
    step = chance.choice([-1, 1, 1, 2])
    if isinstance(kind, TensorProto):
        if kind.dims and chance.random() < 0.7:
            axis = chance.randrange(len(kind.dims))
            resize(kind, axis, max(0, kind.dims[axis] + step))
        elif chance.random() < 0.5:
            kind.dims.insert(chance.randrange(len(kind.dims) + 1), 1)
        elif 1 in kind.dims:
            kind.dims.remove(1)
    elif kind.shape.dim and chance.random() < 0.7:
        dim = chance.choice(kind.shape.dim)
        dim.dim_value = max(0, dim.dim_value + step)
    elif chance.random() < 0.5:
        kind.shape.dim.insert(
            chance.randrange(len(kind.shape.dim) + 1), onnx.TensorShapeProto.Dimension(dim_value=1)
        )
    elif kind.shape.dim:
        del kind.shape.dim[chance.randrange(len(kind.shape.dim))]
    forget_types(made)


def resize(weight: TensorProto, axis: int, new: int) -> None:
    """More of the same values along an axis, or fewer."""
    try:
        value: Any = nh.to_array(weight)
        if value.size * max(1, new) > LARGEST:
            return
        if value.shape[axis]:
            value = np.take(value, np.arange(new) % value.shape[axis], axis)
        else:
            value = np.zeros([*value.shape[:axis], new, *value.shape[axis + 1 :]], value.dtype)
        kind = weight.data_type
        weight.CopyFrom(nh.from_array(value, weight.name))
        weight.data_type = kind
    except Exception:  # of a type that numpy has not
        return


def _number(chance: random.Random, made: ModelProto) -> None:
    """A whole number of an attribute, or of a small constant of integers."""
    ints = [
        a
        for g in graphs(made.graph)
        for n in g.node
        for a in n.attribute
        if a.type in (AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT)
    ]
    consts = [
        w
        for w in weights_of(made.graph)
        if w.data_type in (TensorProto.INT64, TensorProto.INT32)
        and 0 < int(np.prod(w.dims, dtype=float)) <= 8
    ]
    one: Any = chance.choice([*ints, *consts] or [None])
    if one is None:
        return
    step = chance.choice([-1, 1])
    if isinstance(one, TensorProto):
        value = np.array(nh.to_array(one))
        at = chance.randrange(value.size)
        value.reshape(-1)[at] = chance.choice([value.flat[at] + step, -value.flat[at], 0, 1])
        one.CopyFrom(nh.from_array(value, one.name))
    elif one.type == AttributeProto.INT:
        one.i = chance.choice([one.i + step, one.i + step, -one.i, 0, 1])
    elif one.type == AttributeProto.FLOAT:
        one.f = chance.choice([0.0, 1.0, -one.f, one.f * 1.5, 0.5])
    elif len(one.ints):
        at = chance.randrange(len(one.ints))
        one.ints[at] = chance.choice([one.ints[at] + step, -one.ints[at], 0, 1])
        if chance.random() < 0.2:
            one.ints[:] = chance.sample(list(one.ints), len(one.ints))
    forget_types(made)


def _default(chance: random.Random, made: ModelProto) -> None:
    """An attribute left out, or a default spelt out."""
    nodes = [(n, s) for n in some_graph(chance, made).node if (s := schema(made, n))]
    if not nodes:
        return
    node, known = chance.choice(nodes)
    given = {a.name for a in node.attribute}
    spelt = [
        a.default_value
        for a in known.attributes.values()
        if a.name not in given and a.default_value.type != AttributeProto.UNDEFINED
    ]
    if spelt and chance.random() < 0.5:
        node.attribute.append(chance.choice(spelt))
    elif node.attribute:
        del node.attribute[chance.randrange(len(node.attribute))]
    elif len(node.input) > known.min_input:
        del node.input[-1]
    forget_types(made)


def _attribute(chance: random.Random, made: ModelProto) -> None:
    """An attribute that the operator knows and the node has not."""
    nodes = [(n, s) for n in some_graph(chance, made).node if (s := schema(made, n))]
    if not nodes:
        return
    node, known = chance.choice(nodes)
    given = {a.name for a in node.attribute}
    names = sorted(n for n in known.attributes if n not in given)
    if not names:
        return
    name = chance.choice(names)
    kinds = onnx.defs.OpSchema.AttrType
    values: dict[Any, list[Any]] = {
        kinds.INT: [0, 1, 2, -1],
        kinds.FLOAT: [0.0, 0.5, 1.0, 2.0],
        kinds.INTS: [[1], [0], [0, 1], [1, 1], [2, 2], [-1], [1, 1, 1, 1], [0, 0, 1, 1]],
        kinds.FLOATS: [[1.0], [0.5, 2.0]],
        kinds.STRING: ["SAME_UPPER", "SAME_LOWER", "VALID", "reflect", "linear", "cubic", "max"],
    }
    if choices := values.get(known.attributes[name].type):
        node.attribute.append(helper.make_attribute(name, chance.choice(choices)))
    forget_types(made)


def _opset(chance: random.Random, made: ModelProto) -> None:
    """The same nodes in another opset: its converter's spelling, or the same letters."""
    versions = [o for o in made.opset_import if not o.domain]
    if not versions:
        return
    target = chance.randint(7, 22)
    if chance.random() < 0.6:
        try:
            made.CopyFrom(onnx.version_converter.convert_version(made, target))
            return
        except Exception:  # it knows few of the ways
            pass
    versions[0].version = target
    forget_types(made)


def schema(made: ModelProto, node: NodeProto) -> onnx.defs.OpSchema | None:
    versions = {o.domain.replace("ai.onnx", "") or "": o.version for o in made.opset_import}
    try:
        version = versions.get(node.domain, made.opset_import[0].version)
        return onnx.defs.get_schema(node.op_type, version, node.domain)
    except Exception:
        return None


def _rank(_: random.Random, made: ModelProto) -> None:
    """Every input has one more axis."""
    for info in made.graph.input:
        info.type.tensor_type.shape.dim.insert(0, onnx.TensorShapeProto.Dimension(dim_value=1))
    forget_types(made)


DENTS = (
    *(_extent_everywhere, _extent_everywhere, _extent, _extent, _number, _number, _default),
    *(_attribute, _opset, _rank),
)
