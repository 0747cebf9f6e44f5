"""How sums of int16 and int8 are stored by processors that compute one of them at a time.

TensorFlow Lite's single rounding, (acc * m + 2^(t - 1)) >> t with 15 bits of m, is the upper half
of acc * m * 2^k and a shift that is the same for all channels, where their t are near enough: a
power of two moves from the shift into the multiplier and changes no bit. ONNX's float product has
65,536 steps, too many to search a multiplier for, so floats are multiplied.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rounding, parts
from mlftool.ops.base import Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    has_normal_scales,
    largest,
    pad_rows,
    requantize,
    scale_operand,
)
from mlftool.targets.requantise.forms import Form, integer

MOST_SHIFT = 31


def form(c: Contraction, q: Quantisation, multiple: int = 1) -> Form:
    """Of sums that fit int32; channels are padded to a `multiple`."""
    made = integer(c, q, multiple) or once(c, q, multiple)
    if made is not None:
        return made
    if has_normal_scales(q):
        scale = np.broadcast_to(q.scale.astype(np.float32), (c.oc,)).view(np.int32)
        limits = f"{q.y_zero_point}, {q.lo}, {q.hi}"
        m = Operand("m", "int32_t", "const", array=pad_rows(scale, multiple), note="scales' bits")
        return Form(
            lambda acc, at: f"mlf_requantize_bits({acc}, {at('m')}, {limits})", (m,), hoists=(m,)
        )
    return Form(
        lambda acc, at: requantize(c, q, acc, at.channel),
        (scale_operand(q, multiple),),
        includes=q.rounding.includes,
    )


def apart(c: Contraction, q: Quantisation, multiple: int = 1) -> Form:
    """Of sums that fit int32 until their biases are added."""
    bias = Operand("addend", "int64_t", "const", array=pad_rows(c.bias.astype(np.int64), multiple))
    return Form(
        lambda acc, at: requantize(c, q, f"((int64_t){acc} + addend[{at.channel}])", at.channel),
        (bias, scale_operand(q, multiple)),
        includes=q.rounding.includes,
    )


def once(c: Contraction, q: Quantisation, multiple: int = 1) -> Form | None:
    """One multiplication and one shift, if the channels' shifts leave room for it."""
    if q.rounding is not Rounding.ONCE or largest(c, q).max(initial=0) >= 2**31:
        return None
    m, by = (np.broadcast_to(part, (c.oc,)) for part in parts(q.factor))
    some = m > 0
    if not some.any() or m.max() >= 2**15:
        return None
    bits = np.floor(np.log2(np.maximum(m, 1))).astype(np.int64)
    shift = min(int((by - 2 - bits)[some].min()), MOST_SHIFT)
    add = (int(q.y_zero_point) << shift) + (1 << (shift - 1)) if shift > 0 else 0
    if shift < max(1, int(by[some].max()) - 32) or abs(add) >= 2**30:
        return None
    scaled = np.where(some, m << np.where(some, 32 + shift - by, 0), 0).astype(np.int32)
    numbers = f"{Number(add)}, {Number(shift)}, {q.lo}, {q.hi}"
    operand = Operand("m", "int32_t", "const", array=pad_rows(scaled, multiple))
    return Form(
        lambda acc, at: f"mlf_requantize_fixed({acc}, {at('m')}, {numbers})",
        (operand,),
        hoists=(operand,),
    )
