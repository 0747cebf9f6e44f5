"""Known values where the standard's reference implementation is wrong or fails.

A constant is folded by `onnx.reference`, but for two: operators whose records have their `constant`
from here, and those of trait KEPT, which stay in the graph and are computed by their kernels.
tests/ops/test_folding.py compares every operator that is folded with onnxruntime; this file is the
only place for what it finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlftool.ir.dtype import BY_ONNX
from mlftool.ir.graph import Array
from mlftool.ops.base import Attributes, Known, Value


def _data(inputs: Known, i: int = 0) -> Array:
    value = inputs[i]
    assert value is not None
    return value


def _given(inputs: Known, i: int, attrs: Attributes, name: str) -> list[int] | None:
    """What is an input in new opsets and was an attribute in old ones."""
    value = inputs[i] if i < len(inputs) else None
    if value is not None:
        return [int(v) for v in value.reshape(-1)]
    return [int(v) for v in attrs[name]] if name in attrs else None


def _of_first(value: Callable[[Array, Attributes], Any]) -> Value:
    """In the type of the first input, which is all that counts."""
    return lambda inputs, attrs, opset: np.asarray(value(_data(inputs), attrs), _data(inputs).dtype)


def squeeze(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """All axes at once; onnx's of old opsets takes one after another."""
    axes = _given(inputs, 1, attrs, "axes")
    return np.squeeze(_data(inputs), None if axes is None else tuple(axes))


def unsqueeze(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """As `squeeze`."""
    return np.expand_dims(_data(inputs), tuple(_given(inputs, 1, attrs, "axes") or ()))


def gather_elements(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """numpy's `choose`, which the reference calls, takes 64 rows at most."""
    x, index = _data(inputs), _data(inputs, 1)
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[attrs.get("axis", 0)] = index
    return np.asarray(x[tuple(places)])


def window(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """A start before the first element is the first one; numpy takes it for none going down."""
    x = _data(inputs)
    starts, ends = (_given(inputs, 1 + k, attrs, n) or [] for k, n in enumerate(("starts", "ends")))
    axes = _given(inputs, 3, attrs, "axes") or list(range(len(starts)))
    steps = _given(inputs, 4, attrs, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = x.shape[axis]
        least, most = (0, n) if step > 0 else (-1, n - 1)
        first, last = (v + n if v < 0 else v for v in (start, end))
        places = np.arange(min(max(first, 0), most), min(max(last, least), most), step)
        x = np.take(x, places if n else np.arange(0), axis)
    return x


def pad(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """Negative pads, which numpy refuses, take away."""
    x, mode = _data(inputs), attrs.get("mode", b"constant")
    pads = _given(inputs, 1, attrs, "pads" if opset > 1 else "paddings") or []
    axes = _given(inputs, 3, {}, "") if len(inputs) > 3 else None
    fill = inputs[2] if len(inputs) > 2 else None
    value = attrs.get("value", 0) if fill is None else fill.reshape(())
    half = len(pads) // 2
    for k, axis in enumerate(axes if axes is not None else range(half)):
        x = _padded(x, axis, (pads[k], pads[half + k]), mode, value)
    return x


def _padded(x: Array, axis: int, pads: tuple[int, int], mode: bytes | str, value: Any) -> Array:
    axis, kind = axis % x.ndim, mode.decode() if isinstance(mode, bytes) else mode
    if kind == "constant":
        at = np.arange(-pads[0], x.shape[axis] + pads[1])
        inside = (at >= 0) & (at < x.shape[axis])
        made = np.full((*x.shape[:axis], at.size, *x.shape[axis + 1 :]), value, x.dtype)
        made[(slice(None),) * axis + (inside,)] = np.take(x, at[inside], axis)
        return made
    x = np.take(x, np.arange(max(0, -pads[0]), x.shape[axis] - max(0, -pads[1])), axis)
    n = x.shape[axis]
    wanted = np.arange(-max(0, pads[0]), n + max(0, pads[1]))
    if kind == "reflect" and n > 1:
        wanted = np.abs((wanted + n - 1) % (2 * n - 2) - (n - 1))
    elif kind == "wrap":
        wanted = wanted % n
    return np.take(x, np.clip(wanted, 0, n - 1), axis)


def _flat(x: Array, axis: int) -> Array:
    axis += x.ndim if axis < 0 else 0
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def mean(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """The mean of operands that broadcast; the reference wants the result's shape of the first."""
    values = [_data(inputs, i) for i in range(len(inputs))]
    kind = values[0].dtype
    return np.asarray(sum(values) / kind.type(len(values)), kind)


def reshape(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """In opset 1, which the reference lacks, the shape is an attribute."""
    x, wanted = _data(inputs), _given(inputs, 1, attrs, "shape") or []
    if not attrs.get("allowzero", 0):
        wanted = [x.shape[k] if n == 0 else n for k, n in enumerate(wanted)]
    return x.reshape(wanted)


def clip(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """Limits that are NaN, or were left out before 11, are no limits."""
    x = y = _data(inputs)
    for k, name, beyond in ((1, "min", np.less), (2, "max", np.greater)):
        end = inputs[k] if k < len(inputs) else attrs.get(name)
        if end is not None:
            y = np.where(beyond(y, end), np.asarray(end, x.dtype).reshape(()), y)
    return y


def prelu(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """Infinite elements and slopes stay apart, which the reference adds up. Before 7 a vector of
    slopes is of channels."""
    x, slope = _data(inputs), _data(inputs, 1)
    if opset < 7 and slope.ndim == 1 and slope.size > 1:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return np.where(x < 0, slope * x, x)


def power(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """numpy refuses integers to the power of negative ones, which is 0 but for 1 and -1."""
    x, by = _data(inputs), _data(inputs, 1)
    if "axis" in attrs:
        by = by.reshape(*by.shape, *[1] * (x.ndim - attrs["axis"] % x.ndim - by.ndim))
    if x.dtype.kind not in "iu" or by.dtype.kind not in "iu":
        return np.asarray(np.power(x, by), x.dtype)
    by = by.astype(np.int64)
    below = np.where(x == 1, 1, np.where(x.astype(np.int64) == -1, 1 - 2 * (by & 1), 0))
    return np.where(by < 0, below, np.power(x.astype(np.int64), np.maximum(by, 0))).astype(x.dtype)


def compress(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """Conditions beyond the end of the axis are of nothing."""
    x, axis = _data(inputs), attrs.get("axis")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return np.compress(_data(inputs, 1)[: x.shape[axis]], x, axis)


def unique(inputs: Known, attrs: Attributes, opset: int) -> tuple[Array, ...]:
    """In the order in which they appear, which the reference takes for another, or sorted."""
    x, axis = _data(inputs), attrs.get("axis")
    found = np.unique(x, True, True, True, axis, equal_nan=False)
    values, first, places, counts = (np.asarray(f) for f in found)
    order = np.arange(first.size) if attrs.get("sorted", 1) else np.argsort(first)
    places = np.argsort(order)[places.reshape(-1)]
    return np.take(values, order, axis or 0), first[order], places, counts[order]


erf = _of_first(lambda x, _: np.vectorize(math.erf, [np.float64])(x))
flatten = _of_first(lambda x, attrs: _flat(x, attrs.get("axis", 1)))
softsign = _of_first(lambda x, attrs: x / (1 + np.abs(x)))
# Positive elements stay, whatever alpha is.
leaky_relu = _of_first(lambda x, a: np.where(x < 0, x.dtype.type(a.get("alpha", 0.01)) * x, x))


def shape(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """A start or an end before the first axis is the first axis."""
    shape = _data(inputs).shape
    start, end = attrs.get("start", 0), attrs.get("end", len(shape))
    first, last = (min(max(v + len(shape) if v < 0 else v, 0), len(shape)) for v in (start, end))
    return np.array(shape[first:last], np.int64)


def cumulative(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """onnxruntime takes an axis of one dimension, too, as torch writes it."""
    x, axis = _data(inputs), int(_data(inputs, 1).item())
    line = np.flip(x, axis) if attrs.get("reverse", 0) else x
    made = np.cumsum(line, axis, dtype=x.dtype)
    if attrs.get("exclusive", 0):
        made = np.roll(made, 1, axis)
        np.moveaxis(made, axis, 0)[:1] = 0
    return np.asarray(np.flip(made, axis) if attrs.get("reverse", 0) else made)


def one_hot(inputs: Known, attrs: Attributes, opset: int) -> Array:
    """Indices beyond the depth, which the reference takes modulo it, hit no place."""
    at, values, n = _data(inputs), _data(inputs, 2), int(_data(inputs, 1).reshape(-1)[0])
    at = at.astype(np.int64)
    hits = (at[..., None] == np.arange(n)) | (at[..., None] == np.arange(-n, 0))
    return np.moveaxis(values[hits.astype(int)], -1, attrs.get("axis", -1))


def _along(line: Callable[[Array, int], Array]) -> Value:
    """Along the axis of Softmax and its kin. Before 13, which the reference does not know, all axes
    from `axis` on are one."""

    def value(inputs: Known, attrs: Attributes, opset: int) -> Array:
        x, axis = _data(inputs), attrs.get("axis", -1 if opset >= 13 else 1)
        made = line(x, axis) if opset >= 13 else line(_flat(x, axis), 1).reshape(x.shape)
        return np.asarray(made, x.dtype)

    return value


def _less_most(x: Array, axis: int) -> Array:
    return np.asarray(x - x.max(axis, keepdims=True, initial=-np.inf))


def _log_softmax(x: Array, axis: int) -> Array:
    """The reference takes the logarithm of what underflowed."""
    less = _less_most(x, axis)
    return np.asarray(less - np.log(np.exp(less).sum(axis, keepdims=True)))


def _softmax(x: Array, axis: int) -> Array:
    powers = np.exp(_less_most(x, axis))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def _hardmax(x: Array, axis: int) -> Array:
    made = np.zeros_like(x)
    if x.size:
        np.put_along_axis(made, np.expand_dims(x.argmax(axis), axis), 1, axis)
    return made


softmax, log_softmax, hardmax = map(_along, (_softmax, _log_softmax, _hardmax))


def _unit(x: Array, attrs: Attributes) -> Array:
    """p=1 divides by the sum of absolute values; rows of zeros stay."""
    norm = np.linalg.norm(x, attrs.get("p", 2), attrs.get("axis", -1), keepdims=True)
    return np.asarray(x / np.where(norm == 0, 1, norm))


lp_normalization = _of_first(_unit)


def layer_normalization(inputs: Known, attrs: Attributes, opset: int) -> tuple[Array, ...]:
    """Means and factors have the type in which they are computed, not the input's."""
    x, bias = _data(inputs), inputs[2] if len(inputs) > 2 else None
    along = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    mean = wide.mean(along, keepdims=True)
    variance = np.square(wide - mean).mean(along, keepdims=True)
    factor = 1 / np.sqrt(variance + attrs.get("epsilon", 1e-5))
    y = (wide - mean) * factor * _data(inputs, 1) + (0 if bias is None else bias)
    row = BY_ONNX[attrs.get("stash_type", 1)].numpy
    return y.astype(x.dtype), mean.astype(row), factor.astype(row)


def _reduction(reduce: Callable[..., Array]) -> Value:
    """In the type of the input, also integers."""

    def value(inputs: Known, attrs: Attributes, opset: int) -> Array:
        x = _data(inputs)
        axes = _given(inputs, 1, attrs, "axes")
        if not axes:
            axes = [] if attrs.get("noop_with_empty_axes", 0) else list(range(x.ndim))
        along = tuple(a % x.ndim for a in axes)
        with np.errstate(divide="ignore"):
            made = reduce(x, along, bool(attrs.get("keepdims", 1)))
        return np.asarray(made).astype(x.dtype)

    return value


def _log_sum_exp(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if x.dtype.kind in "iu":  # as of tensors that are not known (ops/reduce.py)
        raise TypeError(f"ReduceLogSumExp on {x.dtype}; supported: floats")
    x = x.astype(np.float64)
    most = x.max(axes, keepdims=True, initial=-np.inf)
    most = np.where(np.isfinite(most), most, 0)
    total = np.log(np.exp(x - most).sum(axes, keepdims=True)) + most
    return np.asarray(total if keep else total.squeeze(axes))


def _l2(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    """Integers as in the kernel: in float64; the greatest where the root does not fit."""
    if x.dtype.kind not in "iu":
        return np.asarray(np.sqrt(np.square(x).sum(axes, x.dtype, keepdims=keep)))
    root = np.asarray(np.sqrt(np.square(x.astype(np.float64)).sum(axes, keepdims=keep)))
    most = np.iinfo(x.dtype).max
    fits = root < float(most) + 1
    return np.where(fits, np.where(fits, root, 0).astype(x.dtype), x.dtype.type(most))


def _mean_of(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    """Integers are rounded towards zero. Of no elements, 0 for integers, NaN for floats."""
    count = math.prod(x.shape[a] for a in axes)
    if x.dtype.kind not in "iu":
        with np.errstate(invalid="ignore"):
            return np.asarray(np.divide(x.sum(axes, keepdims=keep), count))
    wide = np.dtype(np.int64) if x.dtype.itemsize <= 4 else x.dtype
    total, by = x.sum(axes, wide, keepdims=keep), wide.type(max(count, 1))
    below = (total < 0) & (total % by != 0)
    return np.asarray(total // by + below)


reduce_l2, reduce_mean = _reduction(_l2), _reduction(_mean_of)
reduce_log_sum = _reduction(lambda x, axes, keep: np.log(x.sum(axes, keepdims=keep)))
reduce_log_sum_exp = _reduction(_log_sum_exp)
reduce_sum_square = _reduction(lambda x, axes, keep: np.square(x).sum(axes, x.dtype, keepdims=keep))
