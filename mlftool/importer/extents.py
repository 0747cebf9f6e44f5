"""Extents known only at run time.

A tensor that has one is typed by its upper bounds, in a box of that size (ops/extents.py).
Each such extent is a *symbol*: the name of an int32 tensor that holds it, which the node that makes
the box stores too. onnx's own inference carries symbols from tensor to tensor as `dim_param`s. What
follows holds for the rest of the compiler: there are only static tensors.

An operator whose result depends on what lies beyond the extents gets its input filled with what
changes nothing: zeros for a sum, the least value for a maximum.
"""

from __future__ import annotations

import onnx
from onnx import NodeProto

from mlftool.frozen import replace
from mlftool.importer.checks import misshapen
from mlftool.importer.functions import has_body
from mlftool.importer.inference import inferred
from mlftool.importer.schema import opset_of
from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.boxes import stretched
from mlftool.onnx_rules.protos import domain_of, op_name, plain_attributes
from mlftool.onnx_rules.scope import EXTENTS, KEEP, Next, Outcome, Refuse, Replace, Scope
from mlftool.ops import Trait
from mlftool.ops.base import known


def adapted(scope: Scope, node: NodeProto) -> Outcome:
    """The node in a form that is right on boxes."""
    if not any(scope.symbols_of(n) for n in node.input):
        return Next(node)
    record = known(op_name(node))
    changed = NodeProto()
    changed.CopyFrom(node)
    if record is not None and record.extents is not None:
        # Rules take a valid node for granted.
        standard = onnx.defs.has(node.op_type, domain_of(node))
        valid = inferred(replace(scope, inferred={}), node) if standard else KEEP
        return valid if isinstance(valid, Refuse) else record.extents(scope, changed)
    if record is not None and record.makes is not None:
        return Next(changed)  # `produced` knows what to do with a box
    if record is not None and Trait.ELEMENTWISE in record.traits:
        stretched(scope, changed)
        return Next(changed)
    if record is None and has_body(changed, opset_of(changed, scope.opsets)):
        return Next(changed)  # what it stands for is adapted
    return Refuse("MLF0302", "reads a tensor whose extents are known only at run time", EXTENTS)


def produced(scope: Scope, node: NodeProto) -> Outcome:
    """Keep a node that makes a tensor whose extents depend on values."""
    record = known(op_name(node))
    attrs = plain_attributes(node)
    if record is None or record.makes is None:
        return Next(node)
    if wrong := misshapen(record, attrs, [scope.types.get(n) for n in node.input]):
        return Refuse("MLF0303", wrong)
    made = record.makes(scope, node, attrs)
    if made is None or isinstance(made, Replace):
        return made or Next(node)
    symbol = scope.fresh(f"{node.output[0]}.extent")
    scope.types[symbol] = TensorType(dtype.int32, ())
    outputs = [""] * (len(made.outputs) if made.extent is None else made.extent)
    for k, (row, shape, axis) in made.outputs.items():
        name = node.output[k] if k < len(node.output) else ""
        if k == 0:
            name = name or scope.fresh(f"{symbol}.of")
        if name:
            scope.types[name] = TensorType(row, shape)
            if axis >= 0:
                scope.symbols[name] = tuple(symbol if a == axis else "" for a in range(len(shape)))
        outputs[k] = name
    while made.extent is None and outputs and not outputs[-1]:
        outputs.pop()
    inputs = tuple(node.input)
    name, results = op_name(node), (*outputs, symbol)
    scope.nodes.append(Node(name, inputs, results, attrs, scope.label(node)))
    return KEEP
