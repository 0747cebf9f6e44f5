"""Every graph output is stored by a node of its own.

return %x                 =>   %x' = mlf.Copy(%x);  return %x'     (an input or constant)
%v = Reshape(%x)          =>   %v = mlf.Copy(%x)                   (when %x lives elsewhere)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mlftool.errors import MlfError, Problem
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, Node
from mlftool.ops import Trait, is_a
from mlftool.passes.order import rewrite


@rewrite(after="fuse_epilogues")
def store_outputs(graph: Graph) -> Graph:
    """Outputs that are inputs, constants, or views of something another buffer holds are copied:
    of several views of one value all but the first that is made, which others may be views of."""
    e = Editor(graph)
    taken: set[str] = set()
    order = {out: k for k, n in enumerate(graph.nodes) for out in n.outputs}
    for name in sorted(graph.outputs, key=lambda name: order.get(name, -1)):
        producer = e.producer(name)
        if is_a(producer, Trait.VIEW):
            root = _root(e, name)
            if e.producer(root) is None or root in e.outputs or root in taken:
                e.substitute(
                    [producer], [replace(producer, op="mlf.Copy", inputs=(root,), attrs={})]
                )
            taken.add(root)
    return _copy_unmade(e.finish())


def rename_outputs(graph: Graph, names: tuple[str, ...], file: str) -> Graph:
    """The graph with other names for its outputs; without `names` as it is. Values inside give way;
    inputs keep their names, so one that is an output too is copied. Raises MlfError for names that
    are not one for each output, or taken."""
    if not names:
        return graph
    text = ""
    if len(names) != len(graph.outputs):
        text = f"{len(names)} output names; expected {len(graph.outputs)}"
    elif len(set(names)) != len(names) or not all(names):
        text = "an output name is empty or given twice"
    elif taken := [n for n in names if n in graph.inputs]:
        text = f"output name '{taken[0]}' is an input's"
    if text:
        raise MlfError(Problem("MLF0400", text, file))
    return _renamed_outputs(graph, names)


def _renamed_outputs(graph: Graph, names: tuple[str, ...]) -> Graph:
    made = {out for n in graph.nodes for out in n.outputs}
    new = {old: name for old, name in zip(graph.outputs, names, strict=True) if old in made}
    for value in graph.types:
        other = value
        while value not in new and other in names:
            other += "_"
        new.setdefault(value, other)
    types = {new[n]: t for n, t in graph.types.items()}
    nodes = [_renamed(n, new) for n in graph.nodes]
    for old, name in zip(graph.outputs, names, strict=True):
        if old not in made:
            types[name] = graph.types[old]
            nodes.append(Node("mlf.Copy", (new[old],), (name,), {}, f"copy of {old}"))
    consts = {new[n]: c for n, c in graph.consts.items()}
    return graph.replace(outputs=names, nodes=tuple(nodes), types=types, consts=consts)


def _renamed(node: Node, new: Mapping[str, str]) -> Node:
    return replace(
        node,
        inputs=tuple(new.get(i, i) for i in node.inputs),
        outputs=tuple(new.get(o, o) for o in node.outputs),
    )


def _root(e: Editor, name: str) -> str:
    producer = e.producer(name)
    while is_a(producer, Trait.VIEW):
        name = producer.inputs[0]
        producer = e.producer(name)
    return name


def _copy_unmade(graph: Graph) -> Graph:
    """Outputs that no node makes get a Copy; the output keeps its name, its source a new one."""
    made = {out for n in graph.nodes for out in n.outputs}
    nodes, types, consts = list(graph.nodes), dict(graph.types), dict(graph.consts)
    inputs = graph.inputs
    for name in graph.outputs:
        if name in made or (name in consts and not consts[name].size):
            continue  # it is made already, or there is nothing to store
        source = name + ".in"
        while source in types:
            source += "_"
        types[source] = types[name]
        if name in consts:
            consts[source] = consts.pop(name)
        inputs = tuple(source if i == name else i for i in inputs)
        nodes = [_reading(n, name, source) for n in nodes]
        nodes.append(Node("mlf.Copy", (source,), (name,), {}, f"copy of {name}"))
    return graph.replace(nodes=tuple(nodes), types=types, consts=consts, inputs=inputs)


def _reading(node: Node, old: str, new: str) -> Node:
    """`node` and all nodes inside it, reading `new` where they read `old`."""
    if old not in node.inputs:
        return node
    inputs = tuple(new if i == old else i for i in node.inputs)
    return replace(node, inputs=inputs, body=tuple(_reading(n, old, new) for n in node.body))
