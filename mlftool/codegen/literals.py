"""Constant arrays as C initialisers: exact, and quick for millions of elements."""

from __future__ import annotations

import numpy as np

from mlftool.ir import dtype
from mlftool.ir.graph import Array
from mlftool.ops.scalar import c_string, literal

WIDTH = 100


def initialiser(array: Array) -> str:
    """The elements, row-major, wrapped to lines of at most 100 characters."""
    flat = array.reshape(-1)
    kind = dtype.of(flat)
    if (kind.kind == "i" and kind.bits <= 16) or (kind.kind == "u" and kind.bits <= 16):
        words = list(map(str, flat.tolist()))
    elif kind.name == "float32" and bool(np.all(np.isfinite(flat))):
        words = [_hex_float(x) for x in flat.tolist()]
    elif kind.kind == "s":
        words = [f"{{{c_string(text)}}}" for text in flat.tolist()]
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
