"""A typed node before it is kept, whose spelling a rule may change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlftool.ir.graph import Array, Node, TensorType
from mlftool.onnx_rules.scope import Refuse, Scope


@dataclass
class Draft:
    """The parts of one node; types and values of inputs that were left out are None."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]
    types: Sequence[TensorType | None]
    out_types: Sequence[TensorType]
    values: Sequence[Array | None]  # of inputs that are known
    label: str  # of the node in the model
    out_shape: tuple[int, ...] = ()  # of every output, where inference is known to be wrong

    def constant(self, scope: Scope, hint: str, value: Array) -> str:
        """A new constant for this node; returns its name."""
        return scope.new_const(f"{self.outputs[0]}.{hint}", value)

    def reshaped(self, scope: Scope, x: str, type_: TensorType) -> str:
        """A node before this one that makes `type_` of `x`; returns the name of its value."""
        name = scope.fresh(f"{self.outputs[0]}.{x}")
        scope.types[name] = type_
        scope.nodes.append(Node("Reshape", (x,), (name,), {}, f"{self.label} Reshape"))
        return name


Change = Callable[[Scope, Draft], None]


EVERY_OPSET = 1 << 31  # of operators that are no more than another's old name


def attr_to_input(attr: str, position: int) -> Change:
    """What was an attribute is input `position`."""

    def change(scope: Scope, d: Draft) -> None:
        if attr in d.attrs and len(d.inputs) <= position:
            value = np.asarray(d.attrs.pop(attr), np.int64)
            d.inputs += [""] * (position - len(d.inputs))
            d.inputs.append(d.constant(scope, attr, value))

    return change


def flattened(scope: Scope, d: Draft) -> None:
    """Before 13 Softmax flattened to 2-D at `axis` (default 1); equal when axis is the last."""
    x, axis = d.types[0], d.attrs.get("axis", 1)
    if x is None or axis >= len(x.shape):
        raise Refuse("MLF0303", f"axis {axis}; expected one of the axes of {x}")
    d.attrs["axis"] = axis % len(x.shape)
    if math.prod(x.shape[axis:]) == x.shape[axis]:
        return
    d.attrs["mlf.flattened"] = 1
