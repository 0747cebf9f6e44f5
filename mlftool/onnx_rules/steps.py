"""A node in terms of others: rules name them one by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import plain_attributes
from mlftool.onnx_rules.scope import Refuse, Replace, Scope

OPSETS = {
    "": onnx.defs.onnx_opset_version(),
    "ai.onnx.ml": onnx.defs.onnx_ml_opset_version(),
    "mlf": 1,
}


_OF_KIND: Mapping[str, tuple[tuple[type, ...], str]] = {
    "INT": ((int,), "whole number"),
    "FLOAT": ((int, float), "number"),
    "STRING": ((str,), "string"),
}


def attribute_kinds(op: str, opset: int, domain: str) -> Mapping[str, str]:
    """The kind of each attribute that an operator has in an opset: INT, FLOATS ..."""
    schema = onnx.defs.get_schema(op, opset, domain)
    return {name: str(a.type).rpartition(".")[2] for name, a in schema.attributes.items()}


def check_kinds(attrs: Mapping[str, Any], kinds: Mapping[str, str]) -> None:
    """Raise Refuse for an attribute, as a value of Python, of another kind than in `kinds`."""
    for name, value in attrs.items():
        kind = kinds.get(name, "")
        types, word = _OF_KIND.get(kind.removesuffix("S"), ((object,), ""))
        several = kind.endswith("S")
        given = value if several and isinstance(value, list) else [value]
        if (several != isinstance(value, list) and word) or not all(
            isinstance(v, types) for v in given
        ):
            wanted = f"a list of {word}s" if several else f"a {word}"
            text = f"attribute '{name}' is {str(value)[:60]}; expected {wanted}"
            raise Refuse("MLF0303", text)


class _Attributes(dict[str, Any]):
    """Attributes of a node; the domains of expansions have no schemas that demand them."""

    def __missing__(self, name: str) -> Any:
        raise Refuse("MLF0303", f"lacks attribute '{name}'")


class Steps:
    """The nodes that take the place of `node`; a call adds one and returns its value's name, which
    is none of those `taken`: torch.jit names values x.1, x.2 ..."""

    def __init__(
        self,
        node: NodeProto,
        types: Sequence[TensorType | None],
        consts: Mapping[str, Any] | None = None,
        taken: Collection[str] = (),
    ) -> None:
        self.node, self.types, self.consts, self.taken = node, types, consts or {}, taken
        self.made: list[NodeProto] = []
        self.attrs: dict[str, Any] = _Attributes(plain_attributes(node))

    def __call__(self, op: str, *inputs: str, out: int | None = None, **attrs: Any) -> str:
        """`out`: which output of the node this is, if it is one."""
        attrs = {name: value for name, value in attrs.items() if value != []}
        domain, _, kind = op.rpartition(".")
        name = self.node.output[out] if out is not None else ""
        name = name or self.fresh(f"{next(filter(None, self.node.output))}.{len(self.made)}")
        label = f"{self.node.name or self.node.op_type}/{kind}_{len(self.made)}"
        self.made.append(
            helper.make_node(kind, list(inputs), [name], label, domain=domain, **attrs)
        )
        return name

    def fresh(self, hint: str) -> str:
        """A name that no value of the model has."""
        while hint in self.taken:
            hint += "_"
        return hint

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
            text = f"{str(value)[:60]} is not a value of type {np.dtype(dtype).name}"
            raise Refuse("MLF0303", text) from None
        return self("Constant", value=tensor)

    def dq(self, first: int, axis: int | None = None) -> str:
        """Dequantised: inputs `first`, its scale and its zero point. A vector of scales runs along
        `axis`, without which there is one scale."""
        by = list(filter(None, (self.x(first + k) for k in range(3))))
        if axis is None:
            self.one(first + 1)
            return self("DequantizeLinear", *by)
        return self("DequantizeLinear", *by, axis=axis)

    def one(self, i: int) -> None:
        """Raise Refuse if input `i`, a scale or zero point, has several elements."""
        found = self.types[i] if i < len(self.types) else None
        if found is not None and found.elements != 1:
            kind = "scale" if found.dtype.is_float else "zero point"
            text = f"{kind} '{self.x(i)}' has {found.elements} elements; expected 1"
            raise Refuse("MLF0303", text)

    def q(self, value: str, scale: int, by: str = "", **attrs: Any) -> str:
        """The result: `value` by scale `by` or input `scale`, and the zero point after that."""
        zero = self.x(scale + 1)
        self.one(scale)
        if not zero:
            zero = self.const(0, self.type(0).dtype.numpy)
        return self("QuantizeLinear", value, by or self.x(scale), zero, out=0, **attrs)


def standing_for(
    scope: Scope,
    nodes: Sequence[NodeProto],
    opsets: Mapping[str, int] = OPSETS,
    flat: Collection[str] = (),
) -> Replace:
    """Nodes that take the place of another, written for `opsets`; `flat` inputs are scalars."""
    return Replace(nodes, replace(scope, opsets={**scope.opsets, **opsets}), scalars=flat)
