"""The origin of generated C, and its header's description of the tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mlftool.codegen.names import comment, parameter
from mlftool.codegen.options import Options
from mlftool.ir.graph import Graph
from mlftool.ops import Trait, is_a
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
    }


def c_float(value: float) -> str:
    """A float constant that is this value, such as "0.0078125f"."""
    text = f"{value:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def quantisation(graph: Graph, name: str) -> tuple[float | None, int | None]:
    """Scale and zero point of a quantised input or output, seen through views."""
    if name in graph.quantised:
        return graph.quantised[name]
    node = next((n for n in graph.nodes if name in n.outputs), None)
    if name in graph.inputs:
        node = next((n for n in graph.nodes if name in n.inputs), None)
        if is_a(node, Trait.VIEW) or is_a(node, Trait.TRANSPOSITION):
            return quantisation(graph.replace(inputs=node.outputs), node.outputs[0])
    if not is_a(node, Trait.DEQUANTISER if name in graph.inputs else Trait.QUANTISER):
        return None, None
    values = [graph.consts.get(i) for i in node.inputs[1:]]
    if any(v is None or v.size != 1 for v in values):
        return None, None
    zero = values[1].item() if len(values) > 1 and values[1] is not None else 0
    assert values[0] is not None
    return float(values[0].item()), int(zero)
