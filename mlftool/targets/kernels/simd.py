"""Contractions in vectors of output channels, for processors with SSE2, AVX2 or AVX-512.

A tile of `rows` pixels x `vectors` of `lanes` output channels is computed in registers. A lane adds
its products in the same order as the portable kernel, so float results are the same bits.

int8 activations meet weights in pairs (PMADDWD on int16) or, with VNNI, in quads (VPDPBUSD). That
one takes unsigned bytes, so signed activations are stored 128 larger and the bias makes up for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    BLOCK,
    Contraction,
    Quantisation,
    blocks,
    contraction,
    folded_bias,
    pad_rows,
    requantize,
)
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import FLOATS, kernel
from mlftool.targets.kernels.parts import Tile, byte_kernel, constants, scale_of
from mlftool.targets.kernels.simd_finish import Finish, channels, finish
from mlftool.targets.kernels.simd_image import Image, image_of

SIZES = {"float": 4, "int16_t": 2, "uint8_t": 1, "int8_t": 1}


@frozen
class Unit:
    """A vector unit: 32-bit lanes, registers, how many int8 products a lane takes at once, and the
    C names that load and multiply them."""

    name: str
    lanes: int
    registers: int
    group: int
    weights: str
    load: str
    multiply: str
    sums: int = 1  # registers for each vector of sums

    def shape(self, image: Image, channels: int) -> tuple[int, int]:
        """(rows, vectors) of a tile whose sums and weights fit the registers: the one with the
        fewest multiplications or loads, whichever is the limit."""
        wanted = -(-channels // self.lanes)
        pixels, (lines, run) = image.rows * image.columns, image.runs
        steps = lines * -(-run // self.group)

        def cost(shape: tuple[int, int]) -> tuple[float, int]:
            rows, vectors = shape
            tiles = -(-pixels // rows) * -(-wanted // vectors)
            step = max(rows * vectors, rows + vectors) + 0.3 * vectors
            apart = 0 if image.even or image.columns % rows == 0 else 2 * rows
            return tiles * (steps * step + apart), -rows * vectors

        room = self.registers - 2
        shapes = [
            (rows, vectors)
            for vectors in range(1, min(wanted, 8) + 1)
            for rows in range(1, min(pixels, room // vectors) + 1)
            if rows * vectors * self.sums + vectors <= room
            # A pointer for each row: there are registers for eight.
            and (rows <= 8 or image.even or image.columns % rows == 0)
        ]
        return min(shapes, key=cost)


SSE = Unit("sse2", 4, 16, 2, "mlf_i16x8", "mlf_wide_x4", "mlf_madd_x4")
AVX2 = Unit("avx2", 8, 16, 2, "mlf_i16x16", "mlf_wide_x8", "mlf_madd_x8")
AVX512 = Unit("avx512", 16, 32, 4, "__m512i", "mlf_quads_x16", "mlf_dot4_x16")


def _float32(v: View, unit: Unit) -> Kernel | None:
    c = contraction(v)
    if c.group != 1 or len(c.inputs) > 2:
        return None
    c = c.planar()
    image = image_of(c, 1, True)
    shape = unit.shape(image, c.oc)
    width = shape[1] * unit.lanes
    many = blocks(c) > 1
    params = {
        "group": 1,
        "blocks": blocks(c),
        "block": (BLOCK if c.dense else c.kernel[1] * c.ic) if many else c.depth,
        "gather": "copy",
        "fill": "0.0f",
        "kind": "f32",
        "column_type": "float",
    }
    read = constants(w=pack(c.weights, image, width, 1), b=pad_rows(c.bias, width))
    how = finish(v, c, None, unit.lanes, channels(c.oc, width), c.oc % width == 0)
    text = "a[i]" if many else "(b[oc + i] + a[i])"
    return _tile(c, unit, image, shape, params, read, (how, text)).kernel


def int8(c: Contraction, q: Quantisation, unit: Unit) -> Tile:
    v = c.v
    signed = v.x(0).dtype.name == "int8"
    bias = folded_bias(c, q)
    flips = unit.group == 4 and signed
    if flips:
        bias = bias - 128 * c.weights.reshape(c.oc, -1).astype(np.int64).sum(axis=1)
    gather = {2: "widen_s8" if signed else "widen_u8", 4: "flip_s8" if flips else "copy"}
    image = image_of(c, unit.group, gather[unit.group] == "copy")
    shape = unit.shape(image, c.oc)
    width = shape[1] * unit.lanes
    # Sums modulo 2^32 come out right whatever the way there.
    biases = pad_rows(_wrap(bias), width)
    read = constants(w=pack(c.weights, image, width, unit.group), b=biases)
    how = finish(v, c, q, unit.lanes, channels(c.oc, width), c.oc % width == 0)
    if how is None:
        read += constants(scale=scale_of(q, width))
    params = {
        "group": unit.group,
        "gather": gather[unit.group],
        "fill": q.x_zero_point + (128 if flips else 0),
        "kind": "s8",
        "column_type": "int16_t" if unit.group == 2 else "uint8_t",
    }
    text = f"({v.y.dtype.c}){requantize(c, q, 'a[i]', 'oc + i')}"
    return _tile(c, unit, image, shape, params, read, (how, text))


def _wrap(values: Array) -> Array:
    return np.asarray(values.astype(np.uint64).astype(np.uint32).view(np.int32))


def pack(weights: Array, image: Image, width: int, group: int) -> Array:
    """[OC/width, run, K/group, width, group], zeros added to channels and to each run."""
    flat = weights.reshape(weights.shape[0], -1)
    full = flat.shape[0] // width
    # The channels of whole blocks are copied once: weights may be 100 MB.
    first = _blocks(flat[: full * width], image, width, group)
    last = _blocks(pad_rows(flat[full * width :], width), image, width, group)
    packed = np.empty((full + last.shape[0], *first.shape[1:]), flat.dtype)
    packed[:full], packed[full:] = first, last
    return packed.reshape(-1)


def _blocks(flat: Array, image: Image, width: int, group: int) -> Array:
    """[OC, K] as [OC/width, run * K/group, width, group], zeros added to each run."""
    lines, run = image.runs
    w = flat.reshape(flat.shape[0], lines, run)
    if short := -run % group:
        w = np.concatenate([w, np.zeros((*w.shape[:2], short), w.dtype)], axis=2)
    shape = (flat.shape[0] // width, width, lines * w.shape[2] // group, group)
    return w.reshape(shape).transpose(0, 2, 1, 3)


def _tile(
    c: Contraction,
    unit: Unit,
    image: Image,
    shape: tuple[int, int],
    params: dict[str, Any],
    read: tuple[Operand, ...],
    result: tuple[Finish | None, str],
) -> Tile:
    rows, vectors = shape
    how, text = result
    size = SIZES[params["column_type"]]
    image = image.banded(size, rows)
    if image.pixels < rows:  # a band of few pixels
        rows = image.pixels
    store = Store(c.v, text, "to + i", "oc + i")
    columns: tuple[Operand, ...] = ()
    if image.copied:
        bytes_ = image.elements * size
        columns = (Operand("columns", params["column_type"], "scratch", bytes=bytes_),)
    products = unit.lanes * params["group"]
    return Tile(
        f"{unit.name}.{params['kind']}",
        "simd.c.j2",
        c,
        read,
        columns,
        how or store,
        {
            **params,
            "im": image,
            "unit": unit,
            "rows": rows,
            "vectors": vectors,
            "finish": how,
            "store": store,
            "grouped": 0,
        },
        cost=c.tiled(1, vectors * unit.lanes) * 2.0 / products + c.pixels * c.oc * 4.0,
        header="mlf/simd.h",
    )


for _unit, _needs in ((SSE, "vector"), (AVX2, "avx2"), (AVX512, "avx512")):
    kernel(*FLOATS, needs=_needs, unless="fused")(partial(_float32, unit=_unit))
    byte_kernel(_needs)(partial(int8, unit=_unit))
