"""Depthwise int8 convolutions for ARMv6-M (Cortex-M0), one channel at a time.

Eight neighbouring outputs share the load of a weight; what is multiplied by it are unsigned bytes
at constant distances, which is why a channel's plane is copied, with its highest bits inverted and
the padding around it. So windows have no conditions, and since a channel is read before it is
written and touches no other, the output may take over the input's memory.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import Contraction, folded_bias, packable
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.dsp_depthwise import Axis, overtakes
from mlftool.targets.kernels.narrow_requantise import in_halves
from mlftool.targets.kernels.parts import bytes_of, operands

PLANE_BYTES = 1024  # what the planner puts on the stack; larger planes are taken in bands
MOST_TAPS, MOST_STRIDE = 5, 3  # of a kernel's row: what mlf/narrow.h has
MOST_SUMS = 8


@kernel("QLinearConv", needs="narrow", unless="fpu size")
def narrow_planes(v: View) -> Kernel | None:
    found = bytes_of(v, depthwise=True) if packable(v) else None
    form = in_halves(*found) if found and _takes(found[0]) else None
    if found is None or form is None:
        return None
    c, q = found
    rows, columns = _axes(c)
    orders = [o for o in ((rows, columns), (columns, rows)) if o[1].k <= MOST_TAPS or o[0].k == 1]
    outer, inner = min(orders, key=lambda pair: _work(*pair))
    together = _together(inner)
    width, height, band = _plane(outer, inner, together)
    w = c.weights.reshape(c.oc, *c.kernel).astype(np.int64)
    flip = 128 if v.x(0).dtype.name == "int8" else 0
    bias = folded_bias(c, q) - flip * w.sum(axis=(1, 2))
    store = Store(v, f"({v.y.dtype.c})out", f"o + i * {inner.y}", "c")
    over = (v.core.inputs[0],) if not store.operands and overtakes(c, outer, inner, band) else ()
    taps = np.moveaxis(w, 1, 2) if inner.is_rows else w
    return Kernel(
        "narrow.planes",
        "narrow_planes.c.j2",
        {
            "batch": c.batch,
            "channels": c.oc,
            "outer": outer,
            "inner": inner,
            "together": together,
            "row": inner.k if inner.k <= MOST_TAPS else 1,
            "pitch": width if inner.k <= MOST_TAPS else 1,
            "width": width,
            "height": height,
            "band": band,
            "keep": max(outer.k - outer.s, 0),
            "image_in": c.inputs[0] * c.inputs[1] * c.ic,
            "image_out": c.outputs[0] * c.outputs[1] * c.oc,
            "flip": flip,
            "fill": q.x_zero_point + flip,
            "form": form,
            "store": store,
        },
        operands(
            v,
            (
                Operand("w", "int8_t", "const", array=taps.astype(np.int8).reshape(-1)),
                Operand("b", "int32_t", "const", array=bias.astype(np.int32)),
                *form.operands(1),
            ),
            store.operands,
            [Operand("plane", "uint8_t", "scratch", bytes=width * height)],
        ),
        cost=c.macs * 3.6 + c.pixels * c.oc * 33.0 + c.oc * (5.0 * c.inputs[0] * c.inputs[1] + 100),
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/narrow.h", *store.includes),
        inplace=(*store.inplace, *over),
    )


def _takes(c: Contraction) -> bool:
    """Longer than five a kernel may be on one axis: then its taps are rows of one."""
    plain = max(c.dilations) == 1 and max(c.strides) <= MOST_STRIDE
    return plain and (max(c.kernel) <= MOST_TAPS or min(c.kernel) == 1)


def _axes(c: Contraction) -> list[Axis]:
    """Rows and columns."""
    steps = ((c.inputs[1] * c.ic, c.outputs[1] * c.oc), (c.ic, c.oc))
    return [
        Axis(a == 0, c.inputs[a], c.outputs[a], c.kernel[a], c.strides[a], c.pads[a], *steps[a])
        for a in (0, 1)
    ]


def _turns(inner: Axis) -> list[tuple[int, int]]:
    """(instructions of a kernel's row for all outputs, outputs at a time)."""
    most = MOST_SUMS - 1 if inner.k == MOST_TAPS else MOST_SUMS
    return [(-(-inner.n_out // n) * (inner.k * (2 + 3 * n) + 20), n) for n in range(1, most + 1)]


def _together(inner: Axis) -> int:
    return min(_turns(inner))[1]


def _work(outer: Axis, inner: Axis) -> int:
    return outer.n_out * outer.k * min(_turns(inner))[0]


def _plane(outer: Axis, inner: Axis, together: int) -> tuple[int, int, int]:
    """(bytes of a row, rows, output rows computed at once)."""
    width = (-(-inner.n_out // together) * together - 1) * inner.s + inner.k
    width = max(width, inner.pad + inner.n_in)
    band = max(1, (PLANE_BYTES // width - outer.k) // outer.s + 1)
    band = -(-outer.n_out // -(-outer.n_out // band))  # of equal bands
    return width, (band - 1) * outer.s + outer.k, band
