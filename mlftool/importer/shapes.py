"""Operators whose result depends on shapes alone, which are known here: they become constants."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto
from onnx import numpy_helper as np_helper

from mlftool.ir import dtype
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Scope
from mlftool.ops import Trait, has
from mlftool.ops.reference import evaluate_proto


def of_shapes(scope: Scope, node: NodeProto) -> Outcome:
    """A typed node whose value follows from types becomes a constant."""
    out = node.output[0]
    if has(op_name(node), Trait.OF_SHAPE):
        # Zeros that take no room, whatever their number.
        given = scope.types[next(filter(None, node.input))]
        stand_in = np.broadcast_to(np.zeros((), given.dtype.numpy), given.shape)
        scope.add_const(out, np.asarray(evaluate_proto(node, [stand_in], scope.opsets)[0]))
        return KEEP
    if op_name(node) == "ConstantOfShape" and out in scope.types:
        attrs = attributes(node)
        value = np_helper.to_array(attrs["value"]) if "value" in attrs else np.float32(0)
        assert scope.types[out].dtype == dtype.of(np.asarray(value))
        scope.add_const(out, np.full(scope.types[out].shape, np.asarray(value).reshape(())))
        return KEEP
    return Next(node)
