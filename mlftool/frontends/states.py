"""What a module keeps from one run to the next: outputs that become inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.frozen import replace
from mlftool.ir.edit import unused
from mlftool.ir.graph import Graph, Node, State
from mlftool.ir.values import EXTENTS

ALL = "all"  # the states that the model's file has


def with_states(graph: Graph, words: Sequence[str], file: str) -> Graph:
    """The graph that keeps the states which `words` name, INPUT=OUTPUT or `all`. Those that the
    file has begin as it says, others with zeros. Raises MlfError with every wrong one."""
    if not words:
        return graph
    problems: list[Problem] = []
    kept: list[State] = []
    for source, output in _pairs(graph, words, file):
        text, help = _fault(graph, source, output, kept)
        if text:
            problems.append(Problem("MLF0400", text, file, path=f"state {source}", help=help))
            continue
        kept.append(State(source, output, _start(graph, source, output)))
    if problems:
        raise MlfError(problems)
    if len(kept) == len(graph.outputs):
        return _given_too(graph, kept)
    return graph.replace(kept=tuple(kept))


def _given_too(graph: Graph, kept: Sequence[State]) -> Graph:
    """The graph whose every output is a state: callers get them, and the module keeps copies."""
    types, nodes, copies = dict(graph.types), list(graph.nodes), list[State]()
    for state in kept:
        copy = unused(f"{state.output}.kept", types)
        types[copy] = types[state.output]
        nodes.append(Node("Identity", (state.output,), (copy,), {}, f"copy of {state.output}"))
        copies.append(replace(state, output=copy))
    outputs = (*graph.outputs, *(s.output for s in copies))
    return graph.replace(outputs=outputs, nodes=tuple(nodes), types=types, kept=tuple(copies))


def _pairs(graph: Graph, words: Sequence[str], file: str) -> Iterator[tuple[str, str]]:
    for word in words:
        source, _, output = word.partition("=")
        if word != ALL:
            yield source, output
            continue
        if not graph.states:
            text = "the model has no state of its own; name its inputs and outputs"
            help = "--state INPUT=OUTPUT, or state: {INPUT: OUTPUT} in a manifest"
            raise MlfError(Problem("MLF0400", text, file, path="state", help=help))
        yield from ((state.input, state.output) for state in graph.states)


def _fault(graph: Graph, source: str, output: str, kept: Sequence[State]) -> tuple[str, str]:
    """What is wrong with a pair, and what may be meant."""
    if not output:
        return f"names no output; expected {source or 'INPUT'}=OUTPUT", _alike(graph, source)
    for kind, name, names in (("input", source, graph.inputs), ("output", output, graph.outputs)):
        if name not in names:
            return f"'{name}' is not an {kind} of the model", did_you_mean(name, names)
    if any(source == s.input or output == s.output for s in kept):
        text = f"'{source}' or '{output}' is in two states"
        return text, "each input and each output is in one state at most"
    before, behind = graph.types[source], graph.types[output]
    if before != behind:
        text = f"input {before} and output '{output}' {behind} differ; expected one type"
        return text, _alike(graph, source)
    if output + EXTENTS in graph.outputs:  # a shorter tensor than the input is
        text = f"output '{output}' {behind} has an extent known only at run time"
        return text, "export the model with the size of each call"
    if not before.bytes:
        return f"{before} has no elements", "leave out this state"
    return "", ""


def _alike(graph: Graph, source: str) -> str:
    """The remedy for an input that is paired with no output, or with one of another type."""
    if source not in graph.inputs:
        return f"inputs are: {', '.join(graph.inputs)}"
    kind = graph.types[source]
    names = [name for name in graph.outputs if graph.types[name] == kind]
    return f"outputs of this type: {', '.join(names)}" if names else f"no output is {kind}"


def _start(graph: Graph, source: str, output: str) -> np.ndarray:
    for state in graph.states:
        if (state.input, state.output) == (source, output):
            return state.start
    return np.zeros(graph.types[source].shape, graph.types[source].dtype.numpy)
