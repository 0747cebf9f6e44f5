"""How many axes the inputs of a node have, and which of their extents are one: what the standard
says in words, and its shape inference takes for granted.

A form names the axes of each input: "tbi" has three. The same letter is the same extent, a digit
times a letter that many times it, "?" any extent, "*" any form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlftool.ir.graph import TensorType

Types = Sequence[TensorType | None]
Shape = tuple[int, ...]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# Inputs of one form, whatever the operator's attributes are.
FORMS: Mapping[str, tuple[str, ...]] = {
    "AffineGrid": ("n??", "?"),
    "CenterCropPad": ("*", "?"),
    "DFT": ("*", "*", "*"),
    "DeformConv": ("nihw", "o???", "n?yx", "o", "n?yx"),
    "GridSample": ("*", "*"),
    "MaxRoiPool": ("????", "?5"),
    "Resize": ("*", "?", "?", "?"),
    "RoiAlign": ("????", "r4", "r"),
    "Upsample": ("*", "?"),
}
# The output has as many axes as the first input.
SAME_RANK = (
    *("CenterCropPad", "Pad", "Resize", "Slice", "Split", "Tile", "Upsample"),
    *("CumSum", "Hardmax", "LogSoftmax", "LpNormalization", "Softmax", "TopK"),
)
# `axis` is one of the first input's.
AXIS = (
    *("ArgMax", "ArgMin", "Compress", "Concat", "Gather", "GatherElements", "Hardmax"),
    *("LogSoftmax", "LpNormalization", "ScatterElements", "Softmax", "Split", "TopK"),
)


def unfit(op: str, attrs: Mapping[str, Any], inputs: Types, output: TensorType) -> str:
    """What is wrong with the axes of a node's inputs, or ""."""
    first = inputs[0] if inputs else None
    if first is None:
        return ""
    rank = len(first.shape)
    if op in SAME_RANK and len(output.shape) != rank:
        return f"input {_text(first.shape)} does not fit output {_text(output.shape)}"
    axis = attrs.get("axis", 0)
    if op in AXIS and rank and not -rank <= axis < rank + (op in FLATTENING):
        return f"axis {axis}; expected {-rank} to {rank - 1}"
    if op in GATES:
        known = {"d": _directions(attrs)}
        if "hidden_size" in attrs:
            known["h"] = attrs["hidden_size"]
        return _first_unfit(_recurrent(op, attrs), inputs, known)
    return RELATIONS.get(op, _none)(first.shape, attrs, inputs) or _first_unfit(
        FORMS.get(op, ()), inputs, {}
    )


def _none(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    return ""


def _reversed(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    axis, lengths = attrs.get("batch_axis", 1), inputs[1]
    if lengths is None or len(x) < 2 or not 0 <= axis < len(x) or lengths.shape != (x[axis],):
        return f"lengths {lengths} for batches along axis {axis} of {_text(x)}"
    return ""


def _scattered(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    places, updates = inputs[1], inputs[2]
    if places is None or updates is None or not places.shape:
        return "has no indices or updates"
    depth = places.shape[-1]
    if depth > len(x) or updates.shape != (*places.shape[:-1], *x[depth:]):
        return f"indices {places} and updates {updates} do not fit input {_text(x)}"
    return ""


def _gathered(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    places, batch = inputs[1], attrs.get("batch_dims", 0)
    if places is None or places.shape[:batch] != x[:batch]:
        return f"indices {places} for {batch} batch axes of {_text(x)}"
    return ""


def _windows(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    lists = [t for t in inputs[1:] if t is not None]
    if any(len(t.shape) != 1 or t.shape != lists[0].shape for t in lists):
        shown = ", ".join(map(str, lists))
        return f"starts, ends, axes and steps {shown}; expected as many of each"
    if lists and lists[0].elements > len(x):
        return f"{lists[0].elements} windows for the axes of {_text(x)}"
    return ""


def _one_axis(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    axis = inputs[1] if len(inputs) > 1 else None
    return f"axis {axis}; expected one number" if axis is None or axis.elements != 1 else ""


def _norm(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    return "" if attrs.get("p", 2) else "p is 0, for which there is no norm; expected 1 or more"


def _borders(x: Shape, attrs: Mapping[str, Any], inputs: Types) -> str:
    pads = inputs[1] if len(inputs) > 1 else None
    axes = inputs[3] if len(inputs) > 3 else None
    count = len(x) if axes is None else axes.elements
    if pads is not None and pads.elements != 2 * count:
        return f"pads {pads}; expected two for each of {count} axes"
    return ""


Relation = Callable[[Shape, Mapping[str, Any], Types], str]
RELATIONS: Mapping[str, Relation] = {
    "CumSum": _one_axis,
    "GatherND": _gathered,
    **dict.fromkeys(("GlobalLpPool", "LpPool"), _norm),
    "Pad": _borders,
    "ReverseSequence": _reversed,
    "ScatterND": _scattered,
    "Slice": _windows,
}


FLATTENING = ("Flatten",)


def _recurrent(op: str, attrs: Mapping[str, Any]) -> tuple[str, ...]:
    gates = GATES[op]
    x, state = ("bti", "bdh") if attrs.get("layout", 0) else ("tbi", "dbh")
    bias, rows = f"d[{2 * gates}h]", f"d[{gates}h]"
    forms = (x, f"{rows}i", f"{rows}h", bias, "b", state)
    return (*forms, state, "d[3h]") if op == "LSTM" else forms


def _directions(attrs: Mapping[str, Any]) -> int:
    return 2 if attrs.get("direction") == "bidirectional" else 1


def _first_unfit(forms: Sequence[str], inputs: Types, extents: Mapping[str, int]) -> str:
    known = dict(extents)
    # A letter that stands alone says what it is before one that is multiplied.
    parsed = [_axes(form) for form in forms]
    for axes, type_ in zip(parsed, inputs, strict=False):
        if axes is None or type_ is None:
            continue
        if len(axes) != len(type_.shape):
            return f"an input of shape {_text(type_.shape)}; expected {len(axes)} axes"
        for (times, letter), extent in zip(axes, type_.shape, strict=True):
            if times == 1 and letter not in "?0":
                known.setdefault(letter, extent)
    for axes, type_ in zip(parsed, inputs, strict=False):
        if axes is None or type_ is None:
            continue
        for axis, (times, letter) in enumerate(axes):
            wanted = times if letter == "0" else times * known.get(letter, 0)
            if letter != "?" and type_.shape[axis] != wanted:
                return (
                    f"an input of shape {_text(type_.shape)}; expected {wanted} along axis {axis}"
                )
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


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
