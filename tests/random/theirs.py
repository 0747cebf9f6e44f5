"""What onnxruntime computes otherwise, as docs/operators.md lists it, and what no standard defines:
no generator has such nodes, in none of its samples.

Nodes are asked about as they are made (Grower.parts, Maker.do) and once more with the values of
each further sample, so a generator need not know of any of this. What depends on roundings is the
judge's; what no generator can draw is not here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper

Array = np.ndarray[Any, Any]
Attributes = Mapping[str, Any]
LARGEST = 1e5  # values beyond are not computed with: their errors say nothing
LAST_OF_SLICES = 2**31 - 1
MOST_OF_BYTES = 64  # 2 * 255 * 64 is less than 2^15


def most_of_weights(dtype: Any) -> int:
    """The largest of int8 weights for integers of a type, by the rule of products below."""
    return MOST_OF_BYTES if dtype == np.uint8 else 127


def otherwise(op: str, opset: int, operands: Sequence[Array | None], attrs: Attributes) -> bool:
    """Whether a node is one of those; `operands` are what it reads, None where it reads nothing."""
    if op not in RULES:
        return False
    texts = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
    return RULES[op](opset, operands, texts)


def is_fit(array: Array) -> bool:
    """No float that is infinite, a NaN or so large that its errors say nothing. Clip, Conv,
    GridSample and DynamicQuantizeLinear differ by infinities, Hardmax and ScatterElements by NaNs,
    and what a Cast makes of them nobody knows."""
    return array.dtype.kind != "f" or bool(np.all(np.abs(array.astype(np.float64)) < LARGEST))


def elements_of_a_mean(op: str, shape: Sequence[int], attrs: Attributes) -> int:
    """How many elements a node normalises together; 0 for operators that do not normalise.

    An element less its own mean is 0. onnxruntime computes `x * scale + (bias - mean * scale)`,
    rounds both large products, and noise on x cannot tell how far off that is. So networks do not
    normalise elements one by one.
    """
    if op == "InstanceNormalization":
        return math.prod(shape[2:])
    if op == "GroupNormalization":
        return math.prod(shape[1:]) // int(attrs["num_groups"])
    if op == "BatchNormalization":
        return math.prod(shape) // max(1, shape[1]) if attrs.get("training_mode") else 0
    if op in ("LayerNormalization", "SkipLayerNormalization"):
        return math.prod(shape[attrs.get("axis", -1) :])
    if op == "MeanVarianceNormalization":
        return math.prod(shape[a] for a in attrs.get("axes", (0, 2, 3)))
    return shape[attrs.get("axis", -1)] if op == "LpNormalization" else 0


def _alone(op: str) -> Callable[[int, Sequence[Any], Attributes], bool]:
    return lambda _, operands, attrs: elements_of_a_mean(op, operands[0].shape, attrs) == 1


def _resize(_: int, operands: Sequence[Any], attrs: Attributes) -> bool:
    """Of an extent that stays, of all but whole `n * scale` by align_corners, and antialiased of
    int8 or of other axes than the last two with a crop. Of cubic channels onnxruntime reads what
    lies beyond them."""
    x, rank = operands[0], operands[0].ndim
    roi, scales, sizes = (
        a if a is not None and a.size else None
        for a in (*((None, operands[1]) if len(operands) == 2 else operands[1:]), None, None)[:3]
    )
    axes = [a % rank for a in attrs.get("axes", range(rank))]
    extents = [x.shape[a] for a in axes]
    scales, sizes = _scales_and_sizes(extents, scales, sizes, attrs)
    transform = attrs.get("coordinate_transformation_mode")
    cropped = [False] * len(axes)
    if roi is not None and transform == "tf_crop_and_resize":
        ends = zip(roi[: len(axes)], roi[len(axes) :], strict=True)
        cropped = [pair != (0, 1) for pair in ends]
    moved = [c or s != 1 for c, s in zip(cropped, scales, strict=True)]
    others = any(m and a < rank - 2 for m, a in zip(moved, axes, strict=True))
    if any(m and n == size for m, n, size in zip(moved, extents, sizes, strict=True)):
        return True
    if transform == "align_corners" and any(
        abs(n * float(s) - size) > 1e-6 * size
        for n, s, size in zip(extents, scales, sizes, strict=True)
    ):
        return True
    if attrs.get("antialias") and (x.dtype == np.int8 or (others and any(cropped))):
        return True
    return bool(attrs.get("mode") == "cubic" and (others or x.dtype == np.int8))


def _scales_and_sizes(
    extents: Sequence[int], scales: Array | None, sizes: Array | None, attrs: Attributes
) -> tuple[Sequence[Any], Sequence[int]]:
    """Of each axis the scale and the extent that it gets."""
    if scales is not None:
        ends = zip(extents, scales, strict=True)
        return [*scales], [int(np.float32(n) * np.float32(s)) for n, s in ends]
    if sizes is None:
        return [1.0] * len(extents), extents
    each = [np.float32(m) / np.float32(n) for m, n in zip(sizes, extents, strict=True)]
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return each, sizes.tolist()
    scale = min(each) if policy == "not_larger" else max(each)
    return [scale] * len(extents), [round(float(n * scale)) for n in extents]


def _pool(opset: int, operands: Sequence[Any], attrs: Attributes) -> bool:
    """With a negative padding of auto_pad, and means over windows beyond the padded image."""
    kernel = attrs["kernel_shape"]
    rank = len(kernel)
    strides, dilations = (attrs.get(name, [1] * rank) for name in ("strides", "dilations"))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if attrs.get("auto_pad", "").startswith("SAME"):
        return any(s > span for s, span in zip(strides, spans, strict=True))
    pads = attrs.get("pads", [0] * 2 * rank)
    padded = [n + pads[k] + pads[k + rank] for k, n in enumerate(operands[0].shape[-rank:])]
    beyond = any(n < span for n, span in zip(padded, spans, strict=True))
    return bool(beyond and opset < 19 and attrs.get("count_include_pad"))


def _slice(_: int, operands: Sequence[Any], attrs: Attributes) -> bool:
    if len(operands) < 5 or operands[4] is None:
        return False
    return bool(np.any((operands[4] < 0) & (operands[2] == LAST_OF_SLICES)))


def _sum_of_integers(op: str) -> Callable[[int, Sequence[Any], Attributes], bool]:
    """Beyond the range of their type."""
    terms = np.square if op == "ReduceSumSquare" else np.abs

    def rule(_: int, operands: Sequence[Any], attrs: Attributes) -> bool:
        x = operands[0]
        if x.dtype.kind not in "iu":
            return False
        with np.errstate(over="ignore"):
            values = terms(x.astype(np.float64))
        return bool(values.sum() > min(np.iinfo(x.dtype).max, 2.0**53))

    return rule


def _products_of_bytes(at: int) -> Callable[[int, Sequence[Any], Attributes], bool]:
    """Of uint8 by int8 whose pairs leave 16 bits, in which processors without VNNI add them;
    `at`: the second operand."""

    def rule(_: int, operands: Sequence[Any], attrs: Attributes) -> bool:
        a, b = operands[0], operands[at]
        if (a.dtype, b.dtype) != (np.uint8, np.int8):
            return False
        return bool(np.abs(b.astype(int)).max(initial=0) > MOST_OF_BYTES)

    return rule


def _mod(_: int, operands: Sequence[Any], attrs: Attributes) -> bool:
    """Of integers as float64, which has 53 bits."""
    if not attrs.get("fmod") or operands[0].dtype.kind == "f":
        return False
    return any(np.any(np.abs(a.astype(np.float64)) > 2.0**53) for a in operands)


def _cast(_: int, operands: Sequence[Any], attrs: Attributes) -> bool:
    """Of a float to an integer that cannot be it, which neither C nor ONNX defines."""
    x, kind = operands[0], helper.tensor_dtype_to_np_dtype(attrs["to"])
    if x.dtype.kind != "f" or kind.kind not in "iu":
        return False
    info, whole = np.iinfo(kind), np.trunc(x.astype(np.float64))
    return not bool(np.all((whole >= float(info.min)) & (whole <= float(info.max))))


NORMALISING = (
    *("InstanceNormalization", "GroupNormalization", "BatchNormalization", "LpNormalization"),
    *("LayerNormalization", "SkipLayerNormalization", "MeanVarianceNormalization"),
)
RULES: Mapping[str, Callable[[int, Sequence[Any], Attributes], bool]] = {
    **{op: _alone(op) for op in NORMALISING},
    **{op: _pool for op in ("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool")},
    **{op: _sum_of_integers(op) for op in ("ReduceSum", "ReduceL1", "ReduceSumSquare")},
    **{op: _products_of_bytes(1) for op in ("MatMulInteger", "ConvInteger")},
    **{op: _products_of_bytes(3) for op in ("QLinearMatMul", "QLinearConv")},
    "Resize": _resize,
    "Slice": _slice,
    "Mod": _mod,
    "Cast": _cast,
}
