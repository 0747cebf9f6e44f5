"""Dense int8 layers for ARMv6-M (Cortex-M0), two channels with one multiplication.

Where there are no two pixels for narrow_pairs.py, two channels share a multiplication: a word of
four weights, of which two are masked, times an input. Sums stay apart in the halves of a word for
parts of the weights, here of eight channels together, so this is for layers whose weights are
mostly small (mlf/narrow_words.h). Inputs take a word each while a pixel is computed.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, folded_bias, pad_rows
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.narrow_pairs import MOST_WEIGHT, START
from mlftool.targets.kernels.narrow_requantise import Parts, in_parts
from mlftool.targets.kernels.parts import Tile, after_core, byte_kernel, constants, walk

WIDTH = 8  # channels
ORDER = [0, 2, 1, 3, 4, 6, 5, 7]  # of a block's channels in the bytes of two words
UPPER = [1, 3, 5, 7]  # channels whose sums are in upper halves
STEP = 2  # inputs for each turn of the loop


@byte_kernel("narrow", "fpu size")
def narrow_words(c: Contraction, q: Quantisation) -> Tile | None:
    w = blocks_of(c) if c.dense else None
    form = in_parts(c, q) if w is not None else None
    if w is None or form is None:
        return None
    v, length = c.v, w.shape[1]
    flip = 0 if v.x(0).dtype.name == "int8" else 128
    starts = [parts_of(block) for block in w]
    if any(s is None for s in starts):
        return None
    parts = [np.flatnonzero(s) for s in starts if s is not None]
    bias = folded_bias(c, q) + flip * c.weights.reshape(c.oc, -1).sum(axis=1, dtype=np.int64)
    words = np.concatenate([streamed(b, at) for b, at in zip(w, parts, strict=True)])
    column = Operand("column", "int32_t", "scratch", bytes=4 * length)
    store = Store(v, f"({v.y.dtype.c})outs[oc]", f"p * {c.oc} + oc", "oc")
    order = walk(c, 1, 4 * c.depth, column, store.operands)
    straight = not after_core(v) and c.oc % WIDTH == 0
    wide, rare = WIDTH * len(w), form.rare_channels.size
    outs = () if straight else (Operand("outs", "uint8_t", "scratch", bytes=wide),)
    kept = (Operand("kept", "uint32_t", "scratch", bytes=4 * rare),) if rare else ()
    turns = sum(17.5 * length + 54.0 * len(at) + 250 for at in parts)
    return Tile(
        "narrow.words",
        "narrow_words.c.j2",
        c,
        (
            *constants(w=words, k=numbers_of(bias, form, [len(at) for at in parts])),
            *form.rare_operands(),
        ),
        (*order.scratch, *outs, *kept),
        store,
        {
            "length": length,
            "wide": wide,
            "straight": straight,
            "rare": rare,
            "form": form,
            "lo": q.lo,
            "hi": q.hi,
            "take": "mlf_take_words_u8" if flip else "mlf_take_words_s8",
            "store": store,
        },
        cost=c.pixels * (turns + 8.0 * c.depth + 100),
        header="mlf/narrow_words.h",
        walk=order,
    )


def blocks_of(c: Contraction) -> Array:
    """int64 [block, input, channel of the block]: with zeros for what fills blocks and turns."""
    w = c.weights.reshape(c.oc, -1).astype(np.int64)
    w = np.pad(w, ((0, -c.oc % WIDTH), (0, -c.depth % STEP)))
    return np.ascontiguousarray(w.reshape(-1, WIDTH, w.shape[1]).transpose(0, 2, 1))


def parts_of(block: Array) -> Array | None:
    """bool [turn]: where parts of [input, channel] begin; None where a turn is too much."""
    magnitude = np.abs(block).reshape(-1, STEP, WIDTH).sum(axis=1)
    if magnitude.max() > MOST_WEIGHT:
        return None
    starts = np.zeros(len(magnitude), bool)
    total = np.full(WIDTH, MOST_WEIGHT + 1)
    for k, turn in enumerate(magnitude):
        total = total + turn
        starts[k] = (total > MOST_WEIGHT).any()
        total = turn if starts[k] else total
    return starts


def streamed(block: Array, at: Array) -> Array:
    """uint32: the words of each part after four times the number of its inputs."""
    words = np.ascontiguousarray((block + 128).astype(np.uint8)[:, ORDER]).view("<u4")
    lengths = 4 * np.diff(at * STEP, append=len(block))
    return np.insert(words.reshape(-1), at * STEP * 2, lengths).astype(np.uint32)


def numbers_of(bias: Array, form: Parts, parts: list[int]) -> Array:
    """int32 [block, 24]: what sums begin with, then multipliers and addends."""
    b = pad_rows(bias, WIDTH).reshape(-1, WIDTH)
    upper = b[:, UPPER] - START * np.array(parts)[:, None]
    one, three = b[:, [1, 5]], b[:, [3, 7]]
    even = b[:, [0, 4]] + (one << 16)
    odd = b[:, [2, 6]] + (one << 8) + (three << 16)
    lower = np.stack([even, odd], axis=2).reshape(len(b), -1)
    pairs = np.stack([pad_rows(form.multiplier, WIDTH), pad_rows(form.add, WIDTH)], axis=1)
    made = np.concatenate([upper, lower, pairs.reshape(len(b), -1)], axis=1).reshape(-1)
    return np.asarray((made & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
