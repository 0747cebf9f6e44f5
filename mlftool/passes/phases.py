"""A transposed convolution is a convolution that makes several output pixels at once.

    %y = ConvTranspose(%x, w), stride 2     =>    %t = Conv(%x, w'), four times the channels
                                                  %y = Reshape(Transpose(Reshape(%t)))

Output pixels whose place is the same modulo the stride, a phase, gather the same taps of the kernel
from the pixels around theirs. So all phases are channels of one convolution, which every target has
kernels for, and moving them to their places costs a copy. Where a phase has fewer taps than others
its weights are filled with zeros, or with their zero point. Sums of integers stay what they are;
sums of floats meet their products in the opposite order of kernel positions, on every target.
"""

from __future__ import annotations

import math
from functools import cached_property

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
    first `lead` of what the convolution makes are no pixels of the output."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    pad: int
    lead: int = 0

    def place(self, tap: int) -> tuple[int, int]:
        """The phase that a tap of the kernel is of, and its offset."""
        pad = self.pad - self.lead
        phase = (tap - pad) % self.stride
        return phase, (phase + pad - tap) // self.stride

    @cached_property
    def offsets(self) -> tuple[int, int]:
        """The least and the greatest."""
        all_ = [self.place(tap)[1] for tap in range(self.kernel)]
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
            if _fits(c, axes):
                _replace(e, node, operands, c, axes)
    return e.finish()


_BYTES = ("int8", "uint8")


def _axes(c: Contraction) -> list[_Axis]:
    """Where all phases begin at one tap no place of a window stays empty; it may take a lead."""
    numbers = (c.inputs, c.outputs, c.kernel, c.strides, c.pads)
    plain = [_Axis(*row) for row in zip(*numbers, strict=True)]
    return [min(a, replace(a, lead=a.pad % a.stride), key=lambda a: a.window) for a in plain]


def _fits(c: Contraction, axes: list[_Axis]) -> bool:
    if c.group != 1 or any(d != 1 for d in c.dilations) or len(axes) > 2:
        return False
    if any(min(a.pads) < 0 for a in axes):
        return False
    if c.quantised and c.v.y.dtype.is_float:
        return False  # a whole tensor of floats would be moved
    growth = math.prod(a.window * a.stride for a in axes) / math.prod(c.kernel)
    # A zero weight is no product of floats left out: infinity times zero is no number.
    return growth <= (MOST_GROWTH if c.quantised else 1)


def _weights(c: Contraction, axes: list[_Axis]) -> Array:
    """[phases, OC, *window, IC] as ONNX has a convolution's: [phases * OC, IC, *window]."""
    w, phases = c.weights, [a.stride for a in axes]
    windows = [a.window for a in axes]
    spread = np.zeros((*phases, c.oc, *windows, c.ic), w.dtype)
    if c.quantised:  # what stands for zero
        zeros = Quantisation.of(c.v).w_zero_point
        spread += zeros.reshape(-1, *(1,) * (len(windows) + 1)).astype(w.dtype)
    for taps in np.ndindex(*c.kernel):
        places = [a.place(tap) for a, tap in zip(axes, taps, strict=True)]
        at = [offset - a.offsets[0] for a, (_, offset) in zip(axes, places, strict=True)]
        to: tuple[int | slice, ...] = (*(phase for phase, _ in places), slice(None), *at)
        spread[to] = w[(slice(None), *taps)]
    flat = spread.reshape(-1, *windows, c.ic)
    return np.ascontiguousarray(np.moveaxis(flat, -1, 1))


def _replace(e: Editor, node: Node, operands: Contracts, c: Contraction, axes: list[_Axis]) -> None:
    phases, place = math.prod(a.stride for a in axes), operands.weights
    inputs = list(node.inputs)
    inputs[place] = e.const(inputs[place] + ".phases", _weights(c, axes))
    for i in operands.per_channel:
        if i < len(inputs) and inputs[i] and e.consts[inputs[i]].size > 1:
            values = np.tile(e.consts[inputs[i]].reshape(-1), phases)
            inputs[i] = e.const(inputs[i] + ".phases", values)
    attrs = {k: a for k, a in node.attrs.items() if k not in ("output_padding", "output_shape")}
    attrs |= {
        "kernel_shape": tuple(a.window for a in axes),
        "pads": (*(a.pads[0] for a in axes), *(a.pads[1] for a in axes)),
        "strides": (1,) * len(axes),
    }
    made = replace(node, op=operands.forward, inputs=tuple(inputs), attrs=attrs)
    e.substitute([node], [made] if phases == 1 else _moved(e, made, c, axes))


def _moved(e: Editor, conv: Node, c: Contraction, axes: list[_Axis]) -> list[Node]:
    """The convolution, and its phases from [.., Q, P, sq, sp, OC] to [.., Q, sq, P, sp, OC]."""
    (y,), n = conv.outputs, len(axes)
    dtype = e.types[y].dtype
    strides, steps = [a.stride for a in axes], [a.steps for a in axes]

    def fresh(what: str, *shape: int) -> str:
        return e.fresh(f"{y}.{what}", TensorType(dtype, (c.batch, *shape)))

    packed = fresh("phases", *steps, math.prod(strides) * c.oc)
    apart = fresh("apart", *steps, *strides, c.oc)
    order = [axis for k in range(n) for axis in (1 + k, 1 + n + k)]
    pairs = [extent for a in axes for extent in (a.steps, a.stride)]
    placed = fresh("placed", *pairs, c.oc)
    cut = any(a.steps * a.stride != a.outputs for a in axes)
    joined = fresh("joined", *(a.steps * a.stride for a in axes), c.oc) if cut else y
    return [
        replace(conv, outputs=(packed,)),
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
