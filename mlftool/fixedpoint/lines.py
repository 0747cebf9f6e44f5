"""Operators along the last axis in fixed point: softmax, its logarithm, and rows of length one.

What depends on one element alone is in a table, which the front end computes: input 1 of softmax
holds e^-d for the distances d from the greatest element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlftool.ir.graph import View
from mlftool.ir.operations import times
from mlftool.ops.base import Kernel, op
from mlftool.ops.lines import along
from mlftool.ops.scalar import tensor_operand

_ELEMENT = times(load=4, whole=20, choose=3, high_word=2, store=1, loop=3)


def _lines(v: View, name: str, **params: Any) -> Kernel:
    """The kernel of template `name`, which reads the constants after input 0 as t0, t1 ..."""
    reads = [tensor_operand(v.graph, f"t{k}", n) for k, n in enumerate(v.core.inputs[1:])]
    made = along(v, name, -1, reads=reads, **v.core.attrs, **params)
    return replace(
        made, includes=(*made.includes, "mlf/fixed.h"), operations=v.y.elements * _ELEMENT
    )


@op("mlf.SoftmaxFixed")
def softmax(v: View) -> Kernel:
    """Of int8, to int8 or int16: input 1 is int32 [256], e^-d of 0."""
    low, high = v.y.dtype.range
    return _lines(v, "softmax_fixed", low=low, high=high, bits=v.y.dtype.bits)


@op("mlf.SoftmaxBetween")
def softmax_between(v: View) -> Kernel:
    """Of int16: inputs 1 and 2 are int16 [513], for mlf_between e^x and 1 / (1 + x)."""
    return _lines(v, "softmax_between")


@op("mlf.LogSoftmaxFixed")
def log_softmax(v: View) -> Kernel:
    """Of int8; input 1 as SoftmaxFixed's."""
    return _lines(v, "log_softmax_fixed")


@op("mlf.UnitFixed")
def unit(v: View) -> Kernel:
    """Of int8: each line divided by the root of its sum of squares. `early` multiplies by 128
    before the root's rounding, as TensorFlow Lite does for uint8."""
    return _lines(v, "unit_fixed")
