"""Images of another size, and blocks of pixels that become batches."""

from __future__ import annotations

import math

import numpy as np

from mlftool.frontends.tflite.arithmetic import WIDE
from mlftool.frontends.tflite.contractions import FIRST, LAST, rank
from mlftool.frontends.tflite.movement import alike, integers, made_shape, numbers, taken
from mlftool.frontends.tflite.site import FLOAT, INTEGERS, Site, away, operator
from mlftool.frozen import replace
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType


@operator("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(s: Site) -> None:
    """The compiler computes the coordinates in float32, as TensorFlow Lite does."""
    x, size = s.x(), numbers(s, 1, "sizes")
    rank(s, 4, x)
    alike(s, x)
    s.expect(len(size) == 2 and min(size) > 0, f"a size {size}")
    s.expect(0 not in x.type.shape, f"{x.type}, of which nothing is made")
    made_shape(s, (x.type.shape[0], *size, x.type.shape[3]))
    align, half = s.option("align_corners", False), s.option("half_pixel_centers", False)
    name = s.name()
    for axis, out in zip((1, 2), size, strict=True):
        n = x.type.shape[axis]
        name = taken(s, name, axis, [_nearest(i, n, out, align, half) for i in range(out)])
    s.add("Identity", (name,), s.out())


def _nearest(i: int, n: int, out: int, align: bool, half: bool) -> int:
    f32 = np.float32
    scale = f32(n - 1) / f32(out - 1) if align and out > 1 else f32(n) / f32(out)
    at = float(f32(f32(f32(i) + f32(0.5 if half else 0)) * scale))
    place = min(away(at) if align else math.floor(at), n - 1)
    return max(place, 0) if half else place


@operator("RESIZE_BILINEAR")
def resize_bilinear(s: Site) -> None:
    x, size = s.x(), numbers(s, 1, "sizes")
    rank(s, 4, x)
    alike(s, x)
    row = x.stored
    known = ("float32", "int16", "int8", "uint8")
    s.expect(row in known, f"{row}; supported: {', '.join(known)}")
    s.expect(len(size) == 2 and min(size) > 0, f"a size {size}")
    s.expect(0 not in x.type.shape, f"{x.type}, of which nothing is made")
    made_shape(s, (x.type.shape[0], *size, x.type.shape[3]))
    align, half = s.option("align_corners", False), s.option("half_pixel_centers", False)
    s.expect(not (align and half), "align_corners and half_pixel_centers; supported: one of them")
    tables: list[str] = []
    for axis, out in zip((1, 2), size, strict=True):
        n = x.type.shape[axis]
        if row in INTEGERS:
            rows = [_between(i, n, out, align, half) for i in range(out)]
            tables.append(s.const(np.array(rows, np.int32), what="places"))
            continue
        lines = [_line(i, n, out, align, half) for i in range(out)]
        tables.append(s.const(np.array([line[:2] for line in lines], np.int32), what="places"))
        tables.append(s.const(np.array([line[2] for line in lines], np.float32), what="shares"))
    if row == "uint8":
        _between_bytes(s, tables)
        return
    op = "mlf.BilinearFixed" if row in INTEGERS else "mlf.Bilinear"
    s.add(op, (s.name(), *tables), s.out())


def _between_bytes(s: Site, tables: list[str]) -> None:
    """Of uint8, which TensorFlow Lite computes in floats; halves are rounded up."""
    x, y = (TensorType(dtype.uint8, t.type.shape) for t in (s.x(), s.y()))
    floats = TensorType(dtype.float32, y.shape)
    name = s.add("mlf.TopBit", (s.name(),), x)
    name = s.add("Cast", (name,), replace(floats, shape=x.shape), {"to": dtype.float32.onnx})
    name = s.add("mlf.Bilinear", (name, *tables), floats)
    name = s.add("Add", (name, s.const(np.float32(0.5))), floats)
    name = s.add("Cast", (name,), y, {"to": dtype.uint8.onnx})
    s.add("mlf.TopBit", (name,), s.out())


def _line(i: int, n: int, out: int, align: bool, half: bool) -> tuple[int, int, float]:
    """The two places along an axis, and the second one's share, in float32 throughout."""
    f32 = np.float32
    scale = f32(n) / f32(out)
    if align and out > 1:
        scale = f32(n - 1) / f32(out - 1)
    at = f32(f32(f32(i) + f32(0.5)) * scale) - f32(0.5) if half else f32(f32(i) * scale)
    low = max(math.floor(at), 0)
    high = min(math.ceil(at), n - 1)
    return min(low, n - 1), high, float(f32(at - f32(low)))


def _between(i: int, n: int, out: int, align: bool, half: bool) -> tuple[int, int, int]:
    """The two places along an axis, and the second one's share in 1024ths."""
    f = (1024 * n + out // 2) // out
    if align and out > 1:
        f = (1024 * (n - 1) + (out - 1) // 2) // (out - 1)
    at = i * f + (f // 2 - 512 if half else 0)
    low = max(int(at / 1024), 0)
    high = min(int((at + 1023) / 1024), n - 1)
    return min(low, n - 1), high, at - 1024 * low


@operator("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(s: Site) -> None:
    """float32, as LiteRT."""
    x, radius = s.x(), s.option("radius")
    rank(s, 4, x)
    alike(s, x)
    made_shape(s, x.type.shape)
    s.expect(x.type.dtype.name == "float32", f"{x.stored}; supported: float32")
    s.expect(0 <= radius < 2**15, f"a radius of {radius}")
    size = 2 * radius + 1
    attrs = {"size": size, "alpha": s.option("alpha") * size}  # a mean in ONNX
    attrs |= {name: s.option(name) for name in ("beta", "bias")}
    turned = s.turned(s.name(), FIRST)
    s.turned(s.add("LRN", (turned,), s.draft.types[turned], attrs), LAST, s.out())


def _blocks(s: Site) -> tuple[list[int], Array]:
    """The blocks' extents along the axes after the first, and what is added or cut there."""
    x = s.x()
    s.expect(len(x.type.shape) in (3, 4), f"a tensor {x.type}; expected 3 or 4 axes")
    alike(s, x)
    row = x.type.dtype.name
    known = FLOAT | INTEGERS | WIDE
    s.expect(row in known, f"{row}; supported: {', '.join(sorted(known))}")
    block, ends = numbers(s, 1, "blocks"), integers(s, 2, "borders")
    axes = len(x.type.shape) - 2
    s.expect(len(block) == axes and min(block) > 0, f"blocks {block} of {x.type}")
    s.expect(ends.shape == (axes, 2) and bool((ends >= 0).all()), f"borders {s.x(2).type}")
    return block, ends


@operator("SPACE_TO_BATCH_ND")
def space_to_batch(s: Site) -> None:
    """Padding has the output's zero point; TensorFlow Lite Micro leaves it undefined."""
    x, (block, ends) = s.x(), _blocks(s)
    n, *sizes, channels = x.type.shape
    wide = [size + int(e.sum()) for size, e in zip(sizes, ends, strict=True)]
    fits = all(w % b == 0 for w, b in zip(wide, block, strict=True))
    s.expect(fits, f"blocks {block} in {wide}")
    parts = [w // b for w, b in zip(wide, block, strict=True)]
    made_shape(s, (n * math.prod(block), *parts, channels))
    name = s.name()
    if ends.any():
        pads = np.concatenate(([0], ends[:, 0], [0, 0], ends[:, 1], [0]))
        zero = s.zero(s.y()) if s.y().quantised is not None else 0
        value = s.const(np.array(zero, x.type.dtype.numpy))
        padded = TensorType(x.type.dtype, (n, *wide, channels))
        name = s.add("Pad", (name, s.const(pads), value), padded, {"mode": "constant"})
    split = [e for pair in zip(parts, block, strict=True) for e in pair]
    name = s.reshaped(name, (n, *split, channels))
    axes = range(len(block))
    perm = (*(2 + 2 * k for k in axes), 0, *(1 + 2 * k for k in axes), 1 + 2 * len(block))
    s.reshaped(s.turned(name, perm), s.y().type.shape, s.out())


@operator("BATCH_TO_SPACE_ND")
def batch_to_space(s: Site) -> None:
    x, (block, ends) = s.x(), _blocks(s)
    batches, *sizes, channels = x.type.shape
    n, rest = divmod(batches, math.prod(block))
    s.expect(rest == 0, f"{batches} batches for blocks {block}")
    wide = [size * b for size, b in zip(sizes, block, strict=True)]
    kept = [w - int(e.sum()) for w, e in zip(wide, ends, strict=True)]
    s.expect(min(kept) >= 0, f"borders that are more than {wide}")
    made_shape(s, (n, *kept, channels))
    name, count = s.reshaped(s.name(), (*block, n, *sizes, channels)), len(block)
    inner = [axis for k in range(count) for axis in (count + 1 + k, k)]
    name = s.turned(name, (count, *inner, 2 * count + 1))
    name = s.reshaped(name, (n, *wide, channels))
    starts = [0, *(int(e[0]) for e in ends), 0]
    stops = [n, *(w - int(e[1]) for w, e in zip(wide, ends, strict=True)), channels]
    parts = [s.const(np.array(v, np.int64)) for v in (starts, stops, range(count + 2))]
    s.add("Slice", (name, *parts), s.out())
