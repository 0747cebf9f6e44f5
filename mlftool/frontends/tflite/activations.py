"""Operators of one tensor, element by element, and those along its last axis.

What maps an int8 to an int8 is a table of 256 results, computed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlftool.frontends.tflite import fixed
from mlftool.frontends.tflite.arithmetic import WIDE, broadcast, rescale, widened
from mlftool.frontends.tflite.model import Tensor
from mlftool.frontends.tflite.site import INTEGERS, Site, away, kind_of, one_of, operator, quotient
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType
from mlftool.ir.rounding import multiplier, rescaled, shifted


def same_shape(s: Site) -> tuple[Tensor, Tensor]:
    x, y = s.x(), s.y()
    s.expect(x.type.shape == y.type.shape, f"an output {y.type} for {x.type}")
    return x, y


def same_type(s: Site, *, also: frozenset[str] = frozenset()) -> tuple[Tensor, Tensor, str]:
    """Input, output and the element type of both."""
    x, y = same_shape(s)
    s.expect(x.type == y.type, f"an output {y.type} for {x.type}")
    return x, y, kind_of(s, also=also)


def tabled(s: Site, values: Array) -> None:
    """The output is values[byte of x], limited to its type."""
    low, high_ = s.y().type.dtype.range
    row = s.y().type.dtype.numpy
    table = s.const(np.clip(values, low, high_).astype(row), what="table")
    s.add("mlf.Table", (s.name(), table), s.out())


def centred(s: Site) -> Array:
    """int64 [256]: the values of x's bytes, less its zero point."""
    return np.asarray(fixed.codes() - s.zero(s.x()))


@operator("LOGISTIC")
def logistic(s: Site) -> None:
    x, y, row = same_type(s)
    if row == "float32":
        s.add("Sigmoid", (s.name(),), s.out())
    elif row == "int8":
        s.expect(s.zero(y) == -128, f"an output with zero point {s.zero(y)}; expected -128")
        tabled(s, fixed.logistic_table(s.scale(x), s.zero(x)))
    else:
        _of_int16(s, "mlf.LogisticFixed", (0,))


@operator("TANH")
def tanh(s: Site) -> None:
    x, _, row = same_type(s)
    if row == "float32":
        s.add("Tanh", (s.name(),), s.out())
    elif row == "int8":
        tabled(s, fixed.tanh_table(s.scale(x), s.zero(x)))
    else:
        _of_int16(s, "mlf.TanhFixed", (0, 1))


def _of_int16(s: Site, op: str, plain: tuple[int, ...]) -> None:
    """`plain` are the shifts at which a scale that is a power of two is 3 times one."""
    x, y = s.x(), s.y()
    s.expect(s.zero(x) == 0 == s.zero(y), "a zero point of int16; expected 0")
    s.expect(s.scale(y) == 2.0**-15, "an output of int16 whose scale is not 1/32768")
    scale = np.float32(s.scale(x))
    log2 = float(np.float32(np.log(scale)) * np.float32(1 / np.float32(math.log(2))))
    power = away(log2)
    left = 12 + power
    if abs(log2 - power) < 1e-3 and left in plain:
        by, shift = 3 << left, 0
    else:
        real, shift = float(scale) * 12288, 0
        while real <= 16383.5 and shift <= 30:
            real, shift = 2 * real, shift + 1
        by = int(real)
    s.expect(by < 2**15, "a scale of int16 so large that no factor of 15 bits is left")
    s.add(op, (s.name(),), s.out(), {"m_": by, "by": shift})


@operator("RELU", "RELU_0_TO_1", "RELU_N1_TO_1")
def relu(s: Site) -> None:
    _between(s, *_LIMITS[s.node.kind])


_LIMITS = {"RELU": (0.0, math.inf), "RELU_0_TO_1": (0.0, 1.0), "RELU_N1_TO_1": (-1.0, 1.0)}


def _between(s: Site, low: float, high: float) -> None:
    """The input, cut at real values in the output's scale."""
    x, y, row = same_type(s)
    if row == "float32":
        s.cut(s.name(), low, high, s.out())
        return
    least, most = y.type.dtype.range
    ends = (max(least, s.stored(low)), min(most, s.stored(high)) if high < math.inf else most)
    real = s.scale(x) / s.scale(y)
    rescale(s, s.name(), real, s.out(), before=s.zero(x), after=s.zero(y), limits=ends)


@operator("RELU6")
def relu6(s: Site) -> None:
    """Integers are limited in the input's scale; the output's matters only for uint8."""
    x, y, row = same_type(s)
    if x.unsigned:
        _between(s, 0.0, 6.0)
        return
    if row == "float32":
        ends = [s.const(np.float32(e)) for e in (0, 6)]
    else:
        least, most = y.type.dtype.range
        top = s.zero(x) + away(quotient(6, s.scale(x)))
        top = min(max(top, least), most)
        ends = [s.const(e, y.type.dtype) for e in (s.zero(x), top)]
    s.add("Clip", (s.name(), *ends), s.out())


@operator("LEAKY_RELU")
def leaky_relu(s: Site) -> None:
    x, y, row = same_type(s)
    alpha = float(s.option("alpha"))
    if row == "float32":
        s.add("LeakyRelu", (s.name(),), s.out(), {"alpha": alpha})
        return
    # Of a negative slope the product is rounded without the sign, which moves ties.
    identity, slope = s.scale(x) / s.scale(y), s.scale(x) * abs(alpha) / s.scale(y)
    if row == "int8":
        c = centred(s)
        up, down = (rescaled(c, *multiplier(real)) for real in (identity, slope))
        tabled(s, np.where(c >= 0, up, -down if alpha < 0 else down) + s.zero(y))
        return
    v = widened(s, s.name(), s.zero(x))
    positive, negative = (rescale(s, v, real, dtype.int32) for real in (identity, slope))
    if alpha < 0:
        negative = s.add("Neg", (negative,), TensorType(dtype.int32, y.type.shape))
    _either(s, v, positive, negative)


def _either(s: Site, v: str, positive: str, negative: str) -> None:
    """The output is one of two of int32, by the sign of `v`."""
    y = s.y()
    wide, flag = (TensorType(row, y.type.shape) for row in (dtype.int32, dtype.bool_))
    minus = s.add("Less", (v, s.const(np.int32(0))), flag)
    chosen = s.add("Where", (minus, negative, positive), wide)
    stored(s, chosen)


def stored(s: Site, name: str) -> None:
    """The output is `name` of int32, with the zero point and limited."""
    y, row = s.y(), s.y().type.dtype
    wide = TensorType(dtype.int32, y.type.shape)
    if s.zero(y):
        name = s.add("Add", (name, s.const(np.int32(s.zero(y)))), wide)
    ends = [s.const(np.int32(e)) for e in row.range]
    s.add("Cast", (s.add("Clip", (name, *ends), wide),), s.out(), {"to": row.onnx})


@operator("PRELU")
def prelu(s: Site) -> None:
    x, alpha, y, row = s.x(), s.x(1), s.y(), kind_of(s)
    broadcast(s, x, alpha)
    s.expect(x.type == y.type, f"an output {y.type} for {x.type}")
    if row == "float32":
        s.add("PRelu", (s.name(), s.name(1)), s.out())
        return
    s.expect(alpha.type.dtype.name in INTEGERS, f"slopes of {alpha.type}")
    s.expect(alpha.unsigned == x.unsigned, f"slopes of {alpha.stored} for {x.stored}")
    v = widened(s, s.name(), s.zero(x))
    product = s.add(
        "Mul",
        (v, widened(s, s.name(1), s.zero(alpha))),
        TensorType(dtype.int32, y.type.shape),
    )
    slope = s.scale(x) * s.scale(alpha) / s.scale(y)
    positive = rescale(s, v, s.scale(x) / s.scale(y), dtype.int32)
    _either(s, v, positive, rescale(s, product, slope, dtype.int32))


@operator("HARD_SWISH")
def hard_swish(s: Site) -> None:
    x, y, row = same_type(s)
    if row == "float32":
        s.add("HardSwish", (s.name(),), s.out())
        return
    s.expect(row == "int8", f"{row}; supported: float32, int8")
    fine = s.scale(x) / 128
    (mo, eo), (mr, er) = multiplier(fine / s.scale(y)), multiplier(fine / (3 / 32768))
    s.expect(eo <= 0, "an output whose scale is too small")
    v = centred(s) * 128
    r = v
    if er > 0:
        r = np.clip(r << (er - 1), -32768, 32767)
    r = _high16(r, mr)
    if er > 0:
        r = np.clip(r << 1, -32768, 32767)
    elif er < 0:
        r = shifted(r, -er)
    product = _high16(v, mo) * ((r + 32768) >> 1)
    away_from = np.sign(product) * (np.abs(product) >> 15)
    tabled(s, shifted(away_from, -eo) + s.zero(y))


def _high16(a: Array, m: int) -> Array:
    """a * m / 2^15 for a multiplier with 16 of its bits, ties up."""
    by = 32767 if m >= 2**31 - 1 - 2**15 else (m + 2**15) >> 16
    return np.asarray((a * by + 2**14) >> 15)


@operator("ELU")
def elu(s: Site) -> None:
    _, _, row = same_type(s)
    if row == "float32":
        s.add("Elu", (s.name(),), s.out())
        return
    s.expect(row == "int8", f"{row}; supported: float32, int8")
    _through_floats(s, lambda v: np.where(v < 0, _f32(np.exp(v.astype(np.float64))) - _f32(1), v))


@operator("GELU")
def gelu(s: Site) -> None:
    """As LiteRT; TensorFlow Lite Micro does not have this operator."""
    _, _, row = same_type(s)
    near = bool(s.option("approximate", False))
    if row == "float32":
        s.add("Gelu", (s.name(),), s.out(), {"approximate": "tanh" if near else "none"})
        return
    function = _gelu_by_tanh if near else _gelu_by_erfc
    if row == "int8":
        _through_floats(s, function)
    else:
        _through_lines(s, "GELU", lambda v: float(function(_f32([v]))[0]))


def _gelu_by_erfc(v: Array) -> Array:
    root = _f32(v * _f32(-math.sqrt(0.5)))
    return np.asarray(_f32(0.5) * v * _f32([math.erfc(r) for r in root.tolist()]))


@np.errstate(over="ignore")  # of scales that no network has
def _gelu_by_tanh(v: Array) -> Array:
    one, by = _f32(1), _f32(math.sqrt(2 / math.pi))
    inner = by * v * (one + _f32(0.044715) * v * v)
    return np.asarray(_f32(0.5) * v * (one + _f32(np.tanh(inner.astype(np.float64)))))


def _f32(values: Any) -> Any:
    return np.asarray(values, np.float32)[()]


def _through_floats(s: Site, function: Callable[[Array], Array]) -> None:
    """The table of a function of float32, in the order of TensorFlow Lite's operations."""
    x, y = s.x(), s.y()
    with np.errstate(over="ignore"):  # as above
        made = function(_f32(s.scale(x)) * _f32(centred(s))) * (_f32(1) / _f32(s.scale(y)))
    made = np.clip(made, -(2.0**20), 2.0**20)  # more than any integer of 8 bits, and no infinity
    rounded = np.sign(made) * np.floor(np.abs(made.astype(np.float64)) + 0.5)
    tabled(s, rounded.astype(np.int64) + s.zero(y))


@operator("EXP")
def exponential(s: Site) -> None:
    """Integers as LiteRT; TensorFlow Lite Micro has only float32."""
    _of_float32_or_integers(s, "Exp", lambda v: np.exp(np.minimum(v, 80)))  # of float32


@operator("LOG")
def logarithm(s: Site) -> None:
    """Integers as LiteRT: the least one at 0 and below. TensorFlow Lite Micro has only float32."""
    none = -32768.0 * s.scale(s.y()) if s.y().type.dtype.name == "int16" else -(2.0**30)
    _of_float32_or_integers(s, "Log", lambda v: np.log(v, out=np.full_like(v, none), where=v > 0))


def _of_float32_or_integers(s: Site, op: str, function: Callable[[Array], Array]) -> None:
    _, _, row = same_type(s)
    if row == "float32":
        s.add(op, (s.name(),), s.out())
    elif row == "int8":
        _through_floats(s, lambda v: _f32(function(v.astype(np.float64))))
    else:
        _through_lines(s, op, lambda v: float(function(np.array([v]))[0]))


def _through_lines(s: Site, op: str, at: Callable[[float], float]) -> None:
    """A function of floats of int16, by 512 lines."""
    x, y = s.x(), s.y()
    s.expect(s.zero(x) == 0 == s.zero(y), "a zero point of int16; expected 0")
    given, made = s.scale(x) * 2.0**16, s.scale(y) * 2.0**16
    largest = max(abs(at(-given / 2)), abs(at(given / 2)), 1) / s.scale(y)
    fits = max(given, made, largest) < float(np.finfo(np.float32).max)
    s.expect(fits, f"scales {s.scale(x):g} and {s.scale(y):g}; {op} leaves float32 with them")
    table = fixed.between(at, s.scale(x), s.zero(x), s.scale(y))
    s.add("mlf.Between", (s.name(), s.const(table, what="table")), s.out())


@operator("ABS")
def absolute(s: Site) -> None:
    x, y, row = same_type(s, also=one_of("int32"))
    if row in ("float32", "int32") or x.quantised is None:
        s.expect(row != "int8", "int8 without a scale")
        s.add("Abs", (s.name(),), s.out())
        return
    real = s.scale(x) / s.scale(y)
    if row == "int8":
        c = np.abs(centred(s))
        tabled(s, (c if s.scale(x) == s.scale(y) else rescaled(c, *multiplier(real))) + s.zero(y))
        return
    wide = TensorType(dtype.int32, y.type.shape)
    v = s.add("Abs", (widened(s, s.name(), s.zero(x)),), wide)
    stored(s, v if s.scale(x) == s.scale(y) else rescale(s, v, real, dtype.int32))


@operator("RSQRT")
def rsqrt(s: Site) -> None:
    x, y, row = same_type(s)
    if row == "float32":
        root = s.add("Sqrt", (s.name(),), x.type)
        s.add("Reciprocal", (root,), s.out())
        return
    m, exponent = multiplier(1 / (math.sqrt(s.scale(x)) * s.scale(y)))
    if row == "int16":
        attrs = {"before": s.zero(x), "m_": m, "exponent": exponent, "after": s.zero(y)}
        s.add("mlf.InverseRootFixed", (s.name(),), s.out(), attrs)
        return
    values = []
    for v in centred(s).tolist():
        r, e = fixed.inverse_root(max(v, 0))
        found = rescaled(rescaled(1, r, e + 20), m, exponent - 20)
        values.append(int(found) + s.zero(y) if v > 0 else 127)
    tabled(s, np.array(values))


@operator("SQRT")
def sqrt(s: Site) -> None:
    """Integers as LiteRT, rounded towards zero, 0 for a negative input. TensorFlow Lite Micro has
    only float32."""
    x, y, row = same_type(s)
    if row == "float32":
        s.add("Sqrt", (s.name(),), s.out())
        return
    if row == "int8":
        real = np.maximum(_f32(centred(s)), 0) * _f32(s.scale(x))
        root = np.floor(np.sqrt(real) / _f32(s.scale(y)))
        tabled(s, np.minimum(root, 2.0**20).astype(np.int64) + s.zero(y))
        return
    s.expect(s.zero(x) == 0 == s.zero(y), "a zero point of int16; expected 0")
    floats = TensorType(dtype.float32, y.type.shape)
    scales = [s.const(np.float32(s.scale(t)), what="scale") for t in (x, y)]
    name = s.add("Cast", (s.name(),), floats, {"to": dtype.float32.onnx})
    name = s.add("Mul", (s.add("Relu", (name,), floats), scales[0]), floats)
    name = s.add("Div", (s.add("Sqrt", (name,), floats), scales[1]), floats)
    ends = [s.const(np.float32(e)) for e in (0, 32767)]
    s.add("Cast", (s.add("Clip", (name, *ends), floats),), s.out(), {"to": dtype.int16.onnx})


@operator("SOFTMAX")
def softmax(s: Site) -> None:
    x, y = same_shape(s)
    row, beta = kind_of(s), float(s.option("beta", 1.0))
    if row == "float32":
        s.expect(x.type == y.type, f"an output {y.type} for {x.type}")
        name = s.name()
        if beta != 1:
            name = s.add("Mul", (name, s.const(np.float32(beta))), x.type)
        s.add("Softmax", (name,), s.out(), {"axis": -1})
    elif row == "int8":
        _softmax_of_int8(s, x, y, beta)
    else:
        _softmax_of_int16(s, x, y, beta)


def _softmax_of_int8(s: Site, x: Tensor, y: Tensor, beta: float) -> None:
    known = {"int8": (2.0**-8, -128), "int16": (2.0**-16, -32768)}
    wanted = known.get(y.type.dtype.name)
    found = (s.scale(y), s.zero(y))
    s.expect(wanted is not None, f"an output of {y.type.dtype}; supported: int8, int16")
    assert wanted is not None
    near = 0.0 if y.type.dtype.name == "int8" else 1e-3
    fits = abs(found[0] / wanted[0] - 1) <= near and found[1] == wanted[1]
    s.expect(fits, f"an output with scale and zero point {found}; expected {wanted}")
    _summable(s, x, 2**19, 2**32)
    m, left = _spread(s, x, beta)
    s.add(
        "mlf.SoftmaxFixed", (s.name(), _exponentials(s, x, beta)), s.out(), {"m": m, "left": left}
    )


def _exponentials(s: Site, x: Tensor, beta: float) -> str:
    return s.const(fixed.exponentials(*_spread(s, x, beta)), what="exponentials")


def _summable(s: Site, x: Tensor, each: int, below: int) -> None:
    """Lines of the last axis are refused whose sum, of at most `each` for each element, might not
    be `below` what its type holds."""
    n, most = x.type.shape[-1], (below - 1) // each
    s.expect(n <= most, f"lines of {n} elements; supported: up to {most}, whose sums fit 32 bits")


def _spread(s: Site, x: Tensor, beta: float) -> tuple[int, int]:
    """What distances of x are multiplied by, as a multiplier and a shift to the left."""
    real = min(beta * s.scale(x) * 2**26, 2.0**31 - 1)
    s.expect(real > 1, f"beta {beta} at scale {s.scale(x)}, which is too little")
    return multiplier(real)


def _softmax_of_int16(s: Site, x: Tensor, y: Tensor, beta: float) -> None:
    s.expect(x.type == y.type, f"an output {y.type} for {x.type}")
    s.expect(s.zero(x) == 0 == s.zero(y), "a zero point of int16; expected 0")
    s.expect(abs(s.scale(y) * 32768 - 1) <= 1e-3, "an output whose scale is not 1/32768")
    _summable(s, x, 2**15, 2**31)
    unit, step = np.float32(2 / 65535), np.float32(10 / 65535)
    tables = [
        fixed.between(math.exp, float(step), 32767, float(unit)),
        fixed.between(lambda v: 1 / (1 + v), float(np.float32(1 / 65535)), -32768, float(unit)),
    ]
    m, exponent = multiplier(s.scale(x) * beta / (10 / 65535))
    parts = [s.name(), *(s.const(t, what="table") for t in tables)]
    s.add("mlf.SoftmaxBetween", parts, s.out(), {"m": m, "exponent": exponent})


@operator("LOG_SOFTMAX")
def log_softmax(s: Site) -> None:
    x, y, row = same_type(s)
    if row == "float32":
        s.add("LogSoftmax", (s.name(),), s.out(), {"axis": -1})
        return
    s.expect(row == "int8", f"{row}; supported: float32, int8")
    found = (s.scale(y), s.zero(y))
    s.expect(found == (1 / 16, 127), f"an output with scale and zero point {found}")
    _summable(s, x, 2**19, 2**31)
    m, left = _spread(s, x, 1.0)
    back, exponent = multiplier(2.0 ** (31 - left) / m)
    attrs = {"m": m, "exponent": left, "back": back, "back_exponent": exponent}
    attrs["least"] = -fixed.radius(5, left) - 1
    s.add("mlf.LogSoftmaxFixed", (s.name(), _exponentials(s, x, 1.0)), s.out(), attrs)


@operator("L2_NORMALIZATION")
def l2_normalization(s: Site) -> None:
    x, y, row = same_type(s)
    if row == "float32":
        line, least = TensorType(x.type.dtype, (*x.type.shape[:-1], 1)), s.const(np.float32(1e-6))
        axes = s.const(np.array([-1], np.int64))
        size = s.add("ReduceL2", (s.name(), axes), line, {"keepdims": 1})
        s.add("Div", (s.name(), s.add("Max", (size, least), line)), s.out())
        return
    s.expect(row == "int8", f"{row}; supported: float32, int8, uint8")
    found = (s.scale(y), s.zero(y))
    s.expect(found == (1 / 128, 0), f"an output with scale and zero point {found}")
    _summable(s, x, 255**2, 2**31)
    attrs = {"zero": s.zero(x), "early": int(x.unsigned)}
    s.add("mlf.UnitFixed", (s.name(),), s.out(), attrs)


def _plain(kind: str, op: str, *types: str) -> None:
    """Operators of one tensor that ONNX has, too."""

    def rule(s: Site) -> None:
        x, y = same_shape(s)
        row = x.type.dtype.name
        s.expect(row in types and x.type == y.type, f"{x.type}; supported: {', '.join(types)}")
        s.add(op, (s.name(),), s.out())

    operator(kind)(rule)


for _kind, _op in {
    "SIN": "Sin",
    "COS": "Cos",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
}.items():
    _plain(_kind, _op, "float32")
_plain("SIGN", "Sign", "float32", "int32")


@operator("NEG")
def negated(s: Site) -> None:
    """Negates the stored integers, whose zero point must be 0."""
    x, y = same_shape(s)
    row = kind_of(s, also=WIDE)
    s.expect(x.type == y.type and not x.unsigned, f"an output {y.type} for {x.type}")
    if x.quantised is not None and row in INTEGERS:
        found = (s.scale(x), s.zero(x), s.zero(y))
        s.expect(found == (s.scale(y), 0, 0), "an output whose scale differs, or a zero point")
    s.add("Neg", (s.name(),), s.out())


_plain("LOGICAL_NOT", "Not", "bool")


@operator("SQUARE")
def square(s: Site) -> None:
    x, y = same_shape(s)
    s.expect(x.type == y.type and x.type.dtype.is_float, f"{x.type}; supported: float32")
    s.add("Mul", (s.name(), s.name()), s.out())
