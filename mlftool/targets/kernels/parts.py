"""What kernels of bytes share, whatever the processor: which contractions they take, and in which
order they compute pixels, which says where an output may overlap the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, contraction, fits_int32
from mlftool.ops.scalar import tensor_operand

STACK_LIMIT_BYTES = 1024  # what plan/memory.py puts on the stack

Bytes = tuple[Contraction, Quantisation]


def bytes_of(v: View, *, depthwise: bool = False, signed: bool = False) -> Bytes | None:
    """The node as a contraction of at most two axes, made two, whose inputs are bytes and whose
    weights are int8 without zero point; no accumulator leaves int32. None for any other node.

    `signed`: inputs are int8. Without `depthwise` all input channels meet all output channels.
    """
    c = contraction(v)
    if len(c.inputs) > 2 or not (c.depthwise if depthwise else c.group == 1):
        return None
    c, q = c.planar(), Quantisation.of(v)
    x = v.x(0).dtype
    if not (x.name == "int8" if signed else x.is_int8) or v.known(3).dtype != np.int8:
        return None
    return None if np.any(q.w_zero_point) or not fits_int32(c, q) else (c, q)


@dataclass(frozen=True)
class Walk:
    """The order of pixels: blocks of `rows`, each read whole, then written.

    An output that grows faster than the input is read goes from its end to its beginning. `direct`:
    there is one pixel, which is read where it is instead of being gathered into `columns`.
    """

    rows: int
    backwards: bool
    descends: bool  # backwards, and there is more than one block
    direct: bool
    columns: Operand  # scratch
    overlap: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of a Kernel

    @property
    def scratch(self) -> tuple[Operand, ...]:
        return () if self.direct else (self.columns,)


def walk(
    c: Contraction, rows: int, column: int, columns: Operand, others: Sequence[Operand]
) -> Walk:
    """How `rows` pixels at a time are computed, each gathered into `column` values of `columns`;
    `others` are the operands that the fused store reads. A `column` of 0 is always
    gathered."""
    # A long dense layer reads its input as it is, rather than take the arena for a copy.
    direct = rows == 1 and c.dense and column == c.depth and columns.bytes > STACK_LIMIT_BYTES
    backwards = c.oc * c.pixels > c.ic * c.inputs[0] * c.inputs[1] * c.batch
    overlap = {} if direct else overlaps(c, others, distances(c, rows, backwards))
    return Walk(rows, backwards, backwards and c.pixels > rows, direct, columns, overlap)


def overlaps(
    c: Contraction, others: Sequence[Operand], reach: tuple[int, int]
) -> Mapping[str, tuple[int, int]]:
    """A Kernel's `overlap`: at the distances `reach`, unless the store reads the input again."""
    read = c.v.core.inputs[0]
    return {} if any(o.value == read for o in others) else {read: reach}


def operands(
    v: View, constants: Sequence[Operand], others: Sequence[Operand], scratch: Sequence[Operand]
) -> tuple[Operand, ...]:
    """A kernel's parameters in the order in which all have them: x, weights and what else is
    constant, what the store reads, y, scratch."""
    x = tensor_operand(v.graph, "x", v.core.inputs[0])
    y = Operand("y", v.out.dtype.c, "out", v.node.outputs[0])
    return (x, *constants, *others, y, *scratch)


def distances(c: Contraction, rows: int, backwards: bool) -> tuple[int, int]:
    """The distances in bytes from the output to the input at which no block of `rows` pixels, which
    is read whole and then written, destroys what a later one reads. Inputs are bytes; outputs may
    be wider, as floats are."""
    at, written, far = _places(c, last=backwards)
    starts = np.arange(rows, c.pixels, rows)
    if backwards:
        read = np.maximum.accumulate((at + 1) * c.ic)[starts - 1]
        return -far, int((starts * written - read).min(initial=far))
    read = np.minimum.accumulate((at * c.ic)[::-1])[::-1][starts]
    return int((starts * written - read).max(initial=-far)), far


def distances_while_reading(c: Contraction) -> tuple[int, int]:
    """The same for a kernel that goes forward and writes a pixel before it has read all of it."""
    at, written, far = _places(c, last=False)
    read = np.minimum.accumulate((at * c.ic)[::-1])[::-1]
    return int((np.arange(1, c.pixels + 1) * written - read).max()), far


def _places(c: Contraction, last: bool) -> tuple[Array, int, int]:
    """The first or last input pixel that each output pixel reads, the bytes of an output pixel, and
    a distance at which nothing overlaps."""
    (ih, iw), (oh, ow) = c.inputs, c.outputs
    y, x = (_ends(c, axis, last) for axis in (0, 1))
    at = (np.arange(c.batch)[:, None, None] * ih * iw + y[:, None] * iw + x).reshape(-1)
    written = c.oc * c.v.out.dtype.bytes
    return at, written, (c.batch * (ih * iw * c.ic + oh * ow * written)) * 2


def _ends(c: Contraction, axis: int, last: bool) -> Array:
    """The first or last position inside the input that each window of an axis reads."""
    n, d = c.inputs[axis], c.dilations[axis]
    at = np.arange(c.outputs[axis]) * c.strides[axis] - c.pads[axis]
    if last:
        at = at + (c.kernel[axis] - 1) * d
        return np.clip(np.where(at >= n, at - -(-(at - n + 1) // d) * d, at), 0, n - 1)
    return np.clip(np.where(at < 0, at % d, at), 0, n - 1)
