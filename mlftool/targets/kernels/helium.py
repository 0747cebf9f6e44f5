"""int8 contractions with Helium, the vector unit of Cortex-M55: sixteen products per instruction.

VMLADAVA multiplies sixteen pairs of bytes and adds them to one register, so the operands of two
pixels are gathered into contiguous bytes, and weights are packed for four channels in turns of
sixteen: six loads for eight times sixteen products. Depthwise layers have neighbouring channels in
the lanes. helium_finish.py requantises eight sums at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import Contraction, Quantisation, centred, largest, pad_rows
from mlftool.targets.kernels import BYTES, kernel
from mlftool.targets.kernels.helium_finish import Shape, finish
from mlftool.targets.kernels.parts import (
    Tile,
    Walk,
    byte_kernel,
    constants,
    distances_while_reading,
    overlaps,
    shorts_of,
    walk,
    weights_zero,
)

VECTOR = 16  # of a vector
FAR = 127  # bytes from a pointer that a load reaches
MOST_PITCH = 0xFFFF - 3  # of bytes that are stored with offsets of 16 bits


def packed(c: Contraction, column: int, lanes: int, channels: int = 4) -> Array:
    """[OC/channels, K/lanes, channels, lanes], zeros added."""
    return packed_of(c.weights.reshape(c.oc, -1), column, lanes, channels)


def packed_of(flat: Array, column: int, lanes: int, channels: int) -> Array:
    """The same of weights [OC, K]; rows become `column` long."""
    w = pad_rows(flat, channels)
    w = np.pad(w, ((0, 0), (0, column - w.shape[1])))
    turns = w.reshape(-1, channels, column // lanes, lanes).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(turns).reshape(-1)


@byte_kernel("mve", signed=True, totals=True)
def quads(c: Contraction, q: Quantisation) -> Tile | None:
    """Two pixels x four channels at a time."""
    return _quads(c, q, "helium.quads", VECTOR, "", "mlf/mve.h")


@byte_kernel("mve", totals=True)
def row(c: Contraction, q: Quantisation) -> Tile | None:
    """A single pixel x eight channels at a time; of uint8 if it is read where it is."""
    if c.pixels > 1 or c.oc <= 4:
        return None
    column = -(-c.depth // VECTOR) * VECTOR
    shape = Shape("octet", "oc", f"mlf_min_i32(8, {c.oc} - oc)" if c.oc % 8 else "8")
    unsigned = c.v.x(0).dtype.name == "uint8"
    f = finish(c, q, shape, less=128 if unsigned else 0)
    columns = Operand("columns", "int8_t", "scratch", bytes=column)
    if unsigned and not (c.dense and column == c.depth and not weights_zero(q)):
        return None
    order = Walk.in_place() if unsigned else walk(c, 1, column, columns, f.operands)
    return Tile(
        "helium.row",
        "helium.c.j2",
        c,
        constants(w=packed(c, column, VECTOR, 8)),
        order.scratch,
        f,
        _params(c, q, column, VECTOR, "_u8" if unsigned else "", 8),
        cost=-(-c.oc // 8) * (column * (18.0 + unsigned) / VECTOR + 25.0) + column / 4.0,
        header="mlf/mve.h",
        walk=order,
    )


@kernel(*BYTES, needs="mve", unless="size")
def wide_quads(v: View) -> Kernel | None:
    """The same of int16, eight products per instruction."""
    found = shorts_of(v)
    if found is None or largest(*found).max(initial=0) >= 2**31:
        return None
    return _quads(*found, "helium.wide", VECTOR // 2, "_s16", "mlf/mve_wide.h").kernel


def _quads(c: Contraction, q: Quantisation, name: str, lanes: int, of: str, header: str) -> Tile:
    """Of `lanes` products per instruction, by functions whose names end in `of`."""
    rows, x = min(c.pixels, 2), c.v.x(0).dtype
    column = -(-c.depth // lanes) * lanes
    each = 1.92 if rows == 2 else 2.5  # instructions for `lanes` products
    channels = -(-c.oc // 4) * 4
    count = f"mlf_min_i32(4, {c.oc} - oc)" if c.oc % 4 else "4"
    at_once = rows == 2 and c.oc % 4 == 0 and c.oc <= MOST_PITCH and not of
    f = finish(c, q, Shape("pair" if rows == 2 else "one", "oc", count, at_once))
    columns = Operand("columns", x.c, "scratch", bytes=rows * column * x.bytes)
    order = walk(c, rows, column, columns, f.operands)
    return Tile(
        name,
        "helium.c.j2",
        c,
        constants(w=packed(c, column, lanes)),
        order.scratch,
        f,
        _params(c, q, column, lanes, of, 4),
        cost=c.pixels * (channels * column * each / lanes + c.oc * 4.0 + column * 4.8 / lanes),
        header=header,
        walk=order,
    )


def _params(
    c: Contraction, q: Quantisation, column: int, lanes: int, of: str, channels: int
) -> dict[str, Any]:
    return {
        "column": column,
        "rows": min(c.pixels, 2),
        "channels": channels,
        "fill": q.x_zero_point,
        "of": of,
        "size": c.v.x(0).dtype.bytes,
        "groups": column // lanes,
        "zero": weights_zero(q),
    }


@byte_kernel("mve", depthwise=True, signed=True, totals=True)
def octets(c: Contraction, q: Quantisation) -> Tile | None:
    """Depthwise: eight channels at a time, all taps of a pixel."""
    return _octets(c, q, "helium.octets", "mlf/mve.h")


@kernel(*BYTES, needs="mve", unless="size")
def wide_octets(v: View) -> Kernel | None:
    """The same of int16."""
    found = shorts_of(v, depthwise=True)
    if found is None or largest(*found).max(initial=0) >= 2**31:
        return None
    return _octets(*found, "helium.wide_octets", "mlf/mve_wide.h").kernel


def _octets(c: Contraction, q: Quantisation, name: str, header: str) -> Tile:
    """Where eight does not divide the channels the last eight are among those before, too; fewer
    than eight are some lanes."""
    again = c.oc > 8 and c.oc % 8 > 0
    f = finish(c, q, Shape("octet", "c", "n" if c.oc < 8 else "8", again=again))
    wide = centred(c, q).astype(np.int16) if weights_zero(q) else c.weights.reshape(c.oc, -1)
    wide = pad_rows(wide, 8) if c.oc < 8 else wide
    starts = np.minimum(np.arange(0, len(wide), 8), len(wide) - 8)
    w = wide[starts[:, None] + np.arange(8)]  # [C/8, 8, taps]
    w = np.ascontiguousarray(w.transpose(0, 2, 1)).reshape(-1)
    reach, x = (c.kernel[1] - 1) * c.dilations[1] + 1, c.v.x(0).dtype
    scratch = Operand("window", x.c, "scratch", bytes=c.kernel[0] * reach * c.ic * x.bytes)
    step, padded = c.dilations[1] * c.ic, -(-c.oc // 8) * 8
    return Tile(
        name,
        "helium_depthwise.c.j2",
        c,
        constants(w=w),
        [scratch] if c.padded else [],
        f,
        {
            "fill": q.x_zero_point,
            "reach": reach,
            "unrolled": max(c.kernel) <= 7,
            # An instruction reaches 127 elements to either side of a pointer, which is between.
            "centre": step if step <= FAR and c.kernel[1] > 1 else 0,
        },
        cost=c.macs * (1.6 if c.oc < 8 else 0.75) * padded / c.oc + c.pixels * (c.oc * 3.0 + 50),
        header=header,
        overlap=overlaps(c, f.operands, distances_while_reading(c)),
    )
