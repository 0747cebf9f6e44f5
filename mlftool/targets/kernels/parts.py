"""What kernels of bytes share, whatever the processor: which contractions they take, in which order
they compute pixels, which says where an output may overlap the input, and what a Kernel is of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from mlftool.frozen import field, frozen, replace
from mlftool.ir.dtype import of
from mlftool.ir.graph import Array, Node, View
from mlftool.ir.holes import Number
from mlftool.ir.pair_forms import Clamped, Sum
from mlftool.ops.base import Kernel, Operand, record
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    contraction,
    fits_int32,
    folded_bias,
    geometry,
    halves,
    pad_rows,
    reach,
)
from mlftool.ops.pairs import in_integers
from mlftool.ops.scalar import FUSED, operand_kind, tensor_operand
from mlftool.targets.kernels import BYTES, kernel

Bytes = tuple[Contraction, Quantisation]
TypedBid = TypeVar("TypedBid", bound=Callable[..., "Tile | None"])


def bytes_of(
    v: View,
    *,
    depthwise: bool = False,
    grouped: bool = False,
    signed: bool = False,
    totals: bool = False,
) -> Bytes | None:
    """The node as a contraction of at most two axes, made two, whose inputs are bytes and whose
    weights are int8 without zero point; no accumulator leaves int32. None for any other node.

    `signed`: inputs are int8. All input channels meet all output channels, or with `depthwise` each
    its own, or with `grouped` those of a group a group, of an even number of output channels. With
    `totals` weights may have one zero point, which the kernel takes from them, or a product of
    which and of a pixel's total from the pixel's sums.
    """
    asked = ("bytes", depthwise, grouped, signed, totals)  # by many kernels, whose bids share it
    return v.once(asked, lambda: _bytes_of(v, depthwise, grouped, signed, totals))


def _bytes_of(v: View, depthwise: bool, grouped: bool, signed: bool, totals: bool) -> Bytes | None:
    c = contraction(v)
    apart = c.group > 1 and not c.depthwise and c.oc // c.group % 2 == 0
    if len(c.inputs) > 2 or not (apart if grouped else c.depthwise if depthwise else c.group == 1):
        return None
    c, q = c.planar(), Quantisation.of(v)
    x = v.x(0).dtype
    if not (x.name == "int8" if signed else x.is_int8) or v.known(3).dtype != np.int8:
        return None
    if np.any(q.w_zero_point) and not (totals and _may_be_less(c, q)):
        return None
    return (c, q) if fits_int32(c, q) else None


def _may_be_less(c: Contraction, q: Quantisation) -> bool:
    """Whether all weights have one zero point, and sums with weights as they are stored, or with
    up to 128 more, fit int32."""
    positive, negative = halves(c, replace(q, w_zero_point=np.zeros(1, np.int32)))
    sums = np.abs(folded_bias(c, q)) + 2**8 * (positive - negative + 128 * c.depth)
    return bool(np.ptp(q.w_zero_point) == 0 and np.all(sums < 2**31))


def weights_zero(q: Quantisation) -> Number | str:
    """The one zero point of the weights, "" if they have none."""
    zero = int(q.w_zero_point.reshape(-1)[0])
    return Number(zero) if zero else ""


def shorts_of(v: View, *, depthwise: bool = False) -> Bytes | None:
    """The same of inputs that are int16, whose sums fit int32 at least until biases are added."""
    c = contraction(v)
    if len(c.inputs) > 2 or not (c.depthwise if depthwise else c.group == 1):
        return None
    if v.x(0).dtype.name != "int16" or v.known(3).dtype != np.int8:
        return None
    c, q = c.planar(), Quantisation.of(v)
    positive, negative = halves(c, q)
    fits = (reach(c, q) * (positive - negative)).max(initial=0) < 2**31
    return (c, q) if fits and not np.any(q.w_zero_point) else None


def byte_kernel(
    needs: str,
    unless: str = "",
    *,
    depthwise: bool = False,
    grouped: bool = False,
    signed: bool = False,
    totals: bool = False,
) -> Callable[[TypedBid], TypedBid]:
    """Register a kernel of the contractions that `bytes_of` takes."""

    def register(bid: TypedBid) -> TypedBid:
        @kernel(*BYTES, needs=needs, unless=unless)
        def whole(v: View) -> Kernel | None:
            how = {"depthwise": depthwise, "grouped": grouped, "signed": signed, "totals": totals}
            found = bytes_of(v, **how)
            made = bid(*found) if found else None
            return made.kernel if made else None

        return bid

    return register


@frozen
class Residual:
    """The integer form of a sum that follows: of the core's result, which is `a`, and of int8
    tensor `other`, which is like the output."""

    other: Operand
    sum: Sum
    result: Clamped


def along(c: Contraction) -> Contraction:
    """The same with the longer axis as the row, where the other has one element."""
    if c.inputs[1] > 1 or c.outputs[1] > 1 or c.kernel[1] > 1:
        return c
    named = ("inputs", "outputs", "kernel", "strides", "dilations", "pads")
    return replace(c, **{name: getattr(c, name)[::-1] for name in named})


def after_core(v: View) -> tuple[Node, ...]:
    """The nodes that are fused after the core."""
    return v.node.body[v.node.body.index(v.core) + 1 :] if v.node.body else ()


def is_relu(node: Node) -> bool:
    """Whether a node cuts its only input off at zero."""
    limits = record(node).limits
    return limits is not None and len(node.inputs) == 1 and limits([None]) == (0.0, math.inf)


def residual(v: View) -> Residual | None:
    """What all nodes after the core are, for kernels that have it in vectors; None if it is another
    epilogue."""
    core, pair = v.core.outputs[0], in_integers(v.graph, after_core(v))
    if pair is None or not isinstance(pair.t, Sum) or core not in pair.inputs:
        return None
    first, s = pair.inputs[0] == core, pair.t
    other = pair.inputs[1 if first else 0]
    if v.type(other).dtype.name != "int8" or operand_kind(v.type(other), v.out) != "linear":
        return None
    s = s if first else Sum(s.n, s.m, s.add)
    return Residual(tensor_operand(v.graph, f"{FUSED}0", other), s, pair.result)


@frozen
class Walk:
    """The order of pixels: blocks of `rows`, each read whole, then written.

    An output that grows faster than the input is read goes from its end to its beginning. `direct`:
    there is one pixel at a time, which is read where it is instead of being gathered into
    `columns`.
    """

    rows: int
    backwards: bool
    descends: bool  # backwards, and there is more than one block
    direct: bool
    columns: Operand  # scratch
    overlap: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of a Kernel

    @staticmethod
    def in_place() -> Walk:
        """Of one pixel, however short."""
        return Walk(1, False, False, True, Operand("columns", "int8_t", "scratch"))

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
    direct = rows == 1 and c.dense and column == c.depth and not columns.local
    backwards = c.oc * c.pixels > c.ic * c.inputs[0] * c.inputs[1] * c.batch
    starts = np.arange(rows, c.pixels, rows)
    overlap = {} if direct else overlaps(c, others, distances(c, starts, backwards))
    return Walk(rows, backwards, backwards and c.pixels > rows, direct, columns, overlap)


def overlaps(
    c: Contraction, others: Sequence[Operand], reach: tuple[int, int]
) -> Mapping[str, tuple[int, int]]:
    """A Kernel's `overlap`: at the distances `reach`, unless the store reads the input again."""
    read = c.v.core.inputs[0]
    return {} if any(o.value == read for o in others) else {read: reach}


class Finish(Protocol):
    """What becomes of sums: a Store, or a form of it in vectors."""

    @property
    def operands(self) -> Sequence[Operand]: ...
    @property
    def includes(self) -> tuple[str, ...]: ...
    @property
    def inplace(self) -> tuple[str, ...]: ...
    @property
    def lanes(self) -> int: ...


@frozen
class Tile:
    """One way to compute a contraction: how its weights are packed (`constants`), where windows are
    gathered (`scratch`), in which order (`walk`, if `overlap` does not say it), and the finish.

    The template has the products. It reads the geometry, the walk and `params`.
    """

    name: str
    template: str
    c: Contraction
    constants: Sequence[Operand]
    scratch: Sequence[Operand]
    finish: Finish
    params: Mapping[str, Any]
    cost: float
    header: str  # or several, apart by spaces
    walk: Walk | None = None
    overlap: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    overtakes: bool = False  # no output lands where the input is still to be read
    small: int = 0  # for few code bytes, and for layers that share it: see Kernel.compact

    @property
    def kernel(self) -> Kernel:
        v, order, finish = self.c.v, self.walk, self.finish
        walked = {"direct": order.direct, "backwards": order.descends} if order else {}
        x = tensor_operand(v.graph, "x", v.core.inputs[0])
        y = Operand("y", v.out.dtype.c, "out", v.node.outputs[0])
        alone = all(o.role == "const" for o in finish.operands)  # nothing else is read late
        over = (v.core.inputs[0],) if self.overtakes and alone else ()
        return Kernel(
            self.name,
            self.template,
            {**geometry(self.c), "finish": finish, **walked, **self.params},
            (x, *self.constants, *finish.operands, y, *self.scratch),
            cost=self.cost,
            compact=self.small,
            macs=self.c.macs,
            lanes=finish.lanes,
            includes=("mlf/kernel.h", *self.header.split(), *finish.includes),
            inplace=(*finish.inplace, *over),
            overlap=order.overlap if order else self.overlap,
            parametric=bool(self.small),
        )


def constants(**arrays: Array) -> tuple[Operand, ...]:
    """Constant parameters by their names."""
    return tuple(Operand(name, of(a).c, "const", array=a) for name, a in arrays.items())


def bias_of(c: Contraction, q: Quantisation, multiple: int = 1) -> Array:
    """int32 [output channel]: biases that make up for the input's zero point."""
    return pad_rows(folded_bias(c, q).astype(np.int32), multiple)


def scale_of(q: Quantisation, multiple: int = 1) -> Array:
    return q.factor if q.factor.size == 1 else pad_rows(q.factor, multiple)


def distances(c: Contraction, starts: Array, backwards: bool) -> tuple[int, int]:
    """The distances in bytes from the output to the input at which no block of pixels, which is
    read whole and then written, destroys what a later one reads. The blocks but the first start at
    pixels `starts`. Outputs may be wider than inputs, as floats are."""
    at, written, far = _places(c, last=backwards)
    taken = c.ic * c.v.x(0).dtype.bytes
    if backwards:
        read = np.maximum.accumulate((at + 1) * taken)[starts - 1]
        return -far, int((starts * written - read).min(initial=far))
    read = np.minimum.accumulate((at * taken)[::-1])[::-1][starts]
    return int((starts * written - read).max(initial=-far)), far


def distances_while_reading(c: Contraction) -> tuple[int, int]:
    """The same for a kernel that goes forward and writes a pixel before it has read all of it."""
    at, written, far = _places(c, last=False)
    read = np.minimum.accumulate((at * c.ic * c.v.x(0).dtype.bytes)[::-1])[::-1]
    return int((np.arange(1, c.pixels + 1) * written - read).max()), far


def _places(c: Contraction, last: bool) -> tuple[Array, int, int]:
    """The first or last input pixel that each output pixel reads, the bytes of an output pixel, and
    a distance at which nothing overlaps."""
    (ih, iw), (oh, ow) = c.inputs, c.outputs
    y, x = (_ends(c, axis, last) for axis in (0, 1))
    at = (np.arange(c.batch)[:, None, None] * ih * iw + y[:, None] * iw + x).reshape(-1)
    written = c.oc * c.v.out.dtype.bytes
    read = c.ic * c.v.x(0).dtype.bytes
    return at, written, (c.batch * (ih * iw * read + oh * ow * written)) * 2


def _ends(c: Contraction, axis: int, last: bool) -> Array:
    """The first or last position inside the input that each window of an axis reads."""
    n, d = c.inputs[axis], c.dilations[axis]
    at = np.arange(c.outputs[axis]) * c.strides[axis] - c.pads[axis]
    if last:
        at = at + (c.kernel[axis] - 1) * d
        return np.clip(np.where(at >= n, at - -(-(at - n + 1) // d) * d, at), 0, n - 1)
    return np.clip(np.where(at < 0, at % d, at), 0, n - 1)
