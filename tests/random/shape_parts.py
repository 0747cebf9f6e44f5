"""What layers of the third generator share: quantisation, windows, axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from other import F32, Maker

Attrs = dict[str, Any]
BYTES = (np.int8, np.uint8)
MS = "com.microsoft"


@dataclass(frozen=True)
class Layer:
    """`body` adds one to a network, reading its second argument, of one of `ranks` and of type
    `kind`; its result is false if it cannot. `empty`: an extent may be 0. `since`: the opset."""

    body: Callable[[Maker, str], str]
    ranks: tuple[int, ...] = (3, 4, 4, 4, 5)
    kind: Any = F32
    empty: bool = False
    since: int = 13


def range_of(m: Maker, x: str, kind: Any) -> tuple[np.float32, Any]:
    """A scale and a zero point for what x holds, now and then such that limits are met."""
    array = m.arrays[x].astype(np.float64)
    low, high = min(float(array.min(initial=0)), 0.0), max(float(array.max(initial=0)), 0.01)
    info = np.iinfo(kind)
    scale = np.float32((high - low) / (info.max - info.min) * m.rng.uniform(0.8, 1.3))
    zero = int(np.clip(round(info.min - low / float(scale)), info.min, info.max))
    if info.min < 0 and m.odds(0.4):
        scale, zero = np.float32(max(-low, high) / info.max), 0
    return scale, kind(zero)


def quantise(m: Maker, x: str, kind: Any) -> tuple[str, str, str]:
    """x as integers of a type, their scale and their zero point."""
    scale, zero = range_of(m, x, kind)
    s, z = m.const(scale), m.const(zero, kind)
    return m.do("QuantizeLinear", x, s, z), s, z


def there_and_back(m: Maker, x: str, kind: Any) -> str:
    return m.do("DequantizeLinear", *quantise(m, x, kind))


def weights(m: Maker, shape: tuple[int, ...], axis: int, kind: Any = np.int8) -> str:
    """Constant quantised weights, dequantised; per channel along an axis or per tensor."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    stored = m.rng.integers(low + (not m.odds(0.15)), high + 1, size=shape)
    count = shape[axis] if m.odds(0.5) else 0
    fan = max(1, int(np.prod(shape)) // max(1, shape[axis]))
    scale = m.rng.uniform(0.3, 1.5, count or 1) / (high - low) * 4 / fan**0.5
    zero = np.full(count or 1, 128 if kind == np.uint8 else 0)
    s = m.const(scale if count else scale[0])
    z = m.const(zero if count else zero[0], kind)
    w = m.const(stored, kind)
    return m.do("DequantizeLinear", w, s, z, **({"axis": axis} if count else {}))


def nibbles(m: Maker, shape: tuple[int, ...], axis: int) -> str:
    """Constant weights of four bits, dequantised by a scale for each slice along an axis."""
    w = m.const(m.rng.integers(-8, 8, size=shape), ml_dtypes.int4)
    count = shape[axis]
    scale = m.const(m.rng.uniform(0.3, 1.5, count) / 8 / max(1, np.prod(shape) // count) ** 0.5)
    zero = m.const(np.zeros(count), ml_dtypes.int4)
    return m.do("DequantizeLinear", w, scale, zero, axis=axis)


def window(m: Maker, shape: tuple[int, ...], most: int = 4, dilated: bool = True) -> Attrs:
    """The geometry of a window over spatial extents, spelt in one of the ways."""
    kernel = [m.upto(1, most) for _ in shape]
    attrs: Attrs = {"kernel_shape": kernel}
    if m.odds(0.6):
        attrs["strides"] = [m.upto(1, 3) for _ in shape]
    if dilated and m.odds(0.25):
        attrs["dilations"] = [m.upto(1, 2) for _ in shape]
    if m.odds(0.6):
        attrs["pads"] = [m.upto(0, s - 1) for s in (*kernel, *kernel)]
    elif m.odds(0.4) and "dilations" not in attrs:
        attrs["auto_pad"] = m.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return attrs


def group_of(m: Maker, channels: int) -> int:
    """One, each channel by itself, or something between."""
    between = [d for d in range(1, channels + 1) if channels % d == 0]
    return int(m.pick((1, 1, channels, channels, *between)))


def axes_of(m: Maker, rank: int) -> list[int]:
    found = [int(a) for a in m.rng.permutation(rank)[: m.upto(1, rank)]]
    return [a - rank if m.odds(0.3) else a for a in found]


def like(m: Maker, x: str, *, scale: float = 1.0) -> str:
    """An operand that broadcasts with x: of fewer axes, of extents of one, constant or not."""
    shape = [n if m.odds(0.6) else 1 for n in m.shape(x)]
    shape = shape[m.upto(0, len(shape)) :] if m.odds(0.4) else shape
    if m.odds(0.5):
        return m.weights(*shape, scale=scale)
    other = m.input(shape)
    m.arrays[other] = m.rng.normal(size=shape).astype(np.float32) * np.float32(scale)
    return other
