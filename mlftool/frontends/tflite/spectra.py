"""Spectra of real signals, as tf.signal has them. A complex number is two floats along a further
last axis; operators that know nothing of it are refused."""

from __future__ import annotations

import numpy as np

from mlftool.fixedpoint import fourier
from mlftool.frontends.tflite.movement import made_shape, numbers, taken
from mlftool.frontends.tflite.signal import MOST, rows_of
from mlftool.frontends.tflite.site import Site, operator
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType


@operator("RFFT2D", takes_complex=True)
def rfft2d(s: Site) -> None:
    """As LiteRT. Rows whose length is even and a product of 2, 3 and 5 are transformed fast."""
    x, lengths, name = s.x().type, numbers(s, 1, "lengths"), s.name()
    s.expect((s.x().stored, s.y().stored) == ("float32", "complex64"), f"{s.y().stored} of {x}")
    s.expect(len(x.shape) >= 2 and 0 not in x.shape, f"a transform of {x}")
    fits = len(lengths) == 2 and all(0 < n <= MOST for n in lengths)
    s.expect(fits, f"lengths {lengths}; expected two from 1 to {MOST}")
    height, width = lengths
    row = len(x.shape) - 2
    for axis, n in ((row, height), (row + 1, width)):
        if x.shape[axis] > n:
            name = taken(s, name, axis, list(range(n)))
    given = s.draft.types[name].shape
    made = (*given[:-1], width // 2 + 1, 2)
    made_shape(s, (*given[:-2], height, *made[-2:]))
    if width % 2 == 0 and fourier.stages(width // 2):
        flat = TensorType(dtype.float32, (*given[:-1], width + 2))
        name = s.reshaped(rows_of(s, name, width, "mlf.Rfft", flat), made)
    else:
        name = _dft(s, s.reshaped(name, (*given, 1)), width, row + 1, made, onesided=1)
    if height > 1:
        name = _dft(s, name, height, row, s.y().type.shape)
    s.add("Identity", (name,), s.out())


def _dft(s: Site, x: str, n: int, axis: int, made: tuple[int, ...], onesided: int = 0) -> str:
    parts = [s.const(np.array(v, np.int64)) for v in (n, axis)]
    return s.add("DFT", (x, *parts), TensorType(dtype.float32, made), {"onesided": onesided})


@operator("COMPLEX_ABS", "IMAG", "REAL", takes_complex=True)
def part(s: Site) -> None:
    x, y = s.x(), s.y()
    s.expect((x.stored, y.stored) == ("complex64", "float32"), f"{y.stored} of {x.stored}")
    made_shape(s, x.type.shape[:-1])
    if s.node.kind == "COMPLEX_ABS":
        s.add("ReduceL2", (s.name(), s.const(np.array([-1], np.int64))), s.out(), {"keepdims": 0})
        return
    which = s.const(np.array(s.node.kind == "IMAG", np.int64))
    s.add("Gather", (s.name(), which), s.out(), {"axis": len(y.type.shape)})
