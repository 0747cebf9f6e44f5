"""uint8 as the int8 that is 128 less: its highest bit inverted. And how nodes take one type for the
other: zero points, limits and what padding holds are 128 less, too, so every real value stays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlftool.frozen import field, frozen, replace
from mlftool.ir.dtype import int8, uint8
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.rounding import RAISED, Rounding
from mlftool.ops.base import Kernel, Trait, contracts, is_a, like_first, op, record
from mlftool.ops.scalar import around

HALF = 128
OTHER = {"uint8": int8, "int8": uint8}


@op("mlf.TopBit", Trait.TOP_BIT, result=lambda types, attrs: other(like_first(types, attrs)))
def top_bit(v: View) -> Kernel:
    """uint8 to int8 or back, a word at a time."""
    n, x, row = v.y.elements, v.core.inputs[0], v.y.dtype.c
    flip = "-128" if row == "int8_t" else "128"
    return Kernel(
        "portable.top_bit",
        "elementwise.c.j2",
        {
            "head": [f"y[{k}] = ({row})(x[{k}] ^ {flip});" for k in range(n // 4 * 4, n)],
            "loops": [("i", n // 4)],
            "statements": [
                "uint32_t word;",
                "memcpy(&word, x + 4 * i, sizeof word);",
                "word ^= 0x80808080u;",
            ],
            "store": "memcpy(y + 4 * i, &word, sizeof word);",
        },
        around(v, x=x),
        cost=n * 1.25,
        inplace=(x,),
    )


def other(type_: TensorType) -> TensorType:
    """int8 for uint8 and uint8 for int8."""
    return replace(type_, dtype=OTHER[type_.dtype.name])


@frozen
class Places:
    """The inputs and outputs of a node that may hold either type, each with the input that is its
    zero point, or None where elements are only moved or compared. `fill` is the input with what
    padding holds."""

    inputs: Mapping[int, int | None] = field(default_factory=dict)
    outputs: Mapping[int, int | None] = field(default_factory=dict)
    fill: int | None = None


def commutes(node: Node) -> bool:
    """Whether it moves or compares elements, so that it may come before or after a rule that keeps
    their order. What a crop has beyond the image is a number that no input says."""
    moves = is_a(node, Trait.MOVES_DATA) or is_a(node, Trait.ORDER_PRESERVING)
    crops = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    return moves and not crops and node.attrs.get("reduction", "none") == "none"


def places(e: Editor, node: Node) -> Places:
    """Empty if a zero point is computed, or if the operator reads bytes in another way."""
    about, c = record(node), contracts(node)
    inputs, made = about.reads, about.stores
    if c is not None:
        inputs, made = (0, c.weights) if c.quantised else (), c.y_scale
    if inputs or made is not None:
        stored = made is not None and len(node.inputs) > made and node.inputs[made] != ""
        found = Places({k: k + 2 for k in inputs}, {0: made + 1} if stored and made else {})
    elif commutes(node):
        moved = about.moved
        read, held = (dict.fromkeys(at) for at in (moved.read(node), moved.made(node)))
        found = Places(read, held, moved.fill)
    else:
        return Places()
    needed = [*found.inputs.values(), *found.outputs.values(), found.fill]
    names = [node.inputs[k] for k in needed if k is not None and k < len(node.inputs)]
    return found if all(not name or name in e.consts for name in names) else Places()


def retyped(e: Editor, node: Node, new: Mapping[str, str]) -> Node:
    """The node with other names at its places, each of a tensor like the old one, of the other
    type. New zero points become constants."""
    at, inputs, outputs = places(e, node), list(node.inputs), list(node.outputs)
    late = rounds_late(node)
    changed = [(k, zero, node.inputs) for k, zero in at.inputs.items() if node.inputs[k] in new]
    changed += [(k, zero, node.outputs) for k, zero in at.outputs.items() if node.outputs[k] in new]
    for k, zero, names in changed:
        (inputs if names is node.inputs else outputs)[k] = new[names[k]]
        if zero is not None and not late:
            _shift(e, inputs, zero, names[k])
    if at.fill is not None and changed:
        _shift(e, inputs, at.fill, node.inputs[changed[0][0]])
    attrs = dict(node.attrs)
    if late and changed:
        attrs[RAISED] = HALF
    if outputs != list(node.outputs):
        attrs.pop("output_dtype", None)  # which the zero point says
    if outputs != list(node.outputs) and "activation" in attrs:
        by = _by(e, node.outputs[0])
        attrs["activation"] = tuple(n + by for n in attrs["activation"])
    return replace(node, inputs=tuple(inputs), outputs=tuple(outputs), attrs=attrs)


def rounds_late(node: Node) -> bool:
    """Whether zero points take part in the rounding, so that other ones would move ties."""
    return is_a(node, Trait.ROUNDS_LATE) or Rounding.of(node) is Rounding.LATE


def _by(e: Editor, name: str) -> int:
    """What is added to the numbers of a tensor that gets the other type."""
    return -HALF if e.types[name].dtype == uint8 else HALF


def _shift(e: Editor, inputs: list[str], k: int, of: str) -> None:
    """Input `k` is a number in the type of tensor `of`, 0 if it is left out."""
    inputs += [""] * (k + 1 - len(inputs))
    name = inputs[k]
    value = e.consts[name] if name else np.zeros((), e.types[of].dtype.numpy)
    shifted = (value.astype(np.int16) + _by(e, of)).astype(OTHER[e.types[of].dtype.name].numpy)
    inputs[k] = e.const((name or of + ".zero_point") + ".shifted", shifted)
