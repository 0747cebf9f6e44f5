"""Depthwise contractions in vectors of channels, for AVX2 and AVX-512, all taps at once.

Input rows are copied with their padding, int8 as pairs of int16: an element and that of the next
tap, so that one PMADDWD takes two taps. Weights stay in registers while pixels pass. Where a vector
has more lanes than there are channels, and pixels are neighbours, it holds several pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import Contraction, Quantisation, folded_bias
from mlftool.targets.kernels import BYTES, FLOATS, kernel
from mlftool.targets.kernels.parts import Tile, bytes_of, constants
from mlftool.targets.kernels.simd_depthwise import depthwise_of
from mlftool.targets.kernels.simd_finish import finish
from mlftool.targets.kernels.simd_image import Image, image_of


@frozen
class Lanes:
    """Which outputs the lanes of vectors are: `several` pixels of all channels, or `blocks` of
    channels of a pixel; `channel` has the channel of each lane of each block."""

    lanes: int
    several: bool
    blocks: int
    channel: Array
    starts: tuple[int, ...]  # the first channel of each block
    whole: bool  # each lane is stored, and once

    @staticmethod
    def of(c: Contraction, lanes: int) -> Lanes:
        if lanes % c.oc == 0 and c.strides[1] == 1:
            whole = c.outputs[1] * c.oc % lanes == 0
            return Lanes(lanes, True, 1, np.arange(lanes) % c.oc, (0,), whole)
        blocks = -(-c.oc // lanes)
        # The last block starts early enough to be whole, if there are as many channels.
        starts = tuple(max(0, min(k * lanes, c.oc - lanes)) for k in range(blocks))
        channel = np.minimum(np.add.outer(starts, np.arange(lanes)).reshape(-1), c.oc - 1)
        return Lanes(lanes, False, blocks, channel, starts, c.oc % lanes == 0)


def _bid(v: View, lanes: int) -> Kernel | None:
    c = depthwise_of(v)
    if c is None:
        return None
    return _int8(v, lanes) if c.quantised else _float32(v, c, lanes)


def _int8(v: View, lanes: int) -> Kernel | None:
    found = bytes_of(v, depthwise=True)
    if found is None:
        return None
    c, q = found
    at = Lanes.of(c, lanes)
    signed = v.x(0).dtype.name == "int8"
    bias = folded_bias(c, q).astype(np.int32)[at.channel]
    params = {
        "kind": "s8",
        "gather": "pairs_s8" if signed else "pairs_u8",
        "fill": q.x_zero_point,
        "group": 2,
        "column_type": "int16_t",
    }
    # [KH, KW/2, 2, C]
    taps = np.moveaxis(c.weights.reshape(c.oc, *c.kernel), 0, -1)
    taps = np.concatenate([taps, np.zeros((c.kernel[0], c.kernel[1] % 2, c.oc), np.int8)], axis=1)
    taps = taps.reshape(c.kernel[0], -1, 2, c.oc)[..., at.channel]
    weights = taps.reshape(-1, 2, at.blocks, lanes).transpose(2, 0, 3, 1)
    return _kernel(v, c, q, at, params, (np.ascontiguousarray(weights), bias))


def _float32(v: View, c: Contraction, lanes: int) -> Kernel | None:
    if v.x(0).dtype.name != "float32" or not np.all(np.isfinite(c.weights)):
        return None
    at = Lanes.of(c, lanes)
    params = {"kind": "f32", "gather": "copy", "fill": "0.0f", "group": 1, "column_type": "float"}
    taps = np.moveaxis(c.weights.reshape(c.oc, -1), 0, -1)[:, at.channel]
    weights = taps.reshape(-1, at.blocks, lanes).transpose(1, 0, 2)
    return _kernel(v, c, None, at, params, (np.ascontiguousarray(weights), c.bias[at.channel]))


def _kernel(
    v: View,
    c: Contraction,
    q: Quantisation | None,
    at: Lanes,
    params: dict[str, Any],
    arrays: tuple[Array, Array],
) -> Kernel | None:
    how = finish(v, c, q, at.lanes, at.channel, at.whole)
    if how is None:
        return None
    group, size = params["group"], 4 if q is None else 2
    image = _image(c).banded(size * group, 1)
    line = (image.width + c.dilations[1]) * c.oc * v.x(0).dtype.bytes  # one row of bytes, padded
    elements = (image.elements + at.lanes) * group
    scratch = [Operand("columns", params["column_type"], "scratch", bytes=elements * size)]
    if q:
        scratch.append(Operand("line", v.x(0).dtype.c, "scratch", bytes=line))
    vectors = (
        c.batch
        * c.outputs[0]
        * (-(-c.outputs[1] * c.oc // at.lanes) if at.several else c.outputs[1] * at.blocks)
    )
    taps = arrays[0].shape[1]
    weights, bias = arrays
    return Tile(
        f"avx{'512' if at.lanes == 16 else '2'}.depthwise",
        "simd_taps.c.j2",
        c,
        constants(w=weights, b=bias),
        scratch,
        how,
        {**params, "im": image, "at": at, "taps": taps},
        cost=vectors * (taps + 4.0) + c.oc * c.inputs[0] * c.inputs[1] / 8.0,
        header="mlf/simd.h",
    ).kernel


def _image(c: Contraction) -> Image:
    """The input, always copied, every column of it."""
    image = image_of(c, 1, False)
    width = (c.outputs[1] - 1) * c.strides[1] + (c.kernel[1] - 1) * c.dilations[1] + 1
    strides = (image.strides[0], c.strides[1])
    return replace(image, steps=(image.steps[0], 1), strides=strides, width=width)


for _lanes, _needs in ((8, "avx2"), (16, "avx512")):

    def _sized(v: View, lanes: int = _lanes) -> Kernel | None:
        return _bid(v, lanes)

    kernel(*BYTES, needs=_needs)(_sized)
    kernel(*FLOATS, needs=_needs, unless="fused")(_sized)
