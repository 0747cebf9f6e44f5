"""Sums and means of quantised tensors: the integers are added, then rescaled once.

y = sat(round(sum(x - x_zero_point) * factor) + y_zero_point), with the factor in float32: x_scale /
y_scale, for a mean x_scale / (y_scale * count). Without an output scale y is the float product.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.dtype import float32, int32, int64
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, UnsupportedError, op
from mlftool.ops.reduce import nest, reduced_axes
from mlftool.ops.scalar import literal


@op("mlf.QLinearReduceMean")
def quantised_reduce(v: View) -> Kernel:
    """Inputs are x, its scale and zero point, y's scale and zero point, axes."""
    axes = reduced_axes(v, 5)
    if axes is None:
        raise UnsupportedError("quantised ReduceMean along computed axes; supported: known axes")
    mean, lowest, highest = v.core.op == "mlf.QLinearReduceMean", *v.x(0).dtype.range
    row = int32 if v.x(0).elements * (highest - lowest) < 2**31 else int64

    def texts(index: str, count: str) -> dict[str, str]:
        factor = np.float32(v.known(1).item())
        by = np.float32(v.known(3).item()) if v.has(3) else np.float32(1)
        factor = factor / (by * np.float32(count)) if mean else factor / by
        zero = int(v.known(2).item()) * int(count)
        total = f"(acc - {literal(zero, row)})" if zero else "acc"
        scaled = f"(float){total} * {literal(factor, float32)}"
        lo, hi = v.y.dtype.range if v.has(3) else (0, 0)
        stored = f"mlf_quantize({scaled}, {int(v.known(4).item())}, {lo}, {hi})" if v.has(3) else ""
        return {
            "type": row.c,
            "start": "0",
            "value": f"x[{index}]",
            "step": "acc + value",
            "finish": f"({v.y.dtype.c}){stored}" if stored else scaled,
        }

    return nest(v, axes, row, texts)


op("mlf.QLinearReduceSum")(quantised_reduce)
