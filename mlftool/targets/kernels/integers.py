"""Quantised contractions for processors without FPU: no operation on floats is left in them.

Requantisation is one integer multiplication where one has the bits of the float form, which
ops/fixed.py finds out, else the three roundings of the float form in integers.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contract import Form, blocked, depthwise
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    has_normal_scales,
    packable,
    requantize_soft,
)
from mlftool.ops.fixed import fixed
from mlftool.targets.kernels import kernel


def in_integers(c: Contraction, q: Quantisation, columns: int) -> Form | None:
    """None where a scale is no normal number, which only floats can say."""
    if not has_normal_scales(q):
        return None
    fix = fixed(c, q)
    if fix is None:
        return Form(lambda acc, channel: requantize_soft(q, acc, channel), lambda scales: scales)

    def text(acc: str, channel: str) -> str:
        return fix.text(acc, f"m[{channel}]", requantize_soft(q, acc, channel))

    def operands(scales: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return (*(scales if fix.exact.any() else ()), fix.operand(columns))

    return Form(text, operands)


@kernel("QLinearConv", "com.microsoft.QGemm", needs="", unless="fpu")
def integers(v: View) -> Kernel | None:
    if not packable(v):
        return None
    made = depthwise(v, in_integers) or blocked(v, 2, 4, in_integers)
    return made and replace(made, name=f"integers.{made.name}", cost=made.cost * 0.8)
