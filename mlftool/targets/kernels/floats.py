"""Float contractions for processors with an FPU, and those of the fused float mode.

More pixels at a time need fewer loads: a Cortex-M4 has 32 float registers. In the fused mode each
product is added with one rounding (C's fmaf), which is one instruction where the FPU has it and
the same bits everywhere, but not those of the exact mode.
"""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.ops.contract import any_rank, blocked, depthwise
from mlftool.ops.contraction import contraction, even_columns, packable
from mlftool.targets.kernels import FLOATS, kernel


def _is_float(v: View) -> bool:
    return packable(v) and v.x(0).dtype.name == "float32"


# What a function of its own takes: layers that share one may have as many bytes of padding.
_FUNCTION_BYTES = 400


def _tall(v: View, shared: bool, narrow: bool = False) -> Kernel | None:
    """Four pixels x at most four channels, or one x at most sixteen; the order of sums stays. Those
    that are to share a function have the same tile, if padding fewer channels for it pays."""
    c = contraction(v) if _is_float(v) else None
    if c is None or c.depthwise:
        return None
    rows, columns = (4, 4) if c.pixels >= 4 else (1, 16)
    padding = 4 * (-c.oc % columns) * c.depth
    if not shared or padding > _FUNCTION_BYTES:
        columns = even_columns(c.oc, columns)
    return blocked(v, rows, columns, narrow=narrow)


def _plain(v: View, shared: bool) -> Kernel | None:
    made = _tall(v, shared)
    return made and replace(made.taking(0.9), name="fpu.tall")


def _contracted(v: View, shared: bool) -> Kernel | None:
    """The same loops with fmaf."""
    if not _is_float(v):
        return None
    made = depthwise(v) or _tall(v, shared) or any_rank(v)
    params = {**made.params, "fused": True}
    return replace(made.taking(0.7), name=f"fused.{made.name}", params=params)


@kernel(*FLOATS, needs="fpu", unless="fused size", replaces_portable=True)
def tall(v: View) -> Kernel | None:
    return _plain(v, shared=False)


@kernel(*FLOATS, needs="fpu size", unless="fused", replaces_portable=True)
def tall_shared(v: View) -> Kernel | None:
    return _plain(v, shared=True)


@kernel(*FLOATS, needs="fused", unless="size", replaces_portable=True)
def fused(v: View) -> Kernel | None:
    return _contracted(v, shared=False)


@kernel(*FLOATS, needs="fused size", replaces_portable=True)
def fused_shared(v: View) -> Kernel | None:
    return _contracted(v, shared=True)


@kernel(*FLOATS, needs="size", unless="fpu vector")
def narrow(v: View) -> Kernel | None:
    """With `optimize: size` weights that a model has as bytes and scales, or as halves, stay so. A
    host has enough flash."""
    made = blocked(v, narrow=True) if _is_float(v) else None
    return made and replace(made, compact=True)


@kernel(*FLOATS, needs="size fpu", unless="fused vector")
def narrow_tall(v: View) -> Kernel | None:
    return _narrow(v, "fpu")


@kernel(*FLOATS, needs="size fused", unless="vector")
def narrow_fused(v: View) -> Kernel | None:
    made = _narrow(v, "fused")
    return made and replace(made.taking(0.7), params={**made.params, "fused": True})


def _narrow(v: View, name: str) -> Kernel | None:
    made = _tall(v, shared=True, narrow=True)
    if made is None:
        return None
    form = "scaled" if made.params["stored"] == "bytes" else "halves"
    return replace(made, name=f"{name}.{form}", compact=True)
