"""Arrays of floats that are float16 or bfloat16, such as weights that a model casts to float: two
bytes for each element are enough.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.operations import Operations

ENOUGH = 512  # elements that tell of most arrays that they are none


@frozen
class Halves:
    """An array whose elements are `mlf_float_of_<type>` of 16 bits each (mlf/convert.h)."""

    type: str  # "finite_f16" or "bf16"
    words: Array  # uint16, of the array's shape

    @property
    def each(self) -> Operations:
        """To compute one element, beyond loading a float."""
        return Operations({f"float_of_{self.type}": 1.0})


def halves(array: Array) -> Halves | None:
    """The same elements, bit for bit, in 16 bits each; None if there are others."""
    if array.dtype != np.float32:
        return None
    if array.size > ENOUGH and halves(array.reshape(-1)[:ENOUGH]) is None:
        return None
    if not np.isfinite(array).all():
        return None
    bits = array.view(np.uint32)
    if not (bits & 0xFFFF).any():
        return Halves("bf16", (bits >> 16).astype(np.uint16))
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float16)
    if not np.array_equal(narrow.astype(np.float32).view(np.uint32), bits):
        return None
    return Halves("finite_f16", narrow.view(np.uint16))
