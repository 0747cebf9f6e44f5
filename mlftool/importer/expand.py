"""Operators that are nothing but others: a node becomes the nodes it stands for, in the newest
opset, where its record says which (`expansion`).

%y = com.microsoft.QLinearAdd(%a, ...)   =>   %fa = DequantizeLinear(%a, ...); %fb = ...
                                              %f = Add(%fa, %fb); %y = QuantizeLinear(%f, ...)

So what onnxruntime's quantiser writes in operator format is what it writes as QDQ, and the same
passes make integer arithmetic of both.
"""

from __future__ import annotations

from onnx import NodeProto

from mlftool.onnx_rules.protos import op_name
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Scope
from mlftool.onnx_rules.steps import Steps, check_kinds, standing_for
from mlftool.ops import UnsupportedError
from mlftool.ops.base import known


def expanded(scope: Scope, node: NodeProto) -> Outcome:
    """The other operators that this one stands for."""
    record = known(op_name(node))
    if record is None or record.expansion is None:
        return Next(node)
    steps = Steps(node, [scope.types.get(n) for n in node.input])
    check_kinds(steps.attrs, record.kinds)
    try:
        record.expansion(steps)
    except UnsupportedError as error:
        return Refuse("MLF0302", str(error))
    return standing_for(scope, steps.made)
