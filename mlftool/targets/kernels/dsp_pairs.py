"""int8 contractions with the ARMv7E-M DSP instructions: sixteen products in thirteen instructions.

SMLAD adds two 16-bit products. The operands of two output pixels are widened to int16 once. Weights
stay bytes, but of two output channels in one halfword, 256 * w1 + w0: the sum of x * halfword needs
no unpacking, one SXTB16 gives two w0, and the difference of the two sums is 256 times the sum with
w1. So unpacking costs half, and registers are left for loading two words at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    folded_bias,
    geometry,
    pad_rows,
    requantize,
    stores,
)
from mlftool.ops.fixed import fixed
from mlftool.ops.scalar import Store, tensor_operand
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.dsp import prepare

STACK_LIMIT_BYTES = 1024  # what plan/memory.py puts on the stack


def paired(c: Contraction, width: int, ordered: bool) -> Array | None:
    """[OC/width, K/4, width/2, 2] words of two halfwords 256 * w1 + w0: two products of two
    channels. None if a halfword cannot hold that."""
    w = pad_rows(c.weights.reshape(c.oc, -1).astype(np.int32), width)
    w = np.concatenate([w, np.zeros((w.shape[0], -w.shape[1] % 4), w.dtype)], axis=1)
    both = 256 * w[1::2] + w[::2]
    if both.min() < -(2**15):
        return None
    quads = both.reshape(both.shape[0], -1, 4)[..., [0, 2, 1, 3] if ordered else [0, 1, 2, 3]]
    halves = quads.astype(np.int16).view(np.uint16).astype(np.uint32)
    words = halves[..., ::2] | halves[..., 1::2] << 16  # [OC/2, K/4, 2]
    shuffled = words.reshape(-1, width // 2, words.shape[1], 2).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(shuffled).reshape(-1)


def entries_of(
    c: Contraction,
    q: Quantisation,
    rows: int,
    width: int,
    requantised: Callable[[str, str], str],
    always: bool = False,
) -> list[dict[str, Any]]:
    """`stores`, but where the last pixel has no second one it is stored twice, which needs no
    condition, unless the store reads what it replaces. `always`: also if no pixel is left over."""
    entries = stores(c, q, rows, width, width, requantised)
    if rows == 1 or (c.pixels % rows == 0 and not always) or entries[0]["store"].inplace:
        return entries
    first = entries[:width]
    second = []
    for b, entry in enumerate(first):
        channel = f"oc + {b}" if b else "oc"
        acc = f"acc1{b}"
        text = requantised(acc, channel)
        index = f"q1 * {c.oc} + {channel}"
        store = Store(c.v, f"({c.v.y.dtype.c}){text}", index, channel)
        second.append(
            entry | {"statements": store.statements, "index": index, "result": store.result}
        )
    return [*first, *second]


def distances_while_reading(c: Contraction) -> tuple[int, int]:
    """The same for a kernel that goes forward and writes a pixel before it has read all of it."""
    (ih, iw), (oh, ow) = c.inputs, c.outputs
    y, x = (_ends(c, axis, last=False) for axis in (0, 1))
    at = (np.arange(c.batch)[:, None, None] * ih * iw + y[:, None] * iw + x).reshape(-1)
    read = np.minimum.accumulate((at * c.ic)[::-1])[::-1]
    written = c.oc * c.v.out.dtype.bytes
    far = (c.batch * (ih * iw * c.ic + oh * ow * written)) * 2
    return int((np.arange(1, c.pixels + 1) * written - read).max()), far


def distances(c: Contraction, rows: int, backwards: bool) -> tuple[int, int]:
    """The distances in bytes from the output to the input at which no block of `rows` pixels, which
    is read whole and then written, destroys what a later one reads. Inputs are bytes; outputs may
    be wider, as floats are."""
    (ih, iw), (oh, ow) = c.inputs, c.outputs
    y, x = (_ends(c, axis, backwards) for axis in (0, 1))
    image = np.arange(c.batch)[:, None, None] * ih * iw
    at = (image + y[:, None] * iw + x).reshape(-1)
    written = c.oc * c.v.out.dtype.bytes
    far = (c.batch * (ih * iw * c.ic + oh * ow * written)) * 2
    starts = np.arange(rows, c.pixels, rows)
    if backwards:
        read = np.maximum.accumulate((at + 1) * c.ic)[starts - 1]
        return -far, int((starts * written - read).min(initial=far))
    read = np.minimum.accumulate((at * c.ic)[::-1])[::-1][starts]
    return int((starts * written - read).max(initial=-far)), far


def _ends(c: Contraction, axis: int, last: bool) -> Array:
    """The first or last position inside the input that each window of an axis reads."""
    n, d = c.inputs[axis], c.dilations[axis]
    at = np.arange(c.outputs[axis]) * c.strides[axis] - c.pads[axis]
    if last:
        at = at + (c.kernel[axis] - 1) * d
        return np.clip(np.where(at >= n, at - -(-(at - n + 1) // d) * d, at), 0, n - 1)
    return np.clip(np.where(at < 0, at % d, at), 0, n - 1)


@kernel("QLinearConv", "com.microsoft.QGemm", needs="dsp")
def pairs(v: View) -> Kernel | None:
    """Two pixels x two channels at a time, or one pixel x four."""
    return unrolled_pairs(v)


def unrolled_pairs(v: View, unrolled: int = 0) -> Kernel | None:
    """`unrolled` fours of products make one round of the loop, or as many as usually do best."""
    prepared = prepare(v)
    if prepared is None:
        return None
    c, q = prepared
    rows, width = (1, 4) if c.pixels == 1 else (2, 2)
    run = c.depth if c.dense else c.kernel[1] * c.ic
    ordered = run % 4 == 0
    w, largest = paired(c, width, ordered), np.abs(c.weights.reshape(c.oc, -1).astype(int))
    if w is None or 128 * largest.sum(axis=1).max() >= 2**23:
        return None
    fix = fixed(c, q)

    def requantised(acc: str, channel: str) -> str:
        text = requantize(c, q, acc, channel)
        return fix.text(acc, f"m[{channel}]", text) if fix else text

    entries = entries_of(c, q, rows, width, requantised)
    store = entries[0]["store"]
    column = -(-c.depth // 4) * 4
    scratch = Operand("columns", "int16_t", "scratch", bytes=2 * rows * column)
    # A long dense layer reads its input as it is, rather than take the arena for the widened copy.
    direct = rows == 1 and c.dense and c.depth % 4 == 0 and scratch.bytes > STACK_LIMIT_BYTES
    scale = q.scale if q.scale.size == 1 else pad_rows(q.scale, width)
    operands = [
        tensor_operand(v.graph, "x", v.core.inputs[0]),
        Operand("w", "uint32_t", "const", array=w),
        Operand("b", "int32_t", "const", array=pad_rows(folded_bias(c, q).astype(np.int32), width)),
    ]
    if fix:
        operands.append(fix.operand(width))
    if fix is None or fix.exact.any():
        operands.append(Operand("scale", "float", "const", array=scale))
    scatter = f"mlf_widen_s8(image + (y0 * {c.inputs[1]} + x0) * {c.ic}, to, {c.ic});"
    if ordered and c.ic % 4 == 0:
        scatter = scatter.replace("widen_s8", "widen_s8_pairs")
    read = v.core.inputs[0]
    rounds = column // 4
    unroll = unrolled or next(n for n in (8, 6, 7, 5, 4, 3, 2, 1) if rounds % n == 0)
    if rounds % unroll:
        return None
    again = direct or any(o.value == read for o in store.operands)
    # An output that grows faster than the input is read goes from its end to its beginning.
    backwards = c.oc * c.pixels > c.ic * c.inputs[0] * c.inputs[1] * c.batch
    overlap = {} if again else {read: distances(c, rows, backwards)}
    return Kernel(
        "dsp.pairs",
        "dsp_pairs.c.j2",
        {
            **geometry(c),
            "rows": rows,
            "pairs": width // 2,
            "column": column,
            "stores": entries,
            "ordered": ordered,
            "widen": "mlf_widen_s8_pairs" if ordered else "mlf_widen_s8",
            "scatter": scatter,
            "fill_statement": f"to[c] = {q.x_zero_point};",
            "unroll": unroll,
            "direct": direct,
            "backwards": backwards and c.pixels > rows,
            "twice": any("q1 *" in e["index"] for e in entries),
        },
        (
            *operands,
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            *(() if direct else (scratch,)),
        ),
        cost=c.macs * 0.9 + c.pixels * (c.oc * 6.0 + c.depth * 1.5),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/dsp.h", *store.includes),
        inplace=store.inplace,
        overlap=overlap,
    )
