"""Transforms of real signals in the steps of KISS FFT, whose fixed point TensorFlow Lite Micro has:
a mixed-radix transform of half the length, and what makes it one of real numbers.

Every step divides what it adds up, so that nothing overflows; the places at which the results are
rounded decide the last bits.
"""

from __future__ import annotations

import math

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Array, View
from mlftool.ir.operations import PRODUCT, times
from mlftool.ops.base import Kernel, Operand, op
from mlftool.ops.plain import plain_kernel

TYPES = ("int16", "int32", "float32")
RADICES = (4, 2, 3, 5)


@frozen
class Stage:
    """Butterflies of `radix` values that lie `apart`; twiddle factors are `step` from another."""

    radix: int
    apart: int
    step: int


def stages(n: int) -> tuple[Stage, ...]:
    """Of a transform of `n` complex numbers, the outermost first: fours, twos, threes and fives.
    None for 1 and for a number with other factors, which TensorFlow Lite Micro cannot do."""
    found, step = [], 1
    for radix in RADICES:
        while n % radix == 0:
            n //= radix
            found.append(Stage(radix, n, step))
            step *= radix
    return tuple(found) if n == 1 else ()


def order(n: int) -> Array:
    """int32 [n]: which number each place holds before the innermost stage."""
    places = np.arange(n)
    found = np.zeros(n, np.int32)
    for stage in stages(n):
        found += (places // stage.apart * stage.step).astype(np.int32)
        places %= stage.apart
    return found


def factors(n: int, row: DType, inverse: bool) -> tuple[Array, Array]:
    """[n, 2] and [n // 2, 2]: twiddle factors of the complex transform, and of the last step."""
    turn = 1 if inverse else -1
    inner = turn * 2 * math.pi * np.arange(n) / n
    outer = turn * math.pi * (np.arange(1, n // 2 + 1) / n + 0.5)
    return _complex(inner, row), _complex(outer, row)


def _complex(phases: Array, row: DType) -> Array:
    pairs = [(math.cos(p), math.sin(p)) for p in phases.tolist()]
    values = np.array(pairs, np.float64).reshape(-1, 2)
    if row.is_float:
        return values.astype(np.float32)
    return np.floor(0.5 + row.range[1] * values).astype(np.int64).astype(row.numpy)


def _transform(v: View, n: int, inverse: bool) -> Kernel:
    row = v.x(0).dtype
    length, made = v.x(0).shape[-1], v.y.shape[-1]
    rows, steps = v.y.elements // made, stages(n)
    params = {
        "n": n,
        "rows": rows,
        "length": length,
        "made": made,
        "stages": list(reversed(steps)),
        "inverse": inverse,
        "fixed": not row.is_float,
        "wide": "int32_t" if row.bits == 16 else "int64_t",
        "most": 0 if row.is_float else row.range[1],
        "bits": row.bits - 1,
    }
    work = Operand("work", row.c, "scratch", bytes=2 * n * row.bits // 8)
    butterfly = 2 * PRODUCT if row.is_float else times(times=2, whole=4)
    operations = rows * n * len(steps) * (butterfly + times(load=2, store=1, loop=1, whole=2))
    return plain_kernel(v, "fourier", params, work, operations=operations)


@op("mlf.Rfft")
def rfft(v: View) -> Kernel:
    """Of real rows of `length`, zeros after x: x [..., L], order(n), and factors(n) for n half of
    `length`, to [..., length + 2], real and imaginary parts in turn."""
    return _transform(v, v.x(1).elements, inverse=False)


@op("mlf.Irfft")
def irfft(v: View) -> Kernel:
    """Of [..., length + 2], order(n), and inverse factors(n), to real rows of `length`."""
    return _transform(v, v.x(1).elements, inverse=True)
