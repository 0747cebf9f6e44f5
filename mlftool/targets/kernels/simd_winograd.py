"""int8 convolutions of 3x3 and stride 1 with 16 multiplications for 36: Winograd's F(2x2, 3x3).

A tile of 4 x 4 inputs gives 2 x 2 outputs: sums of inputs, at most four times them, meet weights
that are computed here, and what they give is summed again. Weights times four are integers, at most
nine times as large, so both are int16, sums are exact int32, and so is each output, times four; the
scale of requantisation makes up for that. Weights take 32 bytes where they took nine: not for size.
With VNNI, whose instruction multiplies twice as many bytes, nothing would be gained.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    contraction,
    folded_bias,
    largest,
    pad_rows,
)
from mlftool.ops.scalar import Store, tensor_operand
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.simd import AVX2
from mlftool.targets.kernels.simd_finish import channels, finish
from mlftool.targets.kernels.simd_image import CACHE, Image, image_of

_TWICE = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)
_SMALLEST = 2.0**-120  # of a scale that a fourth of is exact
_CHANNELS = 16  # of inputs that are transformed at once


@kernel("QLinearConv", needs="avx2", unless="avx512 size")
def winograd(v: View) -> Kernel | None:
    c = contraction(v)
    if len(c.inputs) != 2 or c.kernel != (3, 3) or c.strides != (1, 1) or c.dilations != (1, 1):
        return None
    if c.group != 1 or c.ic % _CHANNELS or not v.x(0).dtype.is_int8:
        return None
    q = Quantisation.of(v)
    if v.known(3).dtype != np.int8 or np.any(q.w_zero_point) or np.any(q.scale < _SMALLEST):
        return None
    bias = folded_bias(c, q)
    if np.any(4 * (largest(c, q) + np.abs(bias)) >= 2**31):
        return None
    image = _image(c)
    tiles = image.band * image.columns
    rows, vectors = AVX2.shape(_products(c, tiles), c.oc)
    width = vectors * AVX2.lanes
    how = finish(v, c, q, AVX2.lanes, channels(c.oc, width), c.oc % width == 0)
    if how is None:
        return None
    quarter = tuple(
        replace(o, array=o.array / np.float32(4))
        if o.name == "scale" and o.array is not None
        else o
        for o in how.operands
    )
    store = Store(v, "0", "0", "0")  # what it may overwrite
    pixels = c.batch * image.rows * image.columns
    return Kernel(
        "avx2.winograd",
        "simd_winograd.c.j2",
        {
            "im": image,
            "unit": AVX2,
            "rows": rows,
            "vectors": vectors,
            "tiles": tiles,
            "outputs": c.outputs,
            "oc": c.oc,
            "gather": "widen_s8" if v.x(0).dtype.name == "int8" else "widen_u8",
            "fill": q.x_zero_point,
            "finish": how,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("w", "int16_t", "const", array=_weights(c, width)),
            Operand("b", "int32_t", "const", array=pad_rows(4 * bias, width).astype(np.int32)),
            *quarter,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            Operand("columns", "int16_t", "scratch", bytes=2 * image.elements),
            Operand("sums", "int16_t", "scratch", bytes=2 * 16 * tiles * c.ic),
            Operand("products", "int32_t", "scratch", bytes=4 * 16 * tiles * width),
        ),
        cost=c.macs / 18.0 + pixels * (4.0 * c.ic + 23.0 * c.oc),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/simd.h"),
        inplace=store.inplace,
    )


def _image(c: Contraction) -> Image:
    """Tiles of 4 x 4 in steps of two, in bands that divide their rows and fit the cache."""
    rows, columns = (-(-n // 2) for n in c.outputs)
    whole = replace(
        image_of(c, 1, False),
        rows=rows,
        columns=columns,
        kernel=(4, 4),
        strides=(2, 2),
        width=2 * columns + 2,
    )
    most = max(1, CACHE // (2 * 16 * c.ic * columns))
    band = max(n for n in range(1, rows + 1) if rows % n == 0 and n <= most)
    return replace(whole, band=band)


def _products(c: Contraction, tiles: int) -> Image:
    """What a product of one place reads: a pixel for each tile."""
    image, one = _image(c), (1, 1)
    return replace(image, rows=tiles, columns=1, kernel=one, strides=one, width=1)


def _weights(c: Contraction, width: int) -> Array:
    """int16 [OC/width, 16, IC/2, width, 2]: four times the transformed weights."""
    g = pad_rows(c.weights, width).astype(np.int32)  # [OC, 3, 3, IC]
    u = np.einsum("ya,xb,oabc->yxco", _TWICE, _TWICE, g, optimize=True)
    u = u.reshape(16, c.ic // 2, 2, -1, width).transpose(3, 0, 1, 4, 2)
    return np.ascontiguousarray(u.astype(np.int16)).reshape(-1)
