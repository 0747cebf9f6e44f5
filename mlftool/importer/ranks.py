"""How many axes the inputs of a node have, and which of their extents are one: what the standard
says in words, and its shape inference takes for granted.

An operator's record has a form for each input, which names its axes: "tbi" has three. The same
letter is the same extent, a digit times a letter that many times it, "?" any extent, "*" any form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.ir.graph import TensorType
from mlftool.ops.base import Trait, Types, known, shown


def unfit(op: str, attrs: Mapping[str, Any], inputs: Types, output: TensorType) -> str:
    """What is wrong with the axes of a node's inputs, or ""."""
    first, record = inputs[0] if inputs else None, known(op)
    if first is None or record is None:
        return ""
    rank = len(first.shape)
    if Trait.SAME_RANK in record.traits and len(output.shape) != rank:
        shapes = map(shown, (first.shape, output.shape))
        return "input {} does not fit output {}".format(*shapes)
    axis = attrs.get("axis", 0)
    if Trait.AXIS in record.traits and rank and not -rank <= axis < rank:
        return f"axis {axis}; expected {-rank} to {rank - 1}"
    found = record.related(first.shape, attrs, inputs) if record.related else ""
    if found or record.forms is None:
        return found
    return _first_unfit(*record.forms(attrs), inputs)


def _first_unfit(forms: Sequence[str], extents: Mapping[str, int], inputs: Types) -> str:
    found = dict(extents)
    # A letter that stands alone says what it is before one that is multiplied.
    parsed = [_axes(form) for form in forms]
    for axes, type_ in zip(parsed, inputs, strict=False):
        if axes is None or type_ is None:
            continue
        if len(axes) != len(type_.shape):
            return f"an input of shape {shown(type_.shape)}; expected {len(axes)} axes"
        for (times, letter), extent in zip(axes, type_.shape, strict=True):
            if times == 1 and letter not in "?0":
                found.setdefault(letter, extent)
    for axes, type_ in zip(parsed, inputs, strict=False):
        if axes is None or type_ is None:
            continue
        for axis, (times, letter) in enumerate(axes):
            wanted = times if letter == "0" else times * found.get(letter, 0)
            if letter != "?" and type_.shape[axis] != wanted:
                text = f"an input of shape {shown(type_.shape)}"
                return f"{text}; expected {wanted} along axis {axis}"
    return ""


def _axes(form: str) -> list[tuple[int, str]] | None:
    """(how many times, letter) of each axis; letter "0" for a number. None for any form."""
    if form == "*":
        return None
    axes, at = [], 0
    while at < len(form):
        if form[at] == "[":
            end = form.index("]", at)
            axes.append((int(form[at + 1 : end - 1]), form[end - 1]))
            at = end
        elif form[at].isdecimal():
            axes.append((int(form[at]), "0"))
        else:
            axes.append((1, form[at]))
        at += 1
    return axes
