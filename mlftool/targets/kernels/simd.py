"""Contractions in vectors of output channels, for processors with SSE2, AVX2 or AVX-512.

The operands of `rows` pixels are gathered once into `columns` (unless they lie together anyway),
then `vectors` of `lanes` output channels each are computed for all of them, in registers. A lane
adds its products in the same order as the portable kernel, so float results are the same bits.

int8 activations meet weights in pairs (PMADDWD on int16) or, with VNNI, in quads (VPDPBUSD). That
one takes unsigned bytes, so signed activations are stored 128 larger and the bias makes up for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import (
    BLOCK,
    Contraction,
    Quantisation,
    blocks,
    contraction,
    fits_int32,
    folded_bias,
    geometry,
    pack_rows,
    pad_rows,
    requantize,
)
from mlftool.ops.scalar import Store, tensor_operand
from mlftool.targets.kernels import kernel


@dataclass(frozen=True)
class Unit:
    """A vector unit: 32-bit lanes, registers, and how many int8 products a lane takes at once."""

    name: str
    lanes: int
    registers: int
    group: int

    def shape(self, c: Contraction) -> tuple[int, int]:
        """(rows, vectors): as many accumulators as the registers hold beside their operands."""
        room = self.registers - 4
        wanted = -(-c.oc // self.lanes)
        vectors = min(2, wanted)
        rows = min(c.pixels, room // vectors)
        # One pixel alone: more channels at once hide the latency of the additions.
        return rows, min(wanted, max(vectors, room // (rows * 2)))


SSE = Unit("sse2", 4, 16, 2)
AVX2 = Unit("avx2", 8, 16, 2)
AVX512 = Unit("avx512", 16, 32, 4)


def _bid(v: View, unit: Unit) -> Kernel | None:
    c = contraction(v)
    if c.group != 1 or len(c.inputs) > 2:
        return None
    c = c.planar()
    return _int8(v, c, unit) if c.quantised else _float32(v, c, unit)


def _float32(v: View, c: Contraction, unit: Unit) -> Kernel:
    rows, vectors = unit.shape(c)
    width = vectors * unit.lanes
    return _kernel(
        v,
        c,
        unit,
        "f32",
        (rows, vectors),
        "a[i]" if blocks(c) > 1 else "(b[oc + i] + a[i])",
        (
            Operand("w", "float", "const", array=pack_rows(c.weights, width)),
            Operand("b", "float", "const", array=pad_rows(c.bias, width)),
        ),
        {
            "column": c.depth,
            "blocks": blocks(c),
            "block": (BLOCK if c.dense else c.kernel[1] * c.ic) if blocks(c) > 1 else c.depth,
            "gather": None if c.dense else "copy",
            "fill": "0.0f",
        },
        "float",
    )


def _int8(v: View, c: Contraction, unit: Unit) -> Kernel | None:
    q = Quantisation.of(v)
    weights = v.known(3)
    bytes_ = v.x(0).dtype.is_int8 and weights.dtype == np.int8
    if not bytes_ or np.any(q.w_zero_point) or not fits_int32(c, q):
        return None
    rows, vectors = unit.shape(c)
    width = vectors * unit.lanes
    signed = v.x(0).dtype.name == "int8"
    bias = folded_bias(c, q)
    flips = unit.group == 4 and signed
    if flips:
        bias = bias - 128 * c.weights.reshape(c.oc, -1).astype(np.int64).sum(axis=1)
    scale = q.scale if q.scale.size == 1 else pad_rows(q.scale, width)
    gather = {2: "widen_s8" if signed else "widen_u8", 4: "flip_s8" if flips else "copy"}
    return _kernel(
        v,
        c,
        unit,
        "s8",
        (rows, vectors),
        f"({v.y.dtype.c}){requantize(c, q, 'a[i]', 'oc + i')}",
        (
            Operand("w", "int8_t", "const", array=_pack(c, width, unit.group)),
            # Sums modulo 2^32 come out right whatever the way there.
            Operand("b", "int32_t", "const", array=pad_rows(_wrap(bias), width)),
            Operand("scale", "float", "const", array=scale),
        ),
        {
            "column": -(-c.depth // unit.group) * unit.group,
            "gather": gather[unit.group],
            "fill": q.x_zero_point + (128 if flips else 0),
        },
        "int16_t" if unit.group == 2 else "uint8_t",
    )


def _wrap(values: Array) -> Array:
    return np.asarray(values.astype(np.uint64).astype(np.uint32).view(np.int32))


def _pack(c: Contraction, width: int, group: int) -> Array:
    """[OC/width, K/group, width, group], zeros added."""
    w = pad_rows(c.weights.reshape(c.oc, -1), width)
    w = np.concatenate([w, np.zeros((w.shape[0], -w.shape[1] % group), w.dtype)], axis=1)
    parts = w.reshape(-1, width, w.shape[1] // group, group)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(-1)


def _kernel(
    v: View,
    c: Contraction,
    unit: Unit,
    kind: str,
    shape: tuple[int, int],
    result: str,
    constants: tuple[Operand, ...],
    more: dict[str, Any],
    column_type: str,
) -> Kernel:
    rows, vectors = shape
    store = Store(v, result, f"(p + j) * {c.oc} + oc + i", "oc + i")
    columns: tuple[Operand, ...] = ()
    if more["gather"]:
        size = rows * more["column"] * {"float": 4, "int16_t": 2, "uint8_t": 1}[column_type]
        columns = (Operand("columns", column_type, "scratch", bytes=size),)
    products = unit.lanes * (1 if kind == "f32" else unit.group)
    return Kernel(
        f"{unit.name}.{kind}",
        "simd.c.j2",
        {
            **geometry(c),
            **more,
            "kind": kind,
            "unit": unit,
            "rows": rows,
            "vectors": vectors,
            "store": store,
            "column_type": column_type,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            *constants,
            *store.operands,
            Operand("y", v.out.dtype.c, "out", v.node.outputs[0]),
            *columns,
        ),
        cost=c.macs * 2.0 / products + c.pixels * c.oc * 4.0,
        macs=c.macs,
        includes=("mlf/kernel.h", "mlf/simd.h", *store.includes),
        inplace=store.inplace,
    )


_FLOATS = ("Conv", "Gemm")
_INTEGERS = ("QLinearConv", "com.microsoft.QGemm")


@kernel(*_FLOATS, needs="vector", unless="fused")
@kernel(*_INTEGERS, needs="vector")
def sse2(v: View) -> Kernel | None:
    return _bid(v, SSE)


@kernel(*_FLOATS, needs="avx2", unless="fused")
@kernel(*_INTEGERS, needs="avx2")
def avx2(v: View) -> Kernel | None:
    return _bid(v, AVX2)


@kernel(*_FLOATS, needs="avx512", unless="fused")
@kernel(*_INTEGERS, needs="avx512")
def avx512(v: View) -> Kernel | None:
    return _bid(v, AVX512)
