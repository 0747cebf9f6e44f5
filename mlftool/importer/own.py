"""Operators of domains that the onnx package does not know: their own definition types them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx
from onnx import NodeProto, TypeProto

from mlftool.importer.protos import type_proto
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import domain_of, op_name, plain_attributes
from mlftool.ops import OPS


@cache
def _domains() -> frozenset[str]:
    return frozenset(schema.domain for schema in onnx.defs.get_all_schemas_with_history())


def is_own(node: NodeProto) -> bool:
    """Whether `node` is of a domain that onnx does not have, and ops/ says what it gives."""
    known = OPS.get(op_name(node))
    return known is not None and known.result is not None and domain_of(node) not in _domains()


def result_types(node: NodeProto, types: Mapping[str, TensorType]) -> dict[str, TypeProto]:
    """The first output's type. Raises UnsupportedError if the operator refuses these inputs."""
    result = OPS[op_name(node)].result
    assert result is not None
    attrs = plain_attributes(node)
    given = [types.get(name) for name in node.input]
    return {node.output[0]: type_proto(result(given, attrs))}
