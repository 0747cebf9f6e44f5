"""Operators that move elements, of any type, without looking at them."""

from __future__ import annotations

import numpy as np

from mlftool.frontends.tflite.contractions import rank
from mlftool.frontends.tflite.model import Tensor
from mlftool.frontends.tflite.site import Site, operator
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType

# What makes a converter write the extents that it otherwise computes at run time.
FIXED = (
    "convert it with a known batch: keras.Input(shape, batch_size=1), or tf.TensorSpec([1, ...])"
)


def axis_of(s: Site, axis: int, tensor: Tensor) -> int:
    """A non-negative axis. Raises RefusedError if `tensor` does not have it."""
    n = len(tensor.type.shape)
    s.expect(-n <= axis < n, f"axis {axis} of {tensor.type}")
    return axis % n


def integers(s: Site, i: int, what: str) -> Array:
    """Input `i` as int64. Raises RefusedError unless it is constant, int32 or int64."""
    values = s.known(i, what)
    known = values.dtype.name in ("int32", "int64")
    s.expect(known, f"{what} of {values.dtype.name}; supported: int32, int64")
    return values.astype(np.int64)


def numbers(s: Site, i: int, what: str) -> list[int]:
    return [int(n) for n in integers(s, i, what).reshape(-1)]


def alike(s: Site, *tensors: Tensor) -> None:
    """Raises RefusedError unless all have the output's element type."""
    row = s.y().stored
    s.expect(all(t.stored == row for t in tensors), f"inputs that are not all {row}")


def made_shape(s: Site, shape: tuple[int, ...]) -> None:
    y = s.y()
    fits = shape == y.type.shape
    s.expect(fits, f"an output {y.type}; expected the shape {shape}", FIXED if y.open else "")


@operator("RESHAPE", "SQUEEZE", "EXPAND_DIMS", takes_complex=True)
def reshape(s: Site) -> None:
    """The output's shape counts; other inputs and options only repeat it."""
    x, y = s.x(), s.y()
    alike(s, x)
    fits = x.type.elements == y.type.elements
    s.expect(fits, f"an output {y.type} for {x.type}", FIXED if y.open else "")
    s.reshaped(s.name(), y.type.shape, s.out())


@operator("TRANSPOSE")
def transpose(s: Site) -> None:
    x, perm = s.x(), numbers(s, 1, "orders of axes")
    alike(s, x)
    s.expect(sorted(perm) == list(range(len(x.type.shape))), f"a permutation {perm} of {x.type}")
    made_shape(s, tuple(x.type.shape[p] for p in perm))
    s.turned(s.name(), perm, s.out())


@operator("CONCATENATION")
def concatenation(s: Site) -> None:
    y, parts = s.y(), [s.x(i) for i in range(len(s.node.inputs))]
    axis = axis_of(s, s.option("axis"), y)
    alike(s, *parts)
    s.expect(bool(parts), "no inputs")
    s.expect(not s.cuts, "a fused activation; supported: NONE")
    rests = {t.type.shape[:axis] + t.type.shape[axis + 1 :] for t in parts}
    whole = sum(t.type.shape[axis] for t in parts if len(t.type.shape) > axis)
    fits = rests == {y.type.shape[:axis] + y.type.shape[axis + 1 :]} and whole == y.type.shape[axis]
    s.expect(fits, f"inputs that do not make {y.type}")
    if y.type.dtype.name == "int8" and y.quantised is not None:
        found = {(s.scale(t), s.zero(t)) for t in (*parts, y)}
        s.expect(len(found) == 1, "int8 inputs whose scales differ from the output's")
    s.add("Concat", [s.name(i) for i in range(len(parts))], s.out(), {"axis": axis})


def _parts(s: Site, x_at: int, axis: int) -> None:
    """Outputs are consecutive parts of an input along an axis."""
    x, ys = s.x(x_at), [s.y(k) for k in range(len(s.node.outputs))]
    s.expect(bool(ys), "no outputs")
    alike(s, x, *ys)
    shapes = [t.type.shape for t in ys]
    rest = x.type.shape[:axis] + x.type.shape[axis + 1 :]
    fits = all(len(h) == len(x.type.shape) and h[:axis] + h[axis + 1 :] == rest for h in shapes)
    s.expect(fits and sum(h[axis] for h in shapes) == x.type.shape[axis], f"parts of {x.type}")
    names = [s.out(k) for k in range(len(ys))]
    if x.data is not None:  # weights of a grouped convolution
        cuts = np.cumsum([h[axis] for h in shapes])[:-1]
        parts = np.split(x.data, cuts, axis)
        s.draft.consts.update(zip(names, map(np.ascontiguousarray, parts), strict=True))
        return
    s.add("Split", (s.name(x_at),), names[0], {"axis": axis}, more=names[1:])


@operator("SPLIT")
def split(s: Site) -> None:
    """Inputs are the axis and x."""
    _parts(s, 1, axis_of(s, numbers(s, 0, "axes")[0], s.x(1)))


@operator("SPLIT_V")
def split_v(s: Site) -> None:
    _parts(s, 0, axis_of(s, numbers(s, 2, "axes")[0], s.x()))


@operator("PACK")
def pack(s: Site) -> None:
    y, parts = s.y(), [s.x(i) for i in range(len(s.node.inputs))]
    axis = axis_of(s, s.option("axis", 0), y)
    alike(s, *parts)
    one = y.type.shape[:axis] + y.type.shape[axis + 1 :]
    fits = all(t.type.shape == one for t in parts) and len(parts) == y.type.shape[axis]
    s.expect(fits, f"inputs that do not make {y.type}")
    shape = (*one[:axis], 1, *one[axis:])
    names = [s.reshaped(s.name(i), shape) for i in range(len(parts))]
    s.add("Concat", names, s.out(), {"axis": axis})


@operator("UNPACK")
def unpack(s: Site) -> None:
    x, count = s.x(), len(s.node.outputs)
    axis = axis_of(s, s.option("axis", 0), x)
    one = x.type.shape[:axis] + x.type.shape[axis + 1 :]
    alike(s, x)
    fits = all(s.y(k).type.shape == one for k in range(count)) and count == x.type.shape[axis]
    s.expect(fits, f"parts of {x.type}")
    row = TensorType(x.type.dtype, (*one[:axis], 1, *one[axis:]))
    names = [s.draft.fresh(f"{s.label}.part", row) for _ in range(count)]
    s.add("Split", (s.name(),), names[0], {"axis": axis}, more=names[1:])
    for k, name in enumerate(names):
        s.reshaped(name, one, s.out(k))


@operator("SLICE")
def slice_(s: Site) -> None:
    """Inputs are x, begins and sizes; a size of -1 means all remaining elements."""
    x, begin, size = s.x(), numbers(s, 1, "begins"), numbers(s, 2, "sizes")
    alike(s, x)
    s.expect(len(begin) == len(size) == len(x.type.shape), f"a window of {x.type}")
    ends = [n if k < 0 else b + k for b, k, n in zip(begin, size, x.type.shape, strict=True)]
    inside = all(0 <= b <= e <= n for b, e, n in zip(begin, ends, x.type.shape, strict=True))
    s.expect(inside, f"a window {begin} to {ends} of {x.type}")
    made_shape(s, tuple(e - b for b, e in zip(begin, ends, strict=True)))
    _sliced(s, begin, ends, [1] * len(begin), s.out())


def _sliced(
    s: Site, begin: list[int], ends: list[int], steps: list[int], out: str | TensorType
) -> str:
    axes = range(len(begin))
    parts = [s.const(np.array(v, np.int64)) for v in (begin, ends, list(axes), steps)]
    return s.add("Slice", (s.name(), *parts), out)


@operator("STRIDED_SLICE")
def strided_slice(s: Site) -> None:
    x, y = s.x(), s.y()
    alike(s, x)
    for name in ("ellipsis_mask", "new_axis_mask", "offset"):
        s.expect(
            not s.option(name, 0), f"{name}; supported: begin_mask, end_mask, shrink_axis_mask"
        )
    begin, end, steps = (numbers(s, i, "windows") for i in (1, 2, 3))
    n = len(x.type.shape)
    s.expect(len(begin) == len(end) == len(steps) <= n, f"a window of {x.type}")
    s.expect(0 not in steps, "a stride of 0")
    first, last = s.option("begin_mask", 0), s.option("end_mask", 0)
    shrink = s.option("shrink_axis_mask", 0)
    starts: list[int] = []
    stops: list[int] = []
    by: list[int] = []
    kept: list[int] = []
    for k, extent in enumerate(x.type.shape):
        if k >= len(begin):
            starts, stops, by = [*starts, 0], [*stops, extent], [*by, 1]
            kept.append(extent)
            continue
        a, b, step = _ends(begin[k], end[k], steps[k], extent, first >> k & 1, last >> k & 1)
        if shrink >> k & 1:
            b, step = a + 1, 1
            s.expect(0 <= a < extent, f"element {begin[k]} along axis {k} of {x.type}")
        else:
            kept.append(max(0, -(-(b - a) // step)))
        starts, stops, by = [*starts, a], [*stops, b], [*by, step]
    made_shape(s, tuple(kept))
    # ONNX spells an end before the first element as one that is negative twice over.
    spelt = [e if e >= 0 else -extent - 1 for e, extent in zip(stops, x.type.shape, strict=True)]
    whole = [max(0, -(-(b - a) // st)) for a, b, st in zip(starts, stops, by, strict=True)]
    sliced = _sliced(s, starts, spelt, by, TensorType(x.type.dtype, tuple(whole)))
    s.reshaped(sliced, y.type.shape, s.out())


def _ends(
    begin: int, end: int, step: int, n: int, from_first: int, to_last: int
) -> tuple[int, int, int]:
    """The first element of a window along an axis, and the one after its last."""
    low, high = (0, n) if step > 0 else (-1, n - 1)
    begin, end = (v + n if v < 0 else v for v in (begin, end))
    begin, end = (min(max(v, low), high) for v in (begin, end))
    if from_first:
        begin = low if step > 0 else high
    if to_last:
        end = high if step > 0 else low
    return begin, end, step


def borders(s: Site, x: Tensor) -> Array:
    """[axes, 2]: what is added before and after each axis."""
    pads = integers(s, 1, "borders")
    s.expect(pads.shape == (len(x.type.shape), 2), f"borders {s.x(1).type} of {x.type}")
    s.expect(bool((pads >= 0).all()), "negative borders")
    made_shape(s, tuple(int(n + p.sum()) for n, p in zip(x.type.shape, pads, strict=True)))
    return np.asarray(pads)


@operator("PAD", "PADV2")
def pad(s: Site) -> None:
    x, y = s.x(), s.y()
    alike(s, x)
    pads = borders(s, x).T.reshape(-1)
    if s.node.kind == "PADV2":
        alike(s, s.x(2))
        s.expect(s.x(2).type.elements == 1, f"a value {s.x(2).type}; expected one")
        value = s.reshaped(s.name(2), ()) if s.x(2).type.shape else s.name(2)
    else:
        # Only int8 is filled with its zero point; int16 with 0 whatever it is.
        narrow = y.type.dtype.name == "int8" and y.quantised is not None
        value = s.const(np.array(s.zero(y) if narrow else 0, y.type.dtype.numpy))
    s.add("Pad", (s.name(), s.const(pads), value), s.out(), {"mode": "constant"})


@operator("MIRROR_PAD")
def mirror_pad(s: Site) -> None:
    x, mode = s.x(), s.option("mode", 0)
    alike(s, x)
    s.expect(mode in (0, 1), f"mode {mode}; supported: REFLECT, SYMMETRIC")
    pads = borders(s, x)
    most = [n - (1 if mode == 0 else 0) for n in x.type.shape]
    s.expect(all(p.max() <= m for p, m in zip(pads, most, strict=True)), f"borders beyond {x.type}")
    if mode == 0:
        s.add("Pad", (s.name(), s.const(pads.T.reshape(-1))), s.out(), {"mode": "reflect"})
        return
    name = s.name()
    for axis, (before, behind) in enumerate(pads.tolist()):
        n = x.type.shape[axis]
        places = [*range(before - 1, -1, -1), *range(n), *range(n - 1, n - 1 - behind, -1)]
        name = taken(s, name, axis, places)
    s.add("Identity", (name,), s.out())


def taken(s: Site, name: str, axis: int, places: list[int]) -> str:
    """The slices of `name` at known places along an axis."""
    type_ = s.draft.types[name]
    shape = (*type_.shape[:axis], len(places), *type_.shape[axis + 1 :])
    made = TensorType(type_.dtype, shape)
    return s.add("Gather", (name, s.const(np.array(places, np.int64))), made, {"axis": axis})


@operator("REVERSE_V2")
def reverse(s: Site) -> None:
    x, name = s.x(), s.name()
    alike(s, x)
    made_shape(s, x.type.shape)
    for axis in numbers(s, 1, "axes"):
        k = axis_of(s, axis, x)
        name = taken(s, name, k, list(range(x.type.shape[k] - 1, -1, -1)))
    s.add("Identity", (name,), s.out())


@operator("GATHER")
def gather(s: Site) -> None:
    x, places = s.x(), s.x(1)
    axis = axis_of(s, s.option("axis", 0), x)
    alike(s, x)
    _indices(s, places)
    _inside(s, places, x.type.shape[axis])
    batch = s.option("batch_dims", 0)
    batch += len(places.type.shape) if batch < 0 else 0
    own = places.type.shape[max(0, batch) :]
    made_shape(s, x.type.shape[:axis] + own + x.type.shape[axis + 1 :])
    if not batch:
        s.add("Gather", (s.name(), s.name(1)), s.out(), {"axis": axis})
        return
    fits = 0 < batch <= axis and places.type.shape[:batch] == x.type.shape[:batch]
    s.expect(fits, f"batch_dims {batch} of {x.type} and {places.type}")
    _gather_batches(s, axis, batch)


def _gather_batches(s: Site, axis: int, batch: int) -> None:
    """The axis moves to the place after the batches, and its elements back to where it was."""
    x, places = s.x(), s.x(1)
    n, count = len(x.type.shape), len(places.type.shape) - batch
    front = s.turned(s.name(), (*range(batch), axis, *range(batch, axis), *range(axis + 1, n)))
    index = s.reshaped(s.name(1), (*places.type.shape, 1))
    shape = s.draft.types[front].shape
    type_ = TensorType(x.type.dtype, places.type.shape + shape[batch + 1 :])
    found = s.add("GatherND", (front, index), type_, {"batch_dims": batch})
    between = range(batch + count, axis + count)
    behind = range(axis + count, n - 1 + count)
    s.turned(found, (*range(batch), *between, *range(batch, batch + count), *behind), s.out())


def _indices(s: Site, places: Tensor) -> None:
    known = places.type.dtype.name in ("int32", "int64")
    s.expect(known, f"indices {places.type}; supported: int32, int64")


def _inside(s: Site, places: Tensor, n: int) -> None:
    """Constant indices must exist; those that are computed are moved to the nearest end."""
    known = places.data
    fits = known is None or not known.size or (known.min() >= 0 and known.max() < n)
    s.expect(bool(fits), f"an index outside {n} elements")


@operator("EMBEDDING_LOOKUP")
def embedding_lookup(s: Site) -> None:
    """Inputs are indices and a table, whose rows are copied."""
    places, table = s.x(0), s.x(1)
    alike(s, table)
    s.expect(places.type.dtype.name == "int32", f"indices {places.type}; supported: int32")
    _inside(s, places, table.type.shape[0] if table.type.shape else 0)
    made_shape(s, places.type.shape + table.type.shape[1:])
    s.add("Gather", (s.name(1), s.name(0)), s.out(), {"axis": 0})


@operator("GATHER_ND")
def gather_nd(s: Site) -> None:
    x, places = s.x(), s.x(1)
    alike(s, x)
    _indices(s, places)
    depth = places.type.shape[-1] if places.type.shape else 0
    s.expect(0 < depth <= len(x.type.shape), f"indices {places.type} into {x.type}")
    made_shape(s, places.type.shape[:-1] + x.type.shape[depth:])
    s.add("GatherND", (s.name(), s.name(1)), s.out(), {"batch_dims": 0})


@operator("BROADCAST_TO")
def broadcast_to(s: Site) -> None:
    x, y = s.x(), s.y()
    alike(s, x)
    pairs = zip(x.type.shape[::-1], y.type.shape[::-1], strict=False)
    fits = len(x.type.shape) <= len(y.type.shape) and all(n in (1, m) for n, m in pairs)
    s.expect(fits, f"{x.type} to {y.type}")
    shape = s.const(np.array(y.type.shape, np.int64))
    s.add("Expand", (s.name(), shape), s.out())


@operator("TILE")
def tile(s: Site) -> None:
    """Inputs are x and the repetitions of each axis."""
    x, y = s.x(), s.y()
    alike(s, x)
    times = integers(s, 1, "repetitions").reshape(-1)
    fits = times.size == len(x.type.shape) and bool(np.all(times >= 0))
    s.expect(fits, f"{times.size} repetitions of {x.type}, or negative ones")
    made = tuple(int(n) for n in np.array(x.type.shape, np.int64) * times)
    s.expect(made == y.type.shape, f"an output {y.type}; expected {list(made)}")
    s.add("Tile", (s.name(), s.const(times)), s.out())


@operator("SHAPE")
def shape(s: Site) -> None:
    row = s.y().type.dtype
    s.expect(row in (dtype.int32, dtype.int64), f"an output of {row}; supported: int32, int64")
    made = np.array(s.x().type.shape, row.numpy)
    made_shape(s, made.shape)
    s.add("Identity", (s.const(made),), s.out())


@operator("ZEROS_LIKE")
def zeros_like(s: Site) -> None:
    made_shape(s, s.x().type.shape)
    alike(s, s.x())
    zeros = np.full(s.y().type.shape, -128 if s.y().unsigned else 0, s.y().type.dtype.numpy)
    s.add("Identity", (s.const(zeros),), s.out())


@operator("FILL")
def fill(s: Site) -> None:
    """Inputs are the shape and a value."""
    value, y = s.x(1), s.y()
    alike(s, value)
    s.expect(value.type.elements == 1, f"a value {value.type}; expected one")
    made_shape(s, tuple(numbers(s, 0, "shapes")))
    one = s.reshaped(s.name(1), (1,) * len(y.type.shape))
    s.add("Expand", (one, s.const(np.array(y.type.shape, np.int64))), s.out())


@operator("SPACE_TO_DEPTH")
def space_to_depth(s: Site) -> None:
    x, block = s.x(), s.option("block_size")
    rank(s, 4, x)
    alike(s, x)
    n, h, w, c = x.type.shape
    s.expect(block > 0 and h % block == 0 and w % block == 0, f"blocks of {block} in {x.type}")
    made_shape(s, (n, h // block, w // block, c * block * block))
    parts = s.reshaped(s.name(), (n, h // block, block, w // block, block, c))
    s.reshaped(s.turned(parts, (0, 1, 3, 2, 4, 5)), s.y().type.shape, s.out())


@operator("DEPTH_TO_SPACE")
def depth_to_space(s: Site) -> None:
    x, block = s.x(), s.option("block_size")
    rank(s, 4, x)
    alike(s, x)
    n, h, w, c = x.type.shape
    s.expect(block > 0 and c % (block * block) == 0, f"blocks of {block} in {x.type}")
    deep = c // (block * block)
    made_shape(s, (n, h * block, w * block, deep))
    parts = s.reshaped(s.name(), (n, h, w, block, block, deep))
    s.reshaped(s.turned(parts, (0, 1, 3, 2, 4, 5)), s.y().type.shape, s.out())


@operator("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(s: Site) -> None:
    """A window that would reach beyond the tensor is moved back inside."""
    x, part, at = s.x(0), s.x(1), s.x(2)
    alike(s, x, part)
    made_shape(s, x.type.shape)
    axes = len(x.type.shape)
    fits = len(part.type.shape) == axes > 0
    fits = fits and all(a <= b for a, b in zip(part.type.shape, x.type.shape, strict=True))
    s.expect(fits, f"a part {part.type} of {x.type}")
    s.expect(at.type.dtype.name in ("int32", "int64"), f"indices {at.type}")
    s.expect(at.type.shape == (axes,), f"indices {at.type} of {x.type}")
    s.add("mlf.UpdateSlice", (s.name(0), s.name(1), s.name(2)), s.out())


@operator("BROADCAST_ARGS")
def broadcast_args(s: Site) -> None:
    """The shape to which two shapes broadcast."""
    a, b, y = s.x(0), s.x(1), s.y()
    alike(s, a, b)
    known = y.type.dtype.name in ("int32", "int64")
    s.expect(known, f"{y.type.dtype}; supported: int32, int64")
    rank(s, 1, a, b, y)
    n = y.type.elements
    s.expect(n == max(a.type.elements, b.type.elements), f"an output {y.type}")
    names = [_ones_before(s, i, n) for i in (0, 1)]
    one, flag = s.const(np.array(1, y.type.dtype.numpy)), TensorType(dtype.bool_, (n,))
    s.add("Where", (s.add("Equal", (names[0], one), flag), names[1], names[0]), s.out())


def _ones_before(s: Site, i: int, n: int) -> str:
    """Input `i` with ones before it, `n` numbers in all."""
    x = s.x(i).type
    if x.elements == n:
        return s.name(i)
    ones = s.const(np.ones(n - x.elements, x.dtype.numpy))
    return s.add("Concat", (ones, s.name(i)), s.y().type, {"axis": 0})
