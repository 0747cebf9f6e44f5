"""int8 contractions with the ARMv7E-M DSP instructions, three pixels x two channels at a time:
weights are paired as in dsp.py, and the words of three pixels alternate, so one LDM loads them.

What else a pair of channels has, its biases and the numbers of its requantisation, stands among its
weights, where one pointer passes: gcc has no register left for others, and would load each of
them from the stack before it reads a number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import MOST_TIMES, PACKED, TOTALS, WIDEN, paired, zeros_of
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, walk, weights_zero
from mlftool.targets.requantise.forms import Form, form

WIDEN_TRIPLES = "mlf_widen_s8_triples"
STREAM = f"for a few channels each: biases, {PACKED}, biases, the numbers of requantisation"


def streamed(c: Contraction, q: Quantisation, words: Array, made: Form, width: int = 2) -> Array:
    """uint32 [group of `width` channels, ...]: biases of the even channels, the weights, biases of
    the odd ones, the numbers that `held` names."""
    bias = bias_of(c, q, width).reshape(-1, width)
    rows = bias[:, ::2], words.reshape(len(bias), -1).view(np.int32), bias[:, 1::2]
    both = np.concatenate((*rows, *numbers_of(c, q, made, width)), axis=1, dtype=np.int32)
    return both.view(np.uint32).reshape(-1)


def numbers_of(c: Contraction, q: Quantisation, made: Form, width: int) -> list[Array]:
    """What `held` names, [group of `width` channels, width] each."""
    zeros = zeros_of(c, q, width)
    numbers = [*(o.array for o in made.hoists if o.array is not None)]
    return [a.reshape(-1, width) for a in (*numbers, *([] if zeros is None else [zeros]))]


def held(q: Quantisation, made: Form, width: int = 2) -> list[str]:
    """The variables that hold the numbers of a group's channels, in the order of `streamed`."""
    names = [*(o.name for o in made.hoists), *(["z"] if weights_zero(q) else [])]
    return [f"{name}{b}" for name in names for b in range(width)]


def entries(
    c: Contraction, made: Form, distances: Sequence[str], guards: Sequence[str] = ()
) -> list[Stored]:
    """Stores of some pixels for each of two channels, at `distances` from element `at` where the
    store reads others, else from a pointer; a pixel may have a condition."""
    found = []
    for b in range(2):
        channel = f"oc + {b}" if b else "oc"
        exists = [f"{channel} < {Number(c.oc)}"] if b and c.oc % 2 else []
        for j, distance in enumerate(distances):
            text = made.text(f"acc{j}{b}", channel, str(b))
            index = f"at + {distance}" if j else "at"
            store = Store(c.v, f"({c.v.y.dtype.c}){text}", index, channel)
            guard = [*filter(None, guards[j : j + 1]), *exists]
            index = index if store.statements else distance
            found.append(Stored(" && ".join(guard), index, store))
    return found


def stores(c: Contraction, made: Form) -> tuple[Sequence[Stored], bool]:
    """Of three pixels; whether those beyond the last one are stored where that is."""
    apart = ["0"] + [f"d{j}" if j > (c.pixels - 1) % 3 else f"{j * c.oc}" for j in (1, 2)]
    found = entries(c, made, apart)
    twice = c.pixels % 3 != 0 and not found[0].store.inplace
    if c.pixels % 3 and not twice:
        guards = ["", *(f"p + {j} < {Number(c.pixels)}" for j in (1, 2))]
        found = entries(c, made, ["0", f"{c.oc}", f"{2 * c.oc}"], guards)
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
    found, twice = stores(c, made)
    columns = Operand("columns", "int16_t", "scratch", bytes=2 * (3 if fours else 4) * column)
    order = walk(c, 3, column, columns, found[0].store.operands)
    weights = Operand("w", "uint32_t", "const", array=streamed(c, q, w, made), note=STREAM)
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
        cost=pixels * (c.oc * (c.depth * 0.78 + 8.0) + c.depth * gather),
        header="mlf/dsp.h" + TOTALS * bool(weights_zero(q)),
        walk=order,
    )
