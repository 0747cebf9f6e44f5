"""int8 convolutions with the ARMv7E-M DSP instructions, several pixels of a row x two channels.

The input rows of a window are widened once, by words of two channels: of each word, neighbouring
pixels are neighbours. So the three words that three pixels want for a tap are loaded with one LDM,
and for the next tap along the row only one is new. Nothing is gathered, and since a row is widened
before outputs are written, these may take over the input's memory. Where whole rows would raise
the peak of the workspace, the image is computed in strips, whose rows take no more memory than the
windows of dsp_triples.py; its outputs stay apart from the input.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ir.liveness import live
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation
from mlftool.targets.kernels.dsp import TOTALS, paired
from mlftool.targets.kernels.dsp_stream import STREAM, Ends, held, streamed
from mlftool.targets.kernels.dsp_triples import entries
from mlftool.targets.kernels.parts import Tile, byte_kernel, overlaps, weights_zero
from mlftool.targets.requantise.forms import form

RING_BYTES = 4096  # of widened rows: they must not cost what writing in place saves
MOST_STEPS = 6  # words along a row that one round of the loop takes
LARGEST_OFFSET = 255  # of a load that moves its pointer


@byte_kernel("dsp", "size", signed=True, totals=True)
def rows(c: Contraction, q: Quantisation) -> Tile | None:
    """Three pixels x two channels, the last of a row in twos."""
    (kh, kw), ow = c.kernel, c.outputs[1]
    if kw < 2 or c.strides[1] != 1 or max(c.dilations) > 1 or ow < 2:
        return None
    w = paired(c, q, 2, ordered=True) if c.ic % 4 == 0 else None
    threes = (ow - 2 * (-ow % 3)) // 3
    found = None if w is None else _strip(c, 3 * threes)
    if w is None or found is None:
        return None
    strip, area = found
    width, strips = strip + kw - 1, -(-ow // strip)
    rounds, made = kh * c.ic // 2, form(c, q, 2)
    steps = next(n for n in range(MOST_STEPS, 0, -1) if rounds % n == 0 and n * kw % 2 == 0)
    blocks = [(3, 0, 3 * threes)] if threes else []
    blocks += [(2, 3 * threes, ow)] if 3 * threes < ow else []
    ends = Ends.of(c, q, made)
    written = {n: entries(c, ends.text, [f"{j * c.oc}" for j in range(n)]) for n in (2, 3)}
    store = written[3][0].store
    words = w.reshape(-1, kh, kw, c.ic // 2).transpose(0, 1, 3, 2)
    stream = streamed(c, q, words, ends)
    weights = Operand("w", "uint32_t", "const", array=stream, note=STREAM)
    share = sum((0.74 if n == 3 else 0.83) * (to - at) for n, at, to in blocks) / ow
    return Tile(
        "dsp.rows",
        "dsp_rows.c.j2",
        c,
        (weights, *(() if made.hoists else made.operands)),
        [area],
        store,
        {
            "strip": strip,
            "strips": strips,
            "width": width,
            "row": width * c.ic // 2,
            "kept": max(kh - c.strides[0], 0),
            "batch": c.batch,
            "blocks": blocks,
            "stores": written,
            "held": held(q, made),
            **ends.params,
            "zeros": bool(weights_zero(q)),
            "loops": {n: _loop(n, kw, steps, 4 * width, rounds > steps) for n, _, _ in blocks},
            "fill": q.x_zero_point,
            "fused": bool(store.statements),
        },
        cost=c.macs * share
        + c.pixels * c.oc * 6.5
        + 3.0 * c.batch * rounds * width * strips * c.outputs[0],
        header="mlf/dsp_rows.h" + TOTALS * bool(weights_zero(q)),
        overlap=overlaps(c, store.operands, _reach(c)) if strips == 1 else {},
    )


def _strip(c: Contraction, threes: int) -> tuple[int, Operand] | None:
    """How many pixels of a row are computed before the image's next rows, and the memory of their
    inputs: all of a row unless that would raise the peak. Pixels from `threes` on, in twos, are in
    one strip."""
    ow = c.outputs[1]
    whole = _ring(c, ow)
    if whole.bytes - 4 * ow <= RING_BYTES and not _raises_the_peak(c.v, whole, over=True):
        return ow, whole
    for strip in range(threes, 0, -3):
        ring = _ring(c, strip)
        if ring.bytes <= 6 * c.depth and (ow - 1) // strip * strip <= threes:
            return None if _raises_the_peak(c.v, ring, over=False) else (strip, ring)
    return None


def _ring(c: Contraction, pixels: int) -> Operand:
    """What widened rows of so many output pixels need. The pointer of the last of them ends after
    the rows by as many words as pixels are before it."""
    rows = c.kernel[0] * c.ic * (pixels + c.kernel[1] - 1) * 2
    return Operand("ring", "uint32_t", "scratch", bytes=rows + 4 * pixels)


def _raises_the_peak(v: View, ring: Operand, over: bool) -> bool:
    """Whether the graph would take more memory with the ring, as far as the order of its nodes
    tells. `over`: the output may take over the input's memory; where that is read again, as in
    front of a residual, what this saves is less than a ring that is not on the stack."""
    nodes, alive = v.graph.nodes, live(v.graph)
    here = next((alive[k] for k, node in enumerate(nodes) if node is v.node), None)
    if here is None:
        return False
    most = max(other.total - other.over for other in alive)
    most = max(most, here.total - here.beside) if over else most
    mine = here.total - (here.over if over else here.beside)
    return mine + (0 if ring.local else ring.bytes) > most


def _loop(pixels: int, taps: int, steps: int, stride: int, again: bool) -> list[str]:
    """The instructions of `steps` words along a row, which are `stride` bytes apart."""
    x = [f"%[x{j}]" for j in range(pixels)]
    out = ["1:"]
    for tap in range(steps * taps):
        k, w = tap % taps, f"%[w{'ab'[tap % 2]}]"
        if k == 0:
            out.append(f"ldm %[x]!, {{{', '.join(x)}}}")
        elif k < taps - 1:
            out.append(f"ldr {x[(k - 1) % pixels]}, [%[x]], #4")
        else:
            on = stride - 4 * (taps + pixels - 2)
            moves = f", #{on}" if on <= LARGEST_OFFSET else ""
            out.append(f"ldr {x[(k - 1) % pixels]}, [%[x]]{moves}")
            out += [] if moves else [f"add %[x], %[x], #{on}"]
        if tap % 2 == 0:
            out.append("ldrd %[wa], %[wb], [%[w]], #8")
        turned = [x[(k + j) % pixels] for j in range(pixels)]
        out += [f"smlad %[all{j}], {v}, {w}, %[all{j}]" for j, v in enumerate(turned)]
        out.append(f"sxtb16 {w}, {w}")
        out += [f"smlad %[low{j}], {v}, {w}, %[low{j}]" for j, v in enumerate(turned)]
    return [*out, *(["ldr %[wa], %[end]", "cmp %[x], %[wa]", "bne 1b"] if again else [])]


def _reach(c: Contraction) -> tuple[int, int]:
    """The distances in bytes from the output to the input at which no row of outputs destroys what
    a later one reads."""
    (ih, iw), (oh, ow) = c.inputs, c.outputs
    image, row = np.repeat(np.arange(c.batch), oh), np.tile(np.arange(oh), c.batch)
    written: Array = (image * oh + row + 1) * ow * c.oc * c.v.out.dtype.bytes
    seen = np.where(row == oh - 1, ih, row * c.strides[0] - c.pads[0] + c.kernel[0])
    read = (image * ih + np.clip(seen, 0, ih)) * iw * c.ic
    far = 2 * int(written[-1] + c.batch * ih * iw * c.ic)
    return int((written - read)[:-1].max(initial=-far)), far
