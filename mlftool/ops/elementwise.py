"""The elementwise family: loops, broadcasting and fusion. Its members are one line each, in
unary.py, binary.py and quantise.py.

A member is a function that returns a C expression. Its positional parameters after `m` are C
operands, keyword-only ones are ONNX attributes with their defaults. NaN must propagate, so
comparisons are written such that a NaN falls through.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlftool.ir.dtype import DType, float32, int32
from mlftool.ir.graph import Array, Node, TensorType, View
from mlftool.ir.holes import whole
from mlftool.ir.operations import times
from mlftool.ir.rounding import Rescaling, Rounding
from mlftool.ops.base import Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.scalar import Body, Exact, ExprFn, Scalar, fetch, literal, put, tensor_operand


class Maths:
    """Literals of the computing type; `out` is the type of the result."""

    def __init__(self, dtype: DType, out: DType) -> None:
        self.dtype, self.out = float32 if dtype.codec else dtype, out

    def lit(self, value: float) -> str:
        return literal(value, self.dtype)

    def call(self, name: str, *arguments: object) -> str:
        """A function of mlf/math.h, in the computing type's version."""
        suffix = "" if self.dtype.bits == 64 else "f"
        return f"mlf_{name}{suffix}({', '.join(map(str, arguments))})"

    def size(self, a: object) -> str:
        """The absolute value of a float."""
        return f"fabs({a})" if self.dtype.bits == 64 else f"fabsf({a})"

    def root(self, a: object) -> str:
        """The square root of a float."""
        return f"sqrt({a})" if self.dtype.bits == 64 else f"mlf_sqrtf({a})"

    def clamp(self, text: str, low: float, high: float) -> str:
        name = "mlf_clamp_f64" if self.dtype.bits == 64 else "mlf_clamp_f32"
        return f"{name}({text}, {self.lit(low)}, {self.lit(high)})"

    def same(self, text: str) -> str:
        """`text` gives one of the operands: there is nothing to round in a narrow float."""
        return Exact(text) if self.out.codec else text


def elementwise(name: str, expr: ExprFn, *traits: Trait, **fields: Any) -> None:
    """Register operator `name`; `expr(m, *operands, **attrs)` returns its C expression. The fields
    of an attribute that is a Rescaling are the node's, and so is its Rounding."""
    signature = inspect.signature(expr).parameters.values()
    attrs = {p.name: _attribute(p.default) for p in signature if p.kind is p.KEYWORD_ONLY}

    def render(node: Node, dtype: DType, args: Sequence[Scalar | None]) -> str:
        given = {k: _given(node, k, default) for k, default in attrs.items()}
        first = args[0]
        assert first is not None
        return expr(Maths(dtype if dtype.is_float else first.dtype, dtype), *args, **given)

    fields = {"result": broadcast, "expression": render, **fields}
    op(name, Trait.ELEMENTWISE, *traits, **fields)(loop_nest)


def broadcast(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    """The first input's element type in the shape that all inputs broadcast to."""
    given = [t for t in types if t is not None]
    if not given:
        raise UnsupportedError("has no inputs")
    try:
        return TensorType(given[0].dtype, np.broadcast_shapes(*(t.shape for t in given)))
    except ValueError:
        shapes = ", ".join(str(t.shape) for t in given)
        raise UnsupportedError(f"inputs of shapes {shapes} do not broadcast") from None


def _given(node: Node, name: str, default: Any) -> Any:
    if isinstance(default, Rescaling | Rounding):
        return Rounding.of(node) if isinstance(default, Rounding) else Rescaling.of(node.attrs)
    return node.attrs.get(name, default)


def _attribute(default: Any) -> Any:
    """A default as ONNX has it: attributes are float32, whatever the tensors are."""
    return float(np.float32(default)) if isinstance(default, float) else default


def _spreads(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether a tensor broadcasts to the output without adding elements to it."""
    more = shape[: max(0, len(shape) - len(out))]
    fits = all(n in (1, m) for n, m in zip(_ranked(shape, len(out)), out, strict=True))
    return fits and all(n == 1 for n in more)


def _ranked(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape with as many axes: extents of 1 are put in front, or taken from there."""
    return (1,) * (rank - len(shape)) + shape[max(0, len(shape) - rank) :]


def loop_nest(v: View) -> Kernel:
    """One loop nest over the output, whatever the inputs' broadcasting; contiguous axes merged."""
    nodes = v.node.body or (v.node,)
    if any(node.attrs.get("block_size", 0) for node in nodes):
        raise UnsupportedError(
            "scales by blocks that do not divide their axis; supported: those that do"
        )
    out = v.out.shape
    names = [n for n in v.node.inputs if n]
    for name in names:
        if not _spreads(v.type(name).shape, out):
            raise UnsupportedError(f"an operand {v.type(name)} that does not broadcast to {v.out}")
    strides = {n: broadcast_strides(v.type(n).shape, out) for n in names}
    dims, strides = merged(out, strides)
    operands: list[Operand] = []

    def load(name: str, integers: Array | None = None) -> Scalar:
        param = f"a{len(operands)}"
        operands.append(tensor_operand(v.graph, param, name, integers))
        dtype = v.type(name).dtype if integers is None else int32
        return Scalar(fetch(dtype, param, index_text(strides[name])), dtype)

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
            "store": put(v.out.dtype, "y", index_text(row_major(dims)), result),
        },
        (*operands, y),
        operations=v.out.elements * (body.operations + times(loop=1, store=1)),
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


def broadcast_strides(shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a tensor seen with the output's shape; 0 where it is repeated."""
    strides, step = [], 1
    for extent in reversed(_ranked(shape, len(out))):
        strides.append(0 if extent == 1 else step)
        step *= extent
    return tuple(reversed(strides))


def row_major(dims: Sequence[int]) -> tuple[int, ...]:
    return broadcast_strides(tuple(dims), tuple(dims))


def merged(
    out: tuple[int, ...], strides: dict[str, tuple[int, ...]]
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


def index_text(strides: Sequence[int], names: Sequence[str] = ()) -> str:
    """C text of an element's index from the loop variables `names`, or i0, i1, ..."""
    names = names or [f"i{k}" for k in range(len(strides))]
    terms = [n if s == 1 else f"{n} * {s}" for n, s in zip(names, strides, strict=True) if s]
    return " + ".join(terms) or whole(0)
