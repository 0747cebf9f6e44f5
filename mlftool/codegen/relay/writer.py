"""Relay's lexis, and the lines of a function while they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlftool.codegen.names import comment, sanitise
from mlftool.frozen import frozen
from mlftool.ir.graph import Array, Graph, Node, TensorType

_WORDS = "let fn def if else type match extern free_var ref ref_read ref_write True False None"
LONGEST_NAME = 48
_KEYWORDS = frozenset(_WORDS.split())
# How literals of a type end; those of other types are cast.
_SUFFIX = {"float32": "f", "float64": "f64", "float16": "f16", "int32": "", "int64": "i64"}


def tensor_type(t: TensorType) -> str:
    return f"Tensor[({', '.join(map(str, t.shape))}), {t.dtype}]"


def local_names(names: Iterable[str], taken: set[str]) -> dict[str, str]:
    """A %name for each, none of `taken`, which grows. Converters join the names of all that they
    fused, which says little after the first."""
    result: dict[str, str] = {}
    for name in names:
        base = sanitise(name)[:LONGEST_NAME]
        # The lexer takes `inff` for a number wherever it stands.
        if not base or base[0].isdigit() or base in _KEYWORDS | {"_"} or base.startswith("inff"):
            base = "v" + base
        local, k = base, 1
        while local in taken:
            local, k = f"{base}_{k}", k + 1
        taken.add(local)
        result[name] = f"%{local}"
    return result


def attribute(value: Any) -> str:
    """The value of an attribute."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(attribute, value)) + "]"
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, str):
        return '"' + "".join(c if c.isprintable() and c not in '"\\' else "_" for c in value) + '"'
    if isinstance(value, (float, np.floating)):
        return number(float(value), "f")
    return str(int(value))


def number(value: float, suffix: str) -> str:
    """A float; without its suffix it would be read as an integer."""
    if np.isinf(value):
        return "-inff" if value < 0 else "inff"
    with np.errstate(over="ignore"):
        short = np.float32(value)
    return (str(short) if float(short) == value else repr(value)) + suffix


def indented(block: str) -> str:
    return block.replace("\n", "\n  ")


@dataclass
class Shared:
    """The state that a function and its blocks share."""

    taken: set[str] = field(default_factory=set)
    params: dict[str, Array] = field(default_factory=dict)  # constants, in order of use
    dialect: list[str] = field(default_factory=list)
    count: int = 0


@dataclass
class Body:
    """The lines of a block so far. `names` are those of inputs and constants."""

    graph: Graph
    names: Mapping[str, str]
    shared: Shared
    lines: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)  # a node's output -> expression
    once: dict[str, str] = field(default_factory=dict)  # expression -> name, where bound once

    @staticmethod
    def of(graph: Graph) -> Body:
        """The body of @main, whose names are the same whatever the nodes do with them."""
        shared = Shared()
        return Body(graph, local_names((*graph.inputs, *graph.consts), shared.taken), shared)

    def inside(self, inner: Graph, formals: Mapping[str, str]) -> Body:
        """A block for a subgraph; what it shares with this graph keeps its name."""
        here = self.graph.consts
        same = {n for n, c in inner.consts.items() if n in here and np.array_equal(here[n], c)}
        names = {n: self.names[n] for n in same}
        names |= local_names((n for n in inner.consts if n not in same), self.shared.taken)
        return Body(inner, names, self.shared, values=dict(formals))

    def expression(self, name: str) -> str:
        if name in self.values:
            return self.values[name]
        local = self.names[name]
        if name in self.graph.consts:
            self.shared.params.setdefault(local, self.graph.consts[name])
        return local

    def bind(self, expression: str) -> str:
        name = f"%{self.shared.count}"
        self.lines.append(f"  {name} = {expression};")
        self.shared.count += 1
        return name

    def bind_once(self, expression: str) -> str:
        """The name that this block has for `expression`, or a new one."""
        if expression not in self.once:
            self.once[expression] = self.bind(expression)
        return self.once[expression]

    def let(self, expression: str, type_: str, remark: str) -> str:
        (name,) = local_names(("onnx_value",), self.shared.taken).values()
        self.lines.append(f"  let {name}: {type_} = {expression}; /* {remark} */")
        return name

    def mark(self) -> tuple[int, int, int]:
        return len(self.lines), self.shared.count, len(self.shared.params)

    def back_to(self, mark: tuple[int, int, int]) -> None:
        """Removes the lines of a rule that gave up."""
        del self.lines[mark[0] :]
        gone = {f"%{k}" for k in range(mark[1], self.shared.count)}
        self.shared.count = mark[1]
        self.once = {e: name for e, name in self.once.items() if name not in gone}
        for name in list(self.shared.params)[mark[2] :]:
            del self.shared.params[name]

    def describe(self, mark: tuple[int, int, int], node: Node) -> None:
        """Adds a comment to the last line of `node`, if it has a line: its name, and its type if it
        has not the shape of the node's first tensor."""
        if len(self.lines) > mark[0]:
            types = [self.graph.types[o] for o in node.outputs if o]
            first = next((self.graph.types[i].shape for i in node.inputs if i), None)
            is_result = any(o in self.graph.outputs for o in node.outputs)
            is_seen = not is_result and all(t.shape == first for t in types)
            said = "" if is_seen else f"ty={', '.join(map(tensor_type, types))} "
            self.lines[-1] += f" /* {said}span={comment(node.name, 60)} */"


@frozen
class Site:
    """One node, as a rule of ir/relay.py reads and writes it. `block` writes a subgraph."""

    node: Node
    body: Body
    block: Callable[[Body], str]

    @property
    def odd(self) -> bool:
        """Whether an output that is not the last is left out: Relay's tuples have no holes."""
        return any(not o for o in self.node.outputs)

    @property
    def count(self) -> int:
        return len(self.node.inputs)

    @property
    def out(self) -> TensorType:
        return self.body.graph.types[self.node.result]

    @property
    def made(self) -> list[TensorType]:
        return [self.body.graph.types[o] for o in self.node.outputs]

    def bind(self, expression: str) -> str:
        return self.body.bind(expression)

    def branch(self, key: str) -> str:
        inner = self.node.graphs[key]
        formals = dict(zip(inner.inputs, (self.arg(i) for i in range(1, self.count)), strict=True))
        return indented(self.block(self.body.inside(inner, formals)))

    def has(self, index: int) -> bool:
        return index < self.count and bool(self.node.inputs[index])

    def type(self, index: int = 0) -> TensorType:
        return self.body.graph.types[self.node.inputs[index]]

    @property
    def rank(self) -> int:
        return len(self.type().shape)

    def const(self, index: int) -> Array | None:
        return self.body.graph.consts.get(self.node.inputs[index]) if self.has(index) else None

    def scalar(self, index: int, default: float | None = None) -> float | None:
        """The value of a constant with one element; `default` if it is left out."""
        if not self.has(index):
            return default
        value = self.const(index)
        return float(value.item()) if value is not None and value.size == 1 else None

    def ints(self, index: int) -> list[int] | None:
        value = self.const(index)
        return None if value is None else [int(v) for v in value.reshape(-1)]

    def attr(self, name: str, default: Any) -> Any:
        return self.node.attrs.get(name, default)

    def axis(self, default: int, rank: int | None = None) -> int:
        at = int(self.attr("axis", default))
        return at + (self.rank if rank is None else rank) if at < 0 else at

    def arg(self, index: int = 0) -> str:
        return self.body.expression(self.node.inputs[index])

    def args(self) -> list[str]:
        return [self.arg(i) for i in range(self.count)]

    def call(self, op: str, *arguments: str, **attrs: Any) -> str:
        """`%k = op(arguments, attrs)`; attributes that are None are left out."""
        named = [f"{k}={attribute(v)}" for k, v in attrs.items() if v is not None]
        return self.body.bind(f"{op}({', '.join([*arguments, *named])})")

    def cast(self, text: str, dtype: str) -> str:
        """`text` as `dtype`; a block casts the same value once."""
        return self.body.bind_once(f"cast({text}, dtype={attribute(dtype)})")

    def tuple(self, parts: Iterable[str]) -> str:
        members = list(parts)
        return self.body.bind(f"({', '.join(members)}{',' if len(members) == 1 else ''})")

    def literal(self, value: float, dtype: str | None = None) -> str:
        """A scalar constant of `dtype`, else of the first input's."""
        name = dtype or str(self.type().dtype)
        if name == "bool":
            return str(bool(value))
        if name.startswith("float") and name in _SUFFIX:
            return number(value, _SUFFIX[name])
        if name in _SUFFIX:
            return f"{int(value)}{_SUFFIX[name]}"
        text = number(value, "f") if name.startswith(("float", "bfloat")) else str(int(value))
        return self.cast(text, name)

    def single(self, index: int) -> str:
        """The input as a scalar: tensors with one element lose their axes."""
        shape = self.type(index).shape
        text = self.arg(index)
        return self.call("squeeze", text, axis=list(range(len(shape)))) if shape else text
