"""One operator as its rule sees it: what it reads, and how nodes are made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from mlftool.frontends.tflite.model import Model, Operator, Option, Quantised, Subgraph, Tensor
from mlftool.frozen import frozen
from mlftool.ir import dtype
from mlftool.ir.dtype import DType
from mlftool.ir.edit import unused
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops.reference import evaluated

Rule = Callable[["Site"], None]
Key = tuple[Any, Any]  # a resource's name and container
RULES: dict[str, Rule] = {}
MEMORY: dict[str, frozenset[int]] = {}  # of an operator, the inputs that hold no value
COMPLEX: set[str] = set()  # operators that know complex numbers
# The schema's ActivationFunctionType: the limits of a value, and what is not computed.
ACTIVATIONS: dict[int, tuple[float, float]] = {
    0: (-math.inf, math.inf),
    1: (0.0, math.inf),
    2: (-1.0, 1.0),
    3: (0.0, 6.0),
}


# What works for what has no rule here: the converter writes it in floats, or as other operators.
OTHERWISE = "try it as ONNX: python -m tf2onnx.convert --tflite m.tflite --output m.onnx"
SPECTRUM = "read spectra by tf.abs, tf.math.real and tf.math.imag, and compute with what they give"


class RefusedError(Exception):
    """Why an operator is refused, and what to do about it."""

    def __init__(self, text: str, help: str = "") -> None:
        super().__init__(text)
        self.help = help


class SpoiledError(RefusedError):
    """An operator that cannot be checked, because one before it is refused."""


def operator(
    *kinds: str, memory: Iterable[int] = (), takes_complex: bool = False
) -> Callable[[Rule], Rule]:
    """Register the function below as the rule of these operators. Inputs `memory` hold no
    value: they are handles of variables, or only say how much memory it needs."""

    def register(rule: Rule) -> Rule:
        for kind in kinds:
            assert kind not in RULES, kind
            RULES[kind] = rule
            MEMORY[kind] = frozenset(memory)
        COMPLEX.update(kinds if takes_complex else ())
        return rule

    return register


@dataclass
class Draft:
    """A graph while it is made. `values` has the name of what each tensor holds now."""

    graph: Subgraph
    values: dict[int, str] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    consts: dict[str, Array] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    states: dict[int, str] = field(default_factory=dict)  # variables: the name of what came in
    values_in: dict[int, str] = field(default_factory=dict)  # the inputs' names
    # Of resources, by their names: handles to them, their values, what came in, their first value.
    handles: dict[int, Key] = field(default_factory=dict)
    variables: dict[Key, str] = field(default_factory=dict)
    resources: dict[Key, str] = field(default_factory=dict)
    starts: dict[Key, Array] = field(default_factory=dict)
    filled: dict[Key, Array] = field(default_factory=dict)  # where nothing has assigned one
    spoiled: set[int] = field(default_factory=set)  # tensors of which no value is to be had
    once: bool = False  # it runs at the first call only

    def copied(self, name: str, hint: str) -> str:
        """A value of its own that is equal to `name`."""
        made = self.fresh(hint, self.types[name])
        self.nodes.append(Node("Identity", (name,), (made,), {}, hint))
        return made

    def fresh(self, hint: str, type_: TensorType) -> str:
        """A new name."""
        name = unused(hint, self.types)
        self.types[name] = type_
        return name

    def const(self, hint: str, value: Any, row: DType | None = None) -> str:
        """A new constant."""
        array = np.ascontiguousarray(np.asarray(value, row.numpy if row else None))
        array = array.reshape(np.shape(value))
        name = self.fresh(hint, TensorType(dtype.of(array), tuple(array.shape)))
        self.consts[name] = array
        return name

    def fold(self, first: int) -> None:
        """Values for what nodes from number `first` on compute of constants: weights of 16-bit
        floats, or those that a grouped convolution splits, are constants of the operators after."""
        made, self.nodes[first:] = self.nodes[first:], []
        for node in made:
            value = evaluated(node, self.consts, self.types)
            if value is None or dtype.of(value) != self.types[node.result].dtype:
                self.nodes.append(node)
            else:
                self.consts[node.result] = value


class Walk(Protocol):
    """What rules ask of the walk over all operators. Subgraphs are numbers; there may be none of
    that number, which raises RefusedError."""

    def branch(self, k: int, types: Sequence[TensorType]) -> Graph:
        """A subgraph with inputs of these types, closed."""

    def holds(self, draft: Draft, k: int, names: Sequence[str]) -> str:
        """What a subgraph says of values, as a scalar; its nodes are the draft's."""

    def loop_body(self, cond: int, body: int, types: Sequence[TensorType]) -> Graph:
        """The body of a Loop that goes on while `cond` holds of what `body` has made."""

    def assigned(self, k: int) -> dict[Key, Array]:
        """The constants that a subgraph gives to variables."""

    def held(self, draft: Draft, place: int) -> str:
        """The value that a variable has before this operator."""


@frozen
class Site:
    """`label` is what the nodes are called: the first output's tensor, as the model names it."""

    draft: Draft
    model: Model
    node: Operator
    label: str
    walk: Walk

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.draft.graph.tensors

    def has(self, i: int) -> bool:
        return i < len(self.node.inputs) and self.node.inputs[i] >= 0

    def x(self, i: int = 0) -> Tensor:
        """Input `i`. Raises RefusedError if it is left out or cannot be read."""
        if not self.has(i):
            raise RefusedError(f"has no input {i}")
        place = self.node.inputs[i]
        tensor, name = sound(self.tensors[place]), self.draft.values.get(place)
        if tensor.data is None and name in self.draft.consts and not tensor.variable:
            return replace(tensor, data=self.draft.consts[name])
        return tensor

    def y(self, k: int = 0) -> Tensor:
        if k >= len(self.node.outputs):
            raise RefusedError(f"has no output {k}")
        return sound(self.tensors[self.node.outputs[k]])

    def name(self, i: int = 0) -> str:
        """The value that input `i` has."""
        place, tensor = self.node.inputs[i], self.x(i)
        if place not in self.draft.values and tensor.data is not None:
            self.draft.values[place] = self.draft.const(
                tensor.name or f"constant_{place}", tensor.data
            )
        return self.draft.values[place]

    def out(self, k: int = 0) -> str:
        """The value that output `k` will have."""
        return self.draft.values[self.node.outputs[k]]

    def held(self, place: int) -> str:
        """The value of a variable, by its place in the subgraph's tensors."""
        return self.walk.held(self.draft, place)

    def resource(self, key: Key, type_: TensorType) -> str:
        """The value that a resource has when a call begins."""
        self.expect(self.is_main, "a variable that is read in a subgraph")
        if key not in self.draft.resources:
            hint = bytes(key[0]).decode("utf-8", "backslashreplace") or "variable"
            name = self.draft.fresh(hint, type_)
            self.draft.resources[key] = self.draft.variables[key] = name
        return self.draft.resources[key]

    @property
    def is_main(self) -> bool:
        return self.draft.graph is self.model.subgraphs[0]

    def known(self, i: int, what: str) -> Array:
        """Input `i`, which must be constant. Raises RefusedError, naming it `what`."""
        data = self.x(i).data
        if data is None and self.node.inputs[i] in self.draft.spoiled:
            raise SpoiledError(what)
        if data is None:
            raise RefusedError(f"{what} that are computed at run time; supported: constants")
        return data

    def option(self, name: str, default: Any = None) -> Any:
        """Raises RefusedError if it is missing and there is no default."""
        if self.node.misplaced:
            raise RefusedError(f"options of another operator, {self.node.misplaced}")
        value: Option | None = self.node.options.get(name)
        if value is None:
            if default is None:
                raise RefusedError(f"has no option {name}")
            return default
        if isinstance(value, float) and not math.isfinite(value):
            raise RefusedError(f"option {name} is {value}")
        return value

    def expect(self, holds: bool, text: str, help: str = "") -> None:
        if not holds:
            raise RefusedError(text, help)

    def quantised(self, tensor: Tensor) -> Quantised:
        """Of a tensor that must have one scale."""
        if tensor.quantised is None or tensor.quantised.scale.size != 1:
            why = tensor.unusable or "no single scale and zero point"
            raise RefusedError(f"tensor '{tensor.name}' has {why}")
        return tensor.quantised

    def scale(self, tensor: Tensor) -> float:
        return float(self.quantised(tensor).scale[0])

    def zero(self, tensor: Tensor) -> int:
        return int(self.quantised(tensor).zero_point[0])

    def const(self, value: Any, row: DType | None = None, what: str = "") -> str:
        return self.draft.const(f"{self.label}.{what or 'constant'}", value, row)

    def add(
        self,
        op: str,
        inputs: Iterable[str],
        out: str | TensorType,
        attrs: Mapping[str, Any] | None = None,
        graphs: Mapping[str, Graph] | None = None,
        more: Sequence[str] = (),
    ) -> str:
        """A node that makes the value `out`, or a new one of that type, and `more`; its name."""
        name = (
            self.draft.fresh(f"{self.label}.{op.lower()}", out)
            if isinstance(out, TensorType)
            else out
        )
        made = Node(
            op, tuple(inputs), (name, *more), dict(attrs or {}), self.label, (), dict(graphs or {})
        )
        self.draft.nodes.append(made)
        return name

    def reshaped(self, name: str, shape: Sequence[int], out: str | None = None) -> str:
        """`name` with another shape, or as the value `out`."""
        type_ = TensorType(self.draft.types[name].dtype, tuple(shape))
        if out is None and self.draft.types[name] == type_:
            return name
        return self.add("Reshape", (name,), out or type_)

    def turned(self, name: str, perm: Sequence[int], out: str | None = None) -> str:
        """`name` with its axes permuted, or as the value `out`."""
        type_ = self.draft.types[name]
        made = TensorType(type_.dtype, tuple(type_.shape[p] for p in perm))
        return self.add("Transpose", (name,), out or made, {"perm": list(perm)})

    def limits(self, name: str = "fused_activation_function") -> tuple[float, float]:
        """Of the fused activation. Raises RefusedError for one that is not computed."""
        number = self.option(name, 0)
        if number not in ACTIVATIONS:
            raise RefusedError(
                f"fused activation {'TANH' if number == 4 else number}; supported: NONE, RELU, "
                "RELU_N1_TO_1, RELU6",
            )
        return ACTIVATIONS[number]

    def stored_limits(self) -> tuple[int, int]:
        """The same in the output's integers."""
        y, (low, high) = self.y(), self.limits()
        least, most = y.type.dtype.range
        if math.isfinite(low):
            least = max(least, self.stored(low))
        if math.isfinite(high):
            most = min(most, self.stored(high))
        return least, max(least, most)

    def stored(self, value: float) -> int:
        """A real value in the output's integers, not limited to them."""
        return self.zero(self.y()) + away(quotient(value, self.scale(self.y())))

    def within(self, name: str, out: str) -> None:
        """`out` is the float or integer `name`, cut by the fused activation."""
        self.cut(name, *self.limits(), out)

    def cut(self, name: str, low: float, high: float, out: str) -> None:
        """`out` is the float or integer `name` between limits, which may be infinite."""
        row = self.draft.types[name].dtype
        ends = [self.const(e, row) if math.isfinite(e) else "" for e in (low, high)]
        if low == 0 and not ends[1]:
            self.add("Relu", (name,), out)
        elif any(ends):
            self.add("Clip", (name, *ends), out)
        else:
            self.add("Identity", (name,), out)

    def types(self, first: int = 0) -> list[TensorType]:
        """Of the inputs from `first` on."""
        return [self.x(i).type for i in range(first, len(self.node.inputs))]

    def made(self) -> list[TensorType]:
        """Of all outputs."""
        return [self.y(k).type for k in range(len(self.node.outputs))]

    @property
    def cuts(self) -> bool:
        """Whether there is a fused activation."""
        return any(map(math.isfinite, self.limits()))


def sound(tensor: Tensor) -> Tensor:
    """Raises RefusedError for a tensor that the reader could not make sense of."""
    if tensor.problem:
        raise RefusedError(f"tensor '{tensor.name}' has {tensor.problem}")
    return tensor


def without_pairs(tensors: Iterable[Tensor]) -> None:
    """Raises RefusedError for complex numbers."""
    for tensor in tensors:
        if tensor.pairs:
            raise RefusedError(f"tensor '{tensor.name}' has element type COMPLEX64", SPECTRUM)


def stored_alike(tensors: Iterable[Tensor]) -> None:
    """Raises RefusedError if int8 and uint8 are mixed: rules compute with int8 in place of both."""
    if len({t.unsigned for t in tensors if t.type.dtype.is_int8}) > 1:
        raise RefusedError("int8 mixed with uint8; supported: one of them")


def quotient(value: float, scale: float) -> float:
    """In float32; infinite where a scale is nearly zero."""
    with np.errstate(over="ignore"):
        return float(np.float32(value) / np.float32(scale))


def away(value: float) -> int:
    """To the nearest integer, halves away from zero. Raises RefusedError for an infinite value, as
    of a scale that is nearly zero."""
    if not math.isfinite(value):
        raise RefusedError("scales whose quotient is infinite")
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def one_of(*types: str) -> frozenset[str]:
    return frozenset(types)


FLOAT = one_of("float32")
INTEGERS = one_of("int8", "int16")


def kind_of(s: Site, *, also: frozenset[str] = frozenset(), tensor: Tensor | None = None) -> str:
    """The element type of the first input, or of `tensor`. Raises RefusedError for one that is not
    float32, int8, int16 or one of `also`."""
    row = (tensor or s.x()).type.dtype.name
    known = FLOAT | INTEGERS | also
    if row not in known:
        raise RefusedError(f"{row}; supported: {', '.join(sorted(known))}")
    return row


HYBRID = (
    "convert without optimizations; or with a representative_dataset, to int8; or with "
    "target_spec.supported_types = [tf.float16]"
)


def same_floats(s: Site, *inputs: int) -> None:
    """Raises RefusedError unless the output and those of these inputs that exist are float32."""
    s.expect(s.y().type.dtype.name == "float32", f"float32 with an output {s.y().type}")
    for tensor in (s.x(i) for i in inputs if s.has(i)):
        if tensor.type.dtype.name in ("int8", "uint8"):
            text = f"float32 with weights of {tensor.type.dtype}, quantised while it runs"
            raise RefusedError(f"{text} (dynamic range); supported: one type", HYBRID)
        s.expect(tensor.type.dtype.name == "float32", f"float32 with a tensor {tensor.type}")
