"""Layers with memory: SVDF, and LSTM as TensorFlow Lite has it. The state is an input, and the next
one an output."""

from __future__ import annotations

from mlftool.ir.dtype import float32
from mlftool.ir.graph import View
from mlftool.ir.operations import PRODUCT, times
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Kernel, Operand, op
from mlftool.ops.plain import plain_kernel
from mlftool.ops.scalar import literal

HELD = {4: 1, 5: 2}  # the hidden state and the cell


@op("mlf.SvdfFixed")
def svdf(v: View) -> Kernel:
    """Inputs are x [B, I], weights of features [F, I] and of time [F, M], a bias for each unit of
    `rank` features, and the state [B, F * M]; outputs are y [B, U] and the state. Attributes are
    the zero points x_zero and state_zero, factors of mlf_requantize_twice, after, low and high."""
    (batch, inputs), (features, memory) = v.x(0).shape, v.x(2).shape
    least, most = v.x(4).dtype.range
    params = {
        "batch": batch,
        "inputs": inputs,
        "features": features,
        "memory": memory,
        "units": v.y.shape[-1],
        "least": least,
        "most": most,
        **v.core.attrs,
    }
    operations = batch * features * (inputs + memory) * times(load=2, times=1, whole=1, loop=1)
    includes = Rounding.TWICE.includes
    return plain_kernel(
        v, "svdf_fixed", params, operations=operations, includes=includes, updates={4: 1}
    )


@op("mlf.Svdf")
def svdf_of_floats(v: View) -> Kernel:
    """The same of floats; a sum of products begins with the oldest."""
    (batch, inputs), (features, memory) = v.x(0).shape, v.x(2).shape
    sizes = {"batch": batch, "inputs": inputs, "features": features, "memory": memory}
    params = {**sizes, "units": v.y.shape[-1], "rank": v.attr("rank")}
    operations = batch * features * (inputs + memory) * (PRODUCT + times(load=2, loop=1))
    return plain_kernel(v, "svdf", params, operations=operations, updates={4: 1})


@op("mlf.LstmFixed")
def lstm(v: View) -> Kernel:
    """Inputs are x [B, T, I], or [T, B, I] if `time_major`; weights of x [4, H, I] and of the
    hidden state [4, H, H], gates in the order input, forget, cell, output; a bias [4, H]; the
    hidden state [B, H] and the cell [B, H]. Outputs are y, the hidden state and the cell."""
    batch, steps, inputs, hidden = _extents(v)
    wide = v.x(0).dtype.bits == 16
    low, high = v.x(4).dtype.range
    # Gates that share loads of x; more sums of 64 bits would leave the registers.
    together = [(0, 1), (2, 3)] if wide else [(0, 1, 2, 3)]
    params = {
        "batch": batch,
        "steps": steps,
        "inputs": inputs,
        "hidden": hidden,
        "sum": "int64_t" if wide else "int32_t",
        "together": together,
        "function": "mlf_requantize_once" if wide else "mlf_requantize_twice",
        "low": low,
        "high": high,
        **v.core.attrs,
    }
    gates = Operand("gates", "int16_t", "scratch", bytes=2 * 4 * hidden)
    shared = times(load=1, loop=1) * (1 / len(together[0]))
    operations = batch * steps * 4 * hidden * (inputs + hidden) * (times(load=1, times=1) + shared)
    operations += batch * steps * hidden * times(whole=340)  # counted on Cortex-M4
    includes = ("mlf/fixed.h",)
    return plain_kernel(
        v, "lstm_fixed", params, gates, operations=operations, includes=includes, updates=HELD
    )


@op("mlf.LstmClipped")
def lstm_clipped(v: View) -> Kernel:
    """The same of floats; the cell is cut at `clip` if that is not 0. ONNX's LSTM cuts the gates'
    inputs instead."""
    batch, steps, inputs, hidden = _extents(v)
    clip = v.attr("clip")
    params = {
        "batch": batch,
        "steps": steps,
        "inputs": inputs,
        "hidden": hidden,
        "time_major": v.attr("time_major"),
        "clip": literal(clip, float32) if clip else "",
    }
    gates = Operand("gates", "float", "scratch", bytes=4 * 4 * hidden)
    operations = batch * steps * 4 * hidden * (inputs + hidden) * (PRODUCT + times(load=2, loop=1))
    operations += batch * steps * hidden * times(exp=3, tanh=2, div=3, mul=3, add=4, whole=20)
    includes = ("mlf/math.h",)
    return plain_kernel(
        v, "lstm_clipped", params, gates, operations=operations, includes=includes, updates=HELD
    )


def _extents(v: View) -> tuple[int, int, int, int]:
    """Batches, steps, elements of x and of the hidden state."""
    shape = v.x(0).shape
    batch, steps = (shape[1], shape[0]) if v.attr("time_major") else (shape[0], shape[1])
    return batch, steps, shape[2], v.x(4).shape[1]
