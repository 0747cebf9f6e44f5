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
LENGTH = ".length"  # of one that says how many elements a sequence has, -1 for an absent optional


def is_deferred(model: ModelProto) -> bool:
    """Whether shapes of inputs are known when they are there: how many tensors a sequence holds, or
    extents that are symbols."""
    stored = {t.name for t in model.graph.initializer}
    return any(
        not i.type.HasField("tensor_type")
        or any(not d.HasField("dim_value") for d in i.type.tensor_type.shape.dim)
        for i in model.graph.input
        if i.name not in stored
    )


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
        name = element(info.name, len(held))
        held.append(cut(arrays[name], arrays.get(name + EXTENTS)))
    length = int(arrays[info.name + LENGTH]) if info.name + LENGTH in arrays else len(held)
    return None if length < 0 else held[:length]


def cut(array: Array, extents: Array | None) -> Array:
    """`array`, a box of upper bounds, without the room beyond its true extents."""
    return array if extents is None else array[tuple(slice(int(n)) for n in extents)]
