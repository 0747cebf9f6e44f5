"""Constant arrays as C initialisers: exact, and quick for millions of elements."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from mlftool.ir import dtype
from mlftool.ir.graph import Array
from mlftool.ops.scalar import c_string, literal

WIDTH = 100
_INDENT, _SEPARATOR = "  ", ","


def initialiser(array: Array) -> str:
    """The elements, row-major, wrapped to lines of at most 100 characters."""
    flat = array.reshape(-1)
    kind = dtype.of(flat)
    if kind.kind in ("i", "u") and kind.bits <= 16:
        return _wrapped(list(map(str, flat.tolist())))
    if kind.name == "uint32":  # a hexadecimal constant needs no suffix, and shows packed bytes
        return _wrapped([f"{x:#x}" for x in flat.tolist()])
    if kind.name == "int32" and bool(np.all(flat != np.iinfo(np.int32).min)):
        return _wrapped(list(map(str, flat.tolist())))  # no parentheses: nothing binds tighter
    if kind.name == "float32" and bool(np.all(np.isfinite(flat))):
        return _wrapped(_hex_floats(flat))
    if kind.kind == "s":
        return _wrapped([f"{{{c_string(text)}}}" for text in flat.tolist()])
    return _wrapped([literal(x, kind) for x in flat])


def _wrapped(words: Sequence[str]) -> str:
    """As many words in each line as fit; a longer word has one to itself."""
    ends = list(accumulate(map(len(_SEPARATOR).__add__, map(len, words))))
    lines: list[str] = []
    start = used = 0
    while start < len(words):
        stop = max(bisect_right(ends, used + WIDTH - len(_INDENT), lo=start), start + 1)
        lines.append(_INDENT + _SEPARATOR.join(words[start:stop]))
        start, used = stop, ends[stop - 1]
    return ",\n".join(lines) if lines else _INDENT


# What is around the fraction of a normal float whose sign and exponent fields are the index.
_BEFORE = ["0x1"] * 256 + ["-0x1"] * 256
_POWERS = [f"p{field - 127:+d}f" for field in range(256)] * 2


def _hex_floats(flat: Array) -> list[str]:
    """C99 hexadecimal floats from the fields of finite float32: sign, 8 bits, 23 bits."""
    bits = flat.astype(np.float32, copy=False).view(np.uint32)
    # 23 bits are six hexadecimal digits once a zero bit follows them, before them the point.
    digits = ((bits & 0x7FFFFF) << 1).astype(">u4").tobytes().hex()
    fractions = [digits[k : k + 6].rstrip("0") for k in range(2, len(digits), 8)]
    heads = (bits >> 23).tolist()
    words = [
        f"{_BEFORE[head]}.{fraction}{_POWERS[head]}" if fraction else _BEFORE[head] + _POWERS[head]
        for head, fraction in zip(heads, fractions, strict=True)
    ]
    for k in np.flatnonzero(bits & 0x7F800000 == 0).tolist():  # zeros and subnormals
        words[k] = _hex_float(float(flat[k]))
    return words


def _hex_float(value: float) -> str:
    """As float.hex(), which normalises subnormals, without its padding zeros."""
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}f"
