"""Quantised operators for processors without FPU: no operation on floats is left in them.

Requantisation is one integer multiplication where one has the bits of the float form, which
targets/requantise/fixed.py finds out, else the three roundings of the float form in integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mlftool.ir.graph import View
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Bid, Kernel, Operand
from mlftool.ops.contract import blocked, depthwise
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    contraction,
    even_columns,
    has_normal_scales,
    largest,
    packable,
    requantize_soft,
    scale_operand,
    scale_text,
    shape_of,
)
from mlftool.ops.conv_transpose import gathered
from mlftool.ops.matmul import one_scale, quantised_products, requantised
from mlftool.ops.window import averages, constant_factor
from mlftool.targets.kernels import BYTES, PRODUCTS, TRANSPOSED, kernel
from mlftool.targets.kernels.turned_products import integer_finish
from mlftool.targets.requantise.fixed import Fixed, fixed, rough
from mlftool.targets.requantise.forms import At, Form, form

SOFT = "mlf_requantize_soft"
SOFT_HEADER = "mlf/requantize.h"


def in_integers(c: Contraction, q: Quantisation, columns: int) -> Form | None:
    """None where a scale is not a normal number, which only floats can represent."""
    if q.rounding is not Rounding.EVEN:
        return form(c, q, columns)
    if not has_normal_scales(q):
        return None
    fix = fixed(c, q)
    scales = scale_operand(fix.lowered(q) if fix else q, columns)
    if fix is None and (close := rough(c, q)) is not None:
        return _close(close, q, scales, columns)
    if fix is None:
        return Form(
            lambda a, at: requantize_soft(q, a, at.channel), (scales,), includes=(SOFT_HEADER,)
        )

    def text(acc: str, at: At) -> str:
        return fix.soft_text(acc, at("m"), scale_text(q, at.channel), q.y_zero_point)

    m = fix.operand(columns, rough=True)
    if not fix.exact.any():
        return Form(text, (m,), fix.left)
    return Form(text, (scales, m), fix.left, includes=("mlf/tiles.h",))


def _close(close: Fixed, q: Quantisation, scales: Operand, columns: int) -> Form:
    """The form of outputs of 16 bits."""

    def text(acc: str, at: At) -> str:
        scale = scale_text(q, at.channel)
        return close.near_text(acc, at("m"), scale, q.y_zero_point, "mlf_requantize_close")

    return Form(text, (scales, close.operand(columns, rough=True)), includes=("mlf/tiles.h",))


# Instructions of these loops for each that the portable form takes with an FPU, as counted; a
# narrow core has half the registers and no long multiplication.
_TIMES = 1.6
_TIMES_NARROW = {"depthwise": 2.1, "blocked": 3.0}


def _named(made: Kernel | None, times: float = _TIMES) -> Kernel | None:
    return made and replace(made.taking(times), name=f"integers.{made.name}")


def _soft(made: Kernel | None) -> Kernel | None:
    named = _named(made)
    return named and replace(named, includes=(*named.includes, SOFT_HEADER))


def _contractions(needs: str, unless: str) -> Callable[[Bid], Bid]:
    return kernel(*BYTES, needs=needs, unless=unless, replaces_portable=True)


def _blocked(v: View) -> Kernel | None:
    columns = even_columns(contraction(v).oc, 2)
    return blocked(v, requantised=in_integers, byte_columns=columns)


@_contractions(needs="", unless="fpu narrow")
def integers(v: View) -> Kernel | None:
    if not packable(v):
        return None
    return _named(depthwise(v, in_integers) or _blocked(v))


@_contractions(needs="narrow", unless="fpu")
def integers_narrow(v: View) -> Kernel | None:
    if not packable(v):
        return None
    made = depthwise(v, in_integers)
    if made is not None:
        return _named(made, _TIMES_NARROW["depthwise"])
    return _named(_blocked(v), _TIMES_NARROW["blocked"])


@kernel(*TRANSPOSED, needs="", unless="fpu", replaces_portable=True)
def transposed(v: View) -> Kernel | None:
    if not packable(v) or not has_normal_scales(Quantisation.of(v)):
        return None
    if largest(shape_of(v), Quantisation.of(v)).max(initial=0) >= 2**31:
        return None
    return _soft(gathered(v, lambda _, q, acc, channel: requantize_soft(q, acc, channel)))


@kernel(*PRODUCTS, needs="", unless="fpu", replaces_portable=True)
def products(v: View) -> Kernel | None:
    scale = one_scale(v)
    if scale is None or not _is_normal(scale):
        return None
    finish = integer_finish(v)
    made = _soft(quantised_products(v, finish or requantised(v, SOFT)))
    return made and (replace(made, includes=(*made.includes, "mlf/tiles.h")) if finish else made)


@kernel("com.microsoft.QLinearAveragePool", needs="", unless="fpu", replaces_portable=True)
def means(v: View) -> Kernel | None:
    factor = constant_factor(v)
    return _soft(averages(v, SOFT)) if factor and _is_normal(factor) else None


def _is_normal(scale: np.float32) -> bool:
    return bool(np.isfinite(scale) and scale >= np.finfo(np.float32).tiny)
