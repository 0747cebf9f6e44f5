"""Depthwise contractions for processors whose compilers make vectors of a plain loop over channels.

Every pixel takes the same loop: a tap outside the input reads a row of zeros or zero points, so no
channel's sum has a condition in it. Adding such a product to a float sum, which begins with +0,
changes no bit of it. int8 products are added in int16 where their weights leave room for that.
"""

from __future__ import annotations

import numpy as np

from mlftool.ir.graph import Array, View
from mlftool.ops.base import Kernel, Operand
from mlftool.ops.contraction import Contraction, Quantisation, contraction, requantize
from mlftool.ops.scalar import Store
from mlftool.targets.kernels import FLOATS, kernel
from mlftool.targets.kernels.parts import Tile, bias_of, byte_kernel, constants

MOST_TAPS = 25


@byte_kernel("vector", depthwise=True)
def depthwise_int8(c: Contraction, q: Quantisation) -> Tile | None:
    """Pairs of taps in int16."""
    v = c.v
    if depthwise_of(v) is None:
        return None
    acc = f"({v.y.dtype.c}){requantize(c, q, 'acc', 'c')}"
    weights = _taps(c)
    largest = max(abs(n) for n in v.x(0).dtype.range)
    read = constants(b=bias_of(c, q), scale=q.factor)
    return _tile(c, acc, read, q.x_zero_point, _groups(weights, largest))


@kernel(*FLOATS, needs="vector", unless="fused")
def depthwise_float(v: View) -> Kernel | None:
    """Taps in their order."""
    c = depthwise_of(v)
    if c is None or v.x(0).dtype.name != "float32" or not np.all(np.isfinite(c.weights)):
        return None
    groups = tuple((k,) for k in range(_taps(c).shape[0]))
    return _tile(c, "(b[c] + acc)", constants(b=c.bias), "0.0f", groups).kernel


def depthwise_of(v: View) -> Contraction | None:
    """The node as a depthwise contraction of two axes with few taps."""
    c = contraction(v)
    if not c.depthwise or len(c.inputs) > 2:
        return None
    c = c.planar()
    return c if c.kernel[0] * c.kernel[1] <= MOST_TAPS else None


def _taps(c: Contraction) -> Array:
    """[KH*KW, C]."""
    return np.ascontiguousarray(np.moveaxis(c.weights, 0, -1)).reshape(-1, c.oc)


def _groups(weights: Array, largest: int) -> tuple[tuple[int, ...], ...]:
    """Taps in runs whose products, added, stay within int16 for every channel."""
    size = np.abs(weights.astype(np.int64)) * largest
    groups: list[tuple[int, ...]] = []
    k = 0
    while k < size.shape[0]:
        two = k + 1 < size.shape[0] and (size[k] + size[k + 1]).max() < 2**15
        groups.append((k, k + 1) if two else (k,))
        k += len(groups[-1])
    return tuple(groups)


def _tile(
    c: Contraction,
    acc: str,
    read: tuple[Operand, ...],
    fill: int | str,
    groups: tuple[tuple[int, ...], ...],
) -> Tile:
    v = c.v
    store = Store(v, acc, f"p * {c.oc} + c", "c")
    weights, x = _taps(c), v.x(0).dtype
    row = (Operand("outside", x.c, "scratch", bytes=c.oc * x.bytes),) if c.padded else ()
    return Tile(
        "vector.depthwise",
        "simd_depthwise.c.j2",
        c,
        (*constants(w=weights), *read),
        row,
        store,
        {"groups": groups, "quantised": c.quantised, "fill": fill, "store": store},
        cost=c.macs * 0.5 + c.pixels * (c.oc + 4.0 * weights.shape[0]),
        header="",
    )
