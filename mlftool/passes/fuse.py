"""Elementwise operators join each other and the kernels around them, so that no tensor is stored
between them.

    %a = DequantizeLinear(%p); %b = DequantizeLinear(%q)
    %s = Add(%a, %b); %r = Relu(%s); %y = QuantizeLinear(%r)     =>   %y = Add(%p, %q) { all five }

    %p = QLinearConv(%x); %y = Add(%p, %q) { ... }          =>   %y = QLinearConv(%x, %q) { ... }
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.edit import Editor, joined
from mlftool.ir.graph import Array, Graph, Node
from mlftool.ops import Trait, is_a, record
from mlftool.ops.reference import evaluate, knows
from mlftool.ops.scalar import MOST_READS, operand_kind, reads
from mlftool.passes.order import rewrite

LONGEST_CHAIN = 64  # nodes in one kernel: beyond that a reader is lost and nothing is saved


def _nodes(node: Node) -> tuple[Node, ...]:
    return node.body or (node,)


def _is_elementwise(node: Node) -> bool:
    return all(is_a(n, Trait.ELEMENTWISE) for n in _nodes(node))


@rewrite(after="drop_constant_channels", level=1, tvm="FuseOps")
def fuse_chains(graph: Graph) -> Graph:
    """Elementwise nodes absorb elementwise producers that have no other reader.

    A DequantizeLinear is absorbed even when others read it: computing it again is cheaper than
    storing a float tensor.
    """
    e = Editor(graph)
    for node in list(e.nodes):
        if not e.holds(node) or not _is_elementwise(node):
            continue
        at = node
        for name in node.inputs:
            producer = e.producer(name)
            if producer is None or not _is_elementwise(producer):
                continue
            if record(_nodes(producer)[-1]).stores is not None:
                continue  # a quantised value is the cheap thing to store
            again = is_a(producer, Trait.DEQUANTISER) and not producer.body
            private = e.only_user(name) is at
            same = e.types[name].shape == e.types[at.outputs[0]].shape
            if (not private and not again) or (not same and not again):
                continue
            if len(_nodes(producer)) + len(_nodes(at)) > LONGEST_CHAIN:
                continue
            # A group's op and attrs are those of its last node; it has no core.
            # What both have comes first, since it is what the producer reads.
            held, made = _nodes(at), _nodes(producer)
            parts = (*made, *(n for n in held if not any(n is m for m in made)))
            whole = joined(parts, held[-1], at)
            e.substitute([at], [whole])
            at = whole
    return e.finish()


@rewrite(after="fuse_chains", level=1, tvm="FuseOps")
def tabulate(graph: Graph) -> Graph:
    """What maps one 8-bit value to an integer of 8 or 16 bits is a table of 256 results: a chain,
    and several where each reads only the first one's tensor and tables of it.

        %s = { Q(Sigmoid(DQ(%x))) }; %y = { Q(Mul(DQ(%x), DQ(%s))) }   =>   %y = mlf.Table(%x)
    """
    e = Editor(graph)
    for node in list(e.nodes):
        if not _is_elementwise(node):
            continue
        found = _source(e, node)
        if found is None or (not node.body and found == node.inputs[0]):
            continue  # a single operator on the tensor itself is cheap as it is
        x, y = e.types[found], e.types[node.outputs[0]]
        small = y.dtype.kind in "iu" and y.dtype.bits in (8, 16)
        if not x.dtype.is_int8 or not small or x.shape != y.shape:
            continue
        values = {found: np.arange(256, dtype=np.uint8).view(x.dtype.numpy)}
        for name in _tensors(e, node):
            if name != found:
                values[name] = _results(e, name)
        for n in _nodes(node):
            args = [values.get(i, e.consts.get(i)) if i else None for i in n.inputs]
            values[n.outputs[0]] = evaluate(n, args)
        table = e.const(node.outputs[0] + ".table", values[node.outputs[0]])
        e.substitute([node], [e.add("mlf.Table", (found, table), node, node.outputs[0])])
    return e.finish()


def _tensors(e: Editor, node: Node) -> list[str]:
    return [i for i in node.inputs if i and i not in e.consts]


def _results(e: Editor, name: str) -> Array:
    """Of the table that makes a tensor."""
    producer = e.producer(name)
    assert producer is not None
    return e.consts[producer.inputs[1]]


def _source(e: Editor, node: Node) -> str | None:
    """The one tensor that a node is a function of, looking through tables. None if there are
    several, or if the standard's evaluation does not know the node.

    A table is looked through where it has no other reader, or where its source is alive anyway:
    else two tensors would be kept instead of one.
    """
    tensors = _tensors(e, node)
    if not all(map(knows, _nodes(node))) or any(
        e.consts[i].size != 1 for i in node.inputs if i in e.consts
    ):
        return None
    makers = {name: e.producer(name) for name in tensors}
    behind = {n: m.inputs[0] for n, m in makers.items() if is_a(m, Trait.TABLE)}
    sources = {name if name in behind.values() else behind.get(name, name) for name in tensors}
    if len(tensors) == 1 and tensors[0] in behind and e.only_user(tensors[0]) is not node:
        sources = set(tensors)
    return sources.pop() if len(sources) == 1 else None


@rewrite(after="tabulate", level=1, tvm="FuseOps")
def fuse_prologues(graph: Graph) -> Graph:
    """Kernels that can, dequantise what they load."""
    e = Editor(graph)
    for node in list(e.nodes):
        if not is_a(node, Trait.PROLOGUE) or node.body or len(node.outputs) > 1:
            continue
        source = e.producer(node.inputs[0])
        if source is None or not _is_elementwise(source):
            continue
        if node.inputs.count(node.inputs[0]) > 1:  # another operand reads what would not be stored
            continue
        if sum(i not in e.consts for i in source.inputs if i) != 1 or any(
            e.consts[i].size != 1 for i in source.inputs if i in e.consts
        ):
            continue
        if e.types[source.inputs[0]].dtype.packed or not _stays_small(e, source):
            continue
        if (
            source.inputs[0] in e.consts
            or e.types[source.inputs[0]].shape != e.types[node.inputs[0]].shape
        ):
            continue
        if e.only_user(node.inputs[0]) is not node and not is_a(source, Trait.DEQUANTISER):
            continue
        e.substitute([node], [joined((*_nodes(source), node), node, node)])
    return e.finish()


def _stays_small(e: Editor, source: Node) -> bool:
    """Whether the text of a prologue has each element a few times only."""
    nodes = _nodes(source)
    if any(len(n.inputs) > 2 and is_a(n, Trait.STEPWISE) for n in nodes):
        return False
    return reads(e.types, e.consts, nodes) <= MOST_READS


@rewrite(after="fuse_prologues", level=1, tvm="FuseOps")
def fuse_epilogues(graph: Graph) -> Graph:
    """Elementwise groups join the kernel that makes their last-computed operand."""
    e = Editor(graph)
    for node in list(e.nodes):
        if _is_elementwise(node):
            host = _host(e, node)
            if host is not None:
                core = host.core
                e.substitute([host, node], [joined((*_nodes(host), *_nodes(node)), core, node)])
    return e.finish()


def _host(e: Editor, group: Node) -> Node | None:
    """The latest node whose kernel can carry `group` as its epilogue."""
    hosts = []
    own = {out for n in _nodes(group) for out in n.outputs}
    for name in group.inputs:
        host = e.producer(name)
        if not is_a(host, Trait.EPILOGUE) or e.only_user(name) is not group:
            continue
        if own.intersection(host.inputs):
            continue  # what the group computes again, such as a DequantizeLinear, the host reads
        if len(host.outputs) > 1:
            continue  # only one of them could be what is stored
        out = e.types[group.outputs[0]]
        if e.types[name].shape != out.shape:
            continue
        others = [i for i in group.inputs if i and i != name]
        inner = [
            i
            for n in _nodes(group)
            for i in n.inputs
            if i and i in e.types and i not in others and i != name
        ]
        if out.dtype.packed or e.types[name].dtype.packed:
            continue  # kernels store where they please; packed elements must come in order
        if any(operand_kind(e.types[i], out) is None for i in others):
            continue
        if any(e.types[i].elements not in (1, out.elements) for i in inner):
            continue
        hosts.append(host)
    return max(hosts, key=e.position, default=None)
