"""Quantised tensors of uint8 become int8, 128 less, which is what most kernels of bytes take.

Inputs and outputs of the graph keep their type: their highest bit is inverted where they meet the
others.

    %y: uint8 = QLinearConv(%x: uint8, 0.1, 128, w, 0.2, 0, 0.3, 3)
    %z: uint8 = QLinearConv(%y, 0.3, 3, v, 0.2, 0, 0.5, 0)
                    =>   %a: int8 = mlf.TopBit(%x)
                         %b: int8 = QLinearConv(%a, 0.1, 0, w, 0.2, 0, 0.3, -125)
                         %c: int8 = QLinearConv(%b, 0.3, -125, v, 0.2, 0, 0.5, -128)
                         %z: uint8 = mlf.TopBit(%c)

Sums of products and pools take int8 wherever they can. What only moves elements, converts or adds
them follows if fewer bytes are inverted then. plan/borders.py lets kernels do it that can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import uint8
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, Node
from mlftool.ops.base import Trait, contracts, is_a
from mlftool.passes.order import rewrite
from mlftool.signs import other, places, retyped


@rewrite(after="average_to_integer", before="channels_last", level=2)
def to_signed(graph: Graph) -> Graph:
    """uint8 tensors between sums of products, and constants that these read, become int8."""
    e = Editor(graph)
    uses = [_use(e, node) for node in e.nodes]
    signed = _signed(e, uses)
    free = {id(u.node): u.free if u.gains else u.free & signed for u in uses}
    for u in uses:  # constants follow what they are read with
        if u.gains or free[id(u.node)]:
            free[id(u.node)] |= u.constants
    if any(free.values()):
        _rewrite(e, uses, free)
    return e.finish()


@frozen
class _Use:
    """A node's tensors of uint8: `free` ones may be int8, `constants` too, `fixed` ones not."""

    node: Node
    free: set[str]
    fixed: set[str]
    constants: set[str]
    gains: bool  # it is one of the nodes that this is for


def _use(e: Editor, node: Node) -> _Use:
    at = places(e, node)
    free: set[str] = set()
    fixed: set[str] = set()
    constants: set[str] = set()
    for held, names in ((at.inputs, node.inputs), (at.outputs, node.outputs)):
        for k, name in enumerate(names):
            if not name or e.types[name].dtype != uint8:
                continue
            if name not in e.consts:
                (free if k in held else fixed).add(name)
            elif k in held:
                constants.add(name)
    sums = contracts(node) is not None or is_a(node, Trait.SPATIAL)
    gains = sums and any(zero is not None for zero in at.inputs.values())
    return _Use(node, free, fixed, constants, gains)


def _signed(e: Editor, uses: Sequence[_Use]) -> set[str]:
    """The tensors that become int8 where they are read and made. Those of nodes that do not gain do
    so together, if fewer bytes are inverted then than if they stay."""
    group = {n: n for u in uses for n in (*u.free, *u.fixed)}
    group |= {n: n for n in (*e.inputs, *e.outputs) if e.types[n].dtype == uint8}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for u in uses:
        first, *others = sorted(u.free) if u.free and not u.gains else [""]
        for name in others:
            group[root(name)] = root(first)
    wanted = {n for u in uses if u.gains for n in u.free}
    kept = {n for u in uses for n in u.fixed} | {*e.inputs, *e.outputs} & group.keys()
    saved: Counter[str] = Counter()
    for name in group:
        saved[root(name)] += e.types[name].elements * ((name in wanted) - (name in kept))
    return {name for name in group if saved[root(name)] > 0}


def _rewrite(e: Editor, uses: Sequence[_Use], changed: Mapping[int, set[str]]) -> None:
    """Nodes get int8 for what `changed` names, by their identity; TopBits where both types meet."""
    names = sorted(set().union(*changed.values()) - e.consts.keys())
    new = {name: e.fresh(name + ".s8", other(e.types[name])) for name in names}
    made = {n for u in uses for n in u.node.outputs if n in changed[id(u.node)]}
    bytes_ = {n for u in uses for n in (*u.free, *u.fixed) if n not in changed[id(u.node)]}
    bytes_ |= {*e.outputs}
    there = set(made)
    for u in uses:
        taken = changed[id(u.node)]
        before = [n for n in u.node.inputs if n in taken and n in new and n not in there]
        there |= {*before}
        flips = [e.add("mlf.TopBit", (n,), u.node, new[n]) for n in dict.fromkeys(before)]
        back = [n for n in u.node.outputs if n in taken and n in bytes_]
        after = [e.add("mlf.TopBit", (new[n],), u.node, n) for n in back]
        if taken:
            node = retyped(e, u.node, {n: new.get(n) or _constant(e, n) for n in taken})
            e.substitute([u.node], [*flips, node, *after])


def _constant(e: Editor, name: str) -> str:
    value = (e.consts[name] ^ np.uint8(128)).view(np.int8)
    return e.const(name + ".s8", value)
