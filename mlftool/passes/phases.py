"""A transposed convolution is a convolution that makes several output pixels at once.

    %y = ConvTranspose(%x, w), stride 2     =>    %t = Conv(%x, w'), four times the channels
                                                  %y = Reshape(Transpose(Reshape(%t)))

Output pixels whose place is the same modulo the stride, a phase, gather the same taps of the kernel
from the pixels around theirs. So all phases are channels of one convolution, which every target has
kernels for, and moving them to their places costs a copy. Where a phase has fewer taps than others
its weights are filled with zeros, or with their zero point. In groups, depthwise ones most often,
each phase is a convolution of its own, as the kernels of depthwise layers have no phases, and one
more copy puts them side by side. Sums of integers stay what they are; sums of floats meet their
products in the opposite order of kernel positions, on every target.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import product

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node, TensorType, View
from mlftool.ops.base import Contracts, contracts
from mlftool.ops.contraction import Contraction, Quantisation, packable, shape_of
from mlftool.passes.order import rewrite

MOST_GROWTH = 2  # times the weights that zeros may make of them


@frozen
class _Axis:
    """One spatial axis. Input pixel q + offset meets output pixel stride * q + phase - lead, so the
    first `lead` of what the convolution makes are no pixels of the output. `only`: one phase, in
    place of all."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    pad: int
    lead: int = 0
    only: int | None = None

    @property
    def phases(self) -> range:
        return range(self.stride) if self.only is None else range(self.only, self.only + 1)

    @property
    def taps(self) -> list[int]:
        """Of the kernel, those of its phases."""
        return [tap for tap in range(self.kernel) if self.place(tap)[0] in self.phases]

    def place(self, tap: int) -> tuple[int, int]:
        """The phase that a tap of the kernel is of, and its offset."""
        pad = self.pad - self.lead
        phase = (tap - pad) % self.stride
        return phase, (phase + pad - tap) // self.stride

    @cached_property
    def offsets(self) -> tuple[int, int]:
        """The least and the greatest."""
        all_ = [self.place(tap)[1] for tap in self.taps]
        return min(all_), max(all_)

    @property
    def window(self) -> int:
        low, high = self.offsets
        return high - low + 1

    @property
    def steps(self) -> int:
        """How many q there are."""
        return -(-(self.outputs + self.lead) // self.stride)

    @property
    def pads(self) -> tuple[int, int]:
        """Around the input, so that there is one window for each q."""
        low, high = self.offsets
        return -low, self.steps + high - self.inputs


@rewrite(after="fold_moved_constants", level=2)
def split_transposed(graph: Graph) -> Graph:
    """Transposed convolutions of channels-last data with known weights become convolutions."""
    e = Editor(graph)
    for node in list(e.nodes):
        v, operands = View(graph, node), contracts(node)
        if operands is None or not operands.forward or not packable(v):
            continue
        if v.x(0).dtype.name in ("float32", *_BYTES):
            c = shape_of(v)
            axes = _axes(c)
            parts = [axes] if c.group == 1 else _apart(axes)
            if _fits(c, axes) and all(_is_part(c, part) for part in parts):
                _replace(e, node, operands, c, parts)
    return e.finish()


_BYTES = ("int8", "uint8")


def _axes(c: Contraction) -> list[_Axis]:
    """Where all phases begin at one tap no place of a window stays empty; it may take a lead."""
    numbers = (c.inputs, c.outputs, c.kernel, c.strides, c.pads)
    plain = [_Axis(*row) for row in zip(*numbers, strict=True)]
    return [min(a, replace(a, lead=a.pad % a.stride), key=lambda a: a.window) for a in plain]


def _apart(axes: list[_Axis]) -> list[list[_Axis]]:
    """Those of each phase, in the order in which they are channels."""
    phases = product(*(a.phases for a in axes))
    return [[replace(a, only=k) for a, k in zip(axes, at, strict=True)] for at in phases]


def _fits(c: Contraction, axes: list[_Axis]) -> bool:
    if any(d != 1 for d in c.dilations) or len(axes) > 2:
        return False
    return not (c.quantised and c.v.y.dtype.is_float)  # a whole tensor of floats would be moved


def _is_part(c: Contraction, axes: list[_Axis]) -> bool:
    """Whether phases are a convolution whose weights are not mostly zeros."""
    if not all(a.taps for a in axes) or any(min(a.pads) < 0 for a in axes):
        return False
    growth = math.prod(a.window * len(a.phases) / len(a.taps) for a in axes)
    # A zero weight is no product of floats left out: infinity times zero is no number.
    return growth <= (MOST_GROWTH if c.quantised else 1)


def _weights(c: Contraction, axes: list[_Axis]) -> Array:
    """[phases, OC, *window, IC] as ONNX has a convolution's: [phases * OC, IC, *window]."""
    w = c.weights
    windows = [a.window for a in axes]
    spread = np.zeros((*(len(a.phases) for a in axes), c.oc, *windows, w.shape[-1]), w.dtype)
    if c.quantised:  # what stands for zero
        zeros = Quantisation.of(c.v).w_zero_point
        spread += zeros.reshape(-1, *(1,) * (len(windows) + 1)).astype(w.dtype)
    for taps in product(*(a.taps for a in axes)):
        places = [a.place(tap) for a, tap in zip(axes, taps, strict=True)]
        at = [offset - a.offsets[0] for a, (_, offset) in zip(axes, places, strict=True)]
        phase = (k - a.phases.start for a, (k, _) in zip(axes, places, strict=True))
        every: tuple[int | slice, ...] = (slice(None),)
        to = (*phase, *every, *at)
        spread[to] = w[(*every, *taps)]
    flat = spread.reshape(-1, *windows, w.shape[-1])
    return np.ascontiguousarray(np.moveaxis(flat, -1, 1))


def _replace(
    e: Editor, node: Node, operands: Contracts, c: Contraction, parts: list[list[_Axis]]
) -> None:
    axes, made = parts[0], [_convolution(e, node, operands, c, part) for part in parts]
    if math.prod(a.stride for a in axes) == 1:
        e.substitute([node], made)
    else:
        e.substitute([node], _moved(e, made, c, axes))


def _convolution(
    e: Editor, node: Node, operands: Contracts, c: Contraction, axes: list[_Axis]
) -> Node:
    """Of some phases, whose output is that of `node` until it gets one of its own."""
    phases, place = math.prod(len(a.phases) for a in axes), operands.weights
    inputs = list(node.inputs)
    inputs[place] = e.const(inputs[place] + ".phases", _weights(c, axes))
    for i in operands.per_channel:
        if phases > 1 and i < len(inputs) and inputs[i] and e.consts[inputs[i]].size > 1:
            values = np.tile(e.consts[inputs[i]].reshape(-1), phases)
            inputs[i] = e.const(inputs[i] + ".phases", values)
    attrs = {k: a for k, a in node.attrs.items() if k not in ("output_padding", "output_shape")}
    attrs |= {
        "kernel_shape": tuple(a.window for a in axes),
        "pads": (*(a.pads[0] for a in axes), *(a.pads[1] for a in axes)),
        "strides": (1,) * len(axes),
    }
    return replace(node, op=operands.forward, inputs=tuple(inputs), attrs=attrs)


def _moved(e: Editor, convs: list[Node], c: Contraction, axes: list[_Axis]) -> list[Node]:
    """The convolutions, and their phases from [.., Q, P, sq, sp, OC] to [.., Q, sq, P, sp, OC]."""
    (y,), n, conv = convs[0].outputs, len(axes), convs[0]
    dtype = e.types[y].dtype
    strides, steps = [a.stride for a in axes], [a.steps for a in axes]

    def fresh(what: str, *shape: int) -> str:
        return e.fresh(f"{y}.{what}", TensorType(dtype, (c.batch, *shape)))

    packed = fresh("phases", *steps, math.prod(strides) * c.oc)
    first = [replace(conv, outputs=(packed,))]
    if len(convs) > 1:
        alone = [replace(k, outputs=(fresh("phase", *steps, c.oc),)) for k in convs]
        made = [k.outputs[0] for k in alone]
        first = [*alone, e.add("Concat", made, conv, packed, {"axis": 1 + n})]
    apart = fresh("apart", *steps, *strides, c.oc)
    order = [axis for k in range(n) for axis in (1 + k, 1 + n + k)]
    pairs = [extent for a in axes for extent in (a.steps, a.stride)]
    placed = fresh("placed", *pairs, c.oc)
    cut = any(a.steps * a.stride != a.outputs for a in axes)
    joined = fresh("joined", *(a.steps * a.stride for a in axes), c.oc) if cut else y
    return [
        *first,
        e.add("Reshape", (packed,), conv, apart),
        e.add("Transpose", (apart,), conv, placed, {"perm": [0, *order, 1 + 2 * n]}),
        e.add("Reshape", (placed,), conv, joined),
        *([_cut(e, conv, joined, y, axes)] if cut else []),
    ]


def _cut(e: Editor, conv: Node, joined: str, y: str, axes: list[_Axis]) -> Node:
    numbers = {
        "starts": [a.lead for a in axes],
        "ends": [a.lead + a.outputs for a in axes],
        "axes": list(range(1, 1 + len(axes))),
    }
    where = (e.const(f"{y}.{k}", np.asarray(v, np.int64)) for k, v in numbers.items())
    return e.add("Slice", (joined, *where), conv, y)
