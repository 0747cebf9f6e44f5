"""The training operators Adagrad, Adam and Momentum by others: the standard defines them in words.

Each updates any number of tensors, which are given kind by kind: all X, all gradients, all states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import FunctionProto, NodeProto, helper

DOMAIN = "ai.onnx.preview.training"

# Of one tensor: {k} is its number. `values` below are the attributes as scalars of the same name.
_GRADIENT = "penalty{k} = Mul(norm_coefficient, X{k}) G_{k} = Add(penalty{k}, G{k})"
_ADAGRAD = """
    square{k} = Mul(G_{k}, G_{k})  H{k}_new = Add(H{k}, square{k})
    root{k} = Sqrt(H{k}_new)  size{k} = Add(root{k}, epsilon)
    step{k} = Mul(rate, G_{k})  scaled{k} = Div(step{k}, size{k})
    X{k}_new = Sub(X{k}, scaled{k})"""
_ADAM = """
    old_v{k} = Mul(alpha, V{k})  new_v{k} = Mul(rest_alpha, G_{k})
    V{k}_new = Add(old_v{k}, new_v{k})
    square{k} = Mul(G_{k}, G_{k})  old_h{k} = Mul(beta, H{k})
    new_h{k} = Mul(rest_beta, square{k})  H{k}_new = Add(old_h{k}, new_h{k})
    root{k} = Sqrt(H{k}_new)  size{k} = Add(root{k}, epsilon)
    scaled{k} = Div(V{k}_new, size{k})  step{k} = Mul(rate, scaled{k})
    moved{k} = Sub(X{k}, step{k})  X{k}_new = Mul(rest_post, moved{k})"""
_MOMENTUM = """
    old{k} = Mul(alpha, V{k})  new{k} = Mul(rate_g, G_{k})  V{k}_new = Add(old{k}, new{k})
    {ahead}  step{k} = Mul(R, both{k})  X{k}_new = Sub(X{k}, step{k})"""
# Momentum steps by the new state, or by what that is one step ahead.
_NESTEROV = "ahead{k} = Mul(alpha, V{k}_new)  both{k} = Add(G_{k}, ahead{k})"
# Before the tensors: what depends on the rate R and the count T of updates so far.
_FIRST = (
    "one = Constant<value_float = 1.0>() zero = Constant<value_float = 0.0>() t = Cast<to = 1>(T)"
)
_RATES = {
    "Adagrad": """late = Mul(t, decay_factor)  slower = Add(one, late)  rate = Div(R, slower)""",
    "Adam": """rest_alpha = Sub(one, alpha)  rest_beta = Sub(one, beta)
        rest_post = Sub(one, norm_coefficient_post)
        beta_t = Pow(beta, t)  alpha_t = Pow(alpha, t)
        seen_beta = Sub(one, beta_t)  seen_alpha = Sub(one, alpha_t)
        root = Sqrt(seen_beta)  raised = Mul(R, root)  adjusted = Div(raised, seen_alpha)
        begun = Greater(t, zero)  rate = Where(begun, adjusted, R)""",
    "Momentum": "begun = Greater(t, zero)  rate_g = Where(begun, beta, one)",
}
_STATES = {"Adagrad": "XGH", "Adam": "XGVH", "Momentum": "XGV"}


def is_optimiser(node: NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type in _STATES


def is_whole(node: NodeProto) -> bool:
    """Whether there are as many values and states of each tensor as the operator needs."""
    return len(node.input) > 2 and (len(node.input) - 2) % len(_STATES[node.op_type]) == 0


def body(node: NodeProto) -> FunctionProto:
    """The function that `node` stands for."""
    states = _STATES[node.op_type]
    count = (len(node.input) - 2) // len(states)
    inputs = [f"{s}{k}" for s in states for k in range(count)]
    outputs = [f"{s}{k}_new" for s in states if s != "G" for k in range(count)]
    attrs = _attributes(node)
    each = {"Adagrad": _ADAGRAD, "Adam": _ADAM, "Momentum": _MOMENTUM}[node.op_type]
    ahead = _NESTEROV if attrs.get("mode") == b"nesterov" else "both{k} = Identity(V{k}_new)"
    each = _GRADIENT + each.replace("{ahead}", ahead)
    constants = " ".join(
        f"{name} = Constant<value_float = {float(value)!r}>()"
        for name, value in attrs.items()
        if name != "mode"
    )
    steps = " ".join(each.format(k=k) for k in range(count))
    return onnx.parser.parse_function(
        f'<domain: "{DOMAIN}", opset_import: ["" : 21]>\n'
        f"{node.op_type} (R, T, {', '.join(inputs)}) => ({', '.join(outputs)}) "
        f"{{ {_FIRST} {constants} {_RATES[node.op_type]} {steps} }}"
    )


def _attributes(node: NodeProto) -> Mapping[str, Any]:
    schema = onnx.defs.get_schema(node.op_type, 1, DOMAIN)
    defaults = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}
    given = {**defaults, **{a.name: a for a in node.attribute}}
    return {name: helper.get_attribute_value(a) for name, a in given.items()}
