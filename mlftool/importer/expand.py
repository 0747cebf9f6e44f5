"""Operators outside of the standard's own domain that are nothing but others: a node becomes the
nodes it stands for, in the newest opset.

%y = com.microsoft.QLinearAdd(%a, ...)   =>   %fa = DequantizeLinear(%a, ...); %fb = ...
                                              %f = Add(%fa, %fb); %y = QuantizeLinear(%f, ...)

So what onnxruntime's quantiser writes in operator format is what it writes as QDQ, and the same
passes make integer arithmetic of both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from mlftool.importer.interface import declare_sources
from mlftool.importer.protos import attributes, op_name, plain
from mlftool.importer.schema import attribute_kinds, check_kinds
from mlftool.importer.scope import Next, Outcome, Refuse, Replace, Rule, Scope
from mlftool.ir.graph import TensorType
from mlftool.ops import UnsupportedError

OPSETS = {
    "": onnx.defs.onnx_opset_version(),
    "ai.onnx.ml": onnx.defs.onnx_ml_opset_version(),
    "mlf": 1,
}


class _Attributes(dict[str, Any]):
    """Attributes of a node; the domains of expansions have no schemas that demand them."""

    def __missing__(self, name: str) -> Any:
        raise Refuse("MLF0303", f"lacks attribute '{name}'")


class Steps:
    """The nodes that take the place of `node`; a call adds one and returns its value's name."""

    def __init__(self, node: NodeProto, types: Sequence[TensorType | None]) -> None:
        self.node, self.types = node, types
        self.made: list[NodeProto] = []
        values = {name: plain(value) for name, value in attributes(node).items()}
        self.attrs: dict[str, Any] = _Attributes(values)

    def __call__(self, op: str, *inputs: str, out: int | None = None, **attrs: Any) -> str:
        """`out`: which output of the node this is, if it is one."""
        attrs = {name: value for name, value in attrs.items() if value != []}
        domain, _, kind = op.rpartition(".")
        name = self.node.output[out] if out is not None else ""
        name = name or f"{next(filter(None, self.node.output))}.{len(self.made)}"
        label = f"{self.node.name or self.node.op_type}/{kind}_{len(self.made)}"
        self.made.append(
            helper.make_node(kind, list(inputs), [name], label, domain=domain, **attrs)
        )
        return name

    def x(self, i: int) -> str:
        """The node's input `i`, "" if it was left out."""
        return str(self.node.input[i]) if i < len(self.node.input) else ""

    def type(self, i: int) -> TensorType:
        """Of input `i`. Raises Refuse if it was left out."""
        found = self.types[i] if i < len(self.types) else None
        if found is None:
            raise Refuse("MLF0303", f"lacks input {i}")
        return found

    def shape(self, i: int, least: int, most: int | None = None) -> tuple[int, ...]:
        """Of input `i`. Raises Refuse if it has not `least` axes, or not up to `most` where given;
        -1 for any number."""
        shape = self.type(i).shape
        most = least if most is None else most
        if len(shape) < least or len(shape) > most >= 0:
            wanted = str(least) if least == most else f"{least} or more"
            text = f"input '{self.x(i)}' has {len(shape)} axes; expected {wanted}"
            raise Refuse("MLF0303", text)
        return shape

    def known_to(self, op: str) -> dict[str, Any]:
        """The attributes. Raises Refuse where `op` of the standard has not the same."""
        kinds = attribute_kinds(op, OPSETS[""], "")
        unknown = next((name for name in self.attrs if name not in kinds), None)
        if unknown is not None:
            raise Refuse("MLF0303", f"has attribute '{unknown}', which {op} does not know")
        check_kinds(self.attrs, kinds)
        return self.attrs

    def wants(self, i: int) -> bool:
        return i < len(self.node.output) and self.node.output[i] != ""

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        try:
            tensor = numpy_helper.from_array(np.asarray(value, dtype))
        except (OverflowError, TypeError, ValueError):
            text = f"{str(value)[:60]} is no value of type {np.dtype(dtype).name}"
            raise Refuse("MLF0303", text) from None
        return self("Constant", value=tensor)

    def dq(self, first: int, axis: int = 1) -> str:
        """Dequantised: inputs `first`, its scale and its zero point. A vector of scales runs along
        `axis`."""
        by = filter(None, (self.x(first + k) for k in range(3)))
        return self("DequantizeLinear", *by, axis=axis)

    def q(self, value: str, scale: int) -> str:
        """The node's result: `value` by the scale and zero point from input `scale` on."""
        zero = self.x(scale + 1)
        if not zero:
            zero = self.const(0, self.type(0).dtype.numpy)
        return self("QuantizeLinear", value, self.x(scale), zero, out=0)


def standing_for(
    scope: Scope,
    nodes: Sequence[NodeProto],
    opsets: Mapping[str, int] = OPSETS,
    flat: Collection[str] = (),
) -> Replace:
    """Nodes that take the place of another, written for `opsets`; `flat` inputs are scalars."""
    declare_sources(nodes, scope.declared, flat)
    return Replace(nodes, replace(scope, opsets={**scope.opsets, **opsets}))


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
