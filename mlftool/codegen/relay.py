"""`src/<module>.relay`: the imported model as Relay-shaped text, in a dialect of its own.

Relay has no spelling for many ONNX operators; those, here all, are calls to `onnx.<Op>`.
"""

from __future__ import annotations

from mlftool.codegen.names import sanitise
from mlftool.ir.graph import Graph, TensorType


def relay_text(graph: Graph) -> str:
    """One `def @main`, a line per node, constants by their types."""
    names = {n: f"%v{k}_{sanitise(n)[:40]}" for k, n in enumerate(graph.types)}

    def ty(t: TensorType) -> str:
        shape = ", ".join(map(str, t.shape)) + ("," if len(t.shape) == 1 else "")
        return f"Tensor[({shape}), {t.dtype}]"

    def arg(name: str) -> str:
        if not name:
            return "None"
        return f"const[{ty(graph.types[name])}]" if name in graph.consts else names[name]

    lines = ['#[version = "0.0.5"]', "/* mlftool dialect: operators are ONNX's */"]
    params = ", ".join(f"{names[n]}: {ty(graph.types[n])}" for n in graph.inputs)
    lines.append(f"def @main({params}) {{")
    for node in graph.nodes:
        attrs = "".join(f", {k}={_attr(v)}" for k, v in sorted(node.attrs.items()))
        outs = ", ".join(names[o] for o in node.outputs if o)
        args = ", ".join(map(arg, node.inputs))
        lines.append(f"  {outs} = onnx.{node.op}({args}{attrs});")
    results = ", ".join(map(arg, graph.outputs))
    lines.append(f"  ({results})" if len(graph.outputs) > 1 else f"  {results}")
    return "\n".join([*lines, "}", ""])


def _attr(value: object) -> str:
    if isinstance(value, str):
        return '"' + sanitise(value) + '"'
    if isinstance(value, float):
        return f"{value!r}f"
    return str(value)
