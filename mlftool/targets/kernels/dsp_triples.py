"""int8 contractions with the ARMv7E-M DSP instructions, three pixels x two channels at a time:
weights are paired as in dsp.py, and the words of three pixels alternate, so one LDM loads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.ir.holes import Number
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import MOST_TIMES, TOTALS, WIDEN, paired
from mlftool.targets.kernels.dsp_stream import STREAM, Ending, Ends, held, streamed
from mlftool.targets.kernels.parts import Tile, byte_kernel, walk, weights_zero
from mlftool.targets.requantise.forms import form

WIDEN_TRIPLES = "mlf_widen_s8_triples"


def entries(
    c: Contraction, text: Ending, distances: Sequence[str], guards: Sequence[str] = ()
) -> list[Stored]:
    """Stores of some pixels for each of two channels, at `distances` from element `at` where the
    store reads others, else from a pointer; a pixel may have a condition."""
    found = []
    for b in range(2):
        channel = f"oc + {b}" if b else "oc"
        exists = [f"{channel} < {Number(c.oc)}"] if b and c.oc % 2 else []
        for j, distance in enumerate(distances):
            index = f"at + {distance}" if j else "at"
            result = f"({c.v.y.dtype.c}){text(f'acc{j}{b}', channel, b)}"
            store = Store(c.v, result, index, channel)
            guard = [*filter(None, guards[j : j + 1]), *exists]
            index = index if store.statements else distance
            found.append(Stored(" && ".join(guard), index, store))
    return found


def stores(c: Contraction, text: Ending) -> tuple[Sequence[Stored], bool]:
    """`entries` of three pixels; whether those beyond the last one are stored where that is."""
    apart = ["0"] + [f"d{j}" if j > (c.pixels - 1) % 3 else f"{j * c.oc}" for j in (1, 2)]
    found = entries(c, text, apart)
    twice = c.pixels % 3 != 0 and not found[0].store.inplace
    if c.pixels % 3 and not twice:
        guards = ["", *(f"p + {j} < {Number(c.pixels)}" for j in (1, 2))]
        found = entries(c, text, ["0", f"{c.oc}", f"{2 * c.oc}"], guards)
    return found, twice


def unrolled(rounds: int) -> dict[str, object]:
    """How many of a window's `rounds` stand one after the other, and whether there are others."""
    unroll = next(n for n in range(MOST_TIMES, 0, -1) if rounds % n == 0)
    return {"unroll": unroll, "again": rounds > unroll}


@byte_kernel("dsp", signed=True, totals=True)
def triples(c: Contraction, q: Quantisation) -> Tile | None:
    """Three pixels x two channels at a time."""
    fours = (c.depth if c.dense else c.ic) % 4 == 0
    w, rounds = paired(c, q, 2, ordered=fours), -(-c.depth // 4)
    if c.pixels < 3 or w is None:
        return None
    made, column = form(c, q, 2), 4 * rounds
    pixels, gather = -(-c.pixels // 3) * 3, 2.0 if fours else 3.5
    ends = Ends.of(c, q, made)
    found, twice = stores(c, ends.text)
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * (3 if fours else 4) * column)
    order = walk(c, 3, column, columns, found[0].store.operands)
    stream = streamed(c, q, w, ends)
    weights = Operand("w", "uint32_t", "const", array=stream, note=STREAM)
    return Tile(
        "dsp.triples",
        "dsp_triples.c.j2",
        c,
        (weights, *(() if made.hoists else made.operands)),
        order.scratch,
        found[0].store,
        {
            "rows": 3,
            "column": column,
            "stores": found,
            "held": held(q, made),
            **ends.params,
            "ordered": fours,
            "lanes": 3 if fours else 1,
            "apart": not fours,  # each pixel is gathered before its words are put among the others
            "widen": WIDEN_TRIPLES if fours else WIDEN[0],
            "scatter": WIDEN_TRIPLES if fours else WIDEN[0],
            "fill": q.x_zero_point,
            "twice": twice,
            "zeros": bool(weights_zero(q)),
            "fused": bool(found[0].statements),
            **unrolled(rounds),
        },
        cost=pixels * (c.oc * (c.depth * 0.78 + 6.5) + c.depth * gather),
        header="mlf/dsp.h" + TOTALS * bool(weights_zero(q)),
        walk=order,
    )
