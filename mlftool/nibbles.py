"""Elements of fewer than eight bits as C stores them: several share a byte, the first in its lowest
bits."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def packed(array: Array, bits: int) -> Array:
    """The bytes of an array's elements, which take a byte each; bits left over are zero."""
    per_byte = 8 // bits
    flat = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    flat = np.append(flat, np.zeros(-flat.size % per_byte, np.uint8)).reshape(-1, per_byte)
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    return np.asarray(np.bitwise_or.reduce(flat << shifts, axis=1), np.uint8)


def unpacked(data: bytes, bits: int, dtype: Any, shape: tuple[int, ...]) -> Array:
    """The array of `dtype` whose `packed` form has the bytes `data`."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    parts = (np.frombuffer(data, np.uint8)[:, None] >> shifts) & ((1 << bits) - 1)
    flat = parts.astype(np.uint8).reshape(-1)[: int(np.prod(shape))]
    return np.asarray(flat.view(dtype).reshape(shape))
