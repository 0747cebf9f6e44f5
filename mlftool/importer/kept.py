"""Operators that are others, and what is left when no other stage has taken a node: it is kept, in
the current spelling.

%y = com.microsoft.QLinearSigmoid(%a)   =>   %y = QuantizeLinear(Sigmoid(DequantizeLinear(%a)))

So what onnxruntime's quantiser writes in operator format is what it writes as QDQ, and the same
passes make integer arithmetic of both.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from mlftool.importer.checks import facts
from mlftool.importer.functions import body_of, has_body, with_names_of
from mlftool.importer.protos import type_proto
from mlftool.importer.schema import opset_of, untaken
from mlftool.importer.structure import captures
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Node, TensorType
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.protos import domain_of, op_name
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Refuse, Scope
from mlftool.onnx_rules.steps import Steps, check_kinds, standing_for
from mlftool.ops import UnsupportedError
from mlftool.ops.base import known
from mlftool.ops.shapers import elements

MOST_ELEMENTS = 16  # of a shape or an index whose value is looked for


def expanded(scope: Scope, node: NodeProto) -> Outcome:
    """The other operators that this one stands for."""
    record = known(op_name(node))
    if record is None or record.expansion is None:
        return Next(node)
    text = untaken(node, opset_of(node, scope.opsets), scope.types)
    if text and domain_of(node) == "ai.onnx.ml":  # kernels take more than old opsets name
        return Refuse("MLF0303", text)
    types = [scope.types.get(n) for n in node.input]
    steps = Steps(node, types, scope.consts, scope.names)
    check_kinds(steps.attrs, record.kinds)
    try:
        record.expansion(steps)
    except UnsupportedError as error:
        return Refuse("MLF0302", str(error))
    return standing_for(scope, steps.made)


def inlined(scope: Scope, node: NodeProto) -> Outcome:
    """The operator's definition, if it has one and we have no kernel."""
    opset = scope.opsets[domain_of(node)]
    if known(op_name(node)) or not has_body(node, opset):
        return Next(node)
    types = [type_proto(scope.types[n], scope.symbols_of(n)) for n in node.input if n]
    body = body_of(node, opset, types)
    if body is None:
        return Next(node)
    imports = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in body.opset_import}
    flat = {n for n in node.input if n and not scope.types[n].shape}
    nodes = with_names_of(scope, node, body, opset, captures(node))
    return standing_for(scope, nodes, imports, flat)


def kept(scope: Scope, node: NodeProto) -> Outcome:
    f = facts(scope, node)
    outputs, label = list(node.output), node.name or node.op_type
    out_types = [scope.types[n] if n else f.output for n in outputs]
    draft = Draft(
        f.op, list(node.input), outputs, dict(f.attrs), f.inputs, out_types, f.values, label
    )
    if not domain_of(node):
        modernise(scope, draft)
    if draft.out_shape and min(draft.out_shape) < 0:
        said = ",".join(map(str, draft.out_shape))
        text = f"output '{draft.outputs[0]}' has shape {said}; expected none negative"
        return Refuse("MLF0206", text)
    for out in filter(None, draft.outputs if draft.out_shape else ()):
        scope.types[out] = TensorType(scope.types[out].dtype, draft.out_shape)
    inputs, made = _used(draft.inputs), _used(draft.outputs)
    scope.nodes.append(Node(draft.op, inputs, made, draft.attrs, scope.label(node)))
    if (value := _certain(scope, scope.nodes[-1])) is not None:
        scope.add_const(scope.nodes.pop().result, value)
    return KEEP


def _certain(scope: Scope, node: Node) -> Array | None:
    """The value of a few integers that are computed of static extents of boxes, such as half of an
    axis."""
    type_ = scope.types[node.result]
    is_few = len(type_.shape) <= 1 and type_.elements <= MOST_ELEMENTS and len(node.outputs) == 1
    if not (scope.symbols and is_few and type_.dtype in (dtype.int32, dtype.int64)):
        return None
    found = [] if any(scope.symbols_of(node.result)) else elements(scope, node.result)
    if not found or not all(e.exact for e in found):
        return None
    return np.array([e.most for e in found], type_.dtype.numpy).reshape(type_.shape)


def modernise(scope: Scope, draft: Draft) -> None:
    """Rewrite `draft`, written for the scope's opset, into the current spelling: later stages only
    ever see that. Attributes that became inputs are inputs, derived ones are spelt out."""
    before = known(draft.op)
    for opset, change in before.older if before else ():
        if scope.opsets[""] < opset:
            change(scope, draft)
    record = known(draft.op)
    if record and record.resolve:
        record.resolve(scope, draft)


def _used(names: list[str]) -> tuple[str, ...]:
    """Without those at the end that were left out."""
    while names and not names[-1]:
        names = names[:-1]
    return tuple(names)
