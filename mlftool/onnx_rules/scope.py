"""What is known at one place of a model while it is imported, and what a rule can say of a node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from onnx import FunctionProto, NodeProto, TypeProto

from mlftool.errors import Problem
from mlftool.frozen import field, frozen, replace
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Node, TensorType

Report = Callable[..., None]  # (code, message, path, help)
Symbols = tuple[str, ...]  # per axis: the tensor with its extent, "" where it is static


@frozen
class Scope:
    """The maps belong to a graph and grow while it is imported; what stands above them holds for
    one place in it, and `replace` derives a scope for another."""

    file: str
    input_shapes: Mapping[str, Sequence[int]]
    opsets: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[str, FunctionProto] = field(default_factory=dict)  # the model's own
    names: set[str] = field(default_factory=set)  # of all values in the model and in calls
    where: str = ""  # the node and attribute whose subgraph this is
    index: int = 0  # of the node that is imported, among those of its graph
    hidden: frozenset[str] = frozenset()  # tensors that are taken to fill their boxes
    problems: list[Problem] = field(default_factory=list)
    limits_used: set[str] = field(default_factory=set)  # of `input_shapes`, those within the model
    unbounded: dict[str, int] = field(default_factory=dict)  # results that need a limit: rank
    types: dict[str, TensorType] = field(default_factory=dict)
    symbols: dict[str, Symbols] = field(default_factory=dict)  # of extents known at run time
    consts: dict[str, Array] = field(default_factory=dict)
    sequences: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of tensors
    lengths: dict[str, str] = field(default_factory=dict)  # of sequences, known at run time only
    absent: set[str] = field(default_factory=set)  # optionals that hold nothing
    nodes: list[Node] = field(default_factory=list)
    spoiled: set[str] = field(default_factory=set)  # initialisers with a problem, listed already
    unread: set[str] = field(default_factory=set)  # results that nothing reads
    declared: dict[str, TypeProto] = field(default_factory=dict)  # what the model says of results
    inferred: dict[str, TypeProto | None] = field(default_factory=dict)  # what onnx says of them

    def problem(self, code: str, message: str, path: str = "", help: str = "") -> None:
        self.problems.append(Problem(code, message, self.file, path=self.where + path, help=help))

    def symbols_of(self, name: str) -> Symbols:
        """() if all extents are static, or taken as such."""
        return () if name in self.hidden else self.symbols.get(name, ())

    def extents_of(self, name: str) -> Symbols:
        """For each axis, the symbol of its extent, "" where that is static."""
        return self.symbols_of(name) or ("",) * len(self.types[name].shape)

    @property
    def bounds(self) -> dict[str, int]:
        """The upper bound of each symbol."""
        return {
            symbol: self.types[name].shape[axis]
            for name, symbols in self.symbols.items()
            if name in self.types and name not in self.hidden  # untyped: it had a problem
            for axis, symbol in enumerate(symbols)
            if symbol
        }

    def hiding(self, names: Mapping[str, object] | set[str]) -> Scope:
        """The scope in which these tensors fill their boxes."""
        return replace(self, hidden=self.hidden.union(names))

    def limit(self, name: str) -> tuple[int, ...]:
        """The greatest shape of a tensor within the model, as the user says; () if they do not."""
        given = self.input_shapes.get(name)
        if given is None:
            return ()
        self.limits_used.add(name)
        return tuple(given)

    def fresh(self, hint: str) -> str:
        """A name that no value has, nor gets later."""
        while hint in self.types or hint in self.names:
            hint += "_"
        return hint

    def add_const(self, name: str, value: Array) -> None:
        self.consts[name] = np.ascontiguousarray(dtype.slots(value)).reshape(value.shape)
        self.types[name] = TensorType(dtype.of(value), tuple(value.shape))

    def new_const(self, hint: str, value: Array) -> str:
        """The name of a constant that the model does not have."""
        name = self.fresh(hint)
        self.add_const(name, value)
        return name

    def label(self, node: NodeProto) -> str:
        return node.name or f"{node.op_type}_{self.index}"


@frozen
class Next:
    """The node, as it is or in another form, is for the next stage."""

    node: NodeProto


@frozen
class Keep:
    """What the node gives is in the scope."""


@frozen
class Replace:
    """Other nodes stand for the node, in `scope` if that is another one. When they are imported,
    `then` says what becomes of the node (see `stepwise`). With `scalars`, tensors without
    dimensions, what the model declares of the results holds for what those are made of, too."""

    nodes: Sequence[NodeProto]
    scope: Scope | None = None
    then: Callable[[], Outcome] | None = None
    scalars: Collection[str] | None = None


class Refuse(Exception):  # noqa: N818
    """What is wrong with the node. It may be returned, or raised from within a stage."""

    def __init__(self, code: str, text: str, help: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.help = code, text, help


CUT = "cut the model there with onnx.utils.extract_model and compute the rest in the application"
EXTENTS = f"where inputs decide them: --input-shape x:1,3,32 or --input-value x:5; else {CUT}"
CONSTANT = "if an input's value decides it, make that a constant: --input-value NAME:VALUE"
KEEP = Keep()
Outcome = Next | Keep | Refuse | Replace
Rule = Callable[[Scope, NodeProto], Outcome]

T = TypeVar("T")
# Goes on whenever the nodes that it has given are imported; its result may depend on theirs.
Work = Generator[Replace, None, T]


def stepwise(work: Callable[[Scope, NodeProto], Work[Outcome]]) -> Rule:
    """A rule that needs what other nodes give before it knows the outcome."""
    return lambda scope, node: resumed(work(scope, node))


def resumed(work: Work[Outcome]) -> Outcome:
    try:
        return replace(next(work), then=lambda: resumed(work))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
