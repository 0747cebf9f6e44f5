"""C expressions over one element: literals, operands, and the bodies of fused nodes.

The elementwise family writes expressions with these, and every kernel that fuses a prologue or an
epilogue calls `Body` to turn the fused nodes into C statements, so fused and unfused arithmetic is
the same text and gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlftool.ir.dtype import DType
from mlftool.ir.graph import Graph, Node, TensorType, View
from mlftool.ops.base import Operand


@dataclass(frozen=True)
class Scalar:
    """A C expression of one element; `value` if it is known at compile time."""

    c: str
    dtype: DType
    value: float | int | None = None

    def __str__(self) -> str:
        return self.c


def literal(value: Any, dtype: DType) -> str:
    """`value` as a C constant of type `dtype`, exactly."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        number = int(value)
        suffix = "U" if dtype.kind == "u" and dtype.bits >= 32 else ""
        if number == -(1 << 63):
            return "(-INT64_C(9223372036854775807) - 1)"
        if dtype.bits == 64:
            return f"INT64_C({number})" if dtype.kind == "i" else f"UINT64_C({number})"
        if number == -(1 << 31):
            return "(-2147483647 - 1)"
        return f"{number}{suffix}" if number >= 0 else f"({number})"
    number = dtype.numpy.type(value)
    if math.isnan(number):
        text = "NAN"
    elif math.isinf(number):
        text = "INFINITY"
    else:
        # Shortest decimal that reads back as the same value.
        text = np.format_float_scientific(abs(number), unique=True, trim="0", exp_digits=1)
        _, exponent = text.split("e")
        if -5 < int(exponent) < 7:
            text = np.format_float_positional(abs(number), unique=True, trim="0")
        text += "f" if dtype.bits == 32 else ""
    return f"-{text}" if np.signbit(number) and not math.isnan(number) else text


ExprFn = Callable[..., str]
# operator -> function(node, out dtype, operands) -> C expression; filled by ops.elementwise.
EXPRESSIONS: dict[str, Callable[[Node, DType, Sequence[Scalar | None]], str]] = {}
# operator -> headers its expression needs beside mlf/kernel.h
INCLUDES: dict[str, tuple[str, ...]] = {}


class Body:
    """The statements of a chain of elementwise nodes, reading values through `load`.

    `env` maps value names to scalars that are at hand; all else is asked from `load`.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        env: Mapping[str, Scalar],
        load: Callable[[str], Scalar],
        prefix: str = "t",
    ) -> None:
        self.statements: list[str] = []
        self.includes: list[str] = []
        self.env = dict(env)
        for node in nodes:
            args = [self._get(graph, name, load) if name else None for name in node.inputs]
            dtype = graph.types[node.outputs[0]].dtype
            text = EXPRESSIONS[node.op](node, dtype, args)
            if not dtype.is_float:
                text = f"({dtype.c})({text})"
            name = f"{prefix}{len(self.statements)}"
            self.statements.append(f"const {dtype.c} {name} = {text};")
            self.env[node.outputs[0]] = Scalar(name, dtype)
            self.includes += [i for i in INCLUDES.get(node.op, ()) if i not in self.includes]

    def _get(self, graph: Graph, name: str, load: Callable[[str], Scalar]) -> Scalar:
        if name not in self.env:
            value = graph.consts.get(name)
            dtype = graph.types[name].dtype
            if value is not None and value.size == 1:
                self.env[name] = Scalar(literal(value.item(), dtype), dtype, value.item())
            else:
                self.env[name] = load(name)
        return self.env[name]


def operand_kind(type_: TensorType, out: TensorType) -> str | None:
    """How a fused operand is indexed beside an output: "scalar", "channel" (last axis), "linear".

    None if it broadcasts in any other way; such an operand is not fused into a kernel with a core.
    """
    if type_.elements == 1:
        return "scalar"
    if type_.elements == out.elements and _squeezed(type_.shape) == _squeezed(out.shape):
        return "linear"
    if out.shape and type_.elements == out.shape[-1] == (type_.shape or (0,))[-1]:
        return "channel"
    return None


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


class Store:
    """What a kernel does with a finished element: the node's fused epilogue, then the store.

    `result` is the expression to store; `statements` come before it. `linear` and `channel` are the
    C indices of the element in the output and of its last axis.
    """

    def __init__(self, v: View, acc: str, linear: str, channel: str) -> None:
        nodes = v.node.body[v.node.body.index(v.core) + 1 :] if v.node.body else ()
        self.operands: list[Operand] = []
        self._graph, self._out, self._index = (
            v.graph,
            v.out,
            {"linear": linear, "channel": channel, "scalar": "0"},
        )
        env = {v.core.outputs[0]: Scalar(acc, v.y.dtype)}
        body = Body(v.graph, nodes, env, self._load)
        self.statements = body.statements
        self.includes = tuple(body.includes)
        self.result = str(body.env[v.node.outputs[0]])
        # What the core reads must stay whole until the last element is stored.
        before = v.node.body[: v.node.body.index(v.core) + 1] if v.node.body else (v.core,)
        kept = {name for n in before for name in n.inputs}
        self.inplace = tuple(
            o.value
            for o in self.operands
            if o.role == "in"
            and o.value not in kept
            and v.type(o.value).bytes == v.out.bytes
            and operand_kind(v.type(o.value), v.out) == "linear"
        )
        self.ops = len(nodes)

    def _load(self, name: str) -> Scalar:
        type_ = self._graph.types[name]
        kind = operand_kind(type_, self._out)
        assert kind, name
        param = f"e{len(self.operands)}"
        self.operands.append(tensor_operand(self._graph, param, name))
        return Scalar(f"{param}[{self._index[kind]}]", type_.dtype)


def tensor_operand(graph: Graph, param: str, name: str) -> Operand:
    """The parameter through which a kernel reads tensor `name`, constant or not."""
    ctype = graph.types[name].dtype.c
    if name in graph.consts:
        return Operand(param, ctype, "const", value=name, array=graph.consts[name])
    return Operand(param, ctype, "in", value=name)


class Load:
    """What a kernel does with an element it reads: the node's fused prologue on input 0.

    `expr(c)` wraps the C text of the raw element. `tensor` is what is really read.
    """

    def __init__(self, v: View) -> None:
        nodes = v.node.body[: v.node.body.index(v.core)] if v.node.body else ()
        self.includes = tuple(dict.fromkeys(i for node in nodes for i in INCLUDES.get(node.op, ())))
        self._graph, self._nodes = v.graph, nodes
        self._result = v.core.inputs[0]
        self.tensor = nodes[0].inputs[0] if nodes else v.core.inputs[0]
        self.dtype = v.type(self.tensor).dtype

    def expr(self, c: str) -> str:
        """The value the core sees, given the C text of the stored element."""
        text = c
        env = {self.tensor: Scalar(c, self.dtype)}
        for node in self._nodes:
            args = [env[i] if i in env else self._const(i) if i else None for i in node.inputs]
            dtype = self._graph.types[node.outputs[0]].dtype
            text = f"({EXPRESSIONS[node.op](node, dtype, args)})"
            if not dtype.is_float:
                text = f"(({dtype.c}){text})"
            env[node.outputs[0]] = Scalar(text, dtype)
        return text

    def _const(self, name: str) -> Scalar:
        value, dtype = self._graph.consts[name], self._graph.types[name].dtype
        return Scalar(literal(value.item(), dtype), dtype, value.item())
