"""Operators on strings, each a slot of fixed size (mlf/text.h)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.dtype import slots, string
from mlftool.ir.graph import View
from mlftool.onnx_rules.boxes import Made, static_input
from mlftool.onnx_rules.scope import Refuse, Scope
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


def _pieces(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    """As many pieces as a slot has room for, or as the model says that there are."""
    x = static_input(scope, node)
    size = len(attrs.get("delimiter", "").encode())
    most = (dtype.TEXT_BYTES - 1) // size + 1 if size else dtype.TEXT_BYTES // 2
    if attrs.get("maxsplit", -1) >= 0:
        most = min(most, attrs["maxsplit"] + 1)
    declared = scope.declared.get(node.output[0])
    dims = declared.tensor_type.shape.dim if declared is not None else []
    if len(dims) == len(x.shape) + 1 and dims[-1].HasField("dim_value"):
        most = min(most, max(0, dims[-1].dim_value))
    counts = (dtype.int64, x.shape, -1)
    return Made({0: (x.dtype, (*x.shape, most), len(x.shape)), 1: counts}, 2)


@op("StringSplit", makes=_pieces)
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


def _words_left(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made | None:
    x = scope.types[node.input[0]]
    if not attrs.get("stopwords"):
        return None
    static_input(scope, node)
    if not x.shape or x.shape[:-1] not in ((), (1,)):
        raise Refuse("MLF0302", f"of {x}; supported: [C] and [1, C]")
    return Made({0: (x.dtype, x.shape, len(x.shape) - 1)})


@op("StringNormalizer", makes=_words_left)
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
