"""Rounding of weights: to the nearest, or so that the layer's results change least.

Adaptive rounding takes the weights of an output channel in turn; what rounding one adds to the
results on real inputs is made up for by the others that are left (optimal brain quantisation, with
the inputs' second moments as the Hessian).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlftool.ir.graph import Array
from mlftool.quantize.network import Layer, Network
from mlftool.quantize.plan import LIMITS, Weights
from mlftool.quantize.prepare import attribute

MOST_ROWS = 4096  # windows of inputs that are looked at
MOST_DEPTH = 2304  # products of an output whose moments are inverted


def nearest(net: Network, layer: Layer, bits: int) -> Weights:
    """Each weight to the nearest integer; one scale for each output channel."""
    w = net.constants[layer.weight]
    scales = _scales(w, layer, bits)
    limit = LIMITS[bits]
    stored = np.clip(np.rint(w / _spread(scales, layer, w.ndim)), -limit, limit)
    bias = net.constants[layer.bias].astype(np.float32) if layer.bias else None
    return Weights(stored.astype(np.int8), scales, bias)


def _scales(w: Array, layer: Layer, bits: int) -> Array:
    """float32. In 8 bits by the largest weight, in 4 by the least squared error."""
    per_channel = not (layer.transposed and layer.group > 1)
    rows = np.moveaxis(w, layer.axis, 0).reshape(w.shape[layer.axis], -1) if per_channel else w
    rows = rows.reshape(rows.shape[0] if per_channel else 1, -1).astype(np.float64)
    most = np.abs(rows).max(axis=1)
    # A channel of zeros has any scale; a common one keeps the accumulator's unit ordinary.
    most = np.where(most > most.max() * 2**-20, most, most.max() * 2**-20)
    most = np.where(most > 0, most, 1.0)
    limit = LIMITS[bits]
    shares = np.linspace(1.0, 0.4, 25) if bits == 4 else np.ones(1)
    errors = np.stack([_error(rows, most * s / limit, limit) for s in shares])
    scales: Array = (most * shares[errors.argmin(axis=0)] / limit).astype(np.float32)
    return scales


def _error(rows: Array, scales: Array, limit: int) -> Array:
    stored = np.clip(np.rint(rows / scales[:, None]), -limit, limit)
    found: Array = ((rows - stored * scales[:, None]) ** 2).sum(axis=1)
    return found


def _spread(scales: Array, layer: Layer, rank: int) -> Array:
    return scales.reshape([-1 if k == layer.axis else 1 for k in range(rank)])


def adaptive(net: Network, layer: Layer, start: Weights, x: Array, bits: int) -> Weights | None:
    """`start` rounded again for inputs `x` [samples, ...]; None where that is not done."""
    windows = patches(layer, net.constants[layer.weight].shape, x)
    if windows is None or windows.shape[2] > MOST_DEPTH:
        return None
    w = _rows(net.constants[layer.weight], layer)  # [groups, channels, depth]
    scales = np.broadcast_to(start.scales.astype(np.float64), (w.shape[0] * w.shape[1],))
    made = np.stack(
        [
            _rounded(w[g], windows[g], part, LIMITS[bits])
            for g, part in enumerate(scales.reshape(w.shape[:2]))
        ]
    )
    stored = _back(made, start.stored.shape, layer).astype(np.int8)
    return Weights(stored, start.scales, start.bias)


def corrected(net: Network, layer: Layer, w: Weights, x: Array) -> Weights:
    """With what rounding the weights adds to the results on average taken off the bias."""
    windows = patches(layer, w.stored.shape, x)
    if windows is None or w.bias is None:
        return w
    gap = _rows(net.constants[layer.weight] - w.real(layer.axis), layer)
    added = np.einsum("gok,gk->go", gap.astype(np.float64), windows.mean(axis=1)).reshape(-1)
    bias = net.constants[layer.bias].astype(np.float64) + added
    return Weights(w.stored, w.scales, bias.astype(np.float32))


def _rounded(w: Array, windows: Array, scales: Array, limit: int) -> Array:
    """Integers [channels, depth] of weights [channels, depth]."""
    work = w.astype(np.float64).copy()
    depth = work.shape[1]
    moments = windows.T @ windows / max(1, len(windows))
    dead = np.diag(moments) <= 0
    moments[dead, dead] = 1.0
    moments[np.diag_indices(depth)] += 0.01 * float(np.mean(np.diag(moments))) + 1e-12
    upper = np.linalg.cholesky(np.linalg.inv(moments)).T
    stored = np.zeros_like(work)
    for k in range(depth):
        stored[:, k] = np.clip(np.rint(work[:, k] / scales), -limit, limit)
        gap = (work[:, k] - stored[:, k] * scales) / upper[k, k]
        work[:, k + 1 :] -= gap[:, None] * upper[k, k + 1 :]
    return stored


def _rows(w: Array, layer: Layer) -> Array:
    """[groups, output channels of a group, depth]."""
    if layer.windowed:
        return w.reshape(layer.group, w.shape[0] // layer.group, -1)
    return (w if layer.axis == 0 else w.T)[None]


def _back(rows: Array, shape: tuple[int, ...], layer: Layer) -> Array:
    if layer.windowed:
        return rows.reshape(shape)
    made: Array = rows[0] if layer.axis == 0 else rows[0].T
    return made


def patches(layer: Layer, shape: tuple[int, ...], x: Array) -> Array | None:
    """What the products of a layer read: [groups, windows, depth] of `x` [samples, *tensor], evenly
    chosen; None for a layer whose windows are not told here."""
    if layer.in_rows:
        rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
        return _some(rows)[None]
    if not layer.windowed:
        return None
    found = x.reshape(-1, *x.shape[2:]).astype(np.float64)  # [samples * batch, channels, ...]
    padded = _padded(layer, shape, found)
    if padded is None:
        return None
    spatial = len(shape) - 2
    strides = _ints(layer, "strides", (1,) * spatial)
    dilations = _ints(layer, "dilations", (1,) * spatial)
    reach = tuple((k - 1) * d + 1 for k, d in zip(shape[2:], dilations, strict=True))
    axes = tuple(range(2, 2 + spatial))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    inner = tuple(slice(None, None, d) for d in dilations)
    windows = windows[(*steps, *inner)]  # [n, channels, *places, *kernel]
    windows = np.moveaxis(windows, 1, 1 + spatial)  # [n, *places, channels, *kernel]
    return np.stack(list(_by_group(windows, layer.group, spatial)))


def _by_group(windows: Array, group: int, spatial: int) -> Iterator[Array]:
    places = windows.shape[: 1 + spatial]
    count = int(np.prod(places))
    chosen = np.arange(min(MOST_ROWS, count)) * count // min(MOST_ROWS, count)
    taken = windows[np.unravel_index(chosen, places)]  # [rows, channels, *kernel]
    width = taken.shape[1] // group
    for g in range(group):
        yield taken[:, g * width : (g + 1) * width].reshape(len(taken), -1)


def _some(rows: Array) -> Array:
    count = min(MOST_ROWS, len(rows))
    taken: Array = rows[np.arange(count) * len(rows) // count]
    return taken


def _ints(layer: Layer, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(attribute(layer.node, name, default))  # type: ignore[arg-type]


def _padded(layer: Layer, shape: tuple[int, ...], x: Array) -> Array | None:
    spatial = len(shape) - 2
    auto = attribute(layer.node, "auto_pad", b"NOTSET")
    pads = _ints(layer, "pads", (0,) * (2 * spatial))
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        strides = _ints(layer, "strides", (1,) * spatial)
        dilations = _ints(layer, "dilations", (1,) * spatial)
        reach = [(k - 1) * d + 1 for k, d in zip(shape[2:], dilations, strict=True)]
        sizes = zip(x.shape[2:], strides, reach, strict=True)
        whole = [max(0, (-(-n // s) - 1) * s + r - n) for n, s, r in sizes]
        small, large = [p // 2 for p in whole], [p - p // 2 for p in whole]
        pads = tuple((*small, *large) if auto == b"SAME_UPPER" else (*large, *small))
    elif auto == b"VALID":
        pads = (0,) * (2 * spatial)
    if min(pads, default=0) < 0:
        return None
    ends = [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)]
    return np.pad(x, ends)
