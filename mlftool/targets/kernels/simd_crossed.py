"""int8 contractions of 1x1 on AVX2 with half the multiplications: Winograd's inner product.

(x0 + w1)(x1 + w0) is x0 w0 + x1 w1 + x0 x1 + w0 w1. The sum of all w0 w1 is known here and goes
into the bias; that of x0 x1 is the same for all output channels and computed once for a pixel.
Additions of int16 take the place of multiplications and run on twice as many units. Weights are
int16, twice their bytes: not for size.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, folded_bias, pad_rows
from mlftool.targets.kernels.parts import Tile, byte_kernel, constants
from mlftool.targets.kernels.simd import AVX2
from mlftool.targets.kernels.simd_finish import channels, finish
from mlftool.targets.kernels.simd_image import image_of

ROWS, VECTORS = 4, 2  # as many sums as registers hold together with four weights and inputs
_CHANNELS = 8  # of inputs that are read at once
_DEEPEST = 4096  # channels whose sums, each of two at most 2 * 256 * 256, stay in int32


@byte_kernel("avx2", "avx512 size", signed=True)
def crossed(c: Contraction, q: Quantisation) -> Tile | None:
    if not c.dense or c.pixels < ROWS:
        return None
    if c.ic % _CHANNELS or c.ic > _DEEPEST or c.oc <= AVX2.lanes:
        return None
    width = VECTORS * AVX2.lanes
    how = finish(c.v, c, q, AVX2.lanes, channels(c.oc, width), c.oc % width == 0)
    w = c.weights.reshape(c.oc, c.ic).astype(np.int64)
    bias = folded_bias(c, q) - (w[:, ::2] * w[:, 1::2]).sum(axis=1)
    if how is None or np.abs(bias).max() >= 2**30:
        return None
    image = image_of(c, 1, False).banded(2, ROWS)
    return Tile(
        "avx2.crossed",
        "simd_crossed.c.j2",
        c,
        constants(w=_pack(c, width), b=pad_rows(bias, width).astype(np.int32)),
        (
            Operand("columns", "int16_t", "scratch", bytes=2 * image.elements),
            Operand("own", "int32_t", "scratch", bytes=4 * image.band),
        ),
        how,
        {"im": image, "rows": ROWS, "vectors": VECTORS},
        # Beside the sums in pairs, whose instructions are as many and wait for each other.
        cost=c.pixels * (c.ic * -(-c.oc // width) * VECTORS * 0.85 + c.ic / 2.0 + c.oc * 4.0),
        header="mlf/simd.h",
    )


def _pack(c: Contraction, width: int) -> Array:
    """int16 [OC/width, IC/4, width/8, 2, 8, 2]: of four weights the second and fourth, for eight
    channels, then the first and third."""
    w = pad_rows(c.weights.reshape(c.oc, c.ic), width).astype(np.int16)
    parts = w.reshape(-1, width // 8, 8, c.ic // 4, 2, 2)[..., ::-1]  # [.., pair, place in it]
    return np.ascontiguousarray(parts.transpose(0, 3, 1, 5, 2, 4)).reshape(-1)
