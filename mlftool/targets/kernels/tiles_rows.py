"""Depthwise int8 convolutions for processors with thirty-two registers and no vectors.

The input rows that an output row needs are copied, with the padding around them, into a ring of as
many rows as the kernel has. Then a channel's taps stay in registers along the whole row, a few
neighbouring outputs share their loads, and no window has a condition. Since rows are copied before
outputs are written, the output may take the input's memory.
"""

from __future__ import annotations

import numpy as np

from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, grows
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, constants, overlaps
from mlftool.targets.kernels.tiles import Either

MOST_TAPS = 25
MOST_OUTPUTS = 6  # side by side


@byte_kernel("registers", "fpu size", depthwise=True)
def rows_in_integers(c: Contraction, q: Quantisation) -> Tile | None:
    return _rows(c, q, soft=True) if grows(c, q) else None


@byte_kernel("registers fpu", "size", depthwise=True)
def rows(c: Contraction, q: Quantisation) -> Tile | None:
    return _rows(c, q, soft=False)


def _rows(c: Contraction, q: Quantisation, soft: bool) -> Tile | None:
    v = c.v
    # Where strides are longer, rows are copied of which most is not needed.
    if np.prod(c.kernel) > MOST_TAPS or max(*c.dilations, *c.strides) > 1:
        return None
    finish = Either.of(c, q, soft)
    store = Store(v, f"({v.y.dtype.c})out", f"p * {c.oc} + c", "c")
    kh, kw = c.kernel
    width = c.outputs[1] - 1 + kw
    inside = min(c.inputs[1], width - c.pads[1])  # of a row's pixels
    taps = np.ascontiguousarray(c.weights.reshape(c.oc, -1)).reshape(-1)
    together = _together(c)
    row_bytes = kh * width * c.ic
    return Tile(
        "tiles.rows",
        "tiles_rows.c.j2",
        c,
        (*constants(w=taps, b=bias_of(c, q)), *finish.operands(1)),
        [Operand("rows", v.x(0).dtype.c, "scratch", bytes=row_bytes)],
        store,
        {
            "batch": c.batch,
            "pitch": width * c.ic,
            "inside": inside,
            "after": width - c.pads[1] - inside,
            "fill": q.x_zero_point,
            "together": together,
            "rest": c.outputs[1] % together,
            "form": finish,
            "store": store,
        },
        cost=c.macs * 3.4 + c.pixels * c.oc * 14.0,
        header="mlf/tiles.h",
        overlap=overlaps(c, store.operands, _distances(c)),
    )


def _together(c: Contraction) -> int:
    """How many outputs of a row to compute at a time, if possible a divisor of their number."""
    most = min(MOST_OUTPUTS if np.prod(c.kernel) <= 9 else 2, c.outputs[1])
    return next((n for n in range(most, 2, -1) if c.outputs[1] % n == 0), most)


def _distances(c: Contraction) -> tuple[int, int]:
    """The distances in bytes from the output to the input at which no output row destroys an input
    row that is still to be copied."""
    (ih, iw), (oh, ow) = c.inputs, c.outputs
    image, row = np.arange(c.batch)[:, None], np.arange(oh)
    written = ((image * oh + row + 1) * ow * c.oc * c.v.out.dtype.bytes).reshape(-1)
    copied = np.clip(row - c.pads[0] + c.kernel[0], 0, ih)
    read = ((image * ih + copied) * iw * c.ic).reshape(-1)
    far = 2 * (int(written.max()) + c.batch * ih * iw * c.ic)
    unread = read < c.batch * ih * iw * c.ic
    return int((written - read)[unread].max(initial=-far)), far
