"""Model -> Graph: operators in their order, each by the rule that is registered for its kind.

A tensor's value has the tensor's name. What keeps its value between calls comes in as an input of
the model after its own, and goes out as an output: `<name>` and `<name>_next`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.frontends.tflite.agreement import misshapen, mixed
from mlftool.frontends.tflite.batches import with_batches
from mlftool.frontends.tflite.model import Model, Operator, Subgraph, Tensor
from mlftool.frontends.tflite.site import (
    COMPLEX,
    MEMORY,
    OTHERWISE,
    RULES,
    SPECTRUM,
    Draft,
    Key,
    RefusedError,
    Site,
    SpoiledError,
    sound,
    stored_alike,
    without_pairs,
)
from mlftool.frontends.tflite.unsigned import with_signed
from mlftool.frontends.tflite.updates import with_updates
from mlftool.frozen import replace
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, Node, State, TensorType
from mlftool.ir.rounding import FactorError

import_module("mlftool.fixedpoint")  # registers its operators
FAMILIES = (
    *("activations", "arithmetic", "contractions", "control", "conversions", "detection"),
    *("ethos_u", "images", "indices", "movement", "recurrent", "reductions", "signal", "spectra"),
)
for _family in FAMILIES:
    import_module(f"mlftool.frontends.tflite.{_family}")

CONVERSIONS = {"CAST", "DEQUANTIZE", "QUANTIZE"}  # between bytes with and without a sign
MOST_CALLS = 256  # of subgraphs, which may call others several times
# What a condition may be; the first is what an operator takes.
FLAGS = (TensorType(dtype.bool_, ()), TensorType(dtype.bool_, (1,)))


def lowered(model: Model, name: str, file: str, further: Sequence[str] = ()) -> Graph:
    """The model's graph; tensors of these names are `further` outputs. Raises MlfError with every
    problem of every operator."""
    subgraphs = (with_batches(with_updates(graph)) for graph in model.subgraphs)
    model = with_signed(replace(model, subgraphs=tuple(subgraphs)))
    walk = _Walk(model, file, frozenset(further))
    graph = walk.main(name)
    if walk.problems:
        raise MlfError(walk.problems)
    return graph


@dataclass
class _Walk:
    model: Model
    file: str
    further: frozenset[str] = frozenset()
    problems: list[Problem] = field(default_factory=list)
    active: list[Subgraph] = field(default_factory=list)  # subgraphs in which this one is
    calls: int = 0

    def problem(self, code: str, text: str, path: str = "", help: str = "") -> None:
        self.problems.append(Problem(code, text, self.file, path=path, help=help))

    def main(self, name: str) -> Graph:
        graph = self.model.subgraphs[0]
        draft = Draft(graph)
        for place in graph.inputs:
            self.receive(draft, place, self.called(graph, place, "input"))
        self.operators(draft)
        outputs = [self.given(draft, k, place) for k, place in enumerate(graph.outputs)]
        if not outputs:
            self.problem("MLF0207", "the model has no outputs")
        inputs = [draft.values_in[p] for p in graph.inputs if p in draft.values_in]
        more = {p: v for p, v in draft.values.items() if v in self.further.difference(outputs)}
        outputs += more.values()
        places = (*graph.inputs, *graph.outputs, *more)
        scales = self.scales(zip(places, (*inputs, *outputs), strict=False))
        states = () if self.problems else tuple(self.states(draft, scales))
        return Graph(
            name,
            (*inputs, *(state.input for state in states)),
            (*outputs, *(state.output for state in states)),
            tuple(draft.nodes),
            draft.types,
            draft.consts,
            states,
            scales,
        )

    def scales(self, names: Iterable[tuple[int, str]]) -> dict[str, tuple[float, int]]:
        """Of the integers of inputs and outputs."""
        tensors, found = self.model.subgraphs[0].tensors, {}
        for place, name in names:
            q = tensors[place].quantised
            if q is not None and q.scale.size == 1:
                found[name] = (float(q.scale[0]), int(q.zero_point[0]))
        return found

    def states(self, draft: Draft, scales: dict[str, tuple[float, int]]) -> Iterator[State]:
        """Variables that were read before they were written, and resources. Each starts with the
        bytes that TensorFlow Lite Micro fills it with: the zero point of int8, zeros, or what ran
        once has assigned."""
        for place, came in draft.states.items():
            tensor = draft.graph.tensors[place]
            zero = 0
            if tensor.quantised is not None and tensor.quantised.scale.size == 1:
                zero = int(tensor.quantised.zero_point[0])
                scales[came] = scales[f"{came}_next"] = (float(tensor.quantised.scale[0]), zero)
            first = zero if tensor.type.dtype.name == "int8" else 0
            start = np.full(tensor.type.shape, first, tensor.type.dtype.numpy)
            yield State(came, draft.copied(draft.values[place], f"{came}_next"), start)
        for key, came in draft.resources.items():
            type_ = draft.types[came]
            filled = draft.filled.get(key, np.zeros(type_.shape, type_.dtype.numpy))
            start = draft.starts.get(key, filled)
            yield State(came, draft.copied(draft.variables[key], f"{came}_next"), start)

    def called(self, graph: Subgraph, place: int, kind: str) -> str:
        tensor = graph.tensors[place]
        return self.model.names.get(place) or tensor.name or f"{kind}_{place}"

    def receive(self, draft: Draft, place: int, name: str) -> None:
        """An input of the graph."""
        tensor = draft.graph.tensors[place]
        if place in draft.values:
            self.problem("MLF0207", f"input '{name}' is listed twice")
        elif tensor.data is not None:
            self.problem("MLF0207", f"input '{name}' is a constant")
        elif tensor.problem or tensor.pairs:
            text = tensor.problem or "element type COMPLEX64"
            self.problem("MLF0205", text, f"input '{name}'")
        else:
            draft.values[place] = draft.fresh(name, tensor.type)
            draft.values_in[place] = draft.values[place]

    def operators(self, draft: Draft) -> None:
        """All of them, those after one that is refused, too: of its outputs the types are known."""
        spoiled = draft.spoiled
        for k, node in enumerate(draft.graph.operators):
            where = self.label(draft, k, node)
            missing = self.missing(draft, node) - spoiled
            if missing:
                self.problem("MLF0207", f"reads {self.named(draft, missing)}", where)
            if missing or not self.operator(draft, node, where):
                spoiled |= set(node.outputs)
                self.pretend(draft, node)
            elif any(i in spoiled for i in node.inputs):
                spoiled |= set(node.outputs)

    def pretend(self, draft: Draft, node: Operator) -> None:
        """Names for outputs of an operator that is refused."""
        for place in node.outputs:
            if place not in draft.values:
                with suppress(RefusedError):
                    self.promise(draft, place)

    def label(self, draft: Draft, k: int, node: Operator) -> str:
        names = [draft.graph.tensors[o].name for o in node.outputs]
        called = f" '{names[0]}'" if names and names[0] else ""
        return f"operator {k} {node.kind}{called}"

    def missing(self, draft: Draft, node: Operator) -> set[int]:
        """Inputs that hold nothing yet."""
        tensors, memory = draft.graph.tensors, MEMORY.get(node.kind, frozenset())
        return {
            i
            for k, i in enumerate(node.inputs)
            if i >= 0
            and k not in memory
            and i not in draft.values
            and tensors[i].data is None
            and not self.state(draft, i)
        }

    def state(self, draft: Draft, place: int) -> bool:
        """Makes a variable that is read for the first time an input."""
        tensor = draft.graph.tensors[place]
        if not tensor.variable or tensor.problem or self.active:
            return False
        name = draft.fresh(tensor.name or f"state_{place}", tensor.type)
        draft.values[place] = draft.states[place] = name
        return True

    def named(self, draft: Draft, places: set[int]) -> str:
        names = [draft.graph.tensors[p].name or str(p) for p in sorted(places)]
        return f"tensor '{names[0]}', which nothing has made"

    def operator(self, draft: Draft, node: Operator, where: str) -> bool:
        rule = RULES.get(node.kind)
        if rule is None:
            text = "the operator is not supported"
            self.problem("MLF0301", text, where, OTHERWISE)
            return False
        try:
            if both := {i for i in node.inputs if i >= 0}.intersection(node.outputs):
                name = draft.graph.tensors[min(both)].name
                raise RefusedError(f"reads tensor '{name}', which it makes")
            for o in node.outputs:
                self.promise(draft, o)
            label = next((draft.graph.tensors[o].name for o in node.outputs), "") or node.kind
            before = len(draft.nodes)
            near = [draft.graph.tensors[p] for p in (*node.inputs, *node.outputs) if p >= 0]
            if node.kind not in CONVERSIONS:
                stored_alike(near)
            if node.kind not in COMPLEX:
                without_pairs(near)
            promised = {draft.values[o] for o in node.outputs}
            rule(Site(draft, self.model, node, label, self))
            self.kept(draft, promised, before)
            differ = mixed(draft.nodes[before:], draft.types)
            if differ:
                raise RefusedError(differ)
            if wrong := misshapen(draft.nodes[before:], draft.types, draft.consts):
                raise RefusedError(f"makes {wrong}")
            draft.fold(before)
        except SpoiledError:
            return False
        except FactorError as factor:
            self.problem("MLF0302", str(factor), where, OTHERWISE)
            return False
        except RefusedError as refused:
            self.problem("MLF0302", str(refused), where, refused.help or OTHERWISE)
            return False
        return True

    def promise(self, draft: Draft, place: int) -> None:
        """A name for an output."""
        tensor = draft.graph.tensors[place]
        if place < 0 or (place in draft.values and not tensor.variable) or tensor.data is not None:
            raise RefusedError(f"makes tensor '{tensor.name}', which exists already")
        main = draft.graph is self.model.subgraphs[0]
        called = self.called(draft.graph, place, "tensor") if main else tensor.name
        draft.values[place] = draft.fresh(called or f"tensor_{place}", sound(tensor).type)

    def kept(self, draft: Draft, promised: set[str], before: int) -> None:
        """Refuses an operator with an output that its rule knows nothing of."""
        made = {name for n in draft.nodes[before:] for name in n.outputs} | draft.consts.keys()
        if left := promised.intersection(draft.values.values()) - made:
            raise RefusedError(f"makes no tensor '{min(left)}'; it has fewer outputs")

    def given(self, draft: Draft, k: int, place: int) -> str:
        """An output of the graph: a value of its own, which is no input and no constant."""
        tensor: Tensor = draft.graph.tensors[place]
        name = draft.values.get(place)
        if name is None and tensor.data is not None:
            name = draft.const(tensor.name or f"constant_{place}", tensor.data)
        if name is None:
            if not self.problems:
                self.problem("MLF0207", f"output '{tensor.name}' is never computed")
            return ""
        if tensor.pairs:
            self.problem("MLF0205", "element type COMPLEX64", f"output '{tensor.name}'", SPECTRUM)
        inputs = set(draft.values_in.values()) | set(draft.states.values())
        twice = place in draft.graph.outputs[:k]
        if name in inputs or twice or name in draft.consts:
            return draft.copied(name, f"{name}_out")
        return name

    def draft_of(self, k: int, nodes: Draft | None = None) -> Draft:
        """A draft of subgraph `k`; its values and nodes are those of `nodes`."""
        if not 0 < k < len(self.model.subgraphs):
            raise RefusedError(f"subgraph {k} of {len(self.model.subgraphs)}")
        graph = self.model.subgraphs[k]
        without_pairs(graph.tensors[p] for p in graph.inputs)
        self.calls += 1
        if any(graph is g for g in self.active):
            raise RefusedError("subgraphs that call each other in a circle")
        if self.calls > MOST_CALLS:
            raise RefusedError(f"more than {MOST_CALLS} calls of subgraphs")
        if nodes is None:
            return Draft(graph)
        return Draft(graph, types=nodes.types, consts=nodes.consts, nodes=nodes.nodes)

    def inside(self, draft: Draft) -> list[str]:
        """The outputs of a subgraph whose inputs are there."""
        before = len(self.problems)
        self.active.append(draft.graph)
        self.operators(draft)
        self.active.pop()
        outputs = [self.given(draft, n, place) for n, place in enumerate(draft.graph.outputs)]
        if len(self.problems) > before or not all(outputs):
            raise RefusedError(f"subgraph '{draft.graph.name}' cannot be taken")
        return outputs

    def branch(self, k: int, types: Sequence[TensorType]) -> Graph:
        draft = self.draft_of(k)
        for place in draft.graph.inputs:
            self.receive(draft, place, draft.graph.tensors[place].name or f"input_{place}")
        self.expect_inputs(draft, k, types)
        outputs = self.inside(draft)
        inputs = [draft.values_in[p] for p in draft.graph.inputs]
        return closed(draft, draft.graph.name or f"subgraph_{k}", inputs, outputs)

    def expect_inputs(self, draft: Draft, k: int, types: Sequence[TensorType]) -> None:
        graph = draft.graph
        if [graph.tensors[p].type for p in graph.inputs] != list(types):
            raise RefusedError(f"inputs of subgraph {k} of other types than the operator's")

    def inlined(self, draft: Draft, k: int, names: Sequence[str]) -> list[str]:
        """The outputs of a subgraph whose nodes come to `draft`."""
        inner = self.draft_of(k, draft)
        self.expect_inputs(inner, k, [draft.types[n] for n in names])
        inner.values = dict(zip(inner.graph.inputs, names, strict=True))
        inner.values_in = dict(inner.values)
        return self.inside(inner)

    def holds(self, draft: Draft, k: int, names: Sequence[str]) -> str:
        (flag,) = self.inlined(draft, k, names) or ("",)
        if not flag or draft.types[flag] not in FLAGS:
            raise RefusedError(f"subgraph {k} gives no bool")
        made = draft.fresh("goes_on", FLAGS[0])
        draft.nodes.append(Node("Reshape", (flag,), (made,), {}, "condition"))
        return made

    def loop_body(self, cond: int, body: int, types: Sequence[TensorType]) -> Graph:
        draft = Draft(self.draft_of(body).graph)
        first = [
            draft.fresh("iteration", TensorType(dtype.int64, ())),
            draft.fresh("condition", FLAGS[0]),
        ]
        state = [draft.fresh(f"state_{k}", t) for k, t in enumerate(types)]
        made = self.inlined(draft, body, state)
        if [draft.types[m] for m in made if m] != list(types):
            raise RefusedError("a body whose outputs are of other types than its inputs")
        return closed(draft, "body", [*first, *state], [self.holds(draft, cond, made), *made])

    def assigned(self, k: int) -> dict[Key, Array]:
        draft = self.draft_of(k)
        draft.once = True
        self.inside(draft)
        known = {key: draft.consts.get(name) for key, name in draft.variables.items()}
        if draft.graph.inputs or draft.graph.outputs:
            raise RefusedError("a subgraph that does more than to assign constants")
        found = {key: value for key, value in known.items() if value is not None}
        if len(found) != len(known):
            raise RefusedError("a subgraph that assigns values which are computed")
        return found

    def held(self, draft: Draft, place: int) -> str:
        promised = draft.values[place]
        if place not in draft.states and not self.state(draft, place):
            raise RefusedError("a variable of a subgraph")
        draft.values[place] = promised
        return draft.states[place]


def closed(draft: Draft, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """A subgraph that reads nothing but its inputs."""
    nodes = tuple(draft.nodes)
    return Graph(name, tuple(inputs), tuple(outputs), nodes, draft.types, draft.consts)
