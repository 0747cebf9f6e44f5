"""Constant arrays as C initialisers: exact, and quick for millions of elements."""

from __future__ import annotations

import string

import numpy as np

from mlftool.ir import dtype
from mlftool.ir.graph import Array
from mlftool.ops.scalar import literal

WIDTH = 100
_PLAIN = frozenset((string.ascii_letters + string.digits + " _-./:").encode())


def initialiser(array: Array) -> str:
    """The elements, row-major, wrapped to lines of at most 100 characters."""
    flat = array.reshape(-1)
    kind = dtype.of(flat)
    if (kind.kind == "i" and kind.bits <= 16) or (kind.kind == "u" and kind.bits <= 16):
        words = list(map(str, flat.tolist()))
    elif kind.name == "float32" and bool(np.all(np.isfinite(flat))):
        words = [_hex_float(x) for x in flat.tolist()]
    else:
        words = [literal(x, kind) for x in flat]
    lines: list[str] = []
    line: list[str] = []
    used = 2
    for word in words:
        if used + len(word) + 2 > WIDTH and line:
            lines.append("  " + ", ".join(line))
            line, used = [], 2
        line.append(word)
        used += len(word) + 2
    lines.append("  " + ", ".join(line))
    return ",\n".join(lines)


def _hex_float(value: float) -> str:
    """C99 hexadecimal float without the padding zeros of float.hex()."""
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}f"


def c_string(text: str) -> str:
    """A string literal for untrusted text: whatever could end it or mean something is octal."""
    data = text.encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(b) if b in _PLAIN else f"\\{b:03o}" for b in data) + '"'
