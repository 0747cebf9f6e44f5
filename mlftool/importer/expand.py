"""Operators outside of the standard's own domain that are nothing but others: a node becomes the
nodes it stands for, in the newest opset.

%y = com.microsoft.QLinearAdd(%a, ...)   =>   %fa = DequantizeLinear(%a, ...); %fb = ...
                                              %f = Add(%fa, %fb); %y = QuantizeLinear(%f, ...)

So what onnxruntime's quantiser writes in operator format is what it writes as QDQ, and the same
passes make integer arithmetic of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from mlftool.importer.protos import plain
from mlftool.ir.graph import TensorType

OPSETS = {
    "": onnx.defs.onnx_opset_version(),
    "ai.onnx.ml": onnx.defs.onnx_ml_opset_version(),
    "mlf": 1,
}


class Steps:
    """The nodes that take the place of `node`; a call adds one and returns its value's name."""

    def __init__(self, node: NodeProto, types: Sequence[TensorType | None]) -> None:
        self.node, self.types = node, types
        self.made: list[NodeProto] = []
        self.attrs = {a.name: plain(helper.get_attribute_value(a)) for a in node.attribute}

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
        """Of input `i`. Raises IndexError if it was left out."""
        found = self.types[i]
        if found is None:
            raise IndexError(i)
        return found

    def wants(self, i: int) -> bool:
        return i < len(self.node.output) and self.node.output[i] != ""

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        return self("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

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


Expansion = Callable[[Steps], None]
EXPANSIONS: dict[str, Expansion] = {}


def expands(*names: str) -> Callable[[Expansion], Expansion]:
    """Register the function below as what `names` stand for."""

    def register(expansion: Expansion) -> Expansion:
        EXPANSIONS.update(dict.fromkeys(names, expansion))
        return expansion

    return register


def standard_form(node: NodeProto) -> NodeProto:
    """`node` without attributes of our own, which onnx would not take."""
    if not any(a.name.startswith("mlf.") for a in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if not a.name.startswith("mlf."))
    return copy
