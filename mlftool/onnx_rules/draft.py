"""A typed node before it is kept, whose spelling a rule may change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlftool.ir.graph import Array, Node, TensorType
from mlftool.onnx_rules.scope import Scope


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
