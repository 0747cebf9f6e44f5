"""Pools, reductions and products of matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tfl_cases import FUSED, Case, Rng, family, ints, like, q
from tfl_writer import T


@family
def pools(rng: Rng) -> Iterator[Case]:
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for row in ("float32", "int8", "int16"):
            for k, (padding, kernel, strides) in enumerate(
                [
                    (0, (3, 2), (1, 1)),
                    (1, (2, 2), (2, 2)),
                    (0, (2, 3), (2, 3)),
                    (1, (5, 4), (1, 1)),
                    (0, (7, 7), (1, 2)),
                ]
            ):
                h, w = 5, 7
                if padding:
                    oh, ow = (
                        (n + s - f) // s for n, f, s in zip((h, w), kernel, strides, strict=True)
                    )
                else:
                    oh, ow = (-(-n // s) for n, s in zip((h, w), strides, strict=True))
                if min(oh, ow) < 1:
                    continue
                for fused in FUSED:
                    x = q(rng, (2, h, w, 3), row)
                    options = {
                        "Padding": padding,
                        "StrideH": strides[0],
                        "StrideW": strides[1],
                        "FilterHeight": kernel[0],
                        "FilterWidth": kernel[1],
                        "FusedActivationFunction": fused,
                    }
                    if (k + fused) % 2 or not fused:
                        yield Case(kind, [x], [like(x, (2, oh, ow, 3))], "Pool2DOptions", options)


@family
def reductions(rng: Rng) -> Iterator[Case]:
    for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL"):
        for row in ("float32", "int8", "int16", "int32", "bool"):
            for shape, axes in (
                ((2, 3, 4, 5), [1, 2]),
                ((2, 3, 4, 5), [-1]),
                ((3, 7), [0, 1]),
                ((2, 3, 4), [0, 0, -3]),
                ((4, 3), []),
                ((2, 3, 5, 2), [0, 3]),
            ):
                for keep in (False, True):
                    x = q(rng, shape, row)
                    dropped = {a % len(shape) for a in axes}
                    out = [
                        1 if k in dropped else n
                        for k, n in enumerate(shape)
                        if keep or k not in dropped
                    ]
                    y = like(x, out) if kind[:6] == "REDUCE" else q(rng, out, row)
                    yield Case(kind, [x, ints(axes)], [y], "ReducerOptions", {"KeepDims": keep})
    for kind, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        for row in ("float32", "int8", "int16", "int32"):
            for axis in (0, -1, 1):
                for out_row in ("int32", "int64"):
                    shape = (3, 4, 5)
                    out = [n for k, n in enumerate(shape) if k != axis % 3]
                    x = q(rng, shape, row)
                    yield Case(
                        kind,
                        [x, ints(axis)],
                        [T("", out, out_row)],
                        table,
                        {"OutputType": 2 if out_row == "int32" else 4},
                    )
    for row in ("float32", "int8", "int16", "int32"):
        for axis in (0, 1, -1):
            for exclusive in (False, True):
                for reverse in (False, True):
                    x = q(rng, (3, 4, 2), row)
                    yield Case(
                        "CUMSUM",
                        [x, ints(axis)],
                        [q(rng, (3, 4, 2), row, **({"scale": 0.2} if row == "int8" else {}))],
                        "CumsumOptions",
                        {"Exclusive": exclusive, "Reverse": reverse},
                    )


def weights(rng: Rng, shape: Sequence[int], row: str, axis: int, how: str) -> T:
    """Constant weights: floats, or integers with one scale or one for each channel."""
    if row == "float32":
        return T("", shape, row, data=rng.normal(0, 1, shape))
    ends = 8 if how[-1] == "4" else 128
    scale: Any = rng.uniform(0.002, 0.02, shape[axis]).astype(np.float32)
    scale = scale if how.startswith("axis") else float(scale[0])
    data = rng.integers(1 - ends, ends, shape)
    return T("", shape, "int4" if how[-1] == "4" else "int8", scale, 0, axis, data)


def bias_of(rng: Rng, x: T, w: T, n: int, row: str) -> T | None:
    if row == "none":
        return None
    if row == "float32":
        return T("", (n,), row, data=rng.normal(0, 1, n))
    scale = np.float32(x.scale) * np.atleast_1d(np.array(w.scale, np.float32))
    return T(
        "", (n,), row, scale if scale.size > 1 else float(scale[0]), data=rng.integers(-999, 999, n)
    )


BIASES = {
    "float32": ("float32", "none"),
    "int8": ("int32", "none"),
    "int16": ("int64", "int32", "none"),
}
HOWS = {
    "float32": ("tensor",),
    "int8": ("tensor", "axis", "tensor4", "axis4"),
    "int16": ("tensor", "axis"),
}


@family
def dense(rng: Rng) -> Iterator[Case]:
    for row in ("float32", "int8", "int16"):
        for how in HOWS[row]:
            for bias in BIASES[row]:
                for k, (shape, units) in enumerate((((1, 9), 4), ((2, 3, 5), 7), ((4, 16), 1))):
                    x = q(rng, shape, row)
                    w = weights(rng, (units, shape[-1]), row, 0, how)
                    y = q(rng, (*shape[:-1], units), row)
                    options = {"FusedActivationFunction": (k + len(how)) % 4, "KeepNumDims": k == 1}
                    if k == 2 and row == "int16":
                        options["QuantizedBiasType"] = 2
                    yield Case(
                        "FULLY_CONNECTED",
                        [x, w, bias_of(rng, x, w, units, bias)],
                        [y],
                        "FullyConnectedOptions",
                        options,
                    )
    x, w = q(rng, (2, 6), "int8"), q(rng, (3, 6), "int8")
    yield Case("FULLY_CONNECTED", [x, w, None], [q(rng, (2, 3), "int8")], "FullyConnectedOptions")
    x, w = q(rng, (2, 6), "float32"), q(rng, (3, 6), "float32")
    yield Case(
        "FULLY_CONNECTED", [x, w, None], [q(rng, (2, 3), "float32")], "FullyConnectedOptions"
    )
    x = q(rng, (2, 6), "float32")
    yield Case(
        "FULLY_CONNECTED",
        [x, weights(rng, (3, 6), "int8", 0, "tensor"), None],
        [q(rng, (2, 3), "float32")],
        "FullyConnectedOptions",
    )
    for row, fused in (("float32", 1), ("int8", 3), ("int8", 1), ("int8", 0)):
        x, w = q(rng, (2, 3, 6), row), q(rng, (5, 6), row)
        bias = bias_of(rng, x, w, 5, BIASES[row][0])
        options = {"FusedActivationFunction": fused}
        y = q(rng, (2, 3, 5), row)
        yield Case("FULLY_CONNECTED", [x, w, bias], [y], "FullyConnectedOptions", options)


def with_bias(kind: str, x: T, w: T, bias: T | None) -> list[T | None]:
    """Upstream crashes on a depthwise convolution whose bias is left out by -1."""
    return [x, w] if bias is None and kind == "DEPTHWISE_CONV_2D" else [x, w, bias]


def windowed(n: int, kernel: int, stride: int, dilation: int, same: bool) -> int:
    return -(-n // stride) if same else (n + stride - ((kernel - 1) * dilation + 1)) // stride


FORMS = [  # kernel, strides, dilations, padding is SAME
    ((3, 3), (1, 1), (1, 1), True),
    ((2, 3), (2, 1), (1, 1), False),
    ((3, 2), (1, 1), (2, 3), True),
    ((1, 1), (1, 1), (1, 1), False),
    ((3, 3), (2, 3), (1, 1), True),
    ((2, 2), (1, 1), (2, 2), False),
]


@family
def convolutions(rng: Rng) -> Iterator[Case]:
    for kind, table in (
        ("CONV_2D", "Conv2DOptions"),
        ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"),
    ):
        for row in ("float32", "int8", "int16"):
            for how in HOWS[row]:
                for bias in BIASES[row]:
                    for k, (kernel, strides, dilations, same) in enumerate(FORMS):
                        if (k + len(how) + len(bias)) % 2 and row != "float32":
                            continue
                        h, w = 7, 8
                        shape = tuple(
                            windowed(n, f, s, d, same)
                            for n, f, s, d in zip((h, w), kernel, strides, dilations, strict=True)
                        )
                        options = {
                            "Padding": 0 if same else 1,
                            "StrideH": strides[0],
                            "StrideW": strides[1],
                            "DilationHFactor": dilations[0],
                            "DilationWFactor": dilations[1],
                            "FusedActivationFunction": k % 4,
                        }
                        if kind == "CONV_2D":
                            ic, oc = (6, 4) if k % 3 == 2 else (3, 5)  # with groups, and without
                            wt = weights(
                                rng, (oc, *kernel, ic // 2 if k % 3 == 2 else ic), row, 0, how
                            )
                        else:
                            ic, many = (2, 3) if k % 2 else (4, 1)
                            oc = ic * many
                            options["DepthMultiplier"] = many
                            wt = weights(rng, (1, *kernel, oc), row, 3, how)
                        x = q(rng, (2, h, w, ic), row)
                        y = q(rng, (2, *shape, oc), row)
                        yield Case(
                            kind,
                            with_bias(kind, x, wt, bias_of(rng, x, wt, oc, bias)),
                            [y],
                            table,
                            options,
                        )
    for row in ("float32", "int8", "int16"):
        for how in HOWS[row][:2]:
            for bias in ("int64", "int16", "none") if row == "int16" else BIASES[row]:
                for k, (kernel, strides, same) in enumerate(
                    (
                        ((3, 3), (1, 1), True),
                        ((2, 3), (2, 2), True),
                        ((3, 2), (2, 3), False),
                        ((1, 4), (3, 1), False),
                    )
                ):
                    h, w = 3, 4
                    out = [
                        (n * s if same else (n - 1) * s + f)
                        for n, s, f in zip((h, w), strides, kernel, strict=True)
                    ]
                    wt = weights(rng, (5, *kernel, 2), row, 0, how)
                    x, y = q(rng, (2, h, w, 2), row), q(rng, (2, *out, 5), row)
                    options = {
                        "Padding": 0 if same else 1,
                        "StrideH": strides[0],
                        "StrideW": strides[1],
                    }
                    if k == 1:
                        options["FusedActivationFunction"] = 1
                    parts = [ints(y.shape), wt, x]
                    b = bias_of(rng, x, wt, 5, bias)
                    yield Case(
                        "TRANSPOSE_CONV",
                        [*parts, *([b] if b else [])],
                        [y],
                        "TransposeConvOptions",
                        options,
                    )


@family
def matrices(rng: Rng) -> Iterator[Case]:
    for row in ("float32", "int8", "int16"):
        for adj_x in (False, True):
            for adj_y in (False, True):
                for a, b in (((), ()), ((2,), (2,)), ((2, 1), (3,)), ((2, 1, 3), (2, 3))):
                    left = (*a, 5, 4) if adj_x else (*a, 4, 5)
                    right = (*b, 3, 5) if adj_y else (*b, 5, 3)
                    y = q(rng, (*np.broadcast_shapes(a, b), 4, 3), row)
                    yield Case(
                        "BATCH_MATMUL",
                        [q(rng, left, row), q(rng, right, row)],
                        [y],
                        "BatchMatMulOptions",
                        {"AdjX": adj_x, "AdjY": adj_y},
                    )
    x, w = q(rng, (2, 4, 5), "int8"), weights(rng, (5, 3), "int8", 0, "tensor")
    yield Case("BATCH_MATMUL", [x, w], [q(rng, (2, 4, 3), "int8")], "BatchMatMulOptions")
    x, w = q(rng, (2, 4, 5), "float32"), weights(rng, (5, 3), "int8", 0, "tensor")
    yield Case("BATCH_MATMUL", [x, w], [q(rng, (2, 4, 3), "float32")], "BatchMatMulOptions")
