"""Weights of which most are zero: only the others are stored, each with its distance to the one
before in its output channel.

An entry is two bytes, the distance and the weight. A distance that a byte cannot hold takes more
entries, whose weights are zero. Where each of `group` neighbours in the order of products has at
most one weight that is not zero (N:M sparsity 1:4, 1:8, 1:16), its place in the group takes four
bits, and an entry twelve.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ops.contraction import Contraction
from mlftool.ops.nibbles import joined

GROUPS = (16, 8, 4)  # as large as a layer allows: fewer zeros are stored
MOST_DENSE = 0.5  # of the weights: above that no kernel gains


@frozen
class Stream:
    """int8 entries of all output channels, in turn."""

    entries: Array
    rounds: Array  # of the loop, each of some entries, by output channel
    weights: int  # that are multiplied, zeros that fill up among them

    @property
    def even(self) -> bool:
        """Whether all channels take as many rounds."""
        return bool(np.all(self.rounds == self.rounds[0]))


def is_sparse(c: Contraction) -> bool:
    return bool(np.count_nonzero(c.weights) <= MOST_DENSE * c.weights.size)


def gaps(c: Contraction, unit: int, every: int) -> Stream:
    """Distances and weights. A place is `unit` long in what distances count; a round of the loop
    takes `every` entries, and a channel at least one round."""
    w = c.weights.reshape(c.oc, -1)
    row, place = np.nonzero(w)
    first = np.diff(row, prepend=-1) != 0
    gap = np.where(first, place, np.diff(place, prepend=0))
    most = 255 // unit
    far = np.maximum(gap - 1, 0) // most  # entries before this one
    last = np.cumsum(far + 1) - 1
    distance = np.full(last[-1] + 1 if last.size else 0, most)
    distance[last] = gap - far * most
    weight = np.zeros(distance.size, np.int8)
    weight[last] = w[row, place]
    of = np.repeat(row, far + 1)
    count = np.bincount(of, minlength=c.oc)
    rounds = np.maximum(1, -(-count // every))
    start = np.cumsum(rounds * every) - rounds * every
    at = start[of] + np.arange(of.size) - (np.cumsum(count) - count)[of]
    made = np.zeros((int(rounds.sum()) * every, 2), np.uint8)
    made[at, 0] = distance * unit
    made[at, 1] = weight.view(np.uint8)
    return Stream(made.view(np.int8).reshape(-1), rounds, len(made))


def in_words(kept: Stream) -> Array:
    """uint32: of four entries the distances, the first in the lowest byte, then the weights."""
    fours = kept.entries.view(np.uint8).reshape(-1, 4, 2).transpose(0, 2, 1).astype(np.uint32)
    words = (fours << np.array([0, 8, 16, 24], np.uint32)).sum(axis=-1, dtype=np.uint32)
    return np.ascontiguousarray(words).reshape(-1)


def streamed(kept: Stream, bias: Array, numbers: Sequence[Array]) -> Array:
    """uint32: of each output channel int32 `bias`, its entries, two in a word, and an int32 of each
    of the `numbers`."""
    words = kept.entries.view(np.uint32)
    each = words.size // int(kept.rounds.sum())
    ends = np.cumsum(kept.rounds * each)
    starts = np.concatenate(([0], ends[:-1]))
    before = bias.astype(np.int32).view(np.uint32)
    after = [n.reshape(-1).astype(np.int32).view(np.uint32) for n in numbers]
    return np.insert(
        words,
        np.concatenate((*(ends for _ in after), starts)),
        np.concatenate((*after, before)),  # the last numbers of a channel, then the next one's bias
    )


def group_of(c: Contraction) -> int:
    """How many neighbours have at most one weight that is not zero, an entry of each; 0 if no such
    number is of use."""
    w = c.weights.reshape(c.oc, -1) != 0
    for size in GROUPS:
        if w.shape[1] % (2 * size) == 0 and w.reshape(-1, size).sum(axis=1).max() <= 1:
            return size
    return 0


def grouped(c: Contraction, size: int) -> Stream:
    """For two groups each a byte with the places in them, the first in the lower half, and two
    weights. Every group has an entry."""
    w = c.weights.reshape(-1, size)
    place = np.argmax(w != 0, axis=1)
    weight = w[np.arange(len(w)), place].reshape(-1, 2)
    both = joined(place[::2], place[1::2]).view(np.int8)
    made = np.concatenate((both[:, None], weight), axis=1)
    rounds = np.full(c.oc, c.depth // (2 * size))
    return Stream(np.ascontiguousarray(made).reshape(-1), rounds, len(w))
