"""Arrays of floats that are small integers times scales, such as weights that a model has quantised
and that its layers read as floats: a byte for each element is enough.

A scale is that of a block of elements, or of one lane of it: kernels store the weights of several
output channels side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.operations import STEP, Operations, times

LEAST_RUN = 8  # elements for each scale
WITHIN_BLOCKS = (16, 32, 64, 128)  # of an axis: sizes of onnxruntime's and PyTorch's quantisers
LARGEST = 128
ENOUGH = 512  # elements of a group that tell whether it may have a scale
# How many floats beyond the quotient a scale may be: a product and the quotient were rounded.
STEPS = (0, -1, 1, -2, 2)


@frozen
class Scaled:
    """An array that is stored as `scales[block, lane] * numbers[block, run, lane]`."""

    scales: Array  # float32 [block, lane]
    numbers: Array  # int8 [block, run, lane]

    @property
    def bytes(self) -> int:
        return self.scales.nbytes + self.numbers.nbytes

    @property
    def operations(self) -> Operations:
        """To compute all elements."""
        return self.numbers.size * (STEP + times(convert=1, mul=1))


def scaled(array: Array) -> Scaled | None:
    """The array with the fewest scales whose products are its elements, bit for bit."""
    if array.dtype != np.float32 or not np.isfinite(array).all():
        return None
    for blocks, run, lanes in _groupings(array.shape):
        groups = array.reshape(blocks, run, lanes)
        # Most arrays have no scales: one group of elements tells.
        scales = _scales(groups) if _may_have_scale(groups[0, :, 0]) else None
        if scales is not None:
            numbers = np.rint(groups / scales[:, None]).astype(np.int8)
            return Scaled(scales, numbers)
    return None


def of_rows(weights: Array) -> tuple[Array, Array] | None:
    """float32 [row], and int8 of the same shape as `weights` [row, ..]: one scale for each row at
    most, or None."""
    found = scaled(weights.reshape(weights.shape[0], -1))
    if found is None or found.scales.shape[1] > 1 or weights.shape[0] % found.scales.shape[0]:
        return None
    each = weights.shape[0] // found.scales.shape[0]
    return np.repeat(found.scales, each), found.numbers.reshape(weights.shape)


def _groupings(shape: Sequence[int]) -> list[tuple[int, int, int]]:
    """Blocks, elements of a run and lanes that a shape may mean, the fewest scales first."""
    found = set()
    for dims in _divided(shape):
        for i in range(len(dims) + 1):
            for j in range(i, len(dims) + 1):
                found.add((prod(dims[:i]), prod(dims[i:j]), prod(dims[j:])))
    enough = (one for one in found if one[1] >= LEAST_RUN)
    return sorted(enough, key=lambda one: (one[0] * one[2], one))


def _divided(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """A shape, and those with an axis as blocks and what is within them."""
    yield tuple(shape)
    for k, extent in enumerate(shape):
        for size in WITHIN_BLOCKS:
            if extent % size == 0 and extent > size:
                yield (*shape[:k], extent // size, size, *shape[k + 1 :])


def _may_have_scale(group: Array) -> bool:
    """Whether the first elements of a group are multiples of one of all scales that it may have."""
    most = np.abs(group).max()
    if not most:
        return True
    near = most / np.arange(1, LARGEST + 1, dtype=np.float32)
    some = np.tile(group[:ENOUGH], (near.size, 1))
    return any(_multiples(some, _beside(near, steps)).any() for steps in STEPS)


def _scales(groups: Array) -> Array | None:
    """float32 [block, lane]: those of which every element of [block, run, lane] is a multiple that
    an int8 holds; None if one has no such scale."""
    blocks, run, lanes = groups.shape
    rows = np.ascontiguousarray(groups.transpose(0, 2, 1)).reshape(-1, run)
    most = np.abs(rows).max(axis=1)
    found: Array = np.ones_like(most)  # of zeros alone
    left = np.flatnonzero(rows.view(np.int32).any(axis=1))  # -0.0 is no product of 0
    for largest in range(LARGEST, 0, -1):
        for steps in STEPS:
            scale = _beside(most[left] / np.float32(largest), steps)
            fits = _multiples(rows[left], scale)
            found[left[fits]] = scale[fits]
            left = left[~fits]
        if not left.size:
            return found.reshape(blocks, lanes)
    return None


def _beside(scales: Array, steps: int) -> Array:
    """The positive floats that many steps further."""
    return (scales.view(np.int32) + np.int32(steps)).view(np.float32)


def _multiples(groups: Array, scale: Array) -> Array:
    """Whether all elements of each row are whole multiples of its scale, in float32."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        numbers = np.rint(groups / scale[:, None])
        same = (numbers + np.float32(0)) * scale[:, None]
    within = (numbers >= -128) & (numbers <= 127)
    equal = same.view(np.int32) == groups.view(np.int32)
    return np.asarray((within & equal).all(axis=1))
