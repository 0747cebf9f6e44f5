"""Epilogues for vectors of accumulators on Cortex-M55: eight are requantised at a time.

The integer form (targets/requantise/fixed.py) is VQDMLASH and a shift that narrows. A layer in
which some channel has no multiplier takes the float form for all its channels, two instructions
more for four of them. What rounds twice is VQRDMULH and VRSHL.
Fused operators, such as a residual Add, are computed on the same vectors; those without a vector
form here are computed element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.ir.holes import Number
from mlftool.ir.pair_forms import Biased, Clamped, Sloped
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Operand
from mlftool.ops.contraction import (
    Contraction,
    Quantisation,
    folded_bias,
    grows,
    has_normal_scales,
    pad_rows,
    requantize,
    scale_operand,
)
from mlftool.ops.pairs import in_integers
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.parts import Residual, after_core, residual
from mlftool.targets.requantise.fixed import fixed
from mlftool.targets.requantise.once import once
from mlftool.targets.requantise.steps import extremes
from mlftool.targets.requantise.twice import multipliers

MOST_NARROWING = 16  # bits that one instruction shifts while it narrows
SCALARS = {"b", "factor"}  # values that instructions take from a core register
SMALL = 2**15 - 512  # of products that mlf_octet_scaled_small takes


@frozen
class Shape:
    """Which outputs eight accumulators belong to. `channel` is the C name of the first channel."""

    # "octet": eight channels; "pair": four channels of two pixels; "one": of one pixel; "patch":
    # eight pixels of a channel; "strip": two channels of four pixels.
    kind: str
    channel: str
    count: str  # C text: how many channels there are, at most `width`
    scattered: bool = False  # all of a pair are stored at once, to `places`
    again: bool = False  # the last octet has channels of the one before; `block` counts octets

    @property
    def width(self) -> int:
        return {"octet": 8, "strip": 2}.get(self.kind, 4)

    def halves(self, array: str, kind: str = "quad") -> str:
        """C text of per-channel values of the even and of the odd half; a patch's are hoisted."""
        if self.kind == "patch":
            return f"{array}c, {array}c"
        read = "quad_bytes" if kind == "bytes" else f"{kind}_at"
        if self.kind == "strip":
            read = "twins_at" if kind == "quad" else f"twins_{kind}"
        further = " + 4" if self.kind == "octet" else ""
        at = "8 * block" if self.again else self.channel
        return ", ".join(f"mlf_{read}({array} + {at}{by})" for by in ("", further))

    def lanes(self, values: Array) -> Array:
        """Channel values in the order of lanes, zeros added."""
        if self.kind == "patch":
            return values
        if self.width < 8:
            return pad_rows(values, self.width)
        if self.again:
            starts = np.minimum(np.arange(0, len(values), 8), len(values) - 8)
            values = values[starts[:, None] + np.arange(8)].reshape(-1)
        padded = pad_rows(values, 8).reshape(-1, 4, 2).transpose(0, 2, 1)
        return np.ascontiguousarray(padded).reshape(-1)


@frozen
class Finish:
    """`vector` turns `acc` into the halves `out`; without it `store` does element by element.
    `hoisted` are the C statements that read the numbers of a patch's channel."""

    shape: Shape
    vector: tuple[str, ...]
    store: Store
    operands: tuple[Operand, ...]
    includes: tuple[str, ...] = ()
    inplace: tuple[str, ...] = ()
    bits: int = 8  # of what `vector` makes
    hoisted: tuple[str, ...] = ()

    @property
    def lanes(self) -> int:
        """How many elements it computes at once."""
        return 4 if self.vector else 1


def finish(c: Contraction, q: Quantisation, shape: Shape, less: int = 0) -> Finish:
    """`less` is taken from each input before it is multiplied."""
    moved = replace(q, x_zero_point=q.x_zero_point - less)
    bias = shape.lanes(folded_bias(c, moved).astype(np.int32))
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
    bits, constants = c.v.y.dtype.bits, (b, *operands)
    if shape.kind != "patch":
        return Finish(shape, lines, store, constants, (), store.inplace, bits)
    numbers, hoisted = _hoisted(constants, shape.channel)
    return Finish(shape, lines, store, (numbers,), (), store.inplace, bits, hoisted)


def _hoisted(constants: Sequence[Operand], channel: str) -> tuple[Operand, tuple[str, ...]]:
    """A channel's values in turn, which take one pointer, and the C statements that read them."""
    words = [np.asarray(o.array) for o in constants]
    words = [a.view(np.int32) if a.itemsize == 4 else a.astype(np.int32) for a in words]
    each = len(constants)
    lines = []
    for k, o in enumerate(constants):
        word = f"numbers[{each} * {channel} + {k}]"
        of_all = f"const mlf_quad {o.name}c = mlf_quad_all({word});"
        lines.append(f"const int32_t {o.name}c = {word};" if o.name in SCALARS else of_all)
    table = np.stack(words, axis=1).reshape(-1)
    note = "bias and multiplier, or the bits of the scale, of each channel in turn"
    return Operand("numbers", "int32_t", "const", array=table, note=note), tuple(lines)


def _vector(
    c: Contraction, q: Quantisation, shape: Shape
) -> tuple[tuple[Operand, ...], tuple[str, ...]] | None:
    """Operands and C statements, or None where there is no vector form."""
    if c.v.x(0).dtype.name == "int16":
        return _shorts(c, q, shape)
    if not grows(c, q) or not c.v.y.dtype.is_int8:
        return None
    made = (_twice if q.rounding is Rounding.TWICE else _even)(c, q, shape)
    if made is None:
        return None
    operands, before, text = made
    nodes, added = after_core(c.v), residual(c.v)
    out = limit(text, q.lo, q.hi, bool(nodes))
    if not nodes:
        return operands, (*before, f"const mlf_halves out = {out};")
    if added is not None:
        return (*operands, added.other), (*before, *_sum(added, out, c.oc, shape))
    known = _with_constants(c, out, shape)
    return known and ((*operands, known[0]), (*before, *known[1]))


def _shorts(
    c: Contraction, q: Quantisation, shape: Shape
) -> tuple[tuple[Operand, ...], tuple[str, ...]] | None:
    """The same of sums of int16, to int16."""
    if c.v.y.dtype.name != "int16" or after_core(c.v):
        return None
    single = once(c, q, 1)
    if single is not None and single.shift < MOST_NARROWING and single.m.array is not None:
        m = Operand("m", "int32_t", "const", array=shape.lanes(single.m.array))
        made = _doubled(m, single.add, single.shift, shape)
    elif q.rounding is Rounding.EVEN and has_normal_scales(q):
        scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float32)
        operand = Operand("scale", "float", "const", array=shape.lanes(scale))
        halves = shape.halves("scale", "floats")
        made = (operand,), (), f"mlf_octet_scaled_s16(acc, {halves}, {q.y_zero_point})"
    else:
        return None
    operands, before, text = made
    whole = (q.lo, q.hi) == c.v.y.dtype.range
    out = text if whole else f"mlf_halves_clamp({text}, {q.lo}, {q.hi})"
    return operands, (*before, f"const mlf_halves out = {out};")


Halves = tuple[tuple[Operand, ...], Sequence[str], str]  # what is read, C statements, C of halves


def _rounded(operands: tuple[Operand, ...], high: str, shift: int | Number) -> Halves:
    before = [f"const mlf_octet high = {high};"]
    return operands, before, f"mlf_octet_rounded(high, {shift})"


def _doubled(m: Operand, add: Number, shift: Number, shape: Shape) -> Halves:
    """((acc * m >> 32) + add) >> shift: VQDMLASH doubles, and the shift that follows it adds the
    half itself."""
    doubled = 2 * add - (1 << shift)
    return _rounded((m,), f"mlf_octet_products(acc, {shape.halves('m')}, {doubled})", shift + 1)


def _even(c: Contraction, q: Quantisation, shape: Shape) -> Halves:
    fix = fixed(c, q)
    if fix is not None and not fix.exact.any() and fix.shift < 16 and not fix.left:
        m = Operand("m", "int32_t", "const", array=shape.lanes(fix.multiplier))
        return _doubled(m, fix.add, fix.shift, shape)
    scale = np.broadcast_to(q.scale, (c.oc,)).astype(np.float32)
    operand = Operand("scale", "float", "const", array=shape.lanes(scale))
    reach = float((np.abs(extremes(c, q)).max(axis=0) * scale).max())
    if shape.kind == "patch" and reach <= SMALL:
        factor = replace(operand, name="factor")
        return (factor,), (), f"mlf_octet_scaled_by(acc, factorc, {q.y_zero_point})"
    return (operand,), (), scaled(shape.halves("scale", "floats"), q.y_zero_point, reach)


def _twice(c: Contraction, q: Quantisation, shape: Shape) -> Halves | None:
    """VQRDMULH is the product that is rounded, VRSHL the shift; below zero its ties go down."""
    m, exponent = multipliers(c, q)
    if exponent.max() > 0:
        return None
    away = q.lo < q.y_zero_point
    operands: tuple[Operand, ...] = (
        Operand("m", "int32_t", "const", array=shape.lanes(m.astype(np.int32))),
    )
    high = f"mlf_octet_high(acc, {shape.halves('m')})"
    before: Sequence[str] = ()
    if exponent.min() == exponent.max() and -MOST_NARROWING <= exponent[0] < 0:
        high = f"mlf_octet_downwards({high})" if away else high
        operands, before, narrow = _rounded(operands, high, Number(-int(exponent[0])))
    else:
        by = shape.lanes(exponent.astype(np.int8))
        operands = (*operands, Operand("by", "int8_t", "const", array=by))
        if away and exponent.max() < 0:  # every channel shifts, so every one has ties
            high, away = f"mlf_octet_downwards({high})", False
        shift = f"mlf_octet_shift_{'away' if away else 'up'}"
        narrow = f"mlf_octet_narrow({shift}({high}, {shape.halves('by', 'bytes')}))"
    text = f"mlf_halves_add({narrow}, {q.y_zero_point})" if q.y_zero_point else narrow
    return operands, before, text


def scaled(halves: str, zero_point: int | Number, reach: float) -> str:
    """C text of the halves of float products of `acc`, none of which is more than `reach`."""
    return f"mlf_octet_scaled{'_small' if reach <= SMALL else ''}(acc, {halves}, {zero_point})"


def limit(text: str, low: int, high: int, whole: bool) -> str:
    """C text of halves within limits; `whole` if more than their low bytes will be read."""
    if (low, high) == (-128, 127):
        return f"mlf_halves_{'limited' if whole else 'saturate'}({text})"
    return f"mlf_halves_clamp({text}, {low}, {high})"


def _sum(r: Residual, out: str, oc: int, shape: Shape) -> tuple[str, ...]:
    """The statements that add a residual to the halves `out`."""
    at = f"{r.other.name} + p * {oc} + {shape.channel}"
    if shape.kind == "octet":
        loaded = f"mlf_octet_load8({at}, {shape.count})"
    elif shape.kind == "strip":
        loaded = f"mlf_strip_load({at}, places, {shape.count})"
    else:
        second = "q" if shape.kind == "pair" else "p"
        other = f"{r.other.name} + {second} * {oc} + {shape.channel}"
        loaded = f"mlf_pair_load8({at}, {other}, {shape.count})"
    s = r.sum
    total = f"mlf_octet_sum(mlf_halves_widen({out}), {s.m}, {loaded}, {s.n}, {s.add})"
    return clamped(total, r.result)


def _with_constants(
    c: Contraction, out: str, shape: Shape
) -> tuple[Operand, tuple[str, ...]] | None:
    """The integers for each channel that halves `out` meet, and the statements: of a bias that was
    quantised as an operator of its own, or of slopes below zero."""
    pair = in_integers(c.v.graph, after_core(c.v))
    if pair is None or not isinstance(pair.t, Biased | Sloped) or pair.array is None:
        return None
    values = pair.array
    if pair.inputs[0] != c.v.core.outputs[0] or values.shape[-1:] != c.v.out.shape[-1:]:
        return None
    if values.size != c.oc:
        return None
    operand = Operand("more", "int32_t", "const", array=shape.lanes(values.reshape(-1)))
    t, read = pair.t, shape.halves("more")
    if isinstance(t, Biased):
        total = f"mlf_octet_biased(mlf_halves_widen({out}), {t.m}, {read})"
    else:
        total = f"mlf_octet_sloped(mlf_halves_widen({out}), {t.zero}, {t.m}, {read}, {t.add})"
    return operand, clamped(total, pair.result)


def clamped(total: str, after: Clamped) -> tuple[str, ...]:
    """The statements that make the halves `out` of the octet `total`."""
    steps = [f"t = mlf_octet_except(t, {value}, {step});" for value, step in after.exceptions]
    shifted = f"mlf_octet_narrow(mlf_octet_shifted(t, {after.shift}))"
    limited = limit(shifted, after.low, after.high, False)
    return (f"mlf_octet t = {total};", *steps, f"const mlf_halves out = {limited};")
