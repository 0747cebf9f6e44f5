"""Constant arrays as C initialisers: exact, and quick for millions of elements."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache

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
    if kind.kind in ("i", "u") and kind.bits <= 8:
        return _wrapped(_bytes(kind.range)[flat.astype(np.intp) - kind.range[0]])
    if kind.kind in ("i", "u") and kind.bits <= 16:
        return _wrapped(_cells(map(str, flat.tolist())))
    if kind.name == "uint32":  # a hexadecimal constant needs no suffix, and shows packed bytes
        return _wrapped(_hex_words(flat))
    if kind.name == "int32" and bool(np.all(flat != np.iinfo(np.int32).min)):
        return _wrapped(_cells(map(str, flat.tolist())))  # no parentheses: nothing binds tighter
    if kind.name == "float32" and bool(np.all(np.isfinite(flat))):
        return _wrapped(_hex_floats(flat))
    if kind.kind == "s":
        return _wrapped(_cells(f"{{{c_string(text)}}}" for text in flat.tolist()))
    return _wrapped(_cells(literal(x, kind) for x in flat))


def _cells(words: Iterable[str]) -> Array:
    """uint8 [words, longest]: their characters, then zeros. Text is put together from such arrays,
    which takes a third of the time that strings take."""
    array = np.array(list(words), np.bytes_)
    return array.view(np.uint8).reshape(len(array), array.itemsize)


def _wrapped(cells: Array) -> str:
    """As many words in each line as fit; a longer word has one to itself."""
    if not len(cells):
        return _INDENT
    ends = np.cumsum(np.count_nonzero(cells, axis=1) + len(_SEPARATOR)).tolist()
    starts = [0]
    while starts[-1] < len(ends):
        used = ends[starts[-1] - 1] if starts[-1] else 0
        stop = bisect_right(ends, used + WIDTH - len(_INDENT), lo=starts[-1])
        starts.append(max(stop, starts[-1] + 1))
    before = np.zeros((len(cells), 1 + len(_INDENT)), np.uint8)
    before[starts[:-1]] = _cells(["\n" + _INDENT])
    after = np.broadcast_to(_cells([_SEPARATOR]), (len(cells), len(_SEPARATOR)))
    text = np.hstack((before, cells, after))
    return text.tobytes().translate(None, b"\0").decode()[1 : -len(_SEPARATOR)]


@cache
def _bytes(values: tuple[int, int]) -> Array:
    """The words of these integers, and of those between them."""
    return _cells(map(str, range(values[0], values[1] + 1)))


def _digits(values: Array) -> Array:
    """The eight hexadecimal digits of each uint32."""
    return np.frombuffer(values.astype(">u4").tobytes().hex().encode(), np.uint8).reshape(-1, 8)


def _hex_words(values: Array) -> Array:
    """Hexadecimal constants of uint32, without leading zeros."""
    digits = _digits(values)
    leading = np.logical_and.accumulate(digits[:, :-1] == ord("0"), axis=1)
    prefix = np.broadcast_to(_cells(["0x"]), (len(digits), 2))
    return np.hstack((prefix, np.where(leading, 0, digits[:, :-1]), digits[:, -1:]))


@cache
def _around() -> tuple[Array, Array]:
    """What is around the fraction of a normal float whose sign and exponent fields are the index;
    zeros are left out of a text."""
    before = _cells(["0x1"] * 256 + ["-0x1"] * 256)
    return before, _cells([f"p{field - 127:+d}f" for field in range(256)] * 2)


def _hex_floats(flat: Array) -> Array:
    """C99 hexadecimal floats from the fields of finite float32: sign, 8 bits, 23 bits."""
    bits = flat.astype(np.float32, copy=False).view(np.uint32)
    # 23 bits are six hexadecimal digits once a zero bit follows them, before them the point.
    digits = _digits((bits & 0x7FFFFF) << 1)[:, 2:]
    trailing = np.logical_and.accumulate(digits[:, ::-1] == ord("0"), axis=1)[:, ::-1]
    point = np.where(trailing[:, :1], 0, ord("."))
    heads = bits >> 23
    before, powers = _around()
    fractions = np.where(trailing, 0, digits)
    words = np.hstack((before[heads], point, fractions, powers[heads])).astype(np.uint8)
    for k in np.flatnonzero(bits & 0x7F800000 == 0).tolist():  # zeros and subnormals
        word = _hex_float(float(flat[k])).encode()
        words[k] = np.frombuffer(word.ljust(words.shape[1], b"\0"), np.uint8)
    return words


def _hex_float(value: float) -> str:
    """As float.hex(), which normalises subnormals, without its padding zeros."""
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}f"
