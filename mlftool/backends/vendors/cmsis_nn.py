"""CMSIS-NN 7, a library for Cortex-M: int8 convolutions, dense layers, pools, softmax, sums and
products."""

from __future__ import annotations

from mlftool.backends.base import Backend
from mlftool.backends.cmsis.code import VERSION, beyond, code_of
from mlftool.backends.cmsis.forms import form_of
from mlftool.ir.external import BackendCode, Library
from mlftool.ir.graph import Graph, Node
from mlftool.targets import Target


def accepts(graph: Graph, node: Node, target: Target) -> tuple[Node, ...] | str:
    found = form_of(graph, node)
    if isinstance(found, str):
        return found
    nodes, form = found
    return beyond(form, target) or nodes


def compile(part: Graph, target: Target) -> BackendCode:
    """C for the operator that the part is."""
    found = form_of(part, part.nodes[-1])
    assert not isinstance(found, str), found
    return code_of(found[1], target, part.inputs)


BACKEND = Backend(
    "cmsis-nn",
    accepts,
    compile,
    libraries=(Library("cmsis-nn", VERSION, "https://github.com/ARM-software/CMSIS-NN"),),
)
