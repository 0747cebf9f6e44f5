"""Depthwise int8 convolutions for ARMv6-M (Cortex-M0), one channel at a time.

Eight neighbouring outputs share the load of a weight, which is multiplied by unsigned bytes at
constant distances. For that the bytes of a plane (planes.py) have their highest bits inverted.
"""

from __future__ import annotations

import numpy as np

from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, folded_bias
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.narrow_requantise import in_halves
from mlftool.targets.kernels.parts import Tile, byte_kernel, constants
from mlftool.targets.kernels.planes import Axis, Plane, axes

MOST_TAPS, MOST_STRIDE = 5, 3  # of a kernel's row: what mlf/narrow.h has
MOST_SUMS = 8


@byte_kernel("narrow", "fpu size", depthwise=True)
def narrow_planes(c: Contraction, q: Quantisation) -> Tile | None:
    form, v = in_halves(c, q) if _takes(c) else None, c.v
    if form is None:
        return None
    rows, columns = axes(c)
    orders = [o for o in ((rows, columns), (columns, rows)) if o[1].k <= MOST_TAPS or o[0].k == 1]
    outer, inner = min(orders, key=lambda pair: _work(*pair))
    together = _together(inner)
    reach = (-(-inner.n_out // together) * together - 1) * inner.s + inner.k
    plane = Plane.of(c, outer, inner, reach, 1)
    flip = 128 if v.x(0).dtype.name == "int8" else 0
    bias = folded_bias(c, q) - flip * plane.weights.sum(axis=1, dtype=np.int64)
    store = Store(v, f"({v.y.dtype.c})out", f"o + i * {inner.y}", "c")
    return Tile(
        "narrow.planes",
        "narrow_planes.c.j2",
        c,
        (*constants(w=plane.weights.reshape(-1), b=bias.astype(np.int32)), *form.operands(1)),
        [Operand("plane", "uint8_t", "scratch", bytes=plane.elements)],
        store,
        {
            **plane.params,
            "together": together,
            "row": inner.k if inner.k <= MOST_TAPS else 1,
            "pitch": plane.width if inner.k <= MOST_TAPS else 1,
            "flip": flip,
            "fill": q.x_zero_point + flip,
            "form": form,
            "store": store,
        },
        cost=c.macs * 3.6 + c.pixels * c.oc * 33.0 + c.oc * (5.0 * c.inputs[0] * c.inputs[1] + 100),
        header="mlf/narrow.h",
        overtakes=plane.overtakes,
    )


def _takes(c: Contraction) -> bool:
    """Longer than five a kernel may be on one axis: then its taps are rows of one."""
    plain = max(c.dilations) == 1 and max(c.strides) <= MOST_STRIDE
    return plain and (max(c.kernel) <= MOST_TAPS or min(c.kernel) == 1)


def _turns(inner: Axis) -> list[tuple[int, int]]:
    """(instructions of a kernel's row for all outputs, outputs at a time)."""
    most = MOST_SUMS - 1 if inner.k == MOST_TAPS else MOST_SUMS
    return [(-(-inner.n_out // n) * (inner.k * (2 + 3 * n) + 20), n) for n in range(1, most + 1)]


def _together(inner: Axis) -> int:
    return min(_turns(inner))[1]


def _work(outer: Axis, inner: Axis) -> int:
    return outer.n_out * outer.k * min(_turns(inner))[0]
