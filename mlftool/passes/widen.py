"""float16 and bfloat16 are computed in float32 where a kernel family does not know them.

%y = Conv(%x, %w)   =>   %a = Cast(%x); %b = Cast(%w); %c = Conv(%a, %b); %y = Cast(%c)

Elementwise operators read and round narrow floats themselves, and those that move data need not
look at them; all others compute in float32 and round once, at their end. Softmax rounds its
exponentials and their sum as well, which is what the standard's reference does.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.dtype import HALVES, float32
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ops import Trait, is_a
from mlftool.ops.base import ROUNDED
from mlftool.passes.order import rewrite

NATIVE = (Trait.ELEMENTWISE, Trait.VIEW, Trait.MOVES_DATA, Trait.NARROW)


@rewrite(after="canonicalise")
def widen(graph: Graph) -> Graph:
    """No node outside of those families reads or makes a 16-bit float."""
    e = Editor(graph)
    for node in list(e.nodes):
        values = [n for n in (*node.inputs, *node.outputs) if n]
        native = node.graphs or any(is_a(node, t) for t in NATIVE)  # bodies are widened inside
        if not native and any(_narrow(e, n) for n in values):
            _widen(e, node)
    return e.finish()


def _narrow(e: Editor, name: str) -> bool:
    return name in e.types and e.types[name].dtype.name in HALVES


def _widen(e: Editor, node: Node) -> None:
    before: dict[str, Node] = {}
    after = []
    for name in node.inputs:
        if name and _narrow(e, name) and name not in before:
            wide = e.fresh(name + ".wide", TensorType(float32, e.types[name].shape))
            before[name] = e.add("Cast", (name,), node, wide, {"to": float32.onnx})
    outputs = list(node.outputs)
    for k, name in enumerate(outputs):
        if name and _narrow(e, name):
            type_ = e.types[name]
            outputs[k] = e.fresh(name + ".wide", TensorType(float32, type_.shape))
            after.append(e.add("Cast", (outputs[k],), node, name, {"to": type_.dtype.onnx}))
    inputs = tuple(before[i].outputs[0] if i in before else i for i in node.inputs)
    attrs = dict(node.attrs)
    if is_a(node, Trait.ROUNDS_STEPS):
        attrs[ROUNDED] = e.types[node.inputs[0]].dtype.name
    core = replace(node, inputs=inputs, outputs=tuple(outputs), attrs=attrs)
    e.substitute([node], [*before.values(), core, *after])
