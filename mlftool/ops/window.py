"""Pooling: a window slides over [N, H, W, C] and is reduced, channel by channel."""

from __future__ import annotations

import math
from typing import Any

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.scalar import Load, Store, literal


def _pool(v: View, name: str, init: str, step: str, finish: str, acc_type: str) -> Kernel:
    load = Load(v)
    shape, out = v.x(0).shape, v.y.shape
    rank = len(shape) - 2
    kernel = tuple(v.attr("kernel_shape"))
    one = (1,) * rank
    strides, dilations = tuple(v.attr("strides", one)), tuple(v.attr("dilations", one))
    pads = tuple(v.attr("pads", (0,) * (2 * rank)))
    axes = [
        {
            "k": k,
            "n": shape[k + 1],
            "o": out[k + 1],
            "kernel": kernel[k],
            "stride": strides[k],
            "dilation": dilations[k],
            "pad": pads[k],
        }
        for k in range(rank)
    ]
    padded = any(p for p in pads) or any(
        (a["o"] - 1) * a["stride"] + (a["kernel"] - 1) * a["dilation"] >= a["n"] for a in axes
    )
    store = Store(v, "result", f"p * {out[-1]} + c", "c")
    macs = math.prod(out) * math.prod(kernel)
    return Kernel(
        name,
        "window.c.j2",
        {
            "axes": axes,
            "batch": shape[0],
            "channels": out[-1],
            "load": load.expr("*at"),
            "init": init,
            "step": step,
            "finish": finish,
            "acc_type": acc_type,
            "padded": padded,
            "store": store,
            "counts": "count" in finish,
            "result_type": v.y.dtype.c,
        },
        (
            Operand("x", load.dtype.c, "in", load.tensor),
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
        ),
        cost=macs * 4.0,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )


@op("MaxPool", Trait.SPATIAL, Trait.EPILOGUE, Trait.ORDER_PRESERVING)
def max_pool(v: View) -> Kernel:
    """Largest element of each window; padding never wins."""
    if len(v.core.outputs) > 1:
        raise UnsupportedError("MaxPool's second output (Indices); supported: one output")
    dtype = v.y.dtype
    if dtype.name not in ("float32", "int8", "uint8"):
        raise UnsupportedError(f"MaxPool on {dtype}; supported: float32, int8, uint8")
    lowest = literal(float("-inf") if dtype.is_float else dtype.range[0], dtype)
    return _pool(v, "portable.max_pool", lowest, "value > acc ? value : acc", "acc", dtype.c)


@op("AveragePool", Trait.SPATIAL, Trait.EPILOGUE, Trait.PROLOGUE)
def average_pool(v: View) -> Kernel:
    """Mean of each window, summed in float in window order."""
    if v.y.dtype.name != "float32":
        raise UnsupportedError(f"AveragePool on {v.y.dtype}; supported: float32 or its QDQ form")
    count: Any = math.prod(v.attr("kernel_shape"))
    if not v.attr("count_include_pad", 0) and any(v.attr("pads", ())):
        divisor = "(float)count"
    else:
        divisor = literal(count, v.y.dtype)
    return _pool(v, "portable.average_pool", "0.0f", "acc + value", f"acc / {divisor}", "float")
