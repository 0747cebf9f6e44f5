"""Epilogues for vectors of accumulators on Cortex-M55: eight are requantised at a time.

The integer form of ops/fixed.py is VQDMLASH and a shift that narrows. A layer in which some channel
has no multiplier takes the float form for all its channels, two instructions more for four of them.
Fused operators, such as a residual Add, are computed on the same vectors; those without a vector
form here are computed element by element.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    folded_bias,
    has_normal_scales,
    pad_rows,
    requantize,
    scale_operand,
)
from mlftool.ops.fixed import fixed
from mlftool.ops.pairs import Sum, in_integers
from mlftool.ops.scalar import Store, operand_kind, tensor_operand


@dataclass(frozen=True)
class Shape:
    """Which outputs eight accumulators belong to. `channel` is the C name of the first channel."""

    kind: str  # "octet": eight channels; "pair": four channels of two pixels; "one": of one
    channel: str
    count: str  # C text: how many channels there are, at most `width`

    @property
    def width(self) -> int:
        return 8 if self.kind == "octet" else 4

    def halves(self, array: str) -> str:
        """C text of where the even and the odd half read per-channel values."""
        odd = f"{array} + {self.channel}" + (" + 4" if self.kind == "octet" else "")
        return f"{array} + {self.channel}, {odd}"

    def lanes(self, values: Array) -> Array:
        """Channel values in the order of lanes, zeros added."""
        if self.width == 4:
            return pad_rows(values, 4)
        padded = pad_rows(values, 8).reshape(-1, 4, 2).transpose(0, 2, 1)
        return np.ascontiguousarray(padded).reshape(-1)


@dataclass(frozen=True)
class Finish:
    """`vector` turns `acc` into the halves `out`; without it `store` does element by element."""

    shape: Shape
    vector: tuple[str, ...]
    store: Store
    operands: tuple[Operand, ...]
    includes: tuple[str, ...] = ()
    inplace: tuple[str, ...] = ()


def finish(c: Contraction, q: Quantisation, shape: Shape) -> Finish:
    bias = shape.lanes(folded_bias(c, q).astype(np.int32))
    b = Operand("b", "int32_t", "const", array=bias)
    lane = "i / 2 + i % 2 * 4" if shape.kind == "octet" else "(pixel - p) * 4 + i"
    index = f"{shape.channel} + i"
    value = f"({c.v.y.dtype.c}){requantize(c, q, f'sums[{lane}]', index)}"
    store = Store(c.v, value, f"pixel * {c.oc} + {index}", index)
    vector = _vector(c, q, shape)
    if vector is None:
        operands = (b, scale_operand(q), *store.operands)
        return Finish(shape, (), store, operands, store.includes, store.inplace)
    operands, lines = vector
    return Finish(shape, lines, store, (b, *operands), (), store.inplace)


def _vector(
    c: Contraction, q: Quantisation, shape: Shape
) -> tuple[tuple[Operand, ...], tuple[str, ...]] | None:
    """Operands and C statements, or None where there is no vector form."""
    if not has_normal_scales(q) or not c.v.y.dtype.is_int8:
        return None
    fix = fixed(c, q)
    if fix is not None and not fix.exact.any() and fix.shift < 16:
        operand = Operand("m", "int32_t", "const", array=shape.lanes(fix.multiplier))
        # VQDMLASH doubles, and the shift that follows it adds the half itself.
        add = 2 * fix.add - (1 << fix.shift)
        text = f"mlf_octet_fixed(acc, {shape.halves('m')}, {add}, {fix.shift + 1})"
    else:
        scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float32)
        operand = Operand("scale", "float", "const", array=shape.lanes(scale))
        text = f"mlf_octet_scaled(acc, {shape.halves('scale')}, {q.y_zero_point})"
    behind = _Behind(c.v, c.oc, shape)
    limited = behind.body(limit(text, q.lo, q.hi, bool(behind.nodes)))
    return ((operand, *behind.operands), limited) if limited else None


def limit(text: str, low: int, high: int, whole: bool) -> str:
    """C text of halves within limits; `whole` if more than their low bytes will be read."""
    if (low, high) == (-128, 127) and not whole:
        return f"mlf_halves_saturate({text})"
    return f"mlf_halves_clamp({text}, {low}, {high})"


class _Behind:
    """The nodes fused after a core, as statements on octets: a residual addition of int8."""

    def __init__(self, v: View, oc: int, shape: Shape) -> None:
        self.v, self.oc, self.shape = v, oc, shape
        self.nodes = v.node.body[v.node.body.index(v.core) + 1 :] if v.node.body else ()
        self.operands: list[Operand] = []

    def body(self, out: str) -> tuple[str, ...] | None:
        """The statements that give the halves `out`, if the nodes have a vector form."""
        if not self.nodes:
            return (f"const mlf_halves out = {out};",)
        core, pair = self.v.core.outputs[0], in_integers(self.v.graph, self.nodes)
        if pair is None or not isinstance(pair.t, Sum) or core not in pair.inputs:
            return None
        first, s, after = pair.inputs[0] == core, pair.t, pair.result
        loaded = self._load(pair.inputs[1 if first else 0])
        if loaded is None:
            return None
        m, n = (s.m, s.n) if first else (s.n, s.m)
        lines = [
            f"mlf_octet t = mlf_octet_sum(mlf_halves_widen({out}), {m}, {loaded}, {n}, {s.add});"
        ]
        lines += [f"t = mlf_octet_except(t, {value}, {step});" for value, step in after.exceptions]
        shifted = f"mlf_octet_narrow(mlf_octet_shifted(t, {after.shift}))"
        limited = limit(shifted, after.low, after.high, False)
        return (*lines, f"const mlf_halves out = {limited};")

    def _load(self, name: str) -> str | None:
        """C text that reads the eight int8 of a tensor like the output."""
        type_ = self.v.graph.types[name]
        if type_.dtype.name != "int8" or operand_kind(type_, self.v.out) != "linear":
            return None
        self.operands.append(tensor_operand(self.v.graph, "fused0", name))
        at = f"fused0 + p * {self.oc} + {self.shape.channel}"
        if self.shape.kind == "octet":
            return f"mlf_octet_load8({at}, {self.shape.count})"
        second = "q" if self.shape.kind == "pair" else "p"
        other = f"fused0 + {second} * {self.oc} + {self.shape.channel}"
        return f"mlf_pair_load8({at}, {other}, {self.shape.count})"
