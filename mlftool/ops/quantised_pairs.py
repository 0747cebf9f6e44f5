"""onnxruntime's sum and product of two quantised tensors, to the bit as it computes them on x86-64.

Scales are divided first, the zero point is added before the result is rounded, and a sum adds each
product with one rounding: ties fall elsewhere than in QuantizeLinear(Add(...)). On Arm it sums in
integers, whose ties fall away from zero.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mlftool.ir.dtype import float32
from mlftool.ir.graph import Array
from mlftool.ir.rounding import RAISED, late_pair
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import Attributes, Known, Trait
from mlftool.ops.elementwise import Maths, broadcast, elementwise
from mlftool.ops.microsoft import microsoft
from mlftool.ops.scalar import Scalar, number

# Inputs: a, its scale and zero point, b and its own, then those of the result.
_OPERANDS, _RESULT = (0, 3), 6


def _value(added: bool, inputs: Known, attrs: Attributes, opset: int) -> Array:
    return late_pair(added, [np.asarray(v) for v in inputs], attrs.get(RAISED, 0))


def _divided(by: Scalar, *scales: Scalar) -> str:
    """C text of the product of scales, divided."""
    values = [s.value for s in (by, *scales)]
    if None in values:
        return f"({' * '.join(map(str, scales))} / {by})"
    with np.errstate(all="ignore"):
        below, *factors = np.array(values, np.float32)
        return number(np.prod(factors, dtype=np.float32) / below, float32)


def _expression(m: Maths, *operands: Scalar, added: bool = False, raised: int = 0) -> str:
    a_stored, a_scale, a_zero, b_stored, b_scale, b_zero, scale, zero = operands
    a, b = (f"({s} + {raised})" if raised else s for s in (a_stored, b_stored))
    if added:
        by, also = _divided(scale, a_scale), _divided(scale, b_scale)
        zeros = f"mlf_multiply_add({by}, (float){a_zero}, {also} * (float){b_zero})"
        inner = f"mlf_multiply_add((float){b}, {also}, (float){zero} - {zeros})"
        value = f"mlf_multiply_add((float){a}, {by}, {inner})"
    else:
        by = _divided(scale, a_scale, b_scale)
        value = f"(float)(({a} - {a_zero}) * ({b} - {b_zero})) * {by} + (float){zero}"
    return f"mlf_quantize({value}, {-raised}, {', '.join(map(str, m.out.range))})"


for _name, _added in (("Add", True), ("Mul", False)):
    elementwise(
        f"mlf.QLinear{_name}",
        partial(_expression, added=_added),
        *((Trait.QUANTISED_SUM,) if _added else ()),
        Trait.ROUNDS_LATE,
        includes=("mlf/multiply_add.h",),
        constant=partial(_value, _added),
        result=lambda types, attrs: broadcast([types[k] for k in _OPERANDS], attrs),
        reads=_OPERANDS,
        stores=_RESULT,
    )


@microsoft(QLinearAdd="xx?xx?x?", QLinearMul="xx?xx?x?", boxes=True)
def _quantised_pair(s: Steps) -> None:
    """What is repeated along the last axis that has several elements, onnxruntime adds to the zero
    points first."""
    for k in set(range(8)) - set(_OPERANDS):
        s.one(k)
    none = s.const(0, s.type(0).dtype.numpy)
    *operands, scale, zero = (s.x(k) or none for k in range(8))
    extents = [s.type(k).shape[::-1] for k in _OPERANDS]
    pairs = zip(*(e + (1,) * (max(map(len, extents)) - len(e)) for e in extents), strict=True)
    if next((a for a, b in pairs if max(a, b) > 1), 1) == 1:
        operands = operands[3:] + operands[:3]
    s(f"mlf.{s.node.op_type}", *operands, scale, zero, out=0)
