"""Operators of signal processing: Fourier transforms, windows, mel weights; Det and Inverse.

Transforms are sums of products with a table of cosines and sines, n^2 of them: a table costs less
code than a fast transform, and the order of the sum is the same for every length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir.dtype import float32
from mlftool.ir.graph import Array, View
from mlftool.ir.operations import PRODUCT, STEP, of_text, times
from mlftool.onnx_rules.boxes import OF_MATRICES, each_alone
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import EXTENTS, Outcome, Refuse, Scope
from mlftool.ops.base import (
    Facts,
    Kernel,
    Operand,
    Shape,
    Signature,
    UnsupportedError,
    like_first,
    of_form,
    op,
    shown,
)
from mlftool.ops.elementwise import Maths
from mlftool.ops.plain import plain_kernel
from mlftool.ops.scalar import literal, read_by, settle


def _float_only(v: View, rank: int = 0) -> None:
    if rank not in (0, len(v.y.shape)):  # as declared, where it follows from values
        raise UnsupportedError(f"{v.core.op} to {v.y}; expected {rank} dimensions")
    if v.y.dtype.name not in ("float32", "float64"):
        raise UnsupportedError(f"{v.core.op} on {v.y.dtype}; supported: floats")


def transform(
    v: View,
    shape: Shape,
    length: int | str,
    most: int,
    params: Mapping[str, Any],
    reads: dict[str, int],
) -> Kernel:
    """y[o, k, i] = sum over t of x[o, t, i] * e^(-+2 pi i k t / length). A length known only at run
    time, at most `most`, gets its table then. `shape` is x's, with parts as the last axis."""
    row = v.y.dtype
    m = Maths(row, row)
    if isinstance(length, int):
        turn = Operand("turn", row.c, "const", array=_turn(length).astype(row.numpy))
    else:
        turn = Operand("turn", row.c, "scratch", bytes=2 * most * row.bytes)
    inverse = bool(v.attr("inverse", 0))
    return Kernel(
        "portable.dft",
        "dft.c.j2",
        {
            "type": row.c,
            "length": length,
            "most": most,
            "filled": isinstance(length, int),
            "quarter": f"{m.lit(math.pi / 2)} / ({row.c})length",
            "cos": m.call("sin", f"({row.c})(length - u) * quarter"),
            "sin": m.call("sin", f"({row.c})u * quarter"),
            "sign": "+" if inverse else "-",
            "counter": "-" if inverse else "+",
            "inverse": inverse,
            "mirrored": inverse and bool(v.attr("onesided", 0)),
            "complex": shape[-1] == 2,
            "parts": v.y.shape[-1],
            "shape": shape[:-1],
            "out": v.y.shape[:-1],
            "zero": literal(0, row),
            "windowed": "window" in reads,
            **params,
        },
        (*read_by(v, reads), turn, Operand("y", row.c, "out", v.node.outputs[0])),
        operations=v.y.elements * most * (PRODUCT + times(load=2, whole=4, loop=1)),
        includes=("mlf/kernel.h", "mlf/math.h", "mlf/index.h"),
    )


def _turn(length: int) -> Array:
    """Cosine and sine of 2 pi k / length, from the sines of the first quarter alone, so that what
    should be zero is, and what should be equal."""
    u = 4 * np.arange(length)
    sine = np.where(u > 2 * length, -1.0, 1.0)
    u = np.minimum(u, 4 * length - u)
    cosine = np.where(u > length, -1.0, 1.0)
    u = np.minimum(u, 2 * length - u)
    quarter = np.pi / 2 / max(1, length)
    cosine, sine = cosine * np.sin((length - u) * quarter), sine * np.sin(u * quarter)
    return np.stack([cosine, sine], axis=1)


def _along_first(scope: Scope, d: Draft) -> None:
    """Before 20 the axis was an attribute, 1 unless given; it is an input since, the last but
    one."""
    d.attrs.setdefault("axis", 1)


def _of_parts(f: Facts) -> str:
    """The last axis of a transform's input holds real parts, or real and imaginary ones."""
    if len(f.x) >= 2 and f.x[-1] in (1, 2):
        return ""
    return f"an input of shape {shown(f.x)}; expected 1 (real) or 2 (complex) along the last axis"


def _of_a_signal(f: Facts) -> str:
    """onnx's inference and onnxruntime also take real signals without an axis of parts."""
    if len(f.x) == 2 or (len(f.x) == 3 and f.x[-1] in (1, 2)):
        return ""
    return f"a signal of shape {shown(f.x)}; expected [batch, length], or 1 or 2 parts of each"


def _all_but_transformed(scope: Scope, node: NodeProto) -> Outcome:
    """Of boxes: every line along the axis by itself."""
    given = scope.consts.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if given is None and len(node.input) > 2 and node.input[2]:
        return Refuse("MLF0302", "transforms along an axis known only at run time", EXTENTS)
    axis = int(attributes(node).get("axis", -2) if given is None else given.item())
    lines = each_alone(lambda node, rank: {*range(rank - 1)} - {axis % max(rank, 1)})
    return lines(scope, node)


@op(
    "DFT",
    forms=of_form("*", ".", "."),
    older=((20, _along_first),),
    checks=(_of_parts,),
    extents=_all_but_transformed,
)
def dft(v: View) -> Kernel:
    """Along one axis of [..., n, ..., 1 or 2], real or complex."""
    _float_only(v)
    shape, out = v.x(0).shape, v.y.shape
    reads = {"x": 0}
    axis = v.attr("axis", None)
    if v.has(2):
        known, other = v.const(2), [k for k, n in enumerate(out[:-1]) if (n,) != shape[k : k + 1]]
        if known is None and len(other) > 1:
            raise UnsupportedError(f"DFT of {v.x(0)} to {v.y}; expected one axis that changes")
        axis = (other[0] if other else None) if known is None else int(known.item())
        if axis is None:
            reads["axis"] = 2
    elif axis is None:
        axis = -2
    whole = not v.attr("onesided", 0) or v.attr("inverse", 0)  # then the output has the length
    length: int | str = "out[along]" if whole else "extent[along]"
    most = max(*out[:-1], *shape[:-1])
    if axis is not None:
        length = most = out[axis] if whole else shape[axis]
    if v.has(1) and not whole:
        given = v.const(1)
        most = 2 * max(out[:-1]) if given is None else int(given.item())
        length = most if given is not None else f"mlf_clamp_index(*count, 1, {most})"
        if given is None:
            reads["count"] = 1
    rank = len(shape) - 1
    at = f"mlf_index(*axis, {rank})" if axis is None else str(axis % len(shape))
    return transform(v, shape, length, most, {"along": at, "framed": False, "step": 0}, reads)


@op("STFT", forms=of_form("*", ".", "*", "."), checks=(_of_a_signal,))
def stft(v: View) -> Kernel:
    """Transforms of frames of a signal, `frame_step` apart, each times a window."""
    _float_only(v, 4)
    step, given = v.const(1), v.const(3)
    reads = {"x": 0} | ({"frame_step": 1} if step is None else {})
    reads |= {"window": 2} if v.has(2) else {}
    most = 2 * v.y.shape[2]
    length: int | str = v.x(2).elements if v.has(2) else ""
    if not v.has(2) and v.has(3):
        length = int(given.item()) if given is not None else f"mlf_clamp_index(*count, 1, {most})"
        reads |= {"count": 3} if given is None else {}
    if length == "":
        raise UnsupportedError("STFT without a window or a frame length")
    apart = "mlf_clamp_index(*frame_step, 1, INT32_MAX)" if step is None else str(int(step.item()))
    most = length if isinstance(length, int) else most
    shape = v.x(0).shape if len(v.x(0).shape) == 3 else (*v.x(0).shape, 1)
    form = {"along": "1", "framed": True, "step": apart, "late": step is None}
    return transform(v, shape, length, most, form, reads)


WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def window(v: View) -> Kernel:
    """a - b * cos(2 pi i / n) + c * cos(4 pi i / n), in float32; the size is the output's."""
    row = v.y.dtype
    if not row.is_float or row.codec:
        raise UnsupportedError(f"{v.core.op} of {row}; supported: floats")
    a, b, c = (literal(x, float32) for x in WINDOWS[v.core.op])
    n = v.y.elements - (0 if v.attr("periodic", 1) else 1)
    angle = f"(float)i0 * {literal(2 * math.pi, float32)} / {literal(max(1, n), float32)}"
    value = f"{a} - {b} * mlf_cosf(angle)"
    value += f" + {c} * mlf_cosf({literal(2, float32)} * angle)" if WINDOWS[v.core.op][2] else ""
    return Kernel(
        "portable.window_function",
        "elementwise.c.j2",
        {
            "loops": [("i0", v.y.elements)],
            "statements": [f"const float angle = {angle};"],
            "store": f"y[i0] = {settle(row, value)};",
        },
        (Operand("y", row.c, "out", v.node.outputs[0]),),
        operations=v.y.elements
        * (of_text(angle, float32) + of_text(value, float32) + times(loop=1, store=1)),
        includes=("mlf/kernel.h", "mlf/math.h"),
    )


@op("MelWeightMatrix")
def mel_weight_matrix(v: View) -> Kernel:
    """[spectrogram bins, mel bins]: triangles that are equally wide in mels."""
    _float_only(v, 2)
    bins, mels = v.y.shape
    edges = Operand("edge", "int32_t", "scratch", bytes=4 * (mels + 2))
    names = ("dft_length", "sample_rate", "lower", "upper")
    reads = read_by(v, {name: k for k, name in enumerate(names, 1)})
    return Kernel(
        "portable.mel",
        "mel.c.j2",
        {"bins": bins, "mels": mels, "type": v.y.dtype.c},
        (*reads, edges, Operand("y", v.y.dtype.c, "out", v.node.outputs[0])),
        operations=v.y.elements * times(loop=1, store=1, whole=8, choose=2, div=1),
        includes=("mlf/kernel.h", "mlf/math.h", "mlf/index.h"),
    )


def _eliminated(v: View, template: str, many: float) -> Kernel:
    """Of square matrices by elimination, the largest element of each column first."""
    _float_only(v)
    shape = v.x(0).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise UnsupportedError(f"{v.core.op} of {shown(shape)}; expected square matrices")
    n, row = shape[-1], v.x(0).dtype
    params = {
        "n": n,
        "count": v.x(0).elements // max(1, n * n),
        "type": row.c,
        "one": literal(1, row),
        "zero": literal(0, row),
        "size": "fabs" if row.bits == 64 else "fabsf",
    }
    work = Operand("a", row.c, "scratch", bytes=n * n * row.bytes)
    operations = v.x(0).elements * n * many * (PRODUCT + STEP)
    return plain_kernel(v, template, params, work, operations=operations, includes=("mlf/math.h",))


@op("Det", extents=OF_MATRICES)
def determinant(v: View) -> Kernel:
    return _eliminated(v, "det", 1.0)


@op("com.microsoft.Inverse", extents=OF_MATRICES, result=like_first, signature=Signature.of("x"))
def inverse(v: View) -> Kernel:
    """A matrix without an inverse gets infinities or NaN."""
    return _eliminated(v, "inverse", 2.0)


for _name in WINDOWS:
    op(_name)(window)
