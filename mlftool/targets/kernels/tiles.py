"""int8 contractions for processors with thirty-two registers and no vectors, RISC-V for instance.

A product and its sum are two instructions there, so only loads can be saved: three pixels times
four channels have twelve sums in registers and need seven loads for twelve products. The operands
of the pixels are gathered into contiguous bytes, so the loop has two pointers.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import View
from mlftool.ir.rounding import Rounding
from mlftool.ops import OPS
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    grows,
    pack_rows,
    requantize,
    requantize_soft,
    scale_text,
)
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import BYTES, kernel
from mlftool.targets.kernels.parts import (
    Tile,
    bias_of,
    byte_kernel,
    constants,
    scale_of,
    walk,
    weights_zero,
)
from mlftool.targets.requantise.fixed import Fixed, fixed
from mlftool.targets.requantise.forms import Form, form

COLUMNS = 4  # output channels; eight where there is one pixel
MOST_ROWS = 3  # pixels: of sixteen sums, gcc keeps some on the stack
UNROLL = (4, 3, 5, 2)
OFFSET = 2048 - 8  # that a load reaches from its pointer
# Instructions of the portable loops for each that they take where one instruction multiplies and
# adds: 1.4 to 1.8 in kws, as counted.
_PORTABLE = 1.6


@kernel(*BYTES, needs="registers fpu", replaces_portable=True)
def portable(v: View) -> Kernel | None:
    made = OPS[v.node.op].kernel(v)
    return made and made.taking(_PORTABLE)


@byte_kernel("registers", "fpu size", totals=True)
def tiles_in_integers(c: Contraction, q: Quantisation) -> Tile | None:
    return _tiles(c, q, soft=True) if grows(c, q) else None


@byte_kernel("registers fpu", "size", totals=True)
def tiles(c: Contraction, q: Quantisation) -> Tile | None:
    return _tiles(c, q, soft=False)


def _tiles(c: Contraction, q: Quantisation, soft: bool) -> Tile:
    v, rows = c.v, _rows(c.pixels)
    columns = 2 * COLUMNS if rows == 1 and c.oc % (2 * COLUMNS) == 0 else min(COLUMNS, c.oc)
    unroll = next((n for n in UNROLL if c.depth % n == 0), UNROLL[0])
    column = -(-c.depth // unroll) * unroll
    finish = Either.of(c, q, soft, columns)
    store = Store(v, f"({v.y.dtype.c})out", f"(p + j) * {c.oc} + oc + i", "oc + i")
    rest = ((0, 0), (0, column - c.depth))
    weights = pack_rows(np.pad(c.weights.reshape(c.oc, -1), rest), columns).reshape(-1)
    gathered = Operand("columns", v.x(0).dtype.c, "scratch", bytes=rows * column)
    order = walk(c, rows, column, gathered, store.operands)
    return Tile(
        "tiles.s8",
        "tiles.c.j2",
        c,
        (*constants(w=weights, b=bias_of(c, q, columns)), *finish.operands(columns)),
        order.scratch,
        store,
        {
            "rows": rows,
            "columns": columns,
            "column": column,
            "unroll": unroll,
            "pointers": rows if column * (rows - 1) > OFFSET else 1,
            "fill": q.x_zero_point,
            "zero": weights_zero(q),
            "form": finish,
            "store": store,
        },
        cost=c.tiled(rows, columns) * 2.95 + c.pixels * c.oc * 16.0,
        header="mlf/tiles.h",
        walk=order,
    )


def _rows(pixels: int) -> int:
    """How many pixels at a time: those that do not fill the last turn are computed in vain."""

    def work(rows: int) -> float:
        return -(-pixels // rows) * (rows * (2 + 1 / COLUMNS) + 1)

    return min(range(min(pixels, MOST_ROWS), 0, -1), key=work)


@frozen
class Either:
    """Requantisation as C text: one multiplication where a channel has a multiplier, else as floats
    do, which without FPU is a function. What does not round to even has one `form` for all."""

    c: Contraction
    q: Quantisation
    fix: Fixed | None
    soft: bool
    form: Form | None

    @staticmethod
    def of(c: Contraction, q: Quantisation, soft: bool, columns: int = 1) -> Either:
        whole = None if q.rounding is Rounding.EVEN else form(c, q, columns)
        return Either(c, q, fixed(c, q), soft, whole)

    @property
    def ctype(self) -> str:
        return "float" if self.q.to_float else "int32_t"

    @property
    def floats(self) -> bool:
        """Whether some channel has no multiplier."""
        return self.fix is None or bool(self.fix.exact.any())

    @property
    def usual(self) -> str:
        """C text: whether a channel's factor is a multiplier."""
        return "factor >= 0" if self.soft else "factor != 0"

    def integer(self, acc: str) -> str:
        """Of a channel whose multiplier is the variable `factor`."""
        assert self.fix is not None
        f = self.fix
        return f"mlf_requantize_fixed({f.raised(acc)}, factor, {f.add}, {f.shift}, {f.lo}, {f.hi})"

    def float(self, acc: str, channel: str) -> str:
        if self.form:
            return self.form.text(acc, channel)
        if self.soft and self.fix is not None:
            scale = scale_text(self.q, channel)
            acc = self.fix.raised(acc)
            return self.fix.near_text(acc, "-factor", scale, self.q.y_zero_point)
        if self.soft:
            return requantize_soft(self.q, acc, channel, rarely=True)
        return requantize(self.c, self.q, acc, channel)

    def operands(self, columns: int) -> tuple[Operand, ...]:
        if self.form:
            return self.form.operands
        q = self.fix.lowered(self.q) if self.fix and self.soft else self.q
        floats = constants(scale=scale_of(q, columns)) if self.floats else ()
        return (*((self.fix.operand(columns, rough=self.soft),) if self.fix else ()), *floats)
