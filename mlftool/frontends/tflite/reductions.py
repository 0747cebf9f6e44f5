"""Operators that join elements: pools, sums, means, extremes and where they stand."""

from __future__ import annotations

import math

import numpy as np

from mlftool.frontends.tflite.arithmetic import WIDE, below_one, rescale
from mlftool.frontends.tflite.contractions import FIRST, LAST, rank, spatial
from mlftool.frontends.tflite.movement import alike, axis_of, made_shape, numbers
from mlftool.frontends.tflite.site import INTEGERS, Site, kind_of, one_of, operator
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.ir.rounding import multiplier, rescaled


def _pooled(s: Site, op: str, more: dict[str, object], of: str = "") -> str:
    """A pool of the input, or of the value `of`, channels last; its result."""
    x, y = s.x(), s.y()
    rank(s, 4, x, y)
    alike(s, x)
    kernel = (s.option("filter_height"), s.option("filter_width"))
    attrs = spatial(s, kernel, x, y)
    fits = (x.type.shape[0], x.type.shape[3]) == (y.type.shape[0], y.type.shape[3])
    s.expect(fits, f"an output {y.type} for {x.type}")
    name = s.turned(of or s.name(), FIRST)
    made = TensorType(s.draft.types[name].dtype, tuple(y.type.shape[p] for p in FIRST))
    return s.turned(s.add(op, (name,), made, {**attrs, **more}), LAST)


@operator("AVERAGE_POOL_2D")
def average_pool(s: Site) -> None:
    if kind_of(s) == "float32":
        s.within(_pooled(s, "AveragePool", {}), s.out())
        return
    x, y = s.x(), s.y()
    near = abs(s.scale(x) - s.scale(y)) <= 1e-6 and s.zero(x) == s.zero(y)
    s.expect(near, "an output whose scale or zero point differs from the input's")
    limits = s.stored_limits()
    if not x.unsigned:
        made = _pooled(s, "mlf.AveragePoolFixed", {"activation": limits})
        s.add("Identity", (made,), s.out())
        return
    # Halves are rounded away from zero, which is elsewhere in uint8.
    bytes_ = s.add("mlf.TopBit", (s.name(),), TensorType(dtype.uint8, x.type.shape))
    limits = (limits[0] + 128, limits[1] + 128)
    made = _pooled(s, "mlf.AveragePoolFixed", {"activation": limits}, bytes_)
    s.add("mlf.TopBit", (made,), s.out())


@operator("MAX_POOL_2D")
def max_pool(s: Site) -> None:
    row, y = kind_of(s), s.y()
    made = _pooled(s, "MaxPool", {"drops_nan": 1} if row == "float32" else {})
    if row == "float32" or not s.cuts:
        s.within(made, s.out())
        return
    ends = [s.const(e, y.type.dtype) for e in s.stored_limits()]
    s.add("Clip", (made, *ends), s.out())


@operator("L2_POOL_2D")
def l2_pool(s: Site) -> None:
    s.expect(kind_of(s) == "float32", "integers; supported: float32")
    x = s.x()
    square = s.add("Mul", (s.name(), s.name()), x.type)
    mean = _pooled(s, "AveragePool", {}, square)
    s.within(s.add("Sqrt", (mean,), s.y().type), s.out())


def _axes(s: Site) -> list[int]:
    x = s.x()
    axes = sorted({axis_of(s, a, x) for a in numbers(s, 1, "axes")})
    keep = s.option("keep_dims", False)
    shape = [1 if k in axes else n for k, n in enumerate(x.type.shape) if keep or k not in axes]
    made_shape(s, tuple(shape))
    return axes


@operator("MEAN", "SUM")
def mean(s: Site) -> None:
    x, y, row = s.x(), s.y(), kind_of(s, also=WIDE)
    alike(s, x)
    average = s.node.kind == "MEAN"
    if row not in INTEGERS:
        _plain_mean(s) if average else _reduced(s, "ReduceSum", s.name(), s.out())
        return
    axes = _axes(s)
    attrs: dict[str, object] = {"keepdims": int(s.option("keep_dims", False))}
    count = math.prod(x.type.shape[a] for a in axes)
    s.expect(count > 0, f"a mean of nothing along axes {axes}")
    m, exponent = multiplier(s.scale(x) / s.scale(y))
    if average:
        by = min(count.bit_length() - 1, 32, 31 + exponent)
        s.expect(by >= 0, "an output whose scale is too large")
        m, exponent = (m << by) // count, exponent - by
    s.expect(exponent >= -31, "an output whose scale is too large")
    fits = count << x.type.dtype.bits < 2**31
    s.expect(fits, f"{count} elements of {x.type.dtype}, whose sum may leave int32")
    attrs |= {"noop_with_empty_axes": 1, "factor": (exponent << 32) + m}
    attrs |= {"before": s.zero(x) * count, "after": s.zero(y)}
    which = s.const(np.array(axes, np.int64), what="axes")
    s.add("mlf.ReduceFixed", (s.name(), which), s.out(), attrs)


def _plain_mean(s: Site) -> None:
    """The mean of floats, or of integers, which are added in 64 bits."""
    name, y = s.name(), s.y().type
    if y.dtype.is_float:
        _reduced(s, "ReduceMean", name, s.out())
        return
    wide = TensorType(dtype.int64, s.x().type.shape)
    name = s.add("Cast", (name,), wide, {"to": dtype.int64.onnx})
    found = _reduced(s, "ReduceMean", name, TensorType(dtype.int64, y.shape))
    s.add("Cast", (found,), s.out(), {"to": y.dtype.onnx})


@operator("REDUCE_MAX", "REDUCE_MIN")
def extreme(s: Site) -> None:
    x, row = s.x(), kind_of(s, also=WIDE)
    alike(s, x)
    if row in INTEGERS:
        near = (s.scale(x), s.zero(x)) == (s.scale(s.y()), s.zero(s.y()))
        s.expect(near, "an output whose scale or zero point differs from the input's")
    _reduced(s, "ReduceMax" if s.node.kind == "REDUCE_MAX" else "ReduceMin", s.name(), s.out())


def _reduced(s: Site, op: str, name: str, out: str | TensorType) -> str:
    axes = s.const(np.array(_axes(s), np.int64))
    attrs = {"keepdims": int(s.option("keep_dims", False)), "noop_with_empty_axes": 1}
    return s.add(op, (name, axes), out, attrs)


@operator("REDUCE_PROD")
def product(s: Site) -> None:
    row = s.x().type.dtype.name
    known = one_of("float32") | WIDE
    s.expect(row in known, f"{row}; supported: {', '.join(sorted(known))}")
    alike(s, s.x())
    _reduced(s, "ReduceProd", s.name(), s.out())


@operator("REDUCE_ALL", "REDUCE_ANY")
def reduce_all(s: Site) -> None:
    x, y = s.x(), s.y()
    alike(s, x)
    s.expect(x.type.dtype.name == "bool", f"{x.type}; supported: bool")
    bytes_ = s.add("Cast", (s.name(),), TensorType(dtype.uint8, x.type.shape), {"to": 2})
    op = "ReduceMin" if s.node.kind == "REDUCE_ALL" else "ReduceMax"
    found = _reduced(s, op, bytes_, TensorType(dtype.uint8, y.type.shape))
    s.add("Cast", (found,), s.out(), {"to": dtype.bool_.onnx})


_TYPES = {"int32": 2, "int64": 4}  # TensorType of the schema


@operator("ARG_MAX", "ARG_MIN")
def arg_extreme(s: Site) -> None:
    """The first of several equal elements."""
    x, y = s.x(), s.y()
    known = one_of("float32", "int32", "int8")
    s.expect(x.type.dtype.name in known, f"{x.type}; supported: {', '.join(sorted(known))}")
    s.expect(y.type.dtype.name in WIDE, f"an output {y.type}; supported: int32, int64")
    said = s.option("output_type", 0)  # 0 where it is left out
    s.expect(said in (0, _TYPES[y.type.dtype.name]), f"an output {y.type}; the options say another")
    axis = axis_of(s, numbers(s, 1, "axes")[0], x)
    made_shape(s, x.type.shape[:axis] + x.type.shape[axis + 1 :])
    op = "ArgMax" if s.node.kind == "ARG_MAX" else "ArgMin"
    wide = TensorType(dtype.int64, y.type.shape)
    found = s.add(op, (s.name(),), wide, {"axis": axis, "keepdims": 0})
    s.add("Cast", (found,), s.out(), {"to": y.type.dtype.onnx})


@operator("CUMSUM")
def cumsum(s: Site) -> None:
    x, y, row = s.x(), s.y(), kind_of(s, also=WIDE)
    axis = axis_of(s, numbers(s, 1, "axes")[0], x)
    alike(s, x)
    made_shape(s, x.type.shape)
    attrs = {
        "exclusive": int(s.option("exclusive", False)),
        "reverse": int(s.option("reverse", False)),
    }
    at = s.const(np.array(axis, np.int64))
    if row not in INTEGERS:
        s.add("CumSum", (s.name(), at), s.out(), attrs)
        return
    s.expect(row == "int8", f"{row}; supported: float32, int8, int32, int64")
    # Each line starts at the rescaled zero point, as a sum of several tensors does.
    m, exponent = multiplier(0.5)
    first = int(rescaled(-s.zero(x) << 20, m, exponent))
    real = 2 * s.scale(x) / (2**20 * s.scale(y))
    below_one(s, real)
    wide = rescale(s, s.name(), 0.5, dtype.int32, before=s.zero(x), left=20)
    total = s.add("CumSum", (wide, at), TensorType(dtype.int32, x.type.shape), attrs)
    limits = y.type.dtype.range
    rescale(s, total, real, s.out(), before=-first, after=s.zero(y), limits=limits)
