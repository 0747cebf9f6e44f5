"""Small models that tests of the front end share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tfl_writer import Op, Sub, T, model

RELU = 1


def dense(
    rng: np.random.Generator,
    depth: int = 24,
    units: int = 10,
    scale: float = 0.21,
    bias: Sequence[int] = (),
    **changes: Any,
) -> bytes:
    """A fully connected layer of int8; `changes` are those of its operator's options."""
    w = rng.integers(-127, 128, (units, depth))
    b = bias or rng.integers(-5000, 5000, units)
    tensors = [
        T("x", (1, depth), scale=0.03, zero=-7),
        T("w", (units, depth), scale=0.011, data=w),
        T("b", (units,), "int32", 0.03 * 0.011, data=b),
        T("y", (1, units), scale=scale, zero=5),
    ]
    options = {"FusedActivationFunction": 0, **changes}
    op = Op("FULLY_CONNECTED", (0, 1, 2), (3,), "FullyConnectedOptions", options)
    return model(Sub(tensors, [op], (0,), (3,)))


def convolution(
    rng: np.random.Generator, *, depthwise: bool, activation: int, same: bool, scale: float = 0.07
) -> tuple[bytes, np.ndarray, np.ndarray, np.ndarray]:
    """A convolution of int8 with weights per channel; its weights, bias and scales."""
    ic, oc = (6, 6) if depthwise else (5, 8)
    shape = (1, 3, 3, oc) if depthwise else (oc, 3, 3, ic)
    w, b = rng.integers(-127, 128, shape), rng.integers(-3000, 3000, oc)
    scales = rng.uniform(0.002, 0.02, oc).astype(np.float32)
    out = 7 if same else 5
    tensors = [
        T("x", (1, 7, 7, ic), scale=0.05, zero=3),
        T("w", shape, scale=scales, axis=3 if depthwise else 0, data=w),
        T("b", (oc,), "int32", scales * np.float32(0.05), data=b),
        T("y", (1, out, out, oc), scale=scale, zero=-9),
    ]
    kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    table = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    options: dict[str, int] = {"Padding": 0 if same else 1, "StrideW": 1, "StrideH": 1}
    options |= {"FusedActivationFunction": activation}
    options |= {"DepthMultiplier": 1} if depthwise else {}
    op = Op(kind, (0, 1, 2), (3,), table, options)
    return model(Sub(tensors, [op], (0,), (3,))), w, b, scales


def unary(kind: str, x: T, y: T, table: str = "", **options: Any) -> bytes:
    """One operator of one tensor."""
    return model(Sub([x, y], [Op(kind, (0,), (1,), table, options)], (0,), (1,)))


def chain(kinds: Sequence[str]) -> bytes:
    """Operators without options one after the other, on four floats."""
    tensors = [T(f"t{k}", (4,), "float32") for k in range(len(kinds) + 1)]
    ops = [Op(kind, (k,), (k + 1,)) for k, kind in enumerate(kinds)]
    return model(Sub(tensors, ops, (0,), (len(kinds),)))
