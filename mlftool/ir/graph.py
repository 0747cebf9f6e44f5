"""What is computed: tensors by name, nodes in order. Frozen; every pass returns a new Graph.

Values are names, as in ONNX: a graph prints, compares and hashes without pointers, and `types` and
`consts` are the only side tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from mlftool.errors import Problem
from mlftool.frozen import field, frozen, replace
from mlftool.ir.dtype import DType

T = TypeVar("T")
Array = np.ndarray[Any, Any]


@frozen
class TensorType:
    """Element type and static shape; `()` is a scalar and an extent may be 0."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.dtype.size(self.elements)

    def __str__(self) -> str:
        return f"{self.dtype}[{'x'.join(map(str, self.shape))}]"


def element(name: str, k: int) -> str:
    """The name of element `k` of an input or output that is a sequence in the model."""
    return f"{name}.{k}"


@frozen
class Node:
    """One operator application.

    `op` is ONNX's name, prefixed by its domain unless that is the default one. Omitted optional
    inputs are "". A node made by fusion keeps the nodes it stands for in `body`, in order; exactly
    one of them, the core, has this node's `op` and `attrs`, the others are elementwise.

    `graphs` are the subgraphs of control flow, by ONNX's attribute. They are closed: their inputs
    are the formal ones and then what they read of this graph, which this node's inputs end with.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    body: tuple[Node, ...] = ()
    graphs: Mapping[str, Graph] = field(default_factory=dict)

    @property
    def core(self) -> Node:
        """The node whose kernel computes this one; the rest of the body rides along."""
        return next((n for n in self.body if n.op == self.op), self)

    @property
    def result(self) -> str:
        """The first output; the standard allows to leave out all but one."""
        return next(name for name in self.outputs if name)

    @property
    def label(self) -> str:
        """How messages name this node."""
        return f"node '{self.name}' ({self.op})"


@frozen
class State:
    """What a model keeps from one call to the next: the input that reads it, the output that holds
    the next one, and what it is at first."""

    input: str
    output: str
    start: Array


@frozen
class Graph:
    """A model. Nodes are in execution order; inputs, consts and node outputs are all typed.

    `states` are kept from call to call: by the module itself if they are in `kept`, else by who
    calls it. `quantised` has the scale and zero point of inputs and
    outputs whose file says what their integers stand for; elsewhere a node that quantises says so.
    `remarks` are warnings about the file.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    consts: Mapping[str, Array]
    states: tuple[State, ...] = ()
    quantised: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    kept: tuple[State, ...] = ()
    remarks: tuple[Problem, ...] = ()

    @property
    def taken(self) -> tuple[str, ...]:
        """The inputs that a caller gives."""
        return tuple(n for n in self.inputs if n not in {s.input for s in self.kept})

    @property
    def given(self) -> tuple[str, ...]:
        """The outputs that a caller gets."""
        return tuple(n for n in self.outputs if n not in {s.output for s in self.kept})

    def replace(self, **changes: Any) -> Graph:
        return replace(self, **changes)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        def show(name: str) -> str:
            if name in self.consts:
                value = self.consts[name]
                return f"{value.item()!r}" if value.size == 1 else f"<{self.types[name]}>"
            return f"%{name}" if name else "_"

        ins = ", ".join(f"%{n}: {self.types[n]}" for n in self.inputs)
        yield f"graph {self.name}({ins}) {{"
        for node in self.nodes:
            attrs = "".join(f" {k}={v}" for k, v in sorted(node.attrs.items()))
            outs = ", ".join(f"%{n}: {self.types[n]}" for n in node.outputs)
            args = ", ".join(map(show, node.inputs))
            body = " { " + "; ".join(n.op for n in node.body) + " }" if node.body else ""
            yield f"  {outs} = {node.op}({args}){attrs}{body}"
            for key, graph in node.graphs.items():
                yield from (f"    {line}" for line in graph.replace(name=key)._lines())
        yield "  return " + ", ".join(f"%{n}" for n in self.outputs)
        yield "}"


@frozen
class View:
    """A node seen with the types and constants of its graph; what kernels are given.

    All bids for a node share one view, so what `once` keeps is worked out once for all of them.
    """

    graph: Graph
    node: Node
    _kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` gives, which depends on the node and `key` alone."""
        if key not in self._kept:
            self._kept[key] = make()
        result: T = self._kept[key]
        return result

    @cached_property
    def core(self) -> Node:
        return self.node.core

    def has(self, i: int) -> bool:
        """Whether the core's input `i` is there (optional inputs may be left out)."""
        return i < len(self.core.inputs) and self.core.inputs[i] != ""

    def type(self, name: str) -> TensorType:
        return self.graph.types[name]

    def x(self, i: int) -> TensorType:
        """Type of the core's input `i`."""
        return self.graph.types[self.core.inputs[i]]

    @property
    def y(self) -> TensorType:
        """Type of the core's first output, before any fused epilogue."""
        return self.graph.types[self.core.result]

    @property
    def out(self) -> TensorType:
        """Type of the first output that is stored."""
        return self.graph.types[self.node.result]

    def const(self, i: int) -> Array | None:
        """Value of the core's input `i` if it is known at compile time."""
        return self.graph.consts.get(self.core.inputs[i]) if self.has(i) else None

    def known(self, i: int) -> Array:
        """Like `const`, for inputs that earlier passes made sure are constant."""
        value = self.const(i)
        assert value is not None, f"{self.node.label}: input {i} is not constant"
        return value

    def attr(self, name: str, default: Any = None) -> Any:
        return self.core.attrs.get(name, default)
