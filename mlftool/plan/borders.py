"""Bytes become int8 in the kernels that read a model's inputs, and uint8 in those that make its
outputs, where the target has kernels that do it at no greater cost than a pass over the tensor.

    %a: int8 = mlf.TopBit(%x: uint8); %y = QLinearConv(%a, 0.1, 0, ...)
                                          =>   %y = QLinearConv(%x, 0.1, 128, ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mlftool.ir.edit import Editor, joined
from mlftool.ir.graph import Graph, Node
from mlftool.ops import Trait, is_a
from mlftool.plan.select import cost_of
from mlftool.signs import places, retyped, rounds_late
from mlftool.targets import Target


def without_borders(graph: Graph, target: Target) -> Graph:
    """The graph without TopBits that a neighbour takes over."""
    graph = _beside_kernels(graph)
    for node in [n for n in graph.nodes if is_a(n, Trait.TOP_BIT)]:
        own = cost_of(graph, node, target)
        for other, join in ((_reader, _into_reader), (_maker, _into_maker)):
            e = Editor(graph)
            neighbour = other(e, node)
            made = join(e, neighbour, node) if neighbour else None
            if neighbour is None or made is None:
                continue
            e.substitute([neighbour, node], [made])
            better = e.finish()
            if cost_of(better, made, target) <= own + cost_of(graph, neighbour, target):
                graph = better
                break
    return graph


def _beside_kernels(graph: Graph) -> Graph:
    """No view is between a TopBit and what computes."""
    e = Editor(graph)
    for node in [n for n in graph.nodes if is_a(n, Trait.TOP_BIT)]:
        for other in (_reader, _maker):
            while (view := other(e, node)) is not None and is_a(view, Trait.VIEW):
                pair = [node, view] if other is _reader else [view, node]
                node = swapped(e, *pair)[other is _reader]
    return e.finish()


def swapped(e: Editor, first: Node, second: Node) -> tuple[Node, Node]:
    """Two nodes, one of which computes each element by itself and the other none, in the other
    order."""
    x, y = e.types[first.inputs[0]], e.types[second.outputs[0]]
    like = replace(x, shape=y.shape) if is_a(second, Trait.VIEW) else replace(y, shape=x.shape)
    between = e.fresh(second.outputs[0] + ".view", like)
    made = replace(second, inputs=(first.inputs[0], *second.inputs[1:]), outputs=(between,))
    last = replace(first, inputs=(between, *first.inputs[1:]), outputs=second.outputs)
    e.substitute([first, second], [made, last])
    return made, last


def _reader(e: Editor, node: Node) -> Node | None:
    return e.only_user(node.outputs[0])


def _maker(e: Editor, node: Node) -> Node | None:
    made = e.producer(node.inputs[0])
    return made if made and e.only_user(node.inputs[0]) is node else None


def _into_reader(e: Editor, reader: Node, node: Node) -> Node | None:
    """The reader of what `node` reads, or None if it cannot be that."""
    (x,), (name,) = node.inputs, node.outputs

    def takes(part: Node) -> bool:
        zeros = places(e, part).inputs
        return all(zeros.get(k) is not None for k, n in enumerate(part.inputs) if n == name)

    return _retyped(e, reader, takes, {name: x})


def _into_maker(e: Editor, maker: Node, node: Node) -> Node | None:
    """The node that makes what `node` makes, or None if it cannot be that."""
    (name,), (y,) = node.inputs, node.outputs

    def takes(part: Node) -> bool:
        return name not in part.outputs or places(e, part).outputs.get(0) is not None

    return _retyped(e, maker, takes, {name: y}) if len(maker.outputs) == 1 else None


def _retyped(
    e: Editor, node: Node, takes: Callable[[Node], bool], new: Mapping[str, str]
) -> Node | None:
    """A node, fused or not, with another tensor of the other type."""
    parts = node.body or (node,)
    if not all(takes(p) and not rounds_late(p) for p in parts):
        return None
    made = tuple(retyped(e, p, new) for p in parts)
    if not node.body:
        return made[0]
    core = made[parts.index(node.core)]
    return joined(made, core, made[-1])
