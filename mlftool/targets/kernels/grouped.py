"""Grouped int8 convolutions with the inner loops of ungrouped ones: the windows of two pixels are
gathered group by group, so that the output channels of a group read contiguous elements."""

from __future__ import annotations

from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation
from mlftool.targets.kernels.dsp import PACKED, entries_of, paired
from mlftool.targets.kernels.helium import VECTOR, packed
from mlftool.targets.kernels.helium_finish import Shape, finish
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, constants, walk
from mlftool.targets.requantise.forms import form

ROWS = 2


@byte_kernel("mve", grouped=True, signed=True)
def vectors(c: Contraction, q: Quantisation) -> Tile | None:
    """Two pixels x four channels at a time."""
    if c.pixels < ROWS or c.oc // c.group % 4:
        return None
    column = -(-c.depth // VECTOR) * VECTOR
    f = finish(c, q, Shape("pair", "oc", "4"))
    patch = Operand("patch", "int8_t", "scratch", bytes=ROWS * column * c.group)
    order = walk(c, ROWS, column, patch, f.operands)
    return Tile(
        "helium.groups",
        "helium_groups.c.j2",
        c,
        constants(w=packed(c, column, VECTOR)),
        order.scratch,
        f,
        {"column": column, "rows": ROWS, "fill": q.x_zero_point, "vectors": column // VECTOR},
        cost=c.pixels * (c.oc * (column * 1.92 / VECTOR + 4.0) + c.depth * c.group * 1.5),
        header="mlf/mve.h",
        walk=order,
    )


@byte_kernel("dsp", "mve size", grouped=True, signed=True)
def halves(c: Contraction, q: Quantisation) -> Tile | None:
    """Two pixels x two channels at a time."""
    w, rounds = paired(c, q, 2, False), -(-c.depth // 4)
    if c.pixels < ROWS or w is None:
        return None
    made, column = form(c, q, 2), 4 * rounds
    stored, twice = entries_of(c, q, ROWS, 2, made)
    patch = Operand("patch", "int16_t", "scratch", bytes=2 * ROWS * column * c.group)
    order = walk(c, ROWS, column, patch, stored[0].store.operands)
    weights = Operand("w", "uint32_t", "const", array=w, note=PACKED)
    return Tile(
        "dsp.groups",
        "dsp_groups.c.j2",
        c,
        (weights, *constants(b=bias_of(c, q, 2)), *made.operands),
        order.scratch,
        stored[0].store,
        {
            **{"column": column, "rows": ROWS, "fill": q.x_zero_point, "stores": stored},
            **{"unroll": next(n for n in (8, 6, 7, 5, 4, 3, 2, 1) if rounds % n == 0)},
            **{"twice": twice, "zeros": False},
        },
        cost=c.tiled(2, 1) * 0.9 + c.pixels * (c.oc * 12.0 + c.depth * c.group * 4.0),
        header="mlf/dsp_pairs.h",
        walk=order,
    )
