"""Elementwise operators: one line each. The family supplies loops, broadcasting and fusion.

Positional parameters after `m` are C operands, keyword-only ones are ONNX attributes with their
defaults. NaN must propagate, so comparisons are written such that a NaN falls through.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from mlftool.ir.dtype import DTYPES, DType, float32
from mlftool.ir.graph import Node, View
from mlftool.ops.base import OPS, Kernel, OpDef, Operand, Trait, UnsupportedError
from mlftool.ops.scalar import (
    EXPRESSIONS,
    INCLUDES,
    Body,
    Exact,
    ExprFn,
    Scalar,
    fetch,
    literal,
    put,
    tensor_operand,
    widen,
)


class Maths:
    """Literals of the computing type; `out` is the type of the result."""

    def __init__(self, dtype: DType, out: DType) -> None:
        self.dtype, self.out = float32 if dtype.codec else dtype, out

    def lit(self, value: float) -> str:
        return literal(value, self.dtype)


def _wrapping(sign: str) -> ExprFn:
    """An integer operation that wraps around as ONNX's does; signed overflow is undefined in C."""

    def expr(m: Maths, a: Scalar, b: Scalar) -> str:
        if m.dtype.is_float:
            return f"{a} {sign} {b}"
        wide = "uint64_t" if m.dtype.bits == 64 else "uint32_t"
        return f"({wide}){a} {sign} ({wide}){b}"

    return expr


def elementwise(name: str, expr: ExprFn, *traits: Trait, includes: tuple[str, ...] = ()) -> None:
    """Register operator `name`; `expr(m, *operands, **attrs)` returns its C expression."""
    signature = inspect.signature(expr).parameters.values()
    attrs = {p.name: p.default for p in signature if p.kind is p.KEYWORD_ONLY}

    def render(node: Node, dtype: DType, args: Sequence[Scalar | None]) -> str:
        given = {k: node.attrs.get(k, default) for k, default in attrs.items()}
        first = args[0]
        assert first is not None
        return expr(Maths(dtype if dtype.is_float else first.dtype, dtype), *args, **given)

    EXPRESSIONS[name] = render
    INCLUDES[name] = includes
    OPS[name] = OpDef(name, loop_nest, frozenset({Trait.ELEMENTWISE, *traits}))


def _clip(m: Maths, a: Scalar, lo: Scalar | None = None, hi: Scalar | None = None) -> str:
    text = str(a)
    if lo is not None and not (lo.value == 0 and m.dtype.kind == "u"):
        text = f"({text} < {lo} ? {lo} : {text})"
    return text if hi is None else f"({text} > {hi} ? {hi} : {text})"


def _dequantize(m: Maths, x: Scalar, scale: Scalar, zero_point: Scalar | None = None) -> str:
    if zero_point is None or zero_point.value == 0:
        return f"(float){x} * {scale}"
    return f"(float)({x} - {zero_point}) * {scale}"


def _quantize(m: Maths, x: Scalar, scale: Scalar, zero_point: Scalar | None = None) -> str:
    lo, hi = m.out.range
    zero = "0" if zero_point is None else str(zero_point)
    return f"mlf_quantize({x} / {scale}, {zero}, {lo}, {hi})"


def _extreme(sign: str) -> ExprFn:
    """Min or Max of any number of operands; a NaN anywhere wins."""

    def expr(m: Maths, *operands: Scalar) -> str:
        text = str(operands[0])
        for b in operands[1:]:
            nan = f" || {b} != {b}" if m.dtype.is_float else ""
            text = f"({b} {sign} {text}{nan} ? {b} : {text})"
        return text

    return expr


def _abs(m: Maths, a: Scalar) -> str:
    return str(a) if m.dtype.kind == "u" else f"{a} < {m.lit(0)} ? -{a} : {a}"


def _as_float(a: Scalar) -> str:
    """A value as a float that rounds to narrower types as the value itself would."""
    if a.dtype.codec or a.dtype.name == "float32":
        return str(a)
    if a.dtype.name == "float64":
        return f"mlf_float_to_odd({a})"
    return f"mlf_float_to_odd((double){a})" if a.dtype.bits >= 32 else f"(float){a}"


def _cast(m: Maths, a: Scalar, *, to: int = 1, saturate: int = 1, round_mode: str = "up") -> str:
    out, source = m.out, a.dtype
    if out == source:
        return Exact(a)
    if out.kind == "b":
        return Exact(f"{a} != 0")
    if out.codec:
        mode = "_sat" if saturate and out.codec.startswith(("e4", "e5", "e8")) else ""
        mode = f"_{round_mode}{mode}" if out.codec == "e8m0" else mode
        return Exact(widen(out, f"mlf_{out.codec}_of_float{mode}({_as_float(a)})"))
    if out.is_float:
        return Exact(a) if source.codec and out.bits == 32 else Exact(f"({out.c}){a}")
    if source.is_float:
        name = "double" if source.bits == 64 else "float"
        kind = {"uint64": "u64", "uint32": "i64", "int64": "i64"}.get(out.name, "i32")
        return f"mlf_{kind}_of_{name}({a})"
    return str(a)


# Operators whose arithmetic is defined for float only.
FLOAT_ONLY = ("HardSigmoid", "HardSwish", "Exp", "Sigmoid", "LeakyRelu")


def loop_nest(v: View) -> Kernel:
    """One loop nest over the output, whatever the inputs' broadcasting; contiguous axes merged."""
    nodes = v.node.body or (v.node,)
    _check(v, nodes)
    out = v.out.shape
    names = [n for n in v.node.inputs if n]
    strides = {n: _broadcast_strides(v.type(n).shape, out) for n in names}
    dims, strides = _merge(out, strides)
    operands: list[Operand] = []

    def load(name: str) -> Scalar:
        param = f"a{len(operands)}"
        operands.append(tensor_operand(v.graph, param, name))
        dtype = v.type(name).dtype
        return Scalar(fetch(dtype, param, _index(strides[name])), dtype)

    body = Body(v.graph, nodes, {}, load)
    result = str(body.env[v.node.outputs[0]])
    y = Operand("y", v.out.dtype.c, "out", v.node.outputs[0])
    loops = [(f"i{k}", n) for k, n in enumerate(dims)]
    return Kernel(
        "portable.elementwise",
        "elementwise.c.j2",
        {
            "loops": loops,
            "statements": body.statements,
            "store": put(v.out.dtype, "y", _index(_row_major(dims)), result),
        },
        (*operands, y),
        cost=v.out.elements * (4.0 + 2 * len(nodes)),
        includes=("mlf/kernel.h", *body.includes),
        inplace=tuple(
            n
            for n in names
            if n not in v.graph.consts
            and v.type(n).shape == out
            and v.type(n).dtype.bits == v.out.dtype.bits
            and not v.out.dtype.packed
        ),
    )


def _check(v: View, nodes: Sequence[Node]) -> None:
    for node in nodes:
        dtype = v.type(node.inputs[0]).dtype
        if node.op in FLOAT_ONLY and dtype.name != "float32":
            raise UnsupportedError(f"{node.op} on {dtype}; supported: float32")
        if node.attrs.get("block_size", 0):
            raise UnsupportedError(f"{node.op} by blocks; supported: per tensor or per channel")
        for name in (*node.inputs, *node.outputs):
            if name and v.type(name).dtype.name not in SUPPORTED:
                raise UnsupportedError(
                    f"element type {v.type(name).dtype} of '{name}'; "
                    f"supported: {', '.join(SUPPORTED)}"
                )


SUPPORTED = tuple(d.name for d in DTYPES)


def _broadcast_strides(shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a tensor seen with the output's shape; 0 where it is repeated."""
    padded = (1,) * (len(out) - len(shape)) + shape
    strides, step = [], 1
    for extent in reversed(padded):
        strides.append(0 if extent == 1 else step)
        step *= extent
    return tuple(reversed(strides))


def _row_major(dims: Sequence[int]) -> tuple[int, ...]:
    return _broadcast_strides(tuple(dims), tuple(dims))


def _merge(
    out: tuple[int, ...],
    strides: dict[str, tuple[int, ...]],
) -> tuple[list[int], dict[str, tuple[int, ...]]]:
    """Drop extents of 1 and merge neighbouring axes that every operand walks contiguously."""
    axes = [k for k, n in enumerate(out) if n != 1]
    dims: list[int] = []
    merged: dict[str, list[int]] = {name: [] for name in strides}
    for k in axes:
        joins = bool(dims) and all(merged[name][-1] == s[k] * out[k] for name, s in strides.items())
        for name, s in strides.items():
            if joins:
                merged[name][-1] = s[k]
            else:
                merged[name].append(s[k])
        if joins:
            dims[-1] *= out[k]
        else:
            dims.append(out[k])
    return dims, {name: tuple(s) for name, s in merged.items()}


def _index(strides: Sequence[int]) -> str:
    """C text of an element's index from the loop variables i0, i1, ..."""
    terms = [f"i{k}" if s == 1 else f"i{k} * {s}" for k, s in enumerate(strides) if s]
    return " + ".join(terms) or "0"


elementwise("Add", _wrapping("+"))
elementwise("Sub", _wrapping("-"))
elementwise("Mul", _wrapping("*"))
elementwise("Div", lambda m, a, b: f"{a} / {b}")
elementwise("Neg", lambda m, a: f"-{a}")
elementwise("Abs", _abs)
elementwise("Min", _extreme("<"))
elementwise("Max", _extreme(">"))
elementwise("Relu", lambda m, a: f"{a} < {m.lit(0)} ? {m.lit(0)} : {a}")
elementwise(
    "LeakyRelu", lambda m, a, *, alpha=0.01: f"{a} < {m.lit(0)} ? {m.lit(alpha)} * {a} : {a}"
)
elementwise("Clip", _clip)
elementwise(
    "HardSigmoid",
    lambda m, a, *, alpha=0.2, beta=0.5: (
        f"mlf_clamp_f32({m.lit(alpha)} * {a} + {m.lit(beta)}, {m.lit(0)}, {m.lit(1)})"
    ),
)
elementwise(
    "HardSwish",
    lambda m, a: (
        f"{a} * mlf_clamp_f32({a} * {m.lit(1 / 6)} + {m.lit(0.5)}, {m.lit(0)}, {m.lit(1)})"
    ),
)
elementwise("Exp", lambda m, a: f"mlf_expf({a})", includes=("mlf/math.h",))
elementwise(
    "Sigmoid", lambda m, a: f"{m.lit(1)} / ({m.lit(1)} + mlf_expf(-{a}))", includes=("mlf/math.h",)
)
elementwise("Cast", _cast, includes=("mlf/convert.h",))
elementwise("DequantizeLinear", _dequantize, Trait.QUANTISE)
elementwise("QuantizeLinear", _quantize, Trait.QUANTISE)
