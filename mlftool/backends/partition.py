"""The pass that gives parts of a graph to backends.

%d = DequantizeLinear(%x)
%s = Softmax(%d)               =>   %y = mlf.Composite(%x)
%y = QuantizeLinear(%s)

From the last node on, the first backend that takes a node gets it with those that it computes
together with it. What others read besides stays where it is, too, if it is computed anyway.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from mlftool.backends.base import Backend
from mlftool.backends.composite import COMPOSITE
from mlftool.backends.report import Kept, Offloaded, Report
from mlftool.errors import MlfError, Problem, one_line
from mlftool.frozen import frozen, replace
from mlftool.ir import dtype
from mlftool.ir.edit import Editor
from mlftool.ir.external import PART, BackendCode, Part, c_name
from mlftool.ir.graph import Graph, Node
from mlftool.keywords import KEYWORDS
from mlftool.targets import Target


@frozen
class _Group:
    """Nodes of one part, in the graph's order; the last makes its result."""

    backend: Backend
    nodes: tuple[Node, ...]

    @property
    def made(self) -> str:
        return self.nodes[-1].result


def partition(
    graph: Graph, backends: Sequence[Backend], module: str, target: Target
) -> tuple[Graph, Report]:
    """The graph with a composite node for each part, and what went where. Raises MlfError for what
    a backend raises, and for what it returns that is no answer."""
    groups, reasons = _groups(graph, backends, target)
    groups = _merged(graph, groups)
    e, offloaded, counts = Editor(graph), [], dict.fromkeys((b.name for b in backends), 0)
    for group in groups:
        name = group.backend.name
        symbol = f"tvmgen_{module}_{c_name(name)}_main_{counts[name]}"
        counts[name] += 1
        node = _composite(graph, group, symbol, target)
        e.substitute([group.nodes[-1]], [node])
        ops = tuple((n.name, n.op) for n in group.nodes)
        offloaded.append(Offloaded(name, symbol, ops))
    made = e.finish()
    kept = [Kept(n.name, n.op, reasons.get(n.outputs, {})) for n in made.nodes if n.op != COMPOSITE]
    return made, Report(tuple(counts), tuple(offloaded), tuple(kept))


def _groups(
    graph: Graph, backends: Sequence[Backend], target: Target
) -> tuple[list[_Group], dict[tuple[str, ...], dict[str, str]]]:
    """The parts in the graph's order, and why nodes were refused, by their outputs."""
    readers = _readers(graph)
    taken: set[tuple[str, ...]] = set()  # nodes, by their outputs, of which no part needs to begin
    reasons: dict[tuple[str, ...], dict[str, str]] = {}
    groups: list[_Group] = []
    for node in reversed(graph.nodes):
        if node.outputs in taken:
            continue
        for backend in backends:
            answer = _asked(backend, graph, node, target)
            if isinstance(answer, str):
                if answer:
                    reasons.setdefault(node.outputs, {})[backend.name] = answer
                continue
            groups.append(_Group(backend, answer))
            inside = {n.outputs for n in answer}
            for n in reversed(answer):
                outside = n is not node and any(o in graph.outputs for o in n.outputs)
                if not outside and all(r in inside | taken for o in n.outputs for r in readers[o]):
                    taken.add(n.outputs)
            taken.add(node.outputs)
            break
    return groups[::-1], reasons


def _readers(graph: Graph) -> dict[str, list[tuple[str, ...]]]:
    """Who reads each value, by their outputs."""
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in graph.types}
    found[""] = []
    for node in graph.nodes:
        for name in node.inputs:
            found[name].append(node.outputs)
    return found


def _asked(backend: Backend, graph: Graph, node: Node, target: Target) -> tuple[Node, ...] | str:
    """The backend's answer, checked, its nodes in the graph's order."""
    try:
        answer = backend.accepts(graph, node, target)
    except Exception as error:
        raise _failed(backend, node, error) from error
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, tuple) or not all(isinstance(n, Node) for n in answer):
        shown = type(answer).__name__
        raise _wrong(backend, node, f"accepts returned {shown}; expected a tuple of nodes or text")
    if not answer or answer[-1] is not node:
        raise _wrong(backend, node, "accepts returned nodes of which this is not the last")
    order = {n.outputs: k for k, n in enumerate(graph.nodes)}
    if any(n.outputs not in order for n in answer) or len({n.outputs for n in answer}) < len(
        answer
    ):
        raise _wrong(backend, node, "accepts returned a node twice, or one of another graph")
    made = {o for n in answer[:-1] for o in n.outputs}
    read = {i for n in answer for i in n.inputs}
    if any(not read & {*n.outputs} for n in answer[:-1]) or made & {*node.outputs}:
        raise _wrong(backend, node, "accepts returned a node whose result this one does not need")
    return tuple(sorted(answer, key=lambda n: order[n.outputs]))


def _failed(backend: Backend, node: Node, error: Exception) -> MlfError:
    if isinstance(error, MlfError):
        return error
    return _wrong(backend, node, f"{type(error).__name__}: {one_line(str(error))}")


def _wrong(backend: Backend, node: Node, text: str) -> MlfError:
    return MlfError(Problem("MLF0411", f"backend '{backend.name}': {text}", path=node.label))


def _merged(graph: Graph, groups: Sequence[_Group]) -> list[_Group]:
    """Parts of a backend that merges: one whose result only another reads joins that."""
    readers = _readers(graph)
    order = {n.outputs: k for k, n in enumerate(graph.nodes)}
    made: list[_Group] = []
    for group in reversed(groups):
        inside = [
            k
            for k, other in enumerate(made)
            if group.backend.merges
            and other.backend is group.backend
            and group.made not in graph.outputs
            and readers[group.made]
            and all(r in {n.outputs for n in other.nodes} for r in readers[group.made])
        ]
        if not inside:
            made.append(group)
            continue
        other = made[inside[0]]
        nodes = {n.outputs: n for n in (*group.nodes, *other.nodes)}
        joined = tuple(sorted(nodes.values(), key=lambda n: order[n.outputs]))
        made[inside[0]] = replace(other, nodes=joined)
    return made[::-1]


def _composite(graph: Graph, group: _Group, symbol: str, target: Target) -> Node:
    """The node that stands for a part, with its C."""
    nodes, last = group.nodes, group.nodes[-1]
    made = {o for n in nodes for o in n.outputs}
    read = dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made)
    inputs = tuple(i for i in read if i not in graph.consts)
    names = {*read, *made}
    part = Graph(
        symbol,
        inputs,
        last.outputs,
        nodes,
        {n: graph.types[n] for n in graph.types if n in names},
        {n: graph.consts[n] for n in graph.consts if n in names},
    )
    try:
        code = group.backend.compile(part, target)
    except Exception as error:
        raise _failed(group.backend, last, error) from error
    _check_code(group.backend, last, code)
    external = Part(group.backend.name, group.backend.device, symbol, part, code)
    return Node(COMPOSITE, inputs, last.outputs, {PART: external}, last.name)


_TAKEN = {"workspace", "context"}
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}\.h")


def _check_code(backend: Backend, node: Node, code: object) -> None:
    """Raises MlfError unless it is C with constants of types that we have."""
    if not isinstance(code, BackendCode):
        text = f"compile returned {type(code).__name__}; expected an mlftool.backends.BackendCode"
        raise _wrong(backend, node, text)
    if not isinstance(code.body, str) or "return" not in code.body:
        raise _wrong(backend, node, "the body that compile returned has no return")
    if not isinstance(code.workspace_bytes, int) or not 0 <= code.workspace_bytes < 2**31:
        text = f"workspace_bytes is {code.workspace_bytes!r}; expected a number of bytes"
        raise _wrong(backend, node, text)
    for name in code.headers:
        if not _FILE.fullmatch(name):
            raise _wrong(backend, node, f"header '{name}'; expected a plain name that ends in .h")
    if not all(isinstance(data, bytes) for data in code.objects):
        raise _wrong(backend, node, "objects holds something else than bytes")
    for name, array in code.constants.items():
        fits = name.isidentifier() and name.isascii() and name not in KEYWORDS
        if not fits or name in _TAKEN or name[:2] == "in" or name[:3] == "out":
            text = f"constant '{name}'; expected a name in C that does not begin with in or out"
            raise _wrong(backend, node, text)
        known = isinstance(array, np.ndarray) and any(array.dtype == d.numpy for d in dtype.DTYPES)
        if not known:
            text = f"constant '{name}' is {type(array).__name__}; expected an array of numbers"
            raise _wrong(backend, node, text)
