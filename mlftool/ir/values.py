"""Values of a model as its generated C passes them: an ONNX sequence is as many tensors, and a
tensor whose extents are known at run time only comes in a box of upper bounds with its true
extents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlftool.ir.graph import Array, element

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

EXTENTS = ".shape"  # ends the name of an output that holds the true extents of another


def is_deferred(model: ModelProto) -> bool:
    """Whether some input is no tensor: how many tensors it holds is known when they are there."""
    return any(not i.type.HasField("tensor_type") for i in model.graph.input)


def taken_apart(named: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs by name with the elements of sequences as tensors of their own; None is left out."""
    flat: dict[str, Any] = {}
    for name, value in named.items():
        if isinstance(value, list):
            flat |= {element(name, k): one for k, one in enumerate(value)}
        elif value is not None:
            flat[name] = value
    return flat


def put_together(info: ValueInfoProto, arrays: Mapping[str, Array]) -> Any:
    """An output of the model: an array; a list if it is a sequence; None for an absent optional."""
    kind = info.type.WhichOneof("value")
    if info.name in arrays:
        return cut(arrays[info.name], arrays.get(info.name + EXTENTS))
    optional = kind == "optional_type"
    if optional and not info.type.optional_type.elem_type.HasField("sequence_type"):
        return None
    held: list[Array] = []
    while element(info.name, len(held)) in arrays:
        held.append(arrays[element(info.name, len(held))])
    return held


def cut(array: Array, extents: Array | None) -> Array:
    """`array`, a box of upper bounds, without the room beyond its true extents."""
    return array if extents is None else array[tuple(slice(int(n)) for n in extents)]
