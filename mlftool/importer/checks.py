"""What the standard demands of a node and its own shape inference does not check.

Each check returns what is wrong with a node's facts, or "". They run before old spellings are
modernised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.importer.protos import attributes, op_name, plain
from mlftool.importer.ranks import unfit
from mlftool.importer.scope import Next, Outcome, Refuse, Rule, Scope
from mlftool.ir.graph import Array, TensorType
from mlftool.ops import Trait, has

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class Facts:
    """A typed node. Inputs that were left out are None."""

    op: str
    attrs: Mapping[str, Any]
    inputs: Sequence[TensorType | None]
    values: Sequence[Array | None]  # of inputs known at compile time
    output: TensorType

    def shape(self, i: int) -> tuple[int, ...] | None:
        type_ = self.inputs[i] if i < len(self.inputs) else None
        return None if type_ is None else type_.shape


def facts(scope: Scope, node: NodeProto) -> Facts:
    attrs = {name: plain(value) for name, value in attributes(node).items()}
    types = [scope.types.get(n) for n in node.input]
    values = [scope.consts.get(n) for n in node.input]
    first = next(filter(None, node.output))
    return Facts(op_name(node), attrs, types, values, scope.types[first])


def checked(scope: Scope, node: NodeProto) -> Outcome:
    """Refuse a typed node that the standard does not allow."""
    f = facts(scope, node)
    if has(f.op, Trait.VIEW) and f.inputs[0] is not None:
        have, want = f.inputs[0].elements, f.output.elements
        if have != want:
            text = f"{have} elements do not fill its output {f.output}, which has {want}"
            return Refuse("MLF0303", text)
    if found := unfit(f.op, f.attrs, f.inputs, f.output):
        return Refuse("MLF0303", found)
    return CHECKS[f.op](scope, node) if f.op in CHECKS else Next(node)


def _all(*checks: Callable[[Facts], str]) -> Rule:
    def rule(scope: Scope, node: NodeProto) -> Outcome:
        f = facts(scope, node)
        found = next(filter(None, (check(f) for check in checks)), "")
        return Refuse("MLF0303", found) if found else Next(node)

    return rule


def _auto_pad(f: Facts) -> str:
    mode = f.attrs.get("auto_pad", "NOTSET")
    return "" if mode in AUTO_PADS else f"auto_pad '{mode}'; expected {', '.join(AUTO_PADS)}"


def _conv(weights: int, bias: int) -> Callable[[Facts], str]:
    def check(f: Facts) -> str:
        x, w, b, group = f.shape(0), f.shape(weights), f.shape(bias), f.attrs.get("group", 1)
        if x is None or w is None or len(x) != len(w):
            return f"weights {_text(w)} do not fit input {_text(x)}"
        if group < 1:
            return f"group is {group}; expected at least 1"
        if x[1] != w[1] * group:
            return f"input {_text(x)} has {x[1]} channels; weights {_text(w)} take {w[1] * group}"
        if w[0] % group:
            return f"{w[0]} output channels; expected a multiple of its {group} groups"
        kernel = f.attrs.get("kernel_shape")
        if kernel is not None and tuple(kernel) != w[2:]:
            return f"kernel_shape {_text(kernel)} does not fit weights {_text(w)}"
        if b is not None and b != w[:1]:
            return f"bias {_text(b)}; expected one value for each of {w[0]} output channels"
        return ""

    return check


def _conv_transpose(f: Facts) -> str:
    x, w, b, group = f.shape(0), f.shape(1), f.shape(2), f.attrs.get("group", 1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return f"weights {_text(w)} do not fit input {_text(x)}"
    if group < 1 or x[1] != w[0] or w[0] % group:
        return f"weights {_text(w)} in {group} groups do not fit input {_text(x)}"
    kernel = f.attrs.get("kernel_shape")
    if kernel is not None and tuple(kernel) != w[2:]:
        return f"kernel_shape {_text(kernel)} does not fit weights {_text(w)}"
    if b is not None and b != (w[1] * group,):
        return f"bias {_text(b)}; expected one value for each of {w[1] * group} output channels"
    return ""


def _same_transpose(f: Facts) -> str:
    """With SAME_* the standard makes the output input * stride, and says nothing of output_padding;
    onnx's inference adds it, onnxruntime does not. Where nothing is padded both agree."""
    x, w = f.shape(0), f.shape(1)
    extra = f.attrs.get("output_padding") or []
    mode = f.attrs.get("auto_pad", "NOTSET")
    if not mode.startswith("SAME") or f.attrs.get("output_shape") or not any(extra):
        return ""
    if x is None or w is None:
        return ""
    ones = [1] * len(extra)
    strides, dilations = f.attrs.get("strides") or ones, f.attrs.get("dilations") or ones
    rows = zip(x[2:], w[2:], strides, dilations, extra, strict=True)
    whole = tuple((n - 1) * s + (k - 1) * d + 1 + e for n, k, s, d, e in rows)
    if whole == f.output.shape[2:]:
        return ""
    return (
        f"auto_pad {mode} with output_padding {_text(extra)}, of which the standard does not say "
        "how large the output is; expected pads or output_shape instead"
    )


def _pool_pads(f: Facts) -> str:
    kernel = f.attrs["kernel_shape"]
    pads = f.attrs.get("pads") or [0] * (2 * len(kernel))
    if any(p >= k for p, k in zip(pads, [*kernel, *kernel], strict=True)):
        return f"pads {_text(pads)}; expected less than the kernel {_text(kernel)}"
    return ""


def _permutation(f: Facts) -> str:
    perm, shape = f.attrs.get("perm"), f.shape(0)
    if perm is None or shape is None or sorted(perm) == list(range(len(shape))):
        return ""
    return f"perm {_text(perm)} is no permutation of {len(shape)} axes"


def _batchnorm(f: Facts) -> str:
    x = f.shape(0)
    shapes = [f.shape(i) for i in range(1, 5)]
    if x is None or len(x) < 2 or any(s != (x[1],) for s in shapes):
        return f"input {_text(x)} does not fit parameters {', '.join(map(_text, shapes))}"
    return ""


def _gemm_flags(f: Facts) -> str:
    for name in ("transA", "transB"):
        if f.attrs.get(name, 0) not in (0, 1):
            return f"{name} is {f.attrs[name]}; expected 0 or 1"
    return ""


def _gemm_bias(f: Facts) -> str:
    bias = f.shape(2)
    if bias is None:
        return ""
    try:
        fits = np.broadcast_shapes(bias, f.output.shape) == f.output.shape
    except ValueError:
        fits = False
    return "" if fits else f"bias {_text(bias)} does not broadcast to {_text(f.output.shape)}"


def _quantisation(f: Facts) -> str:
    x, scale, zero = f.shape(0), f.shape(1), f.shape(2)
    if x is None or scale is None:
        return "has no scale"
    # onnxruntime's quantiser pairs a scalar with a tensor of one element.
    one_value = zero is not None and math.prod(zero) == 1 == math.prod(scale)
    if zero is not None and zero != scale and not one_value:
        return f"zero point {_text(zero)} does not fit scale {_text(scale)}"
    axis = f.attrs.get("axis", 1)
    block = f.attrs.get("block_size", 0)
    if block:
        blocks = {k: -(-n // block) for k, n in enumerate(x) if k == axis % max(1, len(x))}
        if block < 0 or scale != tuple(blocks.get(k, n) for k, n in enumerate(x)):
            return f"scale {_text(scale)} by blocks of {block} does not fit {_text(x)}"
    if len(scale) == 1 and scale != (1,):
        if not -len(x) <= axis < len(x):
            return f"axis {axis}; expected {-len(x)} to {len(x) - 1}"
        if scale[0] != x[axis]:
            return f"{scale[0]} scales for {x[axis]} slices along axis {axis}"
    value = f.values[1]
    if value is not None and not bool(np.all(np.isfinite(value) & (value > 0))):
        return "its scale is not a positive finite number"
    return ""


def _dropout(f: Facts) -> str:
    if len(f.inputs) > 2 and f.inputs[2] is not None:
        mode = f.values[2]
        if mode is None or bool(mode):
            return "may be in training mode, which draws random numbers; expected inference"
    return "" if f.attrs.get("is_test", 1) else "is in training mode; expected is_test"


def _some_image(f: Facts) -> str:
    x = f.shape(0)
    if x is not None and f.output.elements and 0 in x:
        return f"input {_text(x)} has no elements to make {_text(f.output.shape)} of"
    return ""


def _text(shape: Sequence[int] | None) -> str:
    if shape is None:
        return "(none)"
    shown = "x".join(map(str, shape[:16])) + ("..." if len(shape) > 16 else "")
    return shown or "scalar"


CHECKS: Mapping[str, Rule] = {
    "Conv": _all(_auto_pad, _conv(1, 2)),
    "ConvTranspose": _all(_auto_pad, _conv_transpose, _same_transpose),
    "QLinearConv": _all(_auto_pad, _conv(3, 8)),
    **dict.fromkeys(("MaxPool", "AveragePool"), _all(_auto_pad, _pool_pads)),
    "Transpose": _all(_permutation),
    "BatchNormalization": _all(_batchnorm),
    "Dropout": _all(_dropout),
    "Gemm": _all(_gemm_flags, _gemm_bias),
    **dict.fromkeys(("Resize", "Upsample"), _all(_some_image)),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _all(_quantisation)),
}
