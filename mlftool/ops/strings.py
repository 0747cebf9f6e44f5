"""Operators on strings, each a slot of fixed size (mlf/text.h)."""

from __future__ import annotations

import numpy as np

from mlftool.ir.dtype import slots, string
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.extents import boxed
from mlftool.ops.regex import tables
from mlftool.ops.scalar import Exact, Scalar, c_string, tensor_operand

UNLIMITED = 1 << 30  # pieces


def _concat(m: Maths, a: Scalar, b: Scalar) -> str:
    return Exact(f"mlf_string_joined(&{a}, &{b})")


elementwise("StringConcat", _concat)


@op("RegexFullMatch")
def full_match(v: View) -> Kernel:
    """Whether the whole of each string is of the pattern: one step of an automaton per byte."""
    pattern = str(v.attr("pattern", ""))
    try:
        made = tables(pattern)
    except ValueError as error:
        raise UnsupportedError(f"pattern '{pattern}': {error}") from None
    match = f"mlf_string_matches(&x[i0], column, next, {made.columns}, {made.start})"
    return Kernel(
        "portable.regex",
        "elementwise.c.j2",
        {"loops": [("i0", v.y.elements)], "statements": [], "store": f"y[i0] = {match};"},
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("column", "uint8_t", "const", array=made.column),
            Operand("next", "uint16_t", "const", array=made.next),
            Operand("y", "bool", "out", v.node.outputs[0]),
        ),
        cost=v.y.elements * 300.0,
    )


@op("StringSplit")
def split(v: View) -> Kernel:
    """The pieces of each string, how many there are, and the most that one has."""
    delimiter = str(v.attr("delimiter", "") or "")
    most = int(v.attr("maxsplit", -1))
    room = v.y.shape[-1]
    return boxed(
        v,
        "strings_split",
        {
            "count": v.x(0).elements,
            "room": room,
            "delimiter": c_string(delimiter),
            "bytes": len(delimiter.encode()),
            "most": UNLIMITED if most < 0 else most + 1,
        },
    )


@op("StringNormalizer")
def normalize(v: View) -> Kernel:
    """The strings in another case, without stop words, and how many are left: one if none is."""
    change = str(v.attr("case_change_action", "NONE"))
    if change not in ("NONE", "LOWER", "UPPER"):
        raise UnsupportedError(f"case_change_action {change}; supported: NONE, LOWER, UPPER")
    words = list(v.attr("stopwords") or [])
    folded = not v.attr("is_case_sensitive", 0)
    try:
        table = slots(np.array(words, object))
    except ValueError as error:
        raise UnsupportedError(f"stop word: {error}") from None
    return boxed(
        v,
        "strings_normalize",
        {
            "count": v.x(0).elements,
            "words": len(words),
            "folded": folded and bool(words),
            "cased": {"NONE": "", "LOWER": "false", "UPPER": "true"}[change],
        },
        *([Operand("word", string.c, "const", array=table)] if words else []),
    )
