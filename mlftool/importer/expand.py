"""Operators outside of the standard's own domain that are nothing but others: a node becomes the
nodes it stands for, in the newest opset.

%y = com.microsoft.QLinearAdd(%a, ...)   =>   %fa = DequantizeLinear(%a, ...); %fb = ...
                                              %f = Add(%fa, %fb); %y = QuantizeLinear(%f, ...)

So what onnxruntime's quantiser writes in operator format is what it writes as QDQ, and the same
passes make integer arithmetic of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import NodeProto

from mlftool.onnx_rules.protos import op_name
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Rule, Scope
from mlftool.onnx_rules.steps import Steps, check_kinds, standing_for
from mlftool.ops import UnsupportedError

Expansion = Callable[[Steps], None]
EXPANSIONS: dict[str, Rule] = {}


def expands(
    *names: str, kinds: Mapping[str, str] | None = None
) -> Callable[[Expansion], Expansion]:
    """Register the function below as what `names` stand for; `kinds` are those of attributes."""

    def register(expansion: Expansion) -> Expansion:
        def rule(scope: Scope, node: NodeProto) -> Outcome:
            steps = Steps(node, [scope.types.get(n) for n in node.input])
            check_kinds(steps.attrs, kinds or {})
            try:
                expansion(steps)
            except UnsupportedError as error:
                return Refuse("MLF0302", str(error))
            return standing_for(scope, steps.made)

        EXPANSIONS.update(dict.fromkeys(names, rule))
        return expansion

    return register


def expanded(scope: Scope, node: NodeProto) -> Outcome:
    """The other operators that this one stands for."""
    rule = EXPANSIONS.get(op_name(node))
    return rule(scope, node) if rule else Next(node)


def standard_form(node: NodeProto) -> NodeProto:
    """`node` without attributes of our own, which onnx would not take."""
    if not any(a.name.startswith("mlf.") for a in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if not a.name.startswith("mlf."))
    return copy
