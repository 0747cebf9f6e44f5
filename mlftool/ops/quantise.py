"""Operators that change the element type: Cast, QuantizeLinear, DequantizeLinear, which are
elementwise, and DynamicQuantizeLinear, which finds its scale out first."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from mlftool.ir.dtype import BY_ONNX, DType
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.operations import times
from mlftool.ir.relay import STORED, Site, scale_of, zero_point
from mlftool.ir.rounding import ATTRIBUTE, IN_FLOATS, Rounding
from mlftool.onnx_rules.boxes import ZEROS, as_it_is
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Scope
from mlftool.onnx_rules.shaping import of_first
from mlftool.ops.base import Facts, Kernel, Trait, UnsupportedError, old, op, shown
from mlftool.ops.elementwise import Maths, elementwise
from mlftool.ops.plain import plain_kernel
from mlftool.ops.scalar import Exact, Scalar, integer_of, settle, widen

CONVERT = ("mlf/convert.h",)


def _as_float(a: Scalar) -> str:
    """A value as a float that rounds to narrower types as the value itself would."""
    if a.dtype.codec or a.dtype.name == "float32":
        return str(a)
    if a.dtype.name == "float64":
        return f"mlf_float_to_odd({a})"
    return f"mlf_float_to_odd((double){a})" if a.dtype.bits >= 32 else f"(float){a}"


def _narrow_float(out: DType, text: str, saturate: int, round_mode: str = "up") -> Exact:
    """`text`, a float, as a value of a narrow type."""
    mode = "_sat" if saturate and out.codec.startswith(("e4", "e5", "e8")) else ""
    mode = f"_{round_mode}{mode}" if out.codec == "e8m0" else mode
    return Exact(widen(out, f"mlf_{out.codec}_of_float{mode}({text})"))


def _cast(m: Maths, a: Scalar, *, saturate: int = 1, round_mode: str = "up") -> str:
    out, source = m.out, a.dtype
    if out == source:
        return Exact(a)
    if out.kind == "s" and source.is_float:
        return Exact(f"mlf_string_of_real({a if source.bits == 64 else _as_float(a)})")
    if out.kind == "s":
        negative = f"{a} < 0" if source.kind == "i" else "false"
        return Exact(f"mlf_string_of_integer((uint64_t){a}, {negative})")
    if source.kind == "s":
        raise UnsupportedError(f"from {source} to {out}; supported: numbers, to strings too")
    if out.kind == "b":
        return Exact(f"{a} != 0")
    if out.codec:
        return _narrow_float(out, _as_float(a), saturate, round_mode)
    if out.is_float:
        return Exact(a) if source.codec and out.bits == 32 else Exact(f"({out.c}){a}")
    if source.is_float:
        return integer_of(out, source, str(a))
    return str(a)


def _dequantize(m: Maths, x: Scalar, scale: Scalar, zero_point: Scalar | None = None) -> str:
    """Computed in float32, whatever the scale's type."""
    value = str(x) if x.dtype.is_float else f"(float){x}"
    if zero_point is None or zero_point.value == 0 or x.dtype.is_float:
        return f"{value} * {scale}"
    if x.dtype.bits >= 32:
        return f"({value} - (float){zero_point}) * {scale}"
    return f"(float)({x} - {zero_point}) * {scale}"


def _quantize(
    m: Maths,
    x: Scalar,
    scale: Scalar,
    zero_point: Scalar | None = None,
    *,
    saturate: int = 1,
    precision: int = 0,
    rounding: Rounding = Rounding.EVEN,
    raised: int = 0,
) -> str:
    """The quotient has the scale's type, or `precision`."""
    value = str(x) if x.dtype.is_float else f"(float){x}"
    ratio = settle(BY_ONNX[precision] if precision else scale.dtype, f"{value} / {scale}")
    zero = "0" if zero_point is None else str(zero_point)
    if not m.out.is_float:
        lo, hi = m.out.range
        if rounding is Rounding.LATE:
            ratio, zero = f"{ratio} + (float){zero}", str(-raised)
        return f"mlf_quantize({ratio}, {zero}, {lo}, {hi})"
    if zero_point is not None and zero_point.value != 0 and m.out.packed:
        ratio = f"{ratio} + {zero}"
    return _narrow_float(m.out, ratio, saturate)


def _broadcasting(e: Editor, node: Node) -> None:
    """A scale per channel becomes one that broadcasts: Q and DQ are plain elementwise."""
    x = e.types[node.inputs[0]]
    meaning = ("saturate", "precision", "output_dtype", ATTRIBUTE, IN_FLOATS)
    kept = {k: v for k, v in node.attrs.items() if k in meaning}
    axis = node.attrs.get("axis", 1) % max(1, len(x.shape))
    block = node.attrs.get("block_size", 0)
    if block:
        whole = x.shape[axis] % block == 0
        (_by_blocks if whole else _by_broken_blocks)(e, node, axis, block, kept)
        return
    inputs = list(node.inputs)
    views: list[Node] = []
    for i in range(1, len(inputs)):
        type_ = e.types[inputs[i]] if inputs[i] else None
        if type_ is None or len(type_.shape) != 1:
            continue
        shape = [1] * len(x.shape)
        if type_.elements != 1:
            shape[axis] = type_.elements
        inputs[i] = _reshaped(e, node, inputs[i], tuple(shape), views)
    e.substitute([node], [*views, replace(node, inputs=tuple(inputs), attrs=kept)])


def _by_blocks(e: Editor, node: Node, axis: int, block: int, kept: dict[str, Any]) -> None:
    """The axis is split in two, blocks and their elements, along which the scale repeats."""
    views: list[Node] = []
    x, y = e.types[node.inputs[0]], e.types[node.outputs[0]]
    count = x.shape[axis] // block
    inside = (*x.shape[:axis], count, block, *x.shape[axis + 1 :])
    scales = (*x.shape[:axis], count, 1, *x.shape[axis + 1 :])
    inputs = [_reshaped(e, node, node.inputs[0], inside, views)]
    inputs += [_reshaped(e, node, i, scales, views) if i else "" for i in node.inputs[1:]]
    split = e.fresh(node.outputs[0] + ".blocks", TensorType(y.dtype, inside))
    core = replace(node, inputs=tuple(inputs), outputs=(split,), attrs=kept)
    joined = e.add("Reshape", (split,), node, node.outputs[0])
    e.substitute([node], [*views, core, joined])


def _by_broken_blocks(e: Editor, node: Node, axis: int, block: int, kept: dict[str, Any]) -> None:
    """Where the last block is not whole, each element gets the scale of its block."""
    views: list[Node] = []
    x, inputs = e.types[node.inputs[0]], list(node.inputs)
    block_of = np.arange(x.shape[axis]) // block
    for i in range(1, len(inputs)):
        name = inputs[i]
        if name in e.consts:
            spread = e.consts[name].take(block_of, axis)
            inputs[i] = e.const(name + ".spread", np.ascontiguousarray(spread))
        elif name:
            inputs[i] = e.fresh(name + ".spread", TensorType(e.types[name].dtype, x.shape))
            which = e.const(name + ".blocks", block_of.astype(np.int64))
            views.append(e.add("Gather", (name, which), node, inputs[i], {"axis": axis}))
    e.substitute([node], [*views, replace(node, inputs=tuple(inputs), attrs=kept)])


def _reshaped(e: Editor, node: Node, name: str, shape: tuple[int, ...], views: list[Node]) -> str:
    """`name` in another shape; unless it is constant, by a node that is added to `views`."""
    if name in e.consts:
        return e.const(name + ".broadcast", e.consts[name].reshape(shape))
    view = e.fresh(name + ".broadcast", TensorType(e.types[name].dtype, shape))
    views.append(e.add("Reshape", (name,), node, view))
    return view


def _fits(f: Facts) -> str:
    x, scale, zero = f.shape(0), f.shape(1), f.shape(2)
    if x is None or scale is None:
        return "has no scale"
    # onnxruntime's quantiser pairs a scalar with a tensor of one element.
    one_value = zero is not None and math.prod(zero) == 1 == math.prod(scale)
    if zero is not None and zero != scale and not one_value:
        return f"zero point {shown(zero)} does not fit scale {shown(scale)}"
    axis = f.attrs.get("axis", 1)
    block = f.attrs.get("block_size", 0)
    if block:
        blocks = {k: -(-n // block) for k, n in enumerate(x) if k == axis % max(1, len(x))}
        if block < 0 or scale != tuple(blocks.get(k, n) for k, n in enumerate(x)):
            return f"scale {shown(scale)} by blocks of {block} does not fit {shown(x)}"
    elif len(scale) > 1:
        return f"scale {shown(scale)}; expected a scalar or a scale for each slice of axis {axis}"
    elif scale and scale != (1,):
        # onnx-neural-compressor writes axis 1 for biases, which have one; onnxruntime runs that.
        axis = 0 if len(x) == 1 else axis
        if not -len(x) <= axis < len(x):
            return f"axis {axis}; expected {-len(x)} to {len(x) - 1}"
        if scale[0] != x[axis]:
            return f"{scale[0]} scales for {x[axis]} slices along axis {axis}"
    value = f.values[1]
    # onnxruntime's MatMulNBits quantiser gives symmetric blocks scales of either sign, or zero;
    # so does NNCF to channels of int8.
    signed = f.op == "DequantizeLinear"
    # onnxruntime's quantisers give a mask of -inf an infinite scale, and run it.
    if value is not None and not bool(np.all((signed & np.isfinite(value)) | (value > 0))):
        return "its scale is not a number" if signed else "its scale is not a positive number"
    return ""


def _relay_quantise(s: Site, to: bool) -> str | None:
    """Both ways; scales for blocks, and types that qnn has not, are left to the dialect."""
    stored, real = (s.out, s.type(0)) if to else (s.type(0), s.out)
    if str(stored.dtype) not in STORED or str(real.dtype) != "float32":
        return None
    if len(s.type(1).shape) > 1 or str(s.type(1).dtype) != "float32" or ATTRIBUTE in s.node.attrs:
        return None
    axis = s.axis(1) if s.type(1).elements > 1 else -1
    op = "qnn.quantize" if to else "qnn.dequantize"
    scale, zero = scale_of(s, 1), zero_point(s, 2)
    out = str(stored.dtype) if to else None
    return s.call(op, s.arg(0), scale, zero, axis=axis, out_dtype=out)


def _by_type(scope: Scope, d: Draft) -> None:
    """Also CastLike, and the types that were spelt out before 6."""
    d.op, d.inputs = "Cast", d.inputs[:1]
    d.attrs["to"] = d.out_types[0].dtype.onnx


def _resolved(scope: Scope, d: Draft) -> None:
    """The zero points of narrow floats are zero, or count for nothing. Integers whose scale is not
    positive count downwards, so they are multiplied and compared in floats."""
    if d.values[1] is not None and not bool(np.all(d.values[1] > 0)):
        d.attrs[IN_FLOATS] = 1
    quantised = d.out_types[0] if d.op == "QuantizeLinear" else d.types[0]
    name = quantised.dtype.name if quantised is not None else ""
    if name.startswith("float8") or (name.startswith("float4") and d.op == "DequantizeLinear"):
        d.inputs = d.inputs[:2]


elementwise(
    "Cast",
    _cast,
    Trait.IDENTITY,
    includes=CONVERT,
    resolve=_by_type,
    extents=as_it_is,
    bounds=of_first,
    relay=lambda s: s.call("cast", s.arg(), dtype=str(BY_ONNX[s.attr("to", 1)])),
)
old("CastLike", resolve=_by_type, extents=as_it_is)
# Scales are along an axis or in blocks; they do not broadcast.
_SCALED: dict[str, Any] = {"canonical": _broadcasting, "checks": (_fits,), "resolve": _resolved}
_SCALED["extents"] = as_it_is
elementwise(
    "DequantizeLinear",
    _dequantize,
    *(Trait.QUANTISE, Trait.DEQUANTISER),
    reads=(0,),
    **_SCALED,
    relay=lambda s: _relay_quantise(s, False),
)
elementwise(
    "QuantizeLinear",
    _quantize,
    *(Trait.QUANTISE, Trait.QUANTISER),
    stores=1,
    **_SCALED,
    relay=lambda s: _relay_quantise(s, True),
)


@op("DynamicQuantizeLinear", Trait.KEPT, Trait.DYNAMIC, extents=ZEROS)
def dynamic_quantize(v: View) -> Kernel:
    """uint8 between the least and the largest element, zero included; scale and zero point too."""
    elements = v.x(0).elements
    each = times(load=2, less=2, choose=2, div=1, quantize=1, store=1, loop=2)
    return plain_kernel(v, "dynamic_quantise", {"elements": elements}, operations=elements * each)
