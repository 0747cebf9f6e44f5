"""The comments above functions of generated C: the model's layer, and its kernel."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlftool.codegen.names import comment
from mlftool.ir.graph import Graph, Node
from mlftool.ops.base import Operand, Trait, is_a
from mlftool.plan.program import Call, Program

WIDTH = 98
_LONGEST_NAME = 60


def describe(program: Program, call: Call) -> str:
    """Comment lines above a function: operators and ONNX name, attributes, inputs and outputs with
    shape, layout and quantisation, and the kernel with its runner-up."""
    graph, node = program.graph, call.node
    nodes = node.body or (node,)
    scales = dict(quantisation(graph, nodes))
    ops = " + ".join(n.op.rsplit(".", 1)[-1] for n in nodes)
    attributes = [f"{name} {value}" for n in nodes for name, value in _attributes(n)]
    lines = [", ".join([f"{ops} {comment(node.name, _LONGEST_NAME)}", *attributes])]
    read = [n for n in dict.fromkeys(node.inputs) if n and n not in graph.consts]
    for word, names in (("in", read), ("out", [n for n in node.outputs if n])):
        lines += [f"  {word} {_tensor(graph, node, name, scales)}" for name in names]
    lines.append(f"  by {_kernel(call)}")
    return "".join(f"// {line}\n" for text in lines for line in _wrapped(text))


# Kernels' names for the constants that they compute from a layer's scales and bias.
_ROLES = {
    "b": "bias, zero points folded in",
    "m": "requantisation multipliers",
    "scale": "x_scale * w_scale / y_scale",
}


def describe_constant(graph: Graph, call: Call, operand: Operand) -> str:
    """Which tensor of the model an array holds, and how it is packed."""
    assert operand.array is not None
    nodes = call.node.body or (call.node,)
    known = [n for node in nodes for n in node.inputs if n in graph.consts]
    for name in known:
        value = graph.consts[name]
        same = value.dtype == operand.array.dtype and value.shape == operand.array.shape
        if same and value.tobytes() == operand.array.tobytes():
            return comment(name, _LONGEST_NAME)
    weights = next((n for n in known if graph.consts[n].ndim > 1), "")
    name = operand.holds or (weights if operand.name == "w" else "")
    if not name:
        is_sum = operand.name == "b" and operand.array.dtype.kind == "f"  # has no zero points
        role = "bias" if is_sum else _ROLES.get(operand.name, operand.name)
        return operand.note or role
    how = operand.note or f"as {call.kernel.name} reads it"
    return f"{comment(name, _LONGEST_NAME)} {graph.types[name]}, {how}"


def quantisation(graph: Graph, nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    """(value, how its integers are meant) of inputs and results. Operators name a scale and a zero
    point after the tensor that they belong to, and those of the output after all inputs."""
    for node in nodes:
        inputs, k = node.inputs, 0
        while k < len(inputs):
            if _is_scale(graph, inputs, k):
                yield node.result, _meaning(graph, inputs[k], inputs[k + 1])
                k += 2
            elif _is_scale(graph, inputs, k + 1) and _is_narrow(graph, inputs[k]):
                yield inputs[k], _meaning(graph, inputs[k + 1], inputs[k + 2])
                k += 3
            else:
                k += 1


def _is_scale(graph: Graph, inputs: Sequence[str], k: int) -> bool:
    """Whether input `k` is a constant float, and the next one a constant integer."""
    pair = [graph.consts.get(name) for name in inputs[k : k + 2]]
    kinds = [p.dtype.kind for p in pair if p is not None and p.size]
    return len(kinds) == 2 and kinds[0] == "f" and kinds[1] in "iu"


def _is_narrow(graph: Graph, name: str) -> bool:
    """Whether a value is of integers that have a scale: sums of 32 bits do not."""
    type_ = graph.types.get(name)
    return type_ is not None and type_.dtype.kind in "iu" and type_.dtype.bits < 32


def _meaning(graph: Graph, scale: str, zero: str) -> str:
    by, offset = graph.consts[scale], int(graph.consts[zero].reshape(-1)[0])
    text = f"{by.size} scales" if by.size > 1 else f"{float(by.reshape(-1)[0]):.6g}"
    return f"{text} * " + (f"(q {'-' if offset > 0 else '+'} {abs(offset)})" if offset else "q")


def _tensor(graph: Graph, node: Node, name: str, scales: Mapping[str, str]) -> str:
    type_ = graph.types[name]
    # What passes/layout.py turned: the output of such a node has its mark.
    turned = is_a(node.core, Trait.SPATIAL) and node.result.endswith(".nhwc")
    layout = " channels last" if turned and len(type_.shape) > 2 else ""
    meaning = f", {scales[name]}" if name in scales else ""
    return f"{type_}{layout}{meaning}"


def _attributes(node: Node) -> Iterator[tuple[str, str]]:
    """Those that are numbers or words, but for ones that say nothing and our own."""
    silent: dict[str, Any] = {"group": 1, "dilations": 1, "strides": 1, "pads": 0, "transB": 0}
    for name, value in sorted(node.attrs.items()):
        numbers = list(value) if isinstance(value, (list, tuple)) else [value]
        plain = all(isinstance(x, (int, float, str)) for x in numbers) and len(numbers) <= 12
        if (
            plain
            and not name.startswith("mlf.")
            and not all(x == silent.get(name) for x in numbers)
        ):
            yield comment(name), comment(" ".join(map(str, numbers)), 60)


def _kernel(call: Call) -> str:
    kernel = call.kernel
    if not call.rivals:
        return kernel.name
    name, cost = call.rivals[0]
    return f"{kernel.name}, estimated at {kernel.cost:.3g} instructions; {name} at {cost:.3g}"


def _wrapped(text: str) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent + "  ", break_long_words=False)
