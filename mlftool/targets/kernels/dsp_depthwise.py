"""int8 depthwise convolutions with the ARMv7E-M DSP instructions, one channel at a time.

A plane (planes.py) is widened to int16; then two neighbouring outputs share their loads, and the
taps of a kernel row go in pairs through SMLAD. All weights of a channel stay in registers.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import Array
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, constants, weights_zero
from mlftool.targets.kernels.planes import Axis, Plane, axes
from mlftool.targets.requantise.forms import Form, form

MOST_TAPS = 49
MOST_CENTRED_LEFT = 7  # a byte less its zero point times 2^left is a halfword


def plane_of(c: Contraction) -> Plane | None:
    """The plane if its window is one that there is code for, the longer axis inside, which shares
    more between outputs."""
    if max(c.strides) > 4 or c.kernel[0] * c.kernel[1] > MOST_TAPS:
        return None
    rows, columns = axes(c)
    flip = rows.n_out > columns.n_out and rows.n_out % 2 <= columns.n_out % 2
    outer, along = (columns, rows) if flip else (rows, columns)
    inner = along.apart
    if inner is None:
        return None
    plane = Plane.of(c, outer, inner, (-(-inner.n_out // 2) * 2 - 1) * inner.s + inner.k + 1, 2)
    plane = replace(plane, phases=along.d)
    if plane.band < outer.n_out:
        return plane
    return replace(plane, height=max(plane.height, outer.pad + outer.n_in))


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
                plan.append((u, row * outer.d * width + index, row * inner.k + k, n))
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


@byte_kernel("dsp", depthwise=True, signed=True, totals=True)
def planes(c: Contraction, q: Quantisation) -> Tile | None:
    """Depthwise, channel by channel."""
    made = form(c, q)
    if weights_zero(q) and made.left > MOST_CENTRED_LEFT:
        return None
    return planes_of(c, q, made, bias_of(c, q), "dsp.planes", "mlf/dsp.h")


def planes_of(
    c: Contraction, q: Quantisation, made: Form, begin: Array, name: str, header: str
) -> Tile | None:
    """Of activations that are int16 in a plane, with the form of stores and where sums begin."""
    plane = plane_of(c)
    if plane is None:
        return None
    code, pairs = _code(plane.outer, plane.inner, plane.width)
    entries = []
    for u in (0, 1):
        text = made.hoisted(f"acc{u}", "c")
        index = f"o + {plane.inner.y}" if u else "o"
        entries.append(Stored("", index, Store(c.v, f"({c.v.y.dtype.c}){text}", index, "c")))
    return Tile(
        name,
        "dsp_planes.c.j2",
        c,
        # Weights are made int16 here, so moving sums to the left costs nothing.
        (*constants(w=plane.weights, b=begin << made.left), *made.operands),
        [Operand("plane", "int16_t", "scratch", bytes=2 * plane.elements)],
        entries[1].store,
        {
            **plane.params,
            "pairs": pairs,
            "code": code,
            "stores": entries,
            "left": made.left,
            "hoists": made.hoists,
            "fill": q.x_zero_point,
            "zero": weights_zero(q),
            "gathered": next((n for n in (5, 6, 4, 7, 8, 3, 2) if plane.inner.n_in % n == 0), 1),
        },
        cost=c.macs * 1.2 + c.pixels * c.oc * 7.0 + c.oc * (3.0 * c.inputs[0] * c.inputs[1] + 100),
        header=header,
        overtakes=plane.overtakes,
    )
