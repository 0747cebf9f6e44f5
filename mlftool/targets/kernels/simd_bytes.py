"""int8 contractions on AVX2 whose weights are small: products of bytes, summed in int16.

PMADDUBSW takes 32 products at once, twice as many as PMADDWD, but sums of two saturate at int16.
Inputs are below 256, so where the weights of several quads of inputs cannot add up to more than 128
in any lane, nothing saturates, and all of them are added in int16 before one PMADDWD makes int32 of
them. Quads are put into such groups here; one that would saturate alone becomes two, and one whose
weights are all zero is left out. `at` says where the inputs of each quad lie, `n` how many groups
and then how many single quads each block of channels has.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.ops.contraction import Contraction, Quantisation
from mlftool.targets.kernels.parts import Tile, byte_kernel, constants
from mlftool.targets.kernels.simd import Unit, int8
from mlftool.targets.kernels.simd_image import Image

UNIT = Unit("avx2", 8, 16, 4, "mlf_i8x32", "", "", sums=2)
SIZES = (2, 4, 8)  # of groups
_MOST = 128  # times 255 is within int16


@frozen
class Quads:
    """The quads of one block of channels: int8 weights [n, width, 4], addresses of inputs [n]."""

    weights: Array
    places: Array

    @staticmethod
    def of(weights: Array, places: Array) -> Quads:
        """Without those that are zero, each within int16."""
        some = weights.any(axis=(1, 2))
        weights, places = weights[some], places[some]
        wide = (reach(weights) > _MOST).any(axis=1)
        halves = [weights[wide].copy(), weights[wide].copy()]
        halves[0][..., 1::2] = 0
        halves[1][..., ::2] = 0
        return Quads(
            np.concatenate([weights[~wide], *halves]),
            np.concatenate([places[~wide], places[wide], places[wide]]),
        )

    def grouped(self, size: int) -> tuple[Quads, int]:
        """First groups of `size`, and their number: the largest next to the smallest."""
        count = len(self.places) // size
        reached = reach(self.weights)
        order = np.argsort(-reached.max(axis=1, initial=0), kind="stable")
        dealt = order[: count * size].reshape(size, count)
        dealt[1::2] = dealt[1::2, ::-1]
        rows = dealt.T  # [group, size]
        safe = (reached[rows].sum(axis=1) <= _MOST).all(axis=1)
        rest = np.concatenate([rows[~safe].reshape(-1), order[count * size :]])
        order = np.concatenate([rows[safe].reshape(-1), rest])
        return Quads(self.weights[order], self.places[order]), int(safe.sum())


def reach(weights: Array) -> Array:
    """int32 [n, 4 * width]: how far each sum of two weights goes up, and how far down."""
    pairs = weights.reshape(len(weights), 2 * weights.shape[1], 2).astype(np.int32)
    return np.concatenate([np.maximum(pairs, 0).sum(-1), np.maximum(-pairs, 0).sum(-1)], axis=1)


@byte_kernel("avx2", "avx512")
def small_weights(c: Contraction, q: Quantisation) -> Tile | None:
    made = int8(c, q, UNIT)
    packed = made.constants[0].array
    if made.params["finish"] is None or packed is None:
        return None
    width = made.params["vectors"] * UNIT.lanes
    places = _places(made.params["im"])
    blocks = [Quads.of(w, places) for w in packed.reshape(-1, len(places), width, 4)]
    tried = [(size, [b.grouped(size) for b in blocks]) for size in SIZES]
    size, grouped = min(tried, key=lambda t: _steps(*t))
    w = np.concatenate([b.weights for b, _ in grouped]).reshape(-1)
    at = np.concatenate([b.places for b, _ in grouped])
    counts = np.array([(n, len(b.places) - n * size) for b, n in grouped], np.int32)
    if not at.size:
        return None
    return replace(
        made,
        name="avx2.bytes",
        params={**made.params, "grouped": size},
        constants=(*constants(w=w, at=at, n=counts.reshape(-1)), *made.constants[1:]),
        cost=c.pixels * (made.params["vectors"] * _steps(size, grouped) + c.oc * 4.0),
    )


def _places(image: Image) -> Array:
    """The offset of each quad of a pixel's operands, in the order weights are packed."""
    lines, run = image.runs
    row, tap = np.divmod(np.arange(lines), lines // image.kernel[0])
    first = row * image.dilations[0] * image.line + tap * image.dilations[1] * image.channels
    places = np.add.outer(first, np.arange(0, run, UNIT.group)).reshape(-1)
    return np.asarray(places.astype(np.uint16 if places.max() < 2**16 else np.int32))


def _steps(size: int, grouped: list[tuple[Quads, int]]) -> float:
    """Instructions for one vector of each block of channels."""
    groups = sum(count for _, count in grouped)
    singles = sum(len(quads.places) for quads, _ in grouped) - groups * size
    return 1.1 * (groups * (2 * size + 1) + singles * 3) + 10 * len(grouped)
