"""Operators that make elements from few numbers, or read the same bytes as another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlftool.ir import dtype
from mlftool.ir.dtype import float32
from mlftool.ir.graph import View
from mlftool.ir.operations import copies, of_text, times
from mlftool.onnx_rules.boxes import whole
from mlftool.onnx_rules.shaping import Box, Shaping
from mlftool.ops.base import Kernel, Operand, Trait, UnsupportedError, old, op
from mlftool.ops.scalar import around, conversions, fetch, put, read_by, settle


def _range_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """start + k * delta for all k below ceil((limit - start) / delta)."""
    bounds = s.bounds([_steps_at_most(s)])
    start, limit, delta = (s.steps.x(k) for k in range(3))
    row = s.type(0).dtype
    if row.is_float:  # the quotient is a double, as in onnxruntime
        sides = (s("Cast", v, to=dtype.float64.onnx) for v in (s("Sub", limit, start), delta))
        count = s("Cast", s("Ceil", s("Div", *sides)), to=dtype.int64.onnx)
    else:  # rounded up whatever the signs: Div rounds towards zero
        first, last, by = (s("Cast", v, to=dtype.int64.onnx) for v in (start, limit, delta))
        span = s("Sub", last, first)
        rest = s("Cast", s("Not", s("Equal", s("Mod", span, by), s.number(0))), to=dtype.int64.onnx)
        floor = s("Div", s("Sub", span, s("Mod", span, by)), by)
        count = s("Add", floor, rest)
    steps = s.steps.const(np.arange(bounds[0]), row.numpy)
    s.result("Add", s("Mul", steps, delta), start)
    return Box(bounds, (count,))


def _steps_at_most(s: Shaping) -> int | None:
    """Upwards by constant steps from a constant start, to a limit of which the most is known."""
    start, delta = s.known(0), s.known(2)
    if start is None or delta is None or s.type(0).dtype.is_float or delta <= 0:
        return None
    (limit,) = s.most(s.steps.x(1))
    return None if limit is None else max(0, -(-(limit - int(start)) // int(delta)))


def _constant_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    given = s.elements(s.steps.x(0))
    bounds = s.bounds([element.most for element in given])
    value = attrs.get("value")
    s.result("ConstantOfShape", s.number(bounds), **({"value": value} if value else {}))
    extents = tuple(s.extent_at(s.steps.x(0), k) for k in range(len(given)))
    return Box(bounds, extents, tuple(element.symbol for element in given))


old("Constant")
old("ConstantOfShape", shaped=_constant_in_box)
old("EyeLike", Trait.OF_SHAPE, extents=whole)


@op("Range", shaped=_range_in_box)
def range_(v: View) -> Kernel:
    """start + i * delta. The count is known from the output's shape, so the limit is not read."""
    row = v.y.dtype
    start, delta = (fetch(row, name, "0") for name in ("start", "delta"))
    if row.is_float:
        kind = float32.c if row.codec else row.c
        text = settle(row, f"{start} + ({kind})i0 * {delta}")
    else:
        wide = "uint64_t" if row.bits == 64 else "uint32_t"  # wraps around
        text = f"({row.c})(({wide}){start} + ({wide})i0 * ({wide}){delta})"
    return Kernel(
        "portable.range",
        "elementwise.c.j2",
        {
            "loops": [("i0", v.y.elements)],
            "statements": [f"const {row.value_c} value = {text};"],
            "store": put(row, "y", "i0", "value"),
        },
        (*read_by(v, {"start": 0, "delta": 2}), Operand("y", row.c, "out", v.node.outputs[0])),
        operations=v.y.elements * (of_text(text, row) + times(loop=1, store=1)),
        includes=("mlf/kernel.h", *conversions(row)),
    )


@op("BitCast")
def bit_cast(v: View) -> Kernel:
    """The input's bytes under another type of the same size."""
    x, y = v.x(0), v.y
    if x.dtype.bits != y.dtype.bits:
        raise UnsupportedError(f"BitCast of {x.dtype} to {y.dtype}; supported: types of one size")
    return Kernel(
        "portable.bitcast",
        "bitcast.c.j2",
        {"bytes": y.bytes},
        around(v),
        operations=copies(y.bytes),
    )
