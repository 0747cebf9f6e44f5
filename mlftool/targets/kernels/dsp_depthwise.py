"""int8 depthwise convolutions with the ARMv7E-M DSP instructions, one channel at a time.

A channel's plane is widened to int16 with its padding filled in, so windows need no conditions;
then two neighbouring outputs share their loads, and the taps of a kernel row go in pairs through
SMLAD. All weights of a channel stay in registers. Since a channel is read before it is written and
touches no other, the output may take over the input's memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlftool.ir.graph import View
from mlftool.ir.holes import numbers
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Stored,
    folded_bias,
    requantize,
    scale_operand,
)
from mlftool.ops.fixed import fixed
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.parts import bytes_of, operands

PLANE_BYTES = 1024  # what the planner puts on the stack; larger planes are taken in bands
MOST_TAPS = 25


@dataclass(frozen=True)
class Axis:
    """One spatial axis; x and y are the strides of input and output in elements."""

    is_rows: bool  # the first of the two
    n_in: int
    n_out: int
    k: int
    s: int
    pad: int
    x: int
    y: int

    @property
    def opened(self) -> Axis:
        """With holes for all but the taps, which make the code."""
        return Axis(**{**numbers(vars(self)), "k": self.k})


def axes(c: Contraction) -> tuple[Axis, Axis]:
    """(outer, inner): the longer one inside, which shares more between outputs."""
    (_, iw), (_, ow) = c.inputs, c.outputs
    strides = ((iw * c.ic, ow * c.oc), (c.ic, c.oc))
    rows, columns = (
        Axis(a == 0, c.inputs[a], c.outputs[a], c.kernel[a], c.strides[a], c.pads[a], *strides[a])
        for a in (0, 1)
    )
    flip = rows.n_out > columns.n_out and rows.n_out % 2 <= columns.n_out % 2
    return (columns, rows) if flip else (rows, columns)


def plane_of(outer: Axis, inner: Axis) -> tuple[int, int, int]:
    """(width, height, band): halfwords of a row, rows, and output rows computed at once."""
    width = (-(-inner.n_out // 2) * 2 - 1) * inner.s + inner.k + 1
    width = max(width, inner.pad + inner.n_in)
    width += width % 2
    band = max(1, (PLANE_BYTES // (2 * width) - outer.k) // outer.s + 1)
    if band >= outer.n_out:
        return (
            width,
            max((outer.n_out - 1) * outer.s + outer.k, outer.pad + outer.n_in),
            outer.n_out,
        )
    band = -(-outer.n_out // -(-outer.n_out // band))
    return width, (band - 1) * outer.s + outer.k, band


def _code(
    outer: Axis, inner: Axis, width: int
) -> tuple[dict[int, list[str]], list[tuple[int, int | None]]]:
    """C lines of one and of two neighbouring outputs, and the pairs of taps they want."""
    pairs: dict[int, int | None] = {}
    plan: list[tuple[int, int, int, int]] = []  # output, word of the plane, tap, how many taps
    for row in range(outer.k):
        for u in range(min(2, inner.n_out)):
            k = 0
            while k < inner.k:
                index = u * inner.s + k
                n = 2 if index % 2 == 0 and k + 1 < inner.k else 1
                plan.append((u, row * width + index, row * inner.k + k, n))
                if n == 2:
                    pairs[row * inner.k + k] = row * inner.k + k + 1
                k += n
    halves = {t: (a, "bt"[t - a]) for a, b in pairs.items() if b is not None for t in (a, b)}
    lines: dict[int, list[str]] = {}
    for count in (1, 2):
        out, loaded = [f"int32_t acc{u} = bc;" for u in range(count)], set()
        for u, index, tap, n in plan:
            if u >= count:
                continue
            word = index - index % 2
            if word not in loaded:
                loaded.add(word)
                offset = f"at + {word}" if word else "at"
                out.append(f"const uint32_t x{word} = mlf_load32_aligned({offset});")
            if n == 1 and tap not in halves:
                pairs[tap] = None
                halves[tap] = (tap, "b")
            name, half = (tap, "") if n == 2 else halves[tap]
            call = "mlf_smlad" if n == 2 else f"mlf_smla{'bt'[index % 2]}{half}"
            out.append(f"acc{u} = {call}(x{word}, k{name}, acc{u});")
        lines[count] = out
    return lines, sorted(pairs.items())


def overtakes(c: Contraction, outer: Axis, inner: Axis, band: int) -> bool:
    """Whether a channel's outputs never land on pixels of it that are still to be read."""
    if c.batch > 1 or c.pixels > c.inputs[0] * c.inputs[1]:
        return False
    for done in range(band, outer.n_out, band):
        unread = (done - 1) * outer.s - outer.pad + outer.k
        written = {
            (o * outer.y + i * inner.y) // c.oc for o in range(done) for i in range(inner.n_out)
        }
        later = {
            (o * outer.x + i * inner.x) // c.ic
            for o in range(max(unread, 0), outer.n_in)
            for i in range(inner.n_in)
        }
        if written & later:
            return False
    return True


def takes_taps(c: Contraction) -> bool:
    """Whether a plane's window is one that `planes` has code for."""
    taps = c.kernel[0] * c.kernel[1]
    return max(c.dilations) == 1 and max(c.strides) <= 4 and taps <= MOST_TAPS


@kernel("QLinearConv", needs="dsp")
def planes(v: View) -> Kernel | None:
    """Depthwise, channel by channel."""
    found = bytes_of(v, depthwise=True, signed=True)
    if found is None or not takes_taps(found[0]):
        return None
    c, q = found
    taps = c.kernel[0] * c.kernel[1]
    outer, inner = axes(c)
    width, height, band = plane_of(outer, inner)
    bands = band < outer.n_out
    w = np.moveaxis(c.weights.reshape(c.oc, *c.kernel), 1, 2) if inner.is_rows else c.weights
    code, pairs = _code(outer, inner, width)
    fix = fixed(c, q)
    entries = []
    for u in (0, 1):
        text = fix.text(f"acc{u}", "mc") if fix else requantize(c, q, f"acc{u}", "c")
        index = f"o + {inner.y}" if u else "o"
        store = Store(v, f"({v.y.dtype.c}){text}", index, "c")
        entries.append(Stored("", index, store))
    constants = [
        Operand("w", "int8_t", "const", array=np.ascontiguousarray(w).reshape(c.oc, taps)),
        Operand("b", "int32_t", "const", array=folded_bias(c, q).astype(np.int32)),
    ]
    constants.append(fix.coded() if fix else scale_operand(q))
    over = (v.core.inputs[0],) if overtakes(c, outer, inner, band) and not store.operands else ()
    plane = Operand("plane", "int16_t", "scratch", bytes=2 * width * height)
    return Kernel(
        "dsp.planes",
        "dsp_planes.c.j2",
        {
            "batch": c.batch,
            "channels": c.oc,
            "taps": taps,
            "outer": outer,
            "inner": inner,
            "width": width,
            "height": height,
            "band": band,
            "bands": bands,
            "keep": outer.k - outer.s,
            "rows_used": outer.n_in,
            "image_in": c.inputs[0] * c.inputs[1] * c.ic,
            "image_out": c.outputs[0] * c.outputs[1] * c.oc,
            "pairs": pairs,
            "code": code,
            "stores": entries,
            "fixed": fix is not None,
            "fill": q.x_zero_point,
        },
        operands(v, constants, store.operands, [plane]),
        cost=c.macs * 1.2 + c.pixels * c.oc * 10.0 + c.oc * (3.5 * c.inputs[0] * c.inputs[1] + 100),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=(*store.inplace, *over),
    )
