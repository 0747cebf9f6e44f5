"""Inputs for a module without given inputs: by tvmc's fill modes, the same each time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.mlf.interface import Tensor
from mlftool.runtime.vectors import Array


def filled(
    tensors: Sequence[Tensor], mode: str, random: np.random.Generator | None = None
) -> dict[str, Array]:
    """One sample: an array for each of `tensors`, of its shape and dtype; `mode` is zeros, ones or
    random, and `random` the generator to go on with.

    Random floats are normal around 0, 8-bit integers take all their values, and wider integers,
    which may be indices, are 0 or 1. Raises MlfError for a dtype that has no such values.
    """
    random = random or np.random.default_rng(0)
    return {t.name: _array(random, t, mode) for t in tensors}


def _array(random: np.random.Generator, t: Tensor, mode: str) -> Array:
    kind = np.dtype(t.dtype)
    if kind.kind not in "fbiu":
        text = f"input '{t.name}' is {kind}: write the vectors by hand"
        raise MlfError(Problem("MLF0602", text))
    if mode != "random":
        return np.full(t.shape, mode == "ones", kind)
    if kind.kind == "f":
        return np.asarray(random.normal(size=t.shape)).astype(kind)
    if kind.kind == "b" or kind.itemsize > 1:
        return np.asarray(random.integers(0, 2, t.shape)).astype(kind)
    info = np.iinfo(kind)
    return np.asarray(random.integers(info.min, info.max + 1, t.shape)).astype(kind)
