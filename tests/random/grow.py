"""Growing networks at random: node by node, each with random operands and attributes.

Every node is run by onnxruntime as soon as it is made, so that the next one knows its operands'
shapes and values; what onnxruntime refuses, or what is no finite number, is left out again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from oracle import session as session_of
from theirs import is_fit, otherwise

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
OPSET = 21
MOST_ELEMENTS = 1500

onnxruntime.set_default_logger_severity(4)


@dataclass(frozen=True)
class Network:
    """A model and samples for it."""

    name: str
    model: onnx.ModelProto = field(repr=False)
    feeds: tuple[Feed, ...] = field(repr=False)
    menu: str = ""  # of what it was grown
    truth: Callable[[Network], Any] | None = None  # who says what is right, if not judge.Judge

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(node.op_type for node in self.model.graph.node)


@dataclass(frozen=True)
class Value:
    """A tensor of the network, with what it holds for the first sample."""

    name: str
    array: Array
    const: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


class NotThisError(Exception):
    """The node cannot be made here; another one is tried."""


def is_large(index: int) -> bool:
    """Whether network `index` of a seed is one of the few that have many operators: a fault needs a
    few, and a hundred small networks have more of them side by side than ten large ones."""
    return index % 8 == 0


def inner_names(node: onnx.NodeProto) -> list[str]:
    """What the subgraphs of a node read from outside."""
    names: list[str] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            made = {i.name for i in (*graph.input, *graph.initializer)}
            made |= {o for n in graph.node for o in n.output}
            read = [i for n in graph.node for i in (*n.input, *inner_names(n))]
            names += [n for n in read if n and n not in made]
    return list(dict.fromkeys(names))


def value_info(name: str, array: Array) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, code, array.shape)


def make_model(
    graph: onnx.GraphProto, opset: int = OPSET, like: onnx.ModelProto | None = None
) -> onnx.ModelProto:
    """A model of a graph, with the opsets and the functions of `like` where it is given."""
    if like is not None:
        made = onnx.ModelProto()
        made.CopyFrom(like)
        made.graph.CopyFrom(graph)
        return made
    versions = {"": opset, "com.microsoft": 1, "ai.onnx.ml": 3}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def opset_of(model: onnx.ModelProto) -> int:
    return next(i.version for i in model.opset_import if not i.domain)


def values_of(model: onnx.ModelProto, feeds: Sequence[Feed]) -> list[Feed]:
    """All tensors that the nodes read or make of each sample. Raises what onnxruntime raises, as of
    a sequence, which needs its type."""
    seen = onnx.ModelProto()
    seen.CopyFrom(model)
    made = [o for n in model.graph.node for o in n.output if o]
    del seen.graph.output[:]
    seen.graph.output.extend(map(helper.make_empty_tensor_value_info, made))
    session = session_of(seen)
    consts = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    found = [map(np.asarray, session.run(None, feed)) for feed in feeds]
    return [
        {**consts, **feed, **dict(zip(made, arrays, strict=True))}
        for feed, arrays in zip(feeds, found, strict=True)
    ]


def fit(model: onnx.ModelProto, feeds: Sequence[Feed]) -> tuple[Feed, ...]:
    """The first of the samples, and of the others those that could have been the first.

    Networks are grown by what the first sample makes; another may be negative under a root, or
    its sums too large for their type.
    """
    try:
        values = values_of(model, feeds)
    except Exception:
        return tuple(feeds[:1])
    return (*feeds[:1], *(f for f, v in zip(feeds[1:], values[1:], strict=True) if _fits(model, v)))


def _fits(model: onnx.ModelProto, arrays: Feed) -> bool:
    opset = opset_of(model)
    return all(map(is_fit, arrays.values())) and not any(
        otherwise(n.op_type, opset, [arrays.get(i) for i in n.input], attributes(n))
        for n in model.graph.node
    )


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


class Single:
    """One node as a model of its own: constants stay constants, all else is fed."""

    def __init__(
        self,
        node: onnx.NodeProto,
        arrays: dict[str, Array],
        consts: set[str],
        opset: int = OPSET,
    ) -> None:
        self.node = node
        self.reads = [n for n in dict.fromkeys((*node.input, *inner_names(node))) if n]
        self.fed = [n for n in self.reads if n not in consts]
        graph = helper.make_graph(
            [node],
            "single",
            [value_info(n, arrays[n]) for n in self.fed],
            [helper.make_empty_tensor_value_info(o) for o in node.output if o],
            [numpy_helper.from_array(arrays[n], n) for n in self.reads if n in consts],
        )
        self.session = session_of(make_model(graph, opset))

    def run(self, arrays: dict[str, Array]) -> list[Array]:
        found = self.session.run(None, {n: arrays[n] for n in self.fed})
        return [np.asarray(f) for f in found]


class Grower:
    """A network under construction."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.values: list[Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self.consts: dict[str, Array] = {}
        self.inputs: list[Value] = []
        self._count = 0

    # Choosing.

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def whole(self, low: int, high: int) -> int:
        """Both included."""
        return int(self.rng.integers(low, high + 1))

    def one(self, *choices: Any) -> Any:
        return choices[self.whole(0, len(choices) - 1)]

    def value(self, fits: Callable[[Value], bool]) -> Value:
        """One of the values that fit, later ones sooner. Raises NotThisError if none does."""
        found = [v for v in self.values if fits(v)]
        if not found:
            raise NotThisError
        weights = np.arange(1, len(found) + 1, dtype=float) ** 1.5
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def floats(self, *ranks: int) -> Value:
        return self.value(lambda v: v.array.dtype == np.float32 and (not ranks or v.rank in ranks))

    def integers(self, *dtypes: Any) -> Value:
        wanted = [np.dtype(d) for d in dtypes or (np.int32, np.int64, np.uint8, np.int8)]
        return self.value(lambda v: v.array.dtype in wanted)

    # Making.

    def name(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def const(self, array: Any, dtype: Any = None) -> Value:
        value = Value(self.name("c"), np.asarray(array, dtype), True)
        self.consts[value.name] = value.array
        return value

    def normal(self, *shape: int, scale: float = 1.0) -> Value:
        return self.const(self.rng.normal(size=shape) * scale, np.float32)

    def input(self, dtype: Any, shape: tuple[int, ...]) -> Value:
        array = random_array(self.rng, np.dtype(dtype), shape)
        value = Value(self.name("x"), array)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def add(self, op: str, *operands: Value | None, outputs: int = 1, **attrs: Any) -> Value:
        return self.parts(op, *operands, outputs=outputs, **attrs)[0]

    def parts(
        self, op: str, *operands: Value | None, outputs: int = 1, **attrs: Any
    ) -> list[Value]:
        """A node, its results among the values. Raises NotThisError for one that has none."""
        names = [self.name() for _ in range(outputs)]
        inputs = [o.name if o else "" for o in operands]
        domain = attrs.pop("domain", "")
        node = helper.make_node(op, inputs, names, name=f"n_{names[0]}", domain=domain, **attrs)
        arrays = {v.name: v.array for v in (*self.values, *filter(None, operands))}
        try:
            found = Single(node, arrays, {*self.consts}).run(arrays)
        except Exception as error:
            raise NotThisError(str(error)) from None
        if otherwise(op, OPSET, [o.array if o else None for o in operands], attrs):
            raise NotThisError
        for array in found:
            if not 0 < array.size <= MOST_ELEMENTS or array.dtype.kind not in "fiub":
                raise NotThisError
            if not is_fit(array):
                raise NotThisError
        self.nodes.append(node)
        made = [Value(n, a) for n, a in zip(names, found, strict=True)]
        self.values += made
        return made

    # Finishing.

    def network(self, name: str, samples: int = 2) -> Network:
        """What nobody reads is an output, and now and then what somebody does."""
        read = {i for n in self.nodes for i in (*n.input, *inner_names(n))}
        made = [v for v in self.values if v not in self.inputs]
        outs = [v for v in made if v.name not in read or self.chance(0.2)]
        used = [v for v in self.inputs if v.name in read]
        consts = {n: a for n, a in self.consts.items() if n in read}
        graph = helper.make_graph(
            self.nodes,
            name,
            [value_info(v.name, v.array) for v in used],
            [value_info(v.name, v.array) for v in outs],
            [numpy_helper.from_array(a, n) for n, a in consts.items()],
        )
        feeds = [{v.name: v.array for v in used}]
        for _ in range(samples - 1):
            feeds.append({v.name: random_array(self.rng, v.array.dtype, v.shape) for v in used})
        model = make_model(graph)
        return Network(name, model, fit(model, feeds))


def random_array(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Numbers with which arithmetic goes on for a while."""
    if dtype.kind == "f":
        return np.asarray(rng.normal(size=shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, size=shape)).astype(dtype)
    info = np.iinfo(dtype)
    low, high = max(int(info.min), -200), min(int(info.max), 200)
    return np.asarray(rng.integers(low, high + 1, size=shape)).astype(dtype)
