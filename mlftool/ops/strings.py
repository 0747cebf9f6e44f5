"""Operators on strings, each a slot of fixed size (mlf/text.h), and TfIdfVectorizer over tokens,
which are integers or strings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.dtype import slots, string
from mlftool.ir.graph import TensorType, View
from mlftool.ir.operations import times
from mlftool.onnx_rules.boxes import Made, filled, static_input
from mlftool.onnx_rules.protos import plain_attributes
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Scope
from mlftool.ops.base import Facts, Kernel, Operand, Signature, Trait, UnsupportedError, op
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.extents import boxed
from mlftool.ops.scalar import Exact, Scalar, around, c_string
from mlftool.regex.automaton import tables

UNLIMITED = 1 << 30  # pieces


@contextmanager
def _supported(what: str) -> Iterator[None]:
    """Raises UnsupportedError for texts and patterns that a device cannot hold."""
    try:
        yield
    except ValueError as error:
        raise UnsupportedError(f"{what}: {error}") from None


def _concat(m: Maths, a: Scalar, b: Scalar) -> str:
    return Exact(f"mlf_string_joined(&{a}, &{b})")


elementwise("StringConcat", _concat)


def _hash(m: Maths, a: Scalar, *, positive: int = 1, seed: int = 0) -> str:
    return Exact(f"{'' if positive else '(int32_t)'}mlf_string_hash(&{a}, {seed % 2**32}U)")


def _hashes(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    x, row = types[0], dtype.uint32 if attrs.get("positive", 1) else dtype.int32
    if x is None or x.dtype.kind != "s":
        raise UnsupportedError(f"hashes of {x}; supported: strings")
    return TensorType(row, x.shape)


HASH = Signature.of("x positive seed")
elementwise("com.microsoft.MurmurHash3", _hash, result=_hashes, signature=HASH)


@op("RegexFullMatch")
def full_match(v: View) -> Kernel:
    """Whether the whole of each string is of the pattern: one step of an automaton per byte."""
    pattern = str(v.attr("pattern", ""))
    with _supported(f"pattern '{pattern}'"):
        made = tables(pattern)
    match = f"mlf_string_matches(&x[i0], column, next, {made.columns}, {made.starts[0]})"
    return Kernel(
        "portable.regex",
        "elementwise.c.j2",
        {"loops": [("i0", v.y.elements)], "statements": [], "store": f"y[i0] = {match};"},
        around(
            v,
            Operand("column", "uint8_t", "const", array=made.column),
            Operand("next", "uint16_t", "const", array=made.next),
        ),
        operations=v.y.elements * 32 * times(load=2, whole=3, loop=1),
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


@op("StringNormalizer", Trait.LIKE_FIRST, makes=_words_left)
def normalize(v: View) -> Kernel:
    """The strings in another case, without stop words, and how many are left: one if none is."""
    change = str(v.attr("case_change_action", "NONE"))
    if change not in ("NONE", "LOWER", "UPPER"):
        raise UnsupportedError(f"case_change_action {change}; supported: NONE, LOWER, UPPER")
    locale = str(v.attr("locale", ""))
    if re.split("[-_.@]", locale.lower())[0] in ("tr", "az"):  # where the capital of i has a dot
        raise UnsupportedError(f"locale {locale}; supported: C, POSIX and others than tr and az")
    words = list(v.attr("stopwords") or [])
    folded = not v.attr("is_case_sensitive", 0)
    with _supported("stop word"):
        table = slots(np.array(words, object))
    return boxed(
        v,
        "strings_normalize",
        {
            "count": v.x(0).elements,
            "words": len(words),
            "folded": folded and bool(words),
            "ascii": "true" if locale in ("C", "POSIX") else "false",
            "cased": {"NONE": "", "LOWER": "false", "UPPER": "true"}[change],
        },
        *([Operand("word", string.c, "const", array=table)] if words else []),
    )


def _token_box(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    """As many tokens as a slot has room for: characters, or pieces with a byte between them."""
    x, least = types[0], int(attrs.get("mincharnum", 1))
    if least < 1 or x is None or x.dtype.kind != "s" or len(x.shape) not in (1, 2):
        raise UnsupportedError(f"mincharnum {least} of {x}; expected 1 or more, strings of 2 axes")
    between = int(any(attrs.get("separators", [])))
    most = (dtype.TEXT_BYTES - 1 + between) // (least + between)
    return TensorType(x.dtype, (*x.shape, most))


def _tokens(scope: Scope, node: NodeProto, attrs: Mapping[str, Any]) -> Made:
    box = _token_box([static_input(scope, node)], attrs)
    return Made({0: (box.dtype, box.shape, len(box.shape) - 1)})


@op("mlf.Tokenizer", makes=_tokens, result=_token_box)
def tokenize(v: View) -> Kernel:
    """What the pattern finds in each string, or what lies between, if it has enough characters; in
    shorter rows the padding follows. Of a pattern's matches the longest counts, as in RE2."""
    pattern, separators = str(v.attr("tokenexp", "")), list(v.attr("separators") or [])
    if v.attr("mark") or (not pattern and len(separators) != 1):
        raise UnsupportedError("marks or several separators; supported: tokenexp, one separator")
    with _supported(f"pattern '{pattern or separators[0]}'"):
        made = tables(pattern or separators[0] or "(?s:.)", search=True)
        pad = c_string(str(v.attr("pad_value")))
    params = {"count": v.x(0).elements, "room": v.y.shape[-1], "least": v.attr("mincharnum", 1)}
    params |= {"columns": made.columns, "between": not pattern and separators[0], "pad": pad}
    return boxed(
        v,
        "strings_tokens",
        params,
        Operand("column", "uint8_t", "const", array=made.column),
        Operand("next", "uint16_t", "const", array=made.next),
        Operand("starts", "uint16_t", "const", array=np.array(made.starts, np.uint16)),
    )


def _of_tokens(scope: Scope, node: NodeProto) -> Outcome:
    """Beyond the extents there are tokens that the pool has not."""
    x, attrs = scope.types[node.input[0]], plain_attributes(node)
    pool = set(attrs.get("pool_strings") or attrs.get("pool_int64s") or ())
    absent = (f"{k or ''}" for k in count()) if x.dtype.kind == "s" else count()
    filled(scope, node, 0, next(token for token in absent if token not in pool))
    return Next(node)


LENGTHS = ("min_gram_length", "max_gram_length", "max_skip_count")


def _whole_grams(f: Facts) -> str:
    """The pool is parts of n-grams of 1, 2 ... items, and each n-gram has an index."""
    total = len(f.attrs.get("pool_strings") or f.attrs.get("pool_int64s") or ())
    starts = [0, *f.attrs.get("ngram_counts", ()), total]
    parts = [last - first for first, last in pairwise(starts)]
    if min(parts) < 0 or any(part % n for n, part in enumerate(parts[1:], start=1)):
        return f"ngram_counts {starts[1:-1]} do not divide a pool of {total} items into n-grams"
    grams = sum(part // n for n, part in enumerate(parts[1:], start=1))
    indexes, weights = f.attrs.get("ngram_indexes", ()), f.attrs.get("weights", ())
    if len(indexes) != grams or any(k < 0 for k in indexes):
        return f"ngram_indexes {list(indexes)}; expected {grams}, none below 0"
    if weights and len(weights) != grams:
        return f"{len(weights)} weights; expected {grams}"
    shortest, longest, skipped = (f.attrs.get(name, 1) for name in LENGTHS)
    if not 1 <= shortest <= longest or skipped < 0:
        text = f"n-grams of {shortest} to {longest} with {skipped} skipped"
        return f"{text}; expected 1 <= min <= max, and none below 0"
    row = f.inputs[0].dtype if f.inputs[0] else None
    if row is not None and row.kind == "i":
        least, most = row.range
        beyond = [k for k in f.attrs.get("pool_int64s", ()) if not least <= k <= most]
        return f"pool_int64s {beyond[0]}; expected {row}" if beyond else ""
    return ""


@op("TfIdfVectorizer", extents=_of_tokens, checks=(_whole_grams,))
def tf_idf(v: View) -> Kernel:
    """How often each n-gram of the pool stands in each row, with tokens skipped between; as a
    count, as a weight if it is there at all, or as both multiplied."""
    row = v.x(0).dtype
    text = row.kind == "s"
    pool = v.attr("pool_strings" if text else "pool_int64s")
    if not pool or row.kind not in "is":
        raise UnsupportedError(f"{row} without a pool of them; supported: integers and strings")
    with _supported("pool"):
        values = slots(np.array(pool, object)) if text else np.array(pool, row.numpy)
    grams = list(_grams(v, len(pool)))
    shape = v.x(0).shape
    table = np.array(grams, np.int32).reshape(-1, 3)
    weights = np.ones(v.y.shape[-1], np.float32)  # the attribute has one for each n-gram
    if v.attr("weights"):
        weights[v.attr("ngram_indexes")] = v.attr("weights")
    mode = str(v.attr("mode"))
    weight = f"weight[i % {v.y.shape[-1]}]"
    values_by_mode = {"TF": "y[i]", "IDF": f"(y[i] > 0.0f ? {weight} : 0.0f)"}
    most = min(int(v.attr("max_skip_count")) + 1, max(1, shape[-1] if shape else 1))
    at = "from + skip * k" if most > 1 else "from + k"
    return Kernel(
        "portable.tf_idf",
        "tf_idf.c.j2",
        {
            "rows": v.y.elements // v.y.shape[-1],
            "tokens": shape[-1] if shape else 1,
            "bins": v.y.shape[-1],
            "grams": len(grams),
            "most": most,
            "value": values_by_mode.get(mode, f"y[i] * {weight}"),
            "plain": mode == "TF",
            "same": (
                f"mlf_string_equal(&token[{at}], &wanted[k])"
                if text
                else f"token[{at}] == wanted[k]"
            ),
        },
        around(
            v,
            Operand("pool", row.c, "const", array=values),
            Operand("gram", "int32_t", "const", array=table),
            *([] if mode == "TF" else [Operand("weight", "float", "const", array=weights)]),
        ),
        operations=len(grams) * v.x(0).elements * times(load=2, whole=3, loop=1),
    )


def _grams(v: View, total: int) -> Iterator[tuple[int, int, int]]:
    """Where each n-gram of a wanted size stands in the pool, its size, what it is counted as."""
    starts, indexes = [*v.attr("ngram_counts"), total], v.attr("ngram_indexes")
    number = 0
    for size, (first, last) in enumerate(pairwise(starts), start=1):
        for at in range(first, last - size + 1, size):
            if v.attr("min_gram_length") <= size <= v.attr("max_gram_length"):
                yield at, size, indexes[number]
            number += 1
