"""The `.params` file: named tensors, little-endian, no padding."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

LIST_MAGIC = 0xF7E58D4F05049CB7
ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}


def encode(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The file's bytes, names in the given order; 32 bytes when there are none."""
    names = [name.encode() for name in arrays]
    parts = [struct.pack("<QQQ", LIST_MAGIC, 0, len(names))]
    parts += [struct.pack("<Q", len(n)) + n for n in names]
    parts.append(struct.pack("<Q", len(names)))
    for array in arrays.values():
        kind = array.dtype.kind
        bits = 1 if kind == "b" else array.dtype.itemsize * 8
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        parts.append(
            struct.pack("<QQiiiBBH", ARRAY_MAGIC, 0, 1, 0, array.ndim, _CODES[kind], bits, 1)
        )
        parts.append(struct.pack(f"<{array.ndim}q", *array.shape))
        parts.append(struct.pack("<q", len(data)) + data)
    return b"".join(parts)
