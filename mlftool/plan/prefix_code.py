"""Arrays in a prefix code: the more often a value occurs, the fewer bits it takes.

The code is Huffman's, in its canonical form: codes of one length are consecutive numbers, in the
order of their values, so that a table with two numbers for each length decodes it
(`crt/include/mlf/unpack.h`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array

LONGEST = 16  # bits of a code
MOST_VALUES = 1024
# Instructions of the C for an element, and more for each length that is tried in vain; counted on
# Cortex-M4 and rv32imc (tests/plan/test_weights_budget.py).
ELEMENT, LENGTH = 20, 5


@frozen
class Coded:
    """An array of integers or floats that is stored as `values[index]` for each element."""

    values: Array  # [value], those of the array, each once
    words: Array  # uint16, what the header describes
    count: int  # of the array's elements
    instructions: float  # estimated, to decode all elements

    @property
    def bytes(self) -> int:
        return self.values.nbytes + self.words.nbytes


def coded(array: Array) -> Coded | None:
    """The code of an array whose elements C has; None if it has none, or too many values."""
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{flat.itemsize}")  # two NaN of different bits are two values
    values, index, counts = np.unique(bits, return_inverse=True, return_counts=True)
    if not 0 < values.size <= MOST_VALUES:
        return None
    lengths = code_lengths(counts.tolist())
    order = np.argsort(lengths, kind="stable")
    codes = _canonical(lengths[order])
    place = np.argsort(order)  # of a value among those in the order of their codes
    table, waits = _table(lengths[order], codes)
    stream = _stream(codes[place][index], lengths[index])
    cost = flat.size * ELEMENT + LENGTH * float((waits[place] * counts).sum())
    words = np.concatenate([table, stream]).astype(np.uint16)
    return Coded(values[order].view(flat.dtype), words, flat.size, cost)


def code_lengths(counts: Sequence[int]) -> Array:
    """The bits of each value's code, 1 to 16, for values that occur so often."""
    if len(counts) == 1:
        return np.ones(1, np.int64)
    while (found := _huffman(counts)).max() > LONGEST:
        counts = [(c + 1) // 2 for c in counts]  # more alike: a flatter tree
    return found


def _huffman(counts: Sequence[int]) -> Array:
    """How deep each leaf of a tree of least weight is."""
    number = count()
    heap = [(c, next(number), [k]) for k, c in enumerate(counts)]
    heapq.heapify(heap)
    depth = np.zeros(len(counts), np.int64)
    while len(heap) > 1:
        (a, _, left), (b, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        depth[left + right] += 1
        heapq.heappush(heap, (a + b, next(number), left + right))
    return depth


def _canonical(lengths: Array) -> Array:
    """Consecutive codes for lengths in ascending order."""
    codes = np.zeros(lengths.size, np.int64)
    for k in range(1, lengths.size):
        codes[k] = (codes[k - 1] + 1) << int(lengths[k] - lengths[k - 1])
    return codes


def _table(lengths: Array, codes: Array) -> tuple[Array, Array]:
    """The words before the codes, and how many lengths the decoder tries in vain for each code."""
    shortest, longest = int(lengths[0]), int(lengths[-1])
    last, index, end = [], [], 0
    for length in range(shortest, longest + 1):
        of = np.flatnonzero(lengths == length)
        if of.size:
            end = (int(codes[of[-1]]) + 1) << (LONGEST - length)
        last.append(end - 1)
        index.append((int(of[0]) - int(codes[of[0]])) % (1 << 16) if of.size else 0)
    last[-1] = (1 << 16) - 1  # a code of one value does not use all bits
    return np.array([shortest, longest, *last, *index], np.uint16), lengths - shortest


def _stream(codes: Array, lengths: Array) -> Array:
    """The codes one after the other in words, with those that the decoder reads ahead."""
    shifts = np.arange(LONGEST - 1, -1, -1)
    parts = []
    for at in range(0, codes.size, 1 << 16):
        some = slice(at, at + (1 << 16))
        digits = (codes[some, None] >> shifts) & 1
        parts.append(digits[shifts < lengths[some, None]].astype(np.uint8))
    bits = np.concatenate(parts)
    before_last = bits.size - int(lengths[-1])
    needed = -(-(before_last + LONGEST) // 16)
    bits = np.append(bits, np.zeros(needed * 16 - bits.size, np.uint8))
    return np.packbits(bits).view(">u2").astype(np.uint16)
