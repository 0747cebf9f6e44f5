"""Old spellings of operators, brought to the newest one we know, once.

Each entry is (operator, first opset of the new spelling, function on the node's parts). Later
stages only ever see the current form: attributes that became inputs are inputs, changed defaults
are spelt out, and derived attributes (`auto_pad`, `kernel_shape`) are resolved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlftool.importer.spatial import SPATIAL_RESOLVERS, old_resize, old_roi_align, upsample
from mlftool.ir.dtype import float32
from mlftool.ir.graph import Array, TensorType


@dataclass
class Draft:
    """A node on its way in. `add_const(hint, value)` makes a new constant and returns its name."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]
    types: Sequence[TensorType | None]
    out_types: Sequence[TensorType]
    add_const: Callable[[str, Array], str]
    emit: Callable[[str, str, TensorType], str] = lambda op, x, type_: x  # a node before this one
    set_const: Callable[[str, Array], None] = lambda name, value: (
        None
    )  # for an output that is known
    values: Sequence[Array | None] = ()  # of inputs that are known
    out_shape: tuple[int, ...] = ()  # of every output, where inference is known to be wrong


def modernise(draft: Draft, opset: int) -> None:
    """Rewrite `draft`, written for `opset` of the default domain, into the current spelling."""
    for name, since, change in CHANGES:
        if name == draft.op and opset < since:
            change(draft)
    if draft.op in RESOLVERS:
        RESOLVERS[draft.op](draft)


def _attr_to_input(attr: str, position: int, dtype: str = "int64") -> Callable[[Draft], None]:
    def change(d: Draft) -> None:
        if attr in d.attrs and len(d.inputs) <= position:
            value = np.asarray(d.attrs.pop(attr), dtype)
            d.inputs += [""] * (position - len(d.inputs))
            d.inputs.append(d.add_const(attr, value))

    return change


def _clip(d: Draft) -> None:
    row = d.types[0].dtype if d.types[0] is not None else float32
    for name in ("min", "max"):
        bound = d.attrs.pop(name, None)
        d.inputs.append("" if bound is None else d.add_const(name, np.array(bound, row.numpy)))


def _one_sided_broadcast(d: Draft) -> None:
    """Before 7 the second operand alone was repeated, its first axis standing at `axis`."""
    x, y = d.types[0], d.types[1]
    axis = d.attrs.pop("axis", None)
    d.attrs.pop("broadcast", None)
    if axis is None or x is None or y is None:
        return
    after = len(x.shape) - axis % len(x.shape) - len(y.shape)
    d.inputs[1] = d.emit("Reshape", d.inputs[1], TensorType(y.dtype, y.shape + (1,) * after))


def _slope_per_channel(d: Draft) -> None:
    """Before 7 a vector of slopes went along the channels, axis 1."""
    x, slope = d.types[0], d.types[1]
    if x is None or slope is None or len(slope.shape) != 1 or slope.shape == (1,):
        return
    shape = slope.shape + (1,) * (len(x.shape) - 2)
    d.inputs[1] = d.emit("Reshape", d.inputs[1], TensorType(slope.dtype, shape))


def _dropout(d: Draft) -> None:
    """Nothing is dropped outside of training; the mask is all true, in old opsets all 1."""
    x = d.types[0]
    if len(d.outputs) > 1 and d.outputs[1] and x is not None:
        mask = d.out_types[1]
        d.set_const(d.outputs[1], np.ones(x.shape, mask.dtype.numpy))
    d.inputs, d.outputs = d.inputs[:1], d.outputs[:1]
    d.op, d.attrs = "Identity", {}


def _cast(d: Draft) -> None:
    """Also CastLike, and the types that were spelt out before 6."""
    d.op, d.inputs = "Cast", d.inputs[:1]
    d.attrs["to"] = d.out_types[0].dtype.onnx


def _float_zero_point(d: Draft) -> None:
    """The zero points of narrow floats are zero, or count for nothing."""
    quantised = d.out_types[0] if d.op == "QuantizeLinear" else d.types[0]
    name = quantised.dtype.name if quantised is not None else ""
    if name.startswith("float8") or (name.startswith("float4") and d.op == "DequantizeLinear"):
        d.inputs = d.inputs[:2]


def _softmax(d: Draft) -> None:
    """Before 13 Softmax flattened to 2-D at `axis` (default 1); equal when axis is the last."""
    type_ = d.types[0]
    axis = d.attrs.get("axis", 1)
    if type_ is not None and axis < 0:
        axis += len(type_.shape)
    d.attrs["axis"] = axis
    if type_ is not None and math.prod(type_.shape[axis:]) == type_.shape[axis]:
        return
    d.attrs["mlf.flattened"] = 1


def _pad(d: Draft) -> None:
    """Pads were an attribute, of another name in the first opset, and so was the value."""
    row = d.types[0].dtype if d.types[0] is not None else float32
    pads = d.attrs.pop("pads", None) or d.attrs.pop("paddings", [])
    value = np.array(d.attrs.pop("value", 0.0), row.numpy)
    d.inputs += [d.add_const("pads", np.array(pads, np.int64)), d.add_const("value", value)]


def _scatter(d: Draft) -> None:
    """The first name of ScatterElements."""
    d.op = "ScatterElements"


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
CHANGES: tuple[tuple[str, int, Callable[[Draft], None]], ...] = (
    ("Clip", 11, _clip),
    ("PRelu", 7, _slope_per_channel),
    *((op, 7, _one_sided_broadcast) for op in ("Add", "Sub", "Mul", "Div", "Pow")),
    *((op, 7, _one_sided_broadcast) for op in ("And", "Or", "Xor", "Equal", "Less", "Greater")),
    ("Squeeze", 13, _attr_to_input("axes", 1)),
    ("Unsqueeze", 13, _attr_to_input("axes", 1)),
    *((op, 13, _softmax) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    ("Pad", 11, _pad),
    *(("Slice", 10, _attr_to_input(a, k + 1)) for k, a in enumerate(("starts", "ends", "axes"))),
    ("Split", 13, _attr_to_input("split", 1)),
    ("TopK", 10, _attr_to_input("k", 1)),
    ("ReduceSum", 13, _attr_to_input("axes", 1)),
    *((f"Reduce{op}", 18, _attr_to_input("axes", 1)) for op in REDUCTIONS),
    ("Scatter", 99, _scatter),
    ("Reshape", 5, _attr_to_input("shape", 1)),
    ("Resize", 11, old_resize),
    ("Upsample", 99, upsample),
    ("RoiAlign", 16, old_roi_align),
)


def _window(d: Draft) -> None:
    """Spell out kernel_shape, strides, dilations and pads; global pooling becomes pooling."""
    type_ = d.types[0]
    if type_ is None:
        return
    spatial = type_.shape[2:]
    if d.op.startswith("Global"):
        d.op = d.op.removeprefix("Global")
        d.attrs["kernel_shape"] = list(spatial)
    weights = d.types[3 if d.op == "QLinearConv" else 1] if "Conv" in d.op else None
    kernel = d.attrs.get("kernel_shape") or (list(weights.shape[2:]) if weights else [])
    strides = d.attrs.get("strides") or [1] * len(spatial)
    dilations = d.attrs.get("dilations") or [1] * len(spatial)
    pads = d.attrs.get("pads") or [0] * (2 * len(spatial))
    auto_pad = d.attrs.pop("auto_pad", "NOTSET")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max(0, (-(-n // s) - 1) * s + (k - 1) * dl + 1 - n)
            for n, s, k, dl in zip(spatial, strides, kernel, dilations, strict=True)
        ]
        small = [t // 2 for t in totals]
        large = [t - t // 2 for t in totals]
        pads = small + large if auto_pad == "SAME_UPPER" else large + small
    d.attrs.update(kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads)
    if d.attrs.pop("ceil_mode", 0) and auto_pad == "NOTSET":
        d.out_shape = (*type_.shape[:2], *_rounded_up(spatial, kernel, strides, dilations, pads))
    if len(d.outputs) < 2:  # it is the order in which the second output counts
        d.attrs.pop("storage_order", None)


def _rounded_up(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> list[int]:
    """Extents of a pool with ceil_mode. A window that would start past the input and its leading
    padding is dropped; onnx's own inference keeps it."""
    out = []
    for k, n in enumerate(spatial):
        begin, end = pads[k], pads[k + len(spatial)]
        rest = n + begin + end - (kernel[k] - 1) * dilations[k] - 1
        windows = -(-rest // strides[k]) + 1
        out.append(windows - ((windows - 1) * strides[k] >= n + begin))
    return out


def _transpose(d: Draft) -> None:
    if d.types[0] is not None and "perm" not in d.attrs:
        d.attrs["perm"] = list(reversed(range(len(d.types[0].shape))))


RESOLVERS: dict[str, Callable[[Draft], None]] = {
    name: _window
    for name in (
        "Conv",
        "QLinearConv",
        "ConvInteger",
        "MaxPool",
        "AveragePool",
        "GlobalMaxPool",
        "GlobalAveragePool",
        "LpPool",
        "GlobalLpPool",
    )
}
RESOLVERS |= SPATIAL_RESOLVERS
RESOLVERS |= {"Transpose": _transpose, "Dropout": _dropout, "Cast": _cast, "CastLike": _cast}
RESOLVERS |= {op: _float_zero_point for op in ("QuantizeLinear", "DequantizeLinear")}
