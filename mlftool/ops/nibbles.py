"""Weights of four bits: two in a byte, where all of a layer lie in -8 ... 7.

It does not matter whether the model stores them as int4, as uint4 with a zero point or as int8:
passes/integers.py has centred them, and what their values need is what they get.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ops.contraction import Contraction, Quantisation, pad_rows


def are_nibbles(c: Contraction, q: Quantisation) -> bool:
    """Whether every weight fits into four bits and has no zero point."""
    w = c.weights
    signed = w.dtype == np.int8 and not np.any(q.w_zero_point)
    return bool(signed and w.size and w.min() >= -8 and w.max() <= 7)


def joined(low: Array, high: Array) -> Array:
    """uint8: one weight in the lower four bits, one in the upper four."""
    return np.asarray((low.astype(np.uint8) & 15) | (high.astype(np.uint8) << 4))


def nibble_rows(c: Contraction) -> Array:
    """int8 [OC/2, depth]: the weights of two output channels."""
    w = pad_rows(c.weights.reshape(c.oc, -1), 2)
    return np.ascontiguousarray(joined(w[::2], w[1::2])).view(np.int8)
