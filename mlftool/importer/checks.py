"""What the standard demands of a node and its own shape inference does not check, or takes for
granted. It stands in operators' records; checks run before old spellings are modernised.

A record may have a form for each input, which names its axes: "tbi" has three. The same letter is
the same extent, a digit times a letter that many times it, "?" any extent, "*" any form, "." one
element in any form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import AttributeProto, NodeProto

from mlftool.errors import nearest
from mlftool.onnx_rules.protos import op_name, plain_attributes
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Scope
from mlftool.ops.base import Attributes, Facts, Op, Trait, Types, Words, known, shown

# Axes and element types, which onnx's inference cuts to 32 bits; by some axes it then ends the
# process. No tensor has more axes, and there are fewer types.
CUT = frozenset({"axis", "dtype", "output_dtype", "precision", "stash_type", "to"})
MOST = 64
# In which types an operator computes; no inference reads them. 0 is a type that is not said.
COMPUTED_IN = {"precision": (0, 1, 10, 11, 16), "stash_type": (1, 10, 11, 16)}


def facts(scope: Scope, node: NodeProto) -> Facts:
    attrs = plain_attributes(node)
    types = [scope.types.get(n) for n in node.input]
    values = [scope.consts.get(n) for n in node.input]
    first = next(filter(None, node.output))
    return Facts(op_name(node), attrs, types, values, scope.types[first])


def worded(scope: Scope, node: NodeProto) -> Outcome:
    """Refuse an unknown word of an attribute, whose meaning cannot be guessed, and an axis that the
    first input does not have, before rules count from the last one."""
    record, x = known(op_name(node)), scope.types.get(next(iter(node.input), ""))
    rank = len(x.shape) if x and record and Trait.AXIS in record.traits else None
    for a in node.attribute:
        if a.name in CUT and abs(a.i) > MOST:
            return Refuse("MLF0303", f"{a.name} {a.i}; expected {-MOST} ... {MOST}")
        if a.i not in COMPUTED_IN.get(a.name, (a.i,)):
            return Refuse("MLF0303", f"{a.name} {a.i}; expected the number of a float type")
        if a.name == "axis" and rank is not None and not -rank <= a.i < rank:
            return Refuse("MLF0303", f"axis {a.i}; expected one of the {rank} axes of {x}")
        word = a.s.decode("utf-8", "replace") if a.type == AttributeProto.STRING else ""
        allowed = record.words.get(a.name) if record else None
        if refused := allowed and _misspelt(a.name, word, allowed):
            return refused
    return Next(node)


def _misspelt(name: str, word: str, allowed: Words) -> Refuse | None:
    if callable(allowed):
        wrong = allowed(word)
        return Refuse("MLF0303", f"{name} '{word[:60]}' {wrong}") if wrong else None
    if word in allowed:
        return None
    near = nearest(word, allowed)
    text = f"attribute '{name}' is '{word[:60]}'; expected one of {', '.join(allowed)}"
    return Refuse("MLF0303", text, near and f"did you mean '{near}'?")


def checked(scope: Scope, node: NodeProto) -> Outcome:
    """Refuse a typed node that the standard does not allow."""
    f, record = facts(scope, node), known(op_name(node))
    if record is None:
        return Next(node)
    if Trait.VIEW in record.traits and f.inputs[0] is not None:
        have, want = f.inputs[0].elements, f.output.elements
        if have != want:
            text = f"{have} elements do not fill its output {f.output}, which has {want}"
            return Refuse("MLF0303", text)
    found = _unfit(f, record) or next(filter(None, (check(f) for check in record.checks)), "")
    return Refuse("MLF0303", found) if found else Next(node)


def _unfit(f: Facts, record: Op) -> str:
    """What is wrong with the axes of a node's inputs, or ""."""
    if not f.inputs or f.inputs[0] is None:
        return ""
    if Trait.SAME_RANK in record.traits and len(f.output.shape) != len(f.x):
        return f"input {shown(f.x)} does not fit output {shown(f.output.shape)}"
    return misshapen(record, f.attrs, f.inputs)


def misshapen(record: Op, attrs: Attributes, inputs: Types) -> str:
    """What is wrong with inputs that have not the operator's forms, or ""."""
    return _first_unfit(*record.forms(attrs), inputs) if record.forms else ""


def _first_unfit(forms: Sequence[str], extents: Mapping[str, int], inputs: Types) -> str:
    for form, type_ in zip(forms, inputs, strict=False):
        if form == "." and type_ is not None and type_.elements != 1:
            return f"an input of shape {shown(type_.shape)}; expected one element"
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
    if form in "*.":
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
