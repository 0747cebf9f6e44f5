"""Operators on what was text: TfIdfVectorizer over tokens, integers or strings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mlftool.ir.dtype import slots
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op
from mlftool.ops.scalar import tensor_operand


@op("TfIdfVectorizer")
def tf_idf(v: View) -> Kernel:
    """How often each n-gram of the pool stands in each row, with tokens skipped between; as a
    count, as a weight if it is there at all, or as both multiplied."""
    row = v.x(0).dtype
    text = row.kind == "s"
    pool = v.attr("pool_strings" if text else "pool_int64s")
    if not pool or row.kind not in "is":
        raise UnsupportedError(f"{row} without a pool of them; supported: integers and strings")
    try:
        values = slots(np.array(pool, object)) if text else np.array(pool, row.numpy)
    except ValueError as error:
        raise UnsupportedError(f"pool: {error}") from None
    grams = list(_grams(v, len(pool)))
    shape = v.x(0).shape
    table = np.array(grams, np.int32).reshape(-1, 3)
    weights = np.ones(v.y.shape[-1], np.float32)  # the attribute has one for each n-gram
    if v.attr("weights"):
        weights[v.attr("ngram_indexes")] = v.attr("weights")
    mode = str(v.attr("mode"))
    count = {"TF": "y[i]", "IDF": "(y[i] > 0.0f ? weight[i % {0}] : 0.0f)"}.get(mode)
    return Kernel(
        "portable.tf_idf",
        "tf_idf.c.j2",
        {
            "rows": v.y.elements // v.y.shape[-1],
            "tokens": shape[-1] if shape else 1,
            "bins": v.y.shape[-1],
            "grams": len(grams),
            "most": int(v.attr("max_skip_count")) + 1,
            "value": (count or "y[i] * weight[i % {0}]").format(v.y.shape[-1]),
            "plain": mode == "TF",
            "same": (
                "mlf_string_equal(&token[from + skip * k], &wanted[k])"
                if text
                else "token[from + skip * k] == wanted[k]"
            ),
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("pool", row.c, "const", array=values),
            Operand("gram", "int32_t", "const", array=table),
            *(() if mode == "TF" else (Operand("weight", "float", "const", array=weights),)),
            Operand("y", "float", "out", v.node.outputs[0]),
        ),
        cost=len(grams) * v.x(0).elements * 8.0,
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
