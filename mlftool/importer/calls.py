"""The model's own functions (`model.functions`, which torch's exporter writes): a call becomes the
nodes of the function's body, which are imported in the function's opsets.

    f(%x) { %t = Relu(%x); %r = Neg(%t) };  %y = f(%a)   =>   %y.t = Relu(%a); %y = Neg(%y.t)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from mlftool.importer.functions import with_names_of
from mlftool.importer.graphs import ordered
from mlftool.importer.interface import read_opsets
from mlftool.ir.edit import toposort
from mlftool.ir.graph import Node
from mlftool.onnx_rules.protos import called_name, subgraphs
from mlftool.onnx_rules.scope import Next, Outcome, Scope
from mlftool.onnx_rules.steps import standing_for
from mlftool.ops.base import known

MOST_NODES = 200_000  # of a graph without calls: each level of functions may double them


def called(scope: Scope, node: NodeProto) -> Outcome:
    """What a call of one of the model's functions stands for."""
    function = scope.functions.get(called_name(node))
    if function is None:
        return Next(node)
    nodes = with_names_of(scope, node, function)
    return standing_for(scope, nodes, read_opsets(function, lambda *problem: None))


def with_functions(scope: Scope, model: ModelProto) -> Scope:
    """`scope` with the functions that its graph calls, the nodes of each in order. Each is checked
    once; problems go to the scope's list."""
    stated: dict[str, FunctionProto] = {}
    for function in model.functions:
        name = called_name(function)
        if name in stated:
            scope.problem("MLF0207", f"function '{name}' is defined twice")
        elif known(name) is None:  # else what it would give is what we compute
            stated[name] = function
    scope = replace(scope, functions=stated)
    if problem := unbounded(model, stated):
        text, help = problem
        scope.problem("MLF0302", text, help=help)
        return scope
    needed = _sizes(model, stated)
    return replace(scope, functions={name: _checked(scope, stated[name]) for name in needed})


def unbounded(
    model: ModelProto, stated: Mapping[str, FunctionProto] | None = None
) -> tuple[str, str] | None:
    """What is wrong with calls, of `stated` or all functions, that do not end or stand for too many
    nodes, and the remedy. onnx and onnxruntime do not ask before they take calls apart."""
    stated = {called_name(f): f for f in model.functions} if stated is None else stated
    try:
        size = _sizes(model, stated)
    except ValueError as error:
        return f"function '{error}' calls itself; supported: other functions", ""
    if size and _size(model.graph.node, size) > MOST_NODES:
        text = f"its functions expand to more than {MOST_NODES} nodes"
        return text, "export the model with fewer calls of each function"
    return None


def _sizes(model: ModelProto, stated: Mapping[str, FunctionProto]) -> dict[str, int]:
    """How many nodes stand for each function that is called, inner ones first. Raises ValueError
    with the name of one that calls itself."""
    calls = {name: _calls(f.node, stated) for name, f in stated.items()}
    shells = [Node(name, tuple(inner), (name,)) for name, inner in calls.items()]
    size: dict[str, int] = {}
    for shell in toposort(shells, _calls(model.graph.node, stated)):
        size[shell.op] = _size(stated[shell.op].node, size)
    return size


def _every(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _every(graph.node)


def _calls(nodes: Sequence[NodeProto], stated: Mapping[str, FunctionProto]) -> list[str]:
    names = (called_name(node) for node in _every(nodes))
    return list(dict.fromkeys(name for name in names if name in stated))


def _size(nodes: Sequence[NodeProto], size: Mapping[str, int]) -> int:
    """How many nodes there are when calls are none any more, up to one more than MOST_NODES."""
    total = sum(size.get(called_name(node), 1) for node in _every(nodes))
    return min(total, MOST_NODES + 1)


def _checked(scope: Scope, function: FunctionProto) -> FunctionProto:
    """The function with its nodes in order, without those that it needs for nothing."""
    where, before = f"{scope.where}function '{called_name(function)}': ", len(scope.problems)
    inside = replace(scope, where=where, opsets=read_opsets(function, scope.problem))
    outputs = GraphProto(node=function.node)
    for name in function.output:
        outputs.output.add().name = name
    given = {*function.attribute, *(a.name for a in function.attribute_proto)}
    order = ordered(inside, outputs, function.input, before, given)
    made = FunctionProto()
    made.CopyFrom(function)
    del made.node[:]
    made.node.extend(order or ())
    return made
