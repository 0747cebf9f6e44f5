"""Arrays of floats that are small integers times scales, such as weights that a model has quantised
and that its layers read as floats: a byte for each element is enough.

A scale is that of a block of elements, or of one lane of it: kernels store the weights of several
output channels side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mlftool.ir.graph import Array

LEAST_RUN = 8  # elements for each scale
WITHIN_BLOCKS = (16, 32, 64, 128)  # of an axis: sizes of onnxruntime's and PyTorch's quantisers
LARGEST = 128
# Instructions of the C for an element, and its operations on floats; counted on Cortex-M4
# (tests/plan/test_weights_budget.py).
ELEMENT, FLOAT_OPERATIONS = 8, 2


@dataclass(frozen=True)
class Scaled:
    """An array that is stored as `scales[block, lane] * numbers[block, run, lane]`."""

    scales: Array  # float32 [block, lane]
    numbers: Array  # int8 [block, run, lane]

    @property
    def bytes(self) -> int:
        return self.scales.nbytes + self.numbers.nbytes

    def instructions(self, float_operation: float) -> float:
        """To compute all elements on a processor that takes so many for a multiplication beyond
        its own instruction."""
        return self.numbers.size * (ELEMENT + FLOAT_OPERATIONS * float_operation)


def scaled(array: Array) -> Scaled | None:
    """The array with the fewest scales whose products are its elements, bit for bit."""
    if array.dtype != np.float32 or not np.isfinite(array).all():
        return None
    for blocks, run, lanes in _groupings(array.shape):
        groups = array.reshape(blocks, run, lanes)
        if _scales(groups[:1, :, :1]) is None:
            continue  # most arrays have no scales: one group of elements tells
        scales = _scales(groups)
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


def _scales(groups: Array) -> Array | None:
    """float32 [block, lane]: those of which every element of [block, run, lane] is a multiple that
    an int8 holds; None if one has no such scale."""
    most = np.abs(groups).max(axis=1)
    found: Array = np.ones_like(most)  # of zeros alone
    left = most > 0
    for largest in range(LARGEST, 0, -1):
        for scale in _around(most / np.float32(largest)):
            fits = left & _multiples(groups, scale)
            found[fits] = scale[fits]
            left &= ~fits
        if not left.any():
            return found
    return None


def _around(scales: Array) -> Iterator[Array]:
    """They and those up to two steps of a float away: a product and a quotient were rounded."""
    yield scales
    for end in (0, np.inf):
        near = scales
        for _ in range(2):
            near = np.nextafter(near, np.float32(end))
            yield near


def _multiples(groups: Array, scale: Array) -> Array:
    """Whether all elements of each group are whole multiples of its scale, in float32."""
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.rint(groups / scale[:, None])
    within = (numbers >= -128) & (numbers <= 127)
    same = (numbers.astype(np.float32) + np.float32(0)) * scale[:, None]
    equal = same.view(np.int32) == np.ascontiguousarray(groups).view(np.int32)
    return np.asarray((within & equal).all(axis=1))
