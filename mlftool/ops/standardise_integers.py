"""LayerNormalization from 8 bits to integers, without floats: sums of elements and of their squares
are exact, one over the root has 30 bits, and two products make a result (mlf/standardise.h).

With t = n * x - sum(x) and d = n * sum(x^2) - sum(x)^2 a result is

    t / sqrt(d + epsilon * n^2 / x_scale^2) * scale / y_scale + bias / y_scale

steps of the output, off by less than 2^-7 before it is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array, TensorType, View
from mlftool.ir.operations import times
from mlftool.ops.base import Attributes, Kernel, Known, Operand, Trait, op
from mlftool.ops.scalar import around

NAME = "mlf.QLinearLayerNormalization"
MOST = 4096  # elements of a row
LEAST, ENOUGH = 10, 24  # bits after the point of a result
_VARIANCE = 14  # bits of the largest of 8-bit elements


@frozen
class Numbers:
    """`under` bits after the point has what is under the root, `epsilon` of it the constant part.
    Quotients have `root` bits before the point. Results are their products with `factors`, plus
    `addends`, with `fraction` bits after the point."""

    under: int
    epsilon: int
    root: int
    factors: Array
    addends: Array
    fraction: int


def _numbers(n: int, x_scale: float, epsilon: float, scale: Array, bias: Array) -> Numbers | None:
    """`scale` and `bias` are steps of the output; None where they leave too few bits."""
    most = n * n << _VARIANCE
    under = (62 - most.bit_length()) // 2 * 2
    constant = epsilon * n * n / x_scale / x_scale
    root = math.ceil(math.log2(n) / 2)
    if not (0 < constant < most and np.all(np.isfinite(scale) & np.isfinite(bias))):
        return None
    exponents = [math.frexp(float(np.abs(a).max()))[1] for a in (scale, bias)]
    fraction = min(26 - exponents[0] - root, 29 - exponents[1], ENOUGH)
    if fraction < LEAST:
        return None
    factors = np.rint(scale * 2.0 ** (fraction + root + 4)).astype(np.int32)
    addends = np.rint(bias * 2.0**fraction).astype(np.int32)
    epsilons = max(1, round(constant * 2.0**under))
    return Numbers(under, epsilons, root, factors, addends, fraction)


def _of(attrs: Attributes, shape: Sequence[int], known: Known) -> Numbers | None:
    """Of inputs x, its scale and zero point, those of the output, and what rows are scaled by and
    shifted."""
    row = shape[attrs.get("axis", -1) % max(1, len(shape)) :]
    n = math.prod(row)
    if not 2 <= n <= MOST or any(k is not None and k.shape != row for k in known[5:]):
        return None
    x_scale, y_scale = (float(k.item()) for k in (known[1], known[3]) if k is not None)
    if not (0 < x_scale < math.inf and 0 < y_scale < math.inf):
        return None
    given: list[Array] = [k.reshape(-1) for k in known[5:] if k is not None]
    scale = given[0].astype(np.float64) / y_scale
    bias = given[1].astype(np.float64) / y_scale if len(given) > 1 else np.zeros(n)
    return _numbers(n, x_scale, attrs.get("epsilon", 1e-5), scale, bias)


def fits(attrs: Attributes, x: TensorType, y: TensorType, known: Known) -> bool:
    return x.dtype.is_int8 and y.dtype.is_int8 and _of(attrs, x.shape, known) is not None


# The sums, then the result.
_ELEMENT = times(load=4, loop=2, whole=6, times=3, high_word=2, shift_even=1, clamp_i32=1, store=1)


@op(NAME, Trait.SAME_RANK, reads=(0,), stores=3)
def layer_normalisation(v: View) -> Kernel:
    shape, x = v.x(0).shape, v.core.inputs[0]
    known = [v.graph.consts.get(name) for name in v.core.inputs]
    numbers = _of(v.core.attrs, shape, known)
    assert numbers is not None
    n = numbers.factors.size
    low, high = v.y.dtype.range
    zero = v.known(4).item()
    params: Mapping[str, Any] = {
        **{"outer": math.prod(shape) // n, "n": n, "under": numbers.under, "root": numbers.root},
        **{"epsilon": numbers.epsilon, "fraction": numbers.fraction},
        **{"zero": zero, "low": low, "high": high},
    }
    return Kernel(
        "portable.integer_standardise",
        "standardise_integers.c.j2",
        params,
        around(
            v,
            Operand("factors", "int32_t", "const", array=numbers.factors),
            Operand("addends", "int32_t", "const", array=numbers.addends),
            x=x,
        ),
        operations=v.y.elements * _ELEMENT + v.y.elements / n * times(one_over_root=1, whole=10),
        includes=("mlf/standardise.h",),
        inplace=(x,),
    )
