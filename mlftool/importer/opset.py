"""Old spellings of operators, brought to the newest one we know, once.

Of each operator there is a function that changes a node's parts in place. Later stages only ever
see the current form: attributes that became inputs are inputs, changed defaults
are spelt out, and derived attributes (`auto_pad`, `kernel_shape`) are resolved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mlftool.importer.spatial import SPATIAL_RESOLVERS, old_resize, old_roi_align, upsample
from mlftool.ir.dtype import float32
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.draft import Change, Draft
from mlftool.onnx_rules.scope import Scope


def modernise(scope: Scope, draft: Draft) -> None:
    """Rewrite `draft`, written for the scope's opset, into the current spelling."""
    CHANGES.get(draft.op, _as_it_is)(scope, draft)
    RESOLVERS.get(draft.op, _as_it_is)(scope, draft)


def _as_it_is(scope: Scope, d: Draft) -> None:
    pass


def _before(opset: int, *changes: Change) -> Change:
    """`changes` where the model's opset is older."""

    def change(scope: Scope, d: Draft) -> None:
        for each in changes if scope.opsets[""] < opset else ():
            each(scope, d)

    return change


def _attr_to_input(attr: str, position: int, dtype: str = "int64") -> Change:
    def change(scope: Scope, d: Draft) -> None:
        if attr in d.attrs and len(d.inputs) <= position:
            value = np.asarray(d.attrs.pop(attr), dtype)
            d.inputs += [""] * (position - len(d.inputs))
            d.inputs.append(d.constant(scope, attr, value))

    return change


def _clip(scope: Scope, d: Draft) -> None:
    row = d.types[0].dtype if d.types[0] is not None else float32
    for name in ("min", "max"):
        bound = d.attrs.pop(name, None)
        d.inputs.append(
            "" if bound is None else d.constant(scope, name, np.array(bound, row.numpy))
        )


def _one_sided_broadcast(scope: Scope, d: Draft) -> None:
    """Before 7 the second operand alone was repeated, its first axis standing at `axis`."""
    x, y = d.types[0], d.types[1]
    axis = d.attrs.pop("axis", None)
    d.attrs.pop("broadcast", None)
    if axis is None or x is None or y is None:
        return
    after = len(x.shape) - axis % len(x.shape) - len(y.shape)
    d.inputs[1] = d.reshaped(scope, d.inputs[1], TensorType(y.dtype, y.shape + (1,) * after))


def _slope_per_channel(scope: Scope, d: Draft) -> None:
    """Before 7 a vector of slopes went along the channels, axis 1."""
    x, slope = d.types[0], d.types[1]
    if x is None or slope is None or len(slope.shape) != 1 or slope.shape == (1,):
        return
    shape = slope.shape + (1,) * (len(x.shape) - 2)
    d.inputs[1] = d.reshaped(scope, d.inputs[1], TensorType(slope.dtype, shape))


def _dropout(scope: Scope, d: Draft) -> None:
    """Nothing is dropped outside of training; the mask is all true, in old opsets all 1."""
    x = d.types[0]
    if len(d.outputs) > 1 and d.outputs[1] and x is not None:
        mask = d.out_types[1]
        scope.add_const(d.outputs[1], np.ones(x.shape, mask.dtype.numpy))
    d.inputs, d.outputs = d.inputs[:1], d.outputs[:1]
    d.op, d.attrs = "Identity", {}


def _cast(scope: Scope, d: Draft) -> None:
    """Also CastLike, and the types that were spelt out before 6."""
    d.op, d.inputs = "Cast", d.inputs[:1]
    d.attrs["to"] = d.out_types[0].dtype.onnx


def _float_zero_point(scope: Scope, d: Draft) -> None:
    """The zero points of narrow floats are zero, or count for nothing."""
    quantised = d.out_types[0] if d.op == "QuantizeLinear" else d.types[0]
    name = quantised.dtype.name if quantised is not None else ""
    if name.startswith("float8") or (name.startswith("float4") and d.op == "DequantizeLinear"):
        d.inputs = d.inputs[:2]


def _softmax(scope: Scope, d: Draft) -> None:
    """Before 13 Softmax flattened to 2-D at `axis` (default 1); equal when axis is the last."""
    type_ = d.types[0]
    axis = d.attrs.get("axis", 1)
    if type_ is not None and axis < 0:
        axis += len(type_.shape)
    d.attrs["axis"] = axis
    if type_ is not None and math.prod(type_.shape[axis:]) == type_.shape[axis]:
        return
    d.attrs["mlf.flattened"] = 1


def _pad(scope: Scope, d: Draft) -> None:
    """Pads were an attribute, of another name in the first opset, and so was the value."""
    row = d.types[0].dtype if d.types[0] is not None else float32
    pads = d.attrs.pop("pads", None) or d.attrs.pop("paddings", [])
    value = np.array(d.attrs.pop("value", 0.0), row.numpy)
    d.inputs += [
        d.constant(scope, "pads", np.array(pads, np.int64)),
        d.constant(scope, "value", value),
    ]


def _scatter(scope: Scope, d: Draft) -> None:
    """The first name of ScatterElements."""
    d.op = "ScatterElements"


ONE_SIDED = (*("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater"),)
REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSumSquare"),
)
CHANGES: Mapping[str, Change] = {
    "Clip": _before(11, _clip),
    "PRelu": _before(7, _slope_per_channel),
    **dict.fromkeys(ONE_SIDED, _before(7, _one_sided_broadcast)),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), _before(13, _attr_to_input("axes", 1))),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _before(13, _softmax)),
    "Pad": _before(11, _pad),
    "Slice": _before(
        10, *(_attr_to_input(a, k + 1) for k, a in enumerate(("starts", "ends", "axes")))
    ),
    "Split": _before(13, _attr_to_input("split", 1)),
    "TopK": _before(10, _attr_to_input("k", 1)),
    "ReduceSum": _before(13, _attr_to_input("axes", 1)),
    **dict.fromkeys(REDUCTIONS, _before(18, _attr_to_input("axes", 1))),
    "Scatter": _scatter,
    "Reshape": _before(5, _attr_to_input("shape", 1)),
    "Resize": _before(11, old_resize),
    "Upsample": upsample,
    "RoiAlign": _before(16, old_roi_align),
}


def _window(scope: Scope, d: Draft) -> None:
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


def _transpose(scope: Scope, d: Draft) -> None:
    if d.types[0] is not None and "perm" not in d.attrs:
        d.attrs["perm"] = list(reversed(range(len(d.types[0].shape))))


POOLS = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "LpPool", "GlobalLpPool")
RESOLVERS: Mapping[str, Change] = {
    **dict.fromkeys(("Conv", "QLinearConv", "ConvInteger", *POOLS), _window),
    **SPATIAL_RESOLVERS,
    "Transpose": _transpose,
    "Dropout": _dropout,
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _float_zero_point),
}
