"""How sums of int16 and int8 are stored by processors with an FPU that compute one at a time.

ONNX's float product has 65,536 steps, too many to search a multiplier for, so floats are
multiplied. What rounds as TensorFlow Lite does is integers here, too.
"""

from __future__ import annotations

import numpy as np

from mlftool.ops.base import Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    has_normal_scales,
    pad_rows,
    requantize,
    scale_operand,
)
from mlftool.targets.requantise.forms import Form, integer


def form(c: Contraction, q: Quantisation, multiple: int = 1) -> Form:
    """Of sums that fit int32; channels are padded to a `multiple`."""
    made = integer(c, q, multiple)
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
