"""int8 convolutions with Helium, four neighbouring pixels of a row x two channels.

Windows that overlap share their columns: for each row of a window of three taps and sixteen
channels, six loads of inputs and six of weights serve 24 VMLADAVA, where two pixels x four channels
(helium.py) take eighteen. The columns of a block of four pixels are gathered once, sixteen channels
of them next to each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation
from mlftool.targets.kernels.helium import VECTOR
from mlftool.targets.kernels.helium_finish import Shape, finish
from mlftool.targets.kernels.parts import (
    Tile,
    along,
    byte_kernel,
    constants,
    distances,
    overlaps,
)

PIXELS = 4
MOST_UNROLLED = 3  # steps: one is a row of a window in sixteen channels
MOST_COLUMNS = 31  # that the pointer moves over with one load
MOST_OFFSET = 0xFFFF  # of a lane of 16 bits
NEAR = 127  # bytes that a load moves its pointer, however it is aligned


@byte_kernel("mve", signed=True)
def strips(c: Contraction, q: Quantisation) -> Tile | None:
    """Four pixels x two channels."""
    c = along(c)
    (kh, kw), stride, ow = c.kernel, c.strides[1], c.outputs[1]
    columns, groups = 3 * stride + kw, c.ic // VECTOR
    even = c.ic % VECTOR == 0 and c.oc % 2 == 0
    if not even or kw < 2 or stride > kw or max(c.dilations) > 1 or columns > MOST_COLUMNS:
        return None
    f = finish(c, q, Shape("strip", "oc", "lanes" if ow % PIXELS else "0xffff"))
    if not f.vector or 3 * c.oc >= MOST_OFFSET:
        return None
    steps, blocks = kh * groups, -(-ow // PIXELS)
    last = (blocks - 1) * PIXELS * stride  # column of the padded input where the last block begins
    row = groups * columns * VECTOR
    patch = Operand("patch", "int8_t", "scratch", bytes=kh * row)
    backwards = c.oc * c.pixels > c.ic * c.inputs[0] * c.inputs[1] * c.batch
    pixel = np.arange(c.pixels)
    starts = pixel[(pixel % ow) % PIXELS == 0][1:]
    taps = [k for first in range(stride) for k in range(first, kw, stride)]
    dot = steps * (10 * kw + 3 * stride + 2) + 28
    gathered = kh * (groups * (columns * 3 + 4) + 8) + 30
    return Tile(
        "helium.strips",
        "helium_strips.c.j2",
        c,
        constants(w=_packed(c, taps)),
        [patch],
        f,
        {
            "fill": q.x_zero_point,
            "batch": c.batch,
            "groups": groups,
            "columns": columns,
            "row": row,
            "steps": steps,
            "backwards": backwards,
            "lines": list(_lines(kw, stride, steps)),
            "last": VECTOR * (taps[-1] + 3 * stride),
            "rest": hex(_lanes(ow)) if ow % PIXELS else "",
            "near": c.ic <= NEAR,
            "hollow": c.pads[1] >= columns or last >= c.inputs[1] + c.pads[1],
        },
        cost=c.batch * c.outputs[0] * blocks * (c.oc / 2 * dot + gathered),
        header="mlf/mve_strips.h",
        overlap=overlaps(c, f.operands, distances(c, starts, backwards)),
    )


def _lanes(ow: int) -> int:
    """Two bits for each lane of the pixels in the last block of a row."""
    rest = ow % PIXELS or PIXELS
    pixels = [k // 4 + 2 * (k % 2) for k in range(8)]
    return sum(3 << 2 * k for k, pixel in enumerate(pixels) if pixel < rest)


def _packed(c: Contraction, taps: list[int]) -> Array:
    """[OC/2, row, IC/16, tap, 2, 16]: taps whose columns overlap are next to each other."""
    w = c.weights.reshape(-1, 2, *c.kernel, c.ic // VECTOR, VECTOR)
    return np.ascontiguousarray(w.transpose(0, 2, 4, 3, 1, 5)[:, :, :, taps]).reshape(-1)


def _lines(kw: int, stride: int, steps: int) -> Iterator[str]:
    """The instructions of a dot product, which leave their sums in `even` and `odd`."""
    unrolled = steps if steps <= MOST_UNROLLED else 1
    for k in range(unrolled):
        yield from _step(kw, stride, first=k == 0)
    if unrolled < steps:
        yield "1:"
        yield from _step(kw, stride, first=False)
        yield from ("subs %[n], %[n], #1", "bne 1b")
    yield "vmov %q[even][2], %q[even][0], r0, r4"
    yield "vmov %q[even][3], %q[even][1], r2, r6"
    yield "vmov %q[odd][2], %q[odd][0], r8, r12"
    yield "vmov %q[odd][3], %q[odd][1], r10, lr"


def _step(kw: int, stride: int, first: bool) -> Iterator[str]:
    """One row of a window in sixteen channels. Taps that are `stride` apart read the same columns
    but one, which takes the register of the one that is done."""
    x = ("%q[even]", "%q[odd]", "q0", "q1")
    sums = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")
    taps = [k for phase in range(stride) for k in range(phase, kw, stride)]
    last = taps[-1] + 3 * stride
    for tap in taps:
        new = range(PIXELS) if tap < stride else (PIXELS - 1,)
        yield from ("vldrb.8 q2, [%[w]], #16", "vldrb.8 q3, [%[w]], #16")
        for pixel in range(PIXELS):
            column = tap + pixel * stride
            v = x[column // stride % PIXELS]
            if pixel in new:
                at = VECTOR * (column - last)
                on = f"[%[x]], #{VECTOR * (3 * stride + kw)}" if not at else f"[%[x], #{at}]"
                yield f"vldrw.u32 {v}, {on}"
            mac = "vmladav.s8" if first and tap == 0 else "vmladava.s8"
            yield f"{mac} {sums[2 * pixel]}, {v}, q2"
            yield f"{mac} {sums[2 * pixel + 1]}, {v}, q3"
