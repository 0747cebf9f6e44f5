"""Depthwise convolutions of bytes channel by channel: a channel's plane is copied with its padding
filled in, so windows need no conditions. Since a channel is read before it is written and touches
no other, the output may take over the input's memory. Planes that are large are taken in bands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ir.holes import numbers
from mlftool.ops.contraction import Contraction

PLANE_BYTES = 1024  # what the planner puts on the stack


@frozen
class Axis:
    """One spatial axis; x and y are the strides of input and output in elements."""

    is_rows: bool  # the first of the two
    n_in: int
    n_out: int
    k: int
    s: int
    pad: int
    x: int
    y: int
    d: int = 1  # of taps

    @property
    def reach(self) -> int:
        """Elements from the first tap to the last."""
        return (self.k - 1) * self.d + 1

    @property
    def apart(self) -> Axis | None:
        """One of d phases, whose taps are side by side and of no other's windows; None if they are
        not alike."""
        if self.d == 1:
            return self
        if self.s > 1 or any(n % self.d for n in (self.n_in, self.n_out, self.pad)):
            return None
        d, extents = self.d, (self.n_in // self.d, self.n_out // self.d)
        return Axis(self.is_rows, *extents, self.k, 1, self.pad // d, self.x * d, self.y * d)

    @property
    def opened(self) -> Axis:
        """With holes for all but the taps, which make the code."""
        return Axis(**{**numbers(vars(self)), "k": self.k})


def axes(c: Contraction) -> tuple[Axis, Axis]:
    """Rows and columns."""
    strides = ((c.inputs[1] * c.ic, c.outputs[1] * c.oc), (c.ic, c.oc))
    rows, columns = (
        Axis(
            *(a == 0, c.inputs[a], c.outputs[a], c.kernel[a], c.strides[a], c.pads[a]),
            *(*strides[a], c.dilations[a]),
        )
        for a in (0, 1)
    )
    return rows, columns


@frozen
class Plane:
    """`height` rows of `width` elements, from which `band` output rows are computed at once."""

    c: Contraction
    outer: Axis
    inner: Axis
    width: int
    height: int
    band: int
    phases: int = 1  # of columns, each a plane

    @staticmethod
    def of(c: Contraction, outer: Axis, inner: Axis, reach: int, size: int) -> Plane:
        """Of elements of `size` bytes, in rows of which windows read `reach`."""
        width = max(reach, inner.pad + inner.n_in)
        width += -width % size
        band = max(1, (PLANE_BYTES // (size * width) - outer.reach) // outer.s + 1)
        band = -(-outer.n_out // -(-outer.n_out // band))  # of equal bands
        return Plane(c, outer, inner, width, (band - 1) * outer.s + outer.reach, band)

    @property
    def elements(self) -> int:
        return self.width * self.height

    @property
    def weights(self) -> Array:
        """[channel, tap]: rows of taps go along the inner axis."""
        w = self.c.weights.reshape(self.c.oc, *self.c.kernel)
        w = np.moveaxis(w, 1, 2) if self.inner.is_rows else w
        return np.ascontiguousarray(w).reshape(self.c.oc, -1)

    @property
    def params(self) -> dict[str, Any]:
        """What templates read. `keep` rows of a band are the first of the next one."""
        c, bands = self.c, self.band < self.outer.n_out
        return {
            "batch": c.batch,
            "outer": self.outer,
            "inner": self.inner,
            "width": self.width,
            "height": self.height,
            "band": self.band,
            "bands": bands,
            "keep": max(self.outer.reach - self.outer.s, 0) if bands else 0,
            "phases": self.phases,
            "phase_in": self.inner.x // self.phases,
            "phase_out": self.inner.y // self.phases,
            "image_in": c.inputs[0] * c.inputs[1] * c.ic,
            "image_out": c.outputs[0] * c.outputs[1] * c.oc,
        }

    @property
    def overtakes(self) -> bool:
        """Whether a channel's outputs never land on pixels of it that are still to be read, nor on
        those of channels after it, as those of another size would."""
        c, outer, inner = self.c, self.outer, self.inner
        if c.v.x(0).dtype.bytes != c.v.out.dtype.bytes:
            return False
        if c.batch > 1 or c.pixels > c.inputs[0] * c.inputs[1]:
            return False
        if self.phases > 1 and c.inputs != c.outputs:  # or a phase writes where others are read
            return False
        for done in range(self.band, outer.n_out, self.band):
            unread = (done - 1) * outer.s - outer.pad + outer.reach
            written = {
                (o * outer.y + i * inner.y) // c.oc for o in range(done) for i in range(inner.n_out)
            }
            later = {
                (o * outer.x + i * inner.x) // c.ic
                for o in range(max(unread, 0), outer.n_in)
                for i in range(inner.n_in)
            }
            if written & later:
                return False
        return True
