"""The origin of generated C, and its header's description of the tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mlftool.codegen.names import comment, parameter
from mlftool.codegen.options import Options
from mlftool.ir.graph import Graph, Node
from mlftool.ops import Trait, is_a
from mlftool.ops.base import contracts, record
from mlftool.version import VERSION


def origin(options: Options, interface: Graph) -> dict[str, str]:
    """The version, the model's hash, and an identity that differs where models or tensors do."""
    tensors = [f"{n} {interface.types[n]}" for n in (*interface.inputs, *interface.outputs)]
    text = "\n".join((options.model_sha256, *tensors))
    return {
        "version": VERSION,
        "model_sha256": options.model_sha256,
        "identity": hashlib.sha256(text.encode()).hexdigest()[:16],
    }


def tensors(
    graph: Graph, names: tuple[str, ...], members: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The templates' values for inputs or outputs; `type` is "" if plain C has no name for it."""
    return [_tensor(graph, n, members[n]) for n in names]


def _tensor(graph: Graph, name: str, member: str) -> dict[str, Any]:
    type_ = graph.types[name]
    scale, zero_point = quantisation(graph, name)
    return {
        "member": member,
        "parameter": parameter(member),
        "macro": member.upper(),
        "bytes": type_.bytes,
        "comment": f"{comment(name)}: {type_}",
        "dtype": type_.dtype.name,
        "type": "" if type_.dtype.kind in "bs" else type_.dtype.c,
        "shape": type_.shape,
        "scale": None if scale is None else c_float(scale),
        "zero_point": zero_point,
        "name": name,
        "kept": name in graph.inputs + graph.outputs and name not in graph.taken + graph.given,
    }


def c_float(value: float) -> str:
    """A float constant that is this value, such as "0.0078125f"."""
    text = f"{value:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def quantisation(graph: Graph, name: str) -> tuple[float | None, int | None]:
    """Scale and zero point of a quantised input or result, seen through what moves elements."""
    if name in graph.quantised:
        return graph.quantised[name]
    node = next((n for n in graph.nodes if name in n.outputs), None)
    if name in graph.inputs:
        node = next((n for n in graph.nodes if name in n.inputs), None)
        if is_a(node, Trait.VIEW) or is_a(node, Trait.TRANSPOSITION):
            return quantisation(graph.replace(inputs=node.outputs), node.outputs[0])
    elif node is not None and _same_numbers(graph, node):
        return quantisation(graph, node.inputs[0])
    read = name if name in graph.inputs else ""
    values = [graph.consts.get(i) for i in _scale_and_zero(node, read)]
    if not values or any(v is None or v.size != 1 for v in values):
        return None, None
    zero = values[1].item() if len(values) > 1 and values[1] is not None else 0
    assert values[0] is not None
    return float(values[0].item()), int(zero)


def _same_numbers(graph: Graph, node: Node) -> bool:
    """Whether its output holds elements of its first input."""
    traits = (Trait.VIEW, Trait.MOVES_DATA, Trait.ORDER_PRESERVING)
    if not any(is_a(node, t) for t in traits) or not all(node.inputs[:1]):
        return False
    types = [graph.types[n].dtype for n in (*node.inputs[:1], node.result)]
    computed = tuple(n for n in node.inputs if n not in graph.consts)
    return len(set(types)) == 1 and computed == node.inputs[:1]


def _scale_and_zero(node: Node | None, read: str) -> tuple[str, ...]:
    """The constants that say what the integers stand for that a node gives, or reads as `read`."""
    if node is None:
        return ()
    if read:
        at = next((k + 1 for k in record(node).reads if node.inputs[k] == read), None)
    else:
        c = contracts(node)
        at = c.y_scale if c is not None else record(node).stores
    return () if at is None else node.inputs[at : at + 2]
