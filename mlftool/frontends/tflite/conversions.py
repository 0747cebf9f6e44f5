"""Conversions of numbers: between floats and integers, and between types."""

from __future__ import annotations

import numpy as np

from mlftool.frontends.tflite.activations import same_shape, tabled
from mlftool.frontends.tflite.arithmetic import rescale
from mlftool.frontends.tflite.site import Site, one_of, operator
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.ir.rounding import IN_FLOATS, multiplier, rescaled


@operator("QUANTIZE")
def quantize(s: Site) -> None:
    x, y = same_shape(s)
    to = y.type.dtype
    pairs = {
        "float32": one_of("int8", "int16"),
        "int8": one_of("int8", "uint8", "int16", "int32"),
        "uint8": one_of("int8"),
        "int16": one_of("int8", "int16", "int32"),
        "int32": one_of("int8", "int16"),
    }
    known = pairs.get(x.type.dtype.name, frozenset())
    s.expect(to.name in known, f"{x.type.dtype} to {to}; TensorFlow Lite Micro does not support it")
    if x.type.dtype.is_float:
        attrs = {"zero": s.zero(y)}
        s.add("mlf.QuantizeAway", (s.name(), s.const(np.float32(s.scale(y)))), s.out(), attrs)
        return
    real = s.scale(x) / s.scale(y)
    apart = s.zero(x) - x.type.dtype.range[0] == s.zero(y) - to.range[0]
    if real == 1 and apart and {x.type.dtype.name, to.name} == {"int8", "uint8"}:
        s.add("mlf.TopBit", (s.name(),), s.out())
        return
    if x.type.dtype.is_int8:
        codes = np.arange(256, dtype=np.uint8).view(x.type.dtype.numpy).astype(np.int64)
        values = rescaled(codes - s.zero(x), *multiplier(real)) + s.zero(y)
        if to.bits <= 16:
            tabled(s, values)
            return
    ends = to.range if to.bits <= 16 else (0, 0)
    rescale(s, s.name(), real, s.out(), before=s.zero(x), after=s.zero(y), limits=ends)


@operator("DEQUANTIZE")
def dequantize(s: Site) -> None:
    x, y = same_shape(s)
    row = x.type.dtype
    s.expect(y.type.dtype.name == "float32", f"an output {y.type}; expected float32")
    if row.name == "float16":
        s.add("Cast", (s.name(),), s.out(), {"to": dtype.float32.onnx})
        return
    s.expect(row.name in ("int8", "int16", "uint8"), f"{row}; supported: int8, int16, uint8")
    as_floats(s, 0, s.out())


def as_floats(s: Site, i: int, out: str | TensorType) -> str:
    """The integers of input `i` times their scale."""
    x = s.x(i)
    q = x.quantised
    s.expect(q is not None, f"tensor '{x.name}' has {x.unusable or 'no scale and zero point'}")
    assert q is not None
    shape: tuple[int, ...] = ()  # with scales per axis: of the rank of x, to broadcast
    if q.scale.size > 1:
        shape = tuple(q.scale.size if k == q.axis else 1 for k in range(len(x.type.shape)))
    scale = s.const(q.scale.reshape(shape), what="scale")
    zeros = q.zero_point.astype(x.type.dtype.numpy)
    zero = s.const(zeros.reshape(shape), what="zero_point")
    return s.add("DequantizeLinear", (s.name(i), scale, zero), out, {IN_FLOATS: 1})


@operator("CAST")
def cast(s: Site) -> None:
    """Integers are converted as they are stored; scales have no effect."""
    x, y = same_shape(s)
    known = one_of("float32", "int8", "int16", "int32", "int64", "uint8", "uint32", "bool")
    for row in (x.type.dtype, y.type.dtype):
        s.expect(row.name in known, f"{row}; supported: {', '.join(sorted(known))}")
    name, to = s.name(), dtype.uint8 if y.unsigned else y.type.dtype
    if x.unsigned:
        name = s.add("mlf.TopBit", (name,), TensorType(dtype.uint8, x.type.shape))
    made = TensorType(to, y.type.shape) if y.unsigned else s.out()
    made = s.add("Cast", (name,), made, {"to": to.onnx})
    if y.unsigned:
        s.add("mlf.TopBit", (made,), s.out())
