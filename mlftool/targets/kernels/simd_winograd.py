"""int8 convolutions of 3x3 and stride 1 with fewer multiplications: Winograd's F(2x2, 3x3), 16 for
36, and F(4x4, 3x3), 36 for 144.

Sums of inputs meet weights that are computed here, and what they give is summed again. All of it is
integers: weights are scaled so that they are, so outputs come out that many times too large. With
F(2x2) that is four times, and the scale of requantisation makes up for it; with F(4x4) 9 times a
power of two, up to 576, which is divided out exactly. Transformed inputs and weights are int16,
products int32. All that is proven here for the weights at hand, else no such kernel is offered.

Weights take 32 or 72 bytes where they took nine: not for size. With VNNI, whose instruction
multiplies twice as many bytes, little would be gained.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, folded_bias, pad_rows
from mlftool.targets.kernels.parts import Tile, byte_kernel, constants
from mlftool.targets.kernels.simd import AVX2
from mlftool.targets.kernels.simd_finish import channels, finish
from mlftool.targets.kernels.simd_image import CACHE, Image, image_of

_SMALLEST = 2.0**-120  # of a scale that a fourth of is exact
_CHANNELS = 16  # of inputs that are transformed at once


@frozen
class Tiling:
    """F(size x size, 3x3): how weights are transformed, how far inputs grow along one axis, and how
    many times too large outputs are."""

    size: int
    weights: Array
    growth: Array
    times: int

    @property
    def reach(self) -> int:
        return self.size + 2


TWO = Tiling(2, np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]]), np.full(4, 2), 4)
FOUR = Tiling(
    4,
    np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4], [0, 0, 1]]),
    np.array([10, 10, 10, 6, 6, 10]),
    576,
)


@byte_kernel("avx2", "avx512 size")
def winograd_2x2(c: Contraction, q: Quantisation) -> Tile | None:
    return _bid(c, q, TWO)


@byte_kernel("avx2", "avx512 size")
def winograd_4x4(c: Contraction, q: Quantisation) -> Tile | None:
    return _bid(c, q, FOUR)


def _bid(c: Contraction, q: Quantisation, tiling: Tiling) -> Tile | None:
    v = c.v
    if c.kernel != (3, 3) or c.strides != (1, 1) or c.dilations != (1, 1):
        return None
    if c.ic % _CHANNELS or np.any(q.scale < _SMALLEST):
        return None
    image = _image(c, tiling)
    tiles = image.band * image.columns
    rows, vectors = AVX2.shape(_products(image, tiles), c.oc)
    width = vectors * AVX2.lanes
    how = finish(v, c, q, AVX2.lanes, channels(c.oc, width), c.oc % width == 0)
    weights = _weights(c, tiling)
    if how is None or not _fits(c, q, tiling, weights):
        return None
    bias = folded_bias(c, q) * (4 if tiling is TWO else 1)
    places = tiling.reach**2
    if tiling is TWO:
        how = replace(how, operands=tuple(_quartered(o) for o in how.operands))
    return Tile(
        f"avx2.winograd{tiling.size}",
        "simd_winograd.c.j2",
        c,
        constants(w=_pack(weights, width), b=pad_rows(bias, width).astype(np.int32)),
        (
            Operand("columns", "int16_t", "scratch", bytes=2 * image.elements),
            Operand("sums", "int16_t", "scratch", bytes=2 * places * tiles * c.ic),
            Operand("products", "int32_t", "scratch", bytes=4 * places * tiles * width),
        ),
        how,
        {
            "im": image,
            "unit": AVX2,
            "rows": rows,
            "vectors": vectors,
            "tiles": tiles,
            "size": tiling.size,
            "places": places,
            "suffix": "6" if tiling is FOUR else "",
            "outputs": c.outputs,
            "gather": "widen_s8" if v.x(0).dtype.name == "int8" else "widen_u8",
            "fill": q.x_zero_point,
        },
        cost=_cost(c, tiling, c.batch * image.rows * image.columns),
        header="mlf/winograd.h",
    )


def _cost(c: Contraction, tiling: Tiling, tiles: int) -> float:
    """Instructions: products, sums of inputs, sums of products and results."""
    products = tiling.reach**2 * c.ic * c.oc / 8.0
    sums = 4.0 * c.ic + 23.0 * c.oc if tiling is TWO else 18.0 * c.ic + 103.0 * c.oc
    return tiles * (products + sums)


def _fits(c: Contraction, q: Quantisation, tiling: Tiling, weights: Array) -> bool:
    """Whether every sum, whatever the input, is within its type."""
    furthest = max(abs(n) for n in c.v.x(0).dtype.range)
    grown = furthest * np.multiply.outer(tiling.growth, tiling.growth).reshape(-1, 1)
    products = np.abs(weights).sum(axis=1, dtype=np.int64) * grown  # [place, OC]
    outputs = furthest * np.abs(c.weights.reshape(c.oc, -1).astype(np.int64)).sum(axis=1)
    bias = np.abs(folded_bias(c, q))
    scaled = tiling.times * outputs + (4 * bias if tiling is TWO else 0)
    return bool(
        grown.max() < 2**15
        and np.abs(weights).max() < 2**15
        and products.max() < 2**31
        and scaled.max() < 2**31
    )


def _quartered(o: Operand) -> Operand:
    """The scales, a fourth of them."""
    return (
        replace(o, array=o.array / np.float32(4))
        if o.name == "scale" and o.array is not None
        else o
    )


def _image(c: Contraction, tiling: Tiling) -> Image:
    """Tiles in steps of their outputs, in bands that divide their rows and fit the cache."""
    size, reach = tiling.size, tiling.reach
    rows, columns = (-(-n // size) for n in c.outputs)
    whole = replace(
        image_of(c, 1, False),
        rows=rows,
        columns=columns,
        kernel=(reach, reach),
        strides=(size, size),
        width=size * columns + 2,
    )
    most = max(1, CACHE // (2 * reach**2 * c.ic * columns))
    band = max(n for n in range(1, rows + 1) if rows % n == 0 and n <= most)
    return replace(whole, band=band)


def _products(image: Image, tiles: int) -> Image:
    """What a product of one place reads: a pixel for each tile."""
    one = (1, 1)
    return replace(image, rows=tiles, columns=1, kernel=one, strides=one, width=1)


def _weights(c: Contraction, tiling: Tiling) -> Array:
    """int32 [places, IC, OC]: transformed."""
    g = c.weights.astype(np.int32)  # [OC, 3, 3, IC]
    t = tiling.weights.astype(np.int32)
    u = np.tensordot(t, np.tensordot(t, g, (1, 2)), (1, 2))  # [y, x, OC, IC]
    return np.asarray(u.reshape(tiling.reach**2, c.oc, c.ic).transpose(0, 2, 1))


def _pack(weights: Array, width: int) -> Array:
    """int16 [OC/width, places, IC/2, width, 2]"""
    places, ic, oc = weights.shape
    u = np.zeros((places, ic, -(-oc // width) * width), np.int16)
    u[..., :oc] = weights
    parts = u.reshape(places, ic // 2, 2, -1, width).transpose(3, 0, 1, 4, 2)
    return np.ascontiguousarray(parts).reshape(-1)
