"""Subgraphs: branches, loops, and what runs once."""

from __future__ import annotations

from mlftool.frontends.tflite.model import Tensor
from mlftool.frontends.tflite.site import Site, operator


def _is_flag(tensor: Tensor) -> bool:
    return tensor.type.dtype.name == "bool" and tensor.type.elements == 1


@operator("IF")
def if_(s: Site) -> None:
    """Input 0 is the condition; both branches take the others."""
    s.expect(_is_flag(s.x()), f"a condition {s.x().type}; expected one bool")
    names = [s.name(i) for i in range(len(s.node.inputs))]
    keys = {"then_branch": "then_subgraph_index", "else_branch": "else_subgraph_index"}
    graphs = {k: s.walk.branch(s.option(option), s.types(1)) for k, option in keys.items()}
    for graph in graphs.values():
        s.expect([graph.types[o] for o in graph.outputs] == s.made(), "branches with other outputs")
    outs = [s.out(k) for k in range(len(s.node.outputs))]
    s.add("If", names, outs[0], {}, graphs, outs[1:])


@operator("WHILE")
def while_(s: Site) -> None:
    """Inputs are the state; the body runs while the state meets the condition."""
    types = s.types()
    s.expect(types == s.made(), "outputs of other types than the inputs")
    names = [s.name(i) for i in range(len(s.node.inputs))]
    cond, body = s.option("cond_subgraph_index"), s.option("body_subgraph_index")
    start = s.walk.holds(s.draft, cond, names)
    graph = s.walk.loop_body(cond, body, types)
    outs = [s.out(k) for k in range(len(s.node.outputs))]
    s.add("Loop", ("", start, *names), outs[0], {}, {"body": graph}, outs[1:])


@operator("CALL_ONCE")
def call_once(s: Site) -> None:
    """The subgraph assigns the initial values of variables."""
    s.draft.starts |= s.walk.assigned(s.option("init_subgraph_index"))
