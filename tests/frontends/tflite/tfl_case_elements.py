"""Operators of one element after another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tfl_cases import FUSED, Case, Rng, family, like, noise, q
from tfl_writer import T


@family
def unary(rng: Rng) -> Iterator[Case]:
    plain = "ABS CEIL COS EXP FLOOR LOG NEG ROUND RSQRT SIN SQRT SQUARE RELU RELU6 TANH ELU"
    for kind in (*plain.split(), "HARD_SWISH", "LOGISTIC", "LOGICAL_NOT", "LEAKY_RELU"):
        for row in ("float32", "int8", "int16", "bool"):
            for shape in ((2, 3, 5), (7,), ()):
                x = q(rng, shape, row)
                y = q(rng, shape, row)
                if kind in ("LOGISTIC", "TANH") and row in ("int8", "int16"):
                    scale = {"LOGISTIC": 2.0**-8, "TANH": 2.0**-7}[kind]
                    zero = -128 if kind == "LOGISTIC" else 0
                    y = like(y, shape, scale=scale, zero=zero)
                    if row == "int16":
                        y = like(y, shape, scale=2.0**-15, zero=0)
                table, options = "", {}
                if kind == "LEAKY_RELU":
                    table, options = "LeakyReluOptions", {"Alpha": 0.3}
                feed = {}
                if kind in ("LOG", "SQRT", "RSQRT") and row == "float32":
                    feed = {0: rng.uniform(0.1, 9, shape).astype(np.float32)}
                if kind == "RSQRT" and row != "float32" and row != "bool":
                    x = like(x, shape, zero=-128 if row == "int8" else 0)
                    feed = {0: rng.integers(0, 120, shape)}
                yield Case(kind, [x], [y], table, options, feed=feed)


BINARY = {
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "DIV": "DivOptions",
    "SQUARED_DIFFERENCE": "",
    "MAXIMUM": "",
    "MINIMUM": "",
    "FLOOR_DIV": "",
    "FLOOR_MOD": "",
    "EQUAL": "",
    "NOT_EQUAL": "",
    "GREATER": "",
    "GREATER_EQUAL": "",
    "LESS": "",
    "LESS_EQUAL": "",
    "LOGICAL_AND": "",
    "LOGICAL_OR": "",
}
SHAPES = [
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (4,)),
    ((2, 1, 4), (3, 1)),
    ((), (5,)),
    ((1, 2, 3, 1, 2), (2, 1, 5, 1)),
    ((6,), ()),
]


@family
def binary(rng: Rng) -> Iterator[Case]:
    for kind, table in BINARY.items():
        compares = kind in ("EQUAL", "NOT_EQUAL") or kind.startswith(("GREATER", "LESS"))
        for row in ("float32", "int8", "int16", "int32", "int64", "bool"):
            for fused in FUSED if table else (0,):
                for a, b in SHAPES[fused % 2 :: 2] if table else SHAPES:
                    x, y = q(rng, a, row), q(rng, b, row)
                    out = q(rng, np.broadcast_shapes(a, b), row)
                    if kind in ("MAXIMUM", "MINIMUM"):
                        y, out = like(x, b), like(x, out.shape)
                    if compares:
                        out = T("", out.shape, "bool")
                    feed = {}
                    if kind.startswith("LOGICAL") and row != "bool":
                        continue  # bytes of numbers taken for truth
                    if kind == "DIV" and row == "int8":  # tiny quotients overflow upstream
                        feed = {0: rng.choice([-128, -100, 99, 127], a)}
                    if kind in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
                        divisors = {"float32": [-3.5, 0.3, 2.0, 7.25], "bool": [True] * 4}
                        some = rng.choice(divisors.get(row, [41, 42, 90, 100]), b)
                        feed[1] = some
                    if row in ("int32", "int64") and kind in ("ADD", "SUB", "MUL", "DIV"):
                        feed = {0: rng.integers(-9999, 9999, a), **feed}
                        feed.setdefault(1, rng.integers(-9999, 9999, b))
                    options = {"FusedActivationFunction": fused} if table else {}
                    yield Case(kind, [x, y], [out], table, options, feed=feed)


@family
def several(rng: Rng) -> Iterator[Case]:
    for row in ("float32", "int8", "int16", "int32"):
        for count in (2, 3, 5):
            x = q(rng, (2, 3), row)
            parts = [like(x, (2, 3)) for _ in range(count)]
            yield Case(
                "ADD_N",
                parts,
                [
                    q(
                        rng,
                        (2, 3),
                        row,
                        **({"scale": 0.4} if row[:3] == "int" and row != "int32" else {}),
                    )
                ],
                "AddNOptions",
            )
        for a, b, c in (((2, 3), (2, 3), (2, 3)), ((1, 3), (2, 1), (2, 3)), ((), (4,), (1,))):
            x = q(rng, b, row)
            shape = np.broadcast_shapes(a, b, c)
            yield Case(
                "SELECT_V2", [T("", a, "bool"), x, like(x, c)], [like(x, shape)], "SelectV2Options"
            )
        for alpha in ((3,), (2, 1, 3), (1,)):
            x = q(rng, (2, 4, 3), row)
            yield Case("PRELU", [x, q(rng, alpha, row)], [q(rng, x.shape, row)])
            slopes = q(rng, alpha, row)
            constant = T("", alpha, row, slopes.scale, slopes.zero, data=noise(rng, slopes))
            yield Case("PRELU", [x, constant], [q(rng, x.shape, row)])
    x = q(rng, (2, 4, 3), "int16")
    yield Case("PRELU", [x, q(rng, (3,), "int8")], [q(rng, x.shape, "int16")])


@family
def lines(rng: Rng) -> Iterator[Case]:
    for row in ("float32", "int8", "int16"):
        for shape in ((2, 3, 5), (1, 17), (9,)):
            x = q(rng, shape, row)
            for beta in (1.0, 0.25, 2.0):
                y = like(x, shape, scale=2.0**-8, zero=-128) if row == "int8" else x
                if row == "int16":
                    y = like(x, shape, scale=2.0**-15, zero=0)
                yield Case("SOFTMAX", [x], [y], "SoftmaxOptions", {"Beta": beta})
                if row == "int8":
                    y = T("", shape, "int16", 2.0**-16, -32768)
                    yield Case("SOFTMAX", [x], [y], "SoftmaxOptions", {"Beta": beta})
            y = like(x, shape, scale=1 / 16, zero=127) if row == "int8" else x
            yield Case("LOG_SOFTMAX", [x], [y], "LogSoftmaxOptions")
            y = like(x, shape, scale=1 / 128, zero=0) if row == "int8" else x
            yield Case("L2_NORMALIZATION", [x], [y], "L2NormOptions")


@family
def casts(rng: Rng) -> Iterator[Case]:
    rows = ("float32", "int8", "int16", "int32", "int64", "uint8", "uint32", "bool")
    for a in rows:
        for b in rows:
            feed = {0: rng.integers(0, 100, (3, 4))} if a != "bool" else {}
            yield Case("CAST", [T("", (3, 4), a)], [T("", (3, 4), b)], "CastOptions", feed=feed)
    for a in ("float32", "int8", "int16", "int32", "uint8"):
        for b in ("float32", "int8", "int16", "int32", "uint8"):
            x, y = q(rng, (3, 5), a), q(rng, (3, 5), b)
            if a == "int32":
                x = T("", (3, 5), a, 0.0001, 0)
            if b == "int32":
                y = T("", (3, 5), b, 0.0001, 0)
            yield Case("QUANTIZE", [x], [y], "QuantizeOptions")
            yield Case("DEQUANTIZE", [x], [T("", (3, 5), b)], "DequantizeOptions")


@family
def slopes(rng: Rng) -> Iterator[Case]:
    """Also below zero, where halves decide: what a slope of 0.5 gives, with the sign."""
    for row in ("int8", "int16", "float32"):
        for alpha in (-0.5, -0.25, -1.0, -2.0, -0.3, 0.0, 0.5, 1.5):
            x = q(rng, (3, 40), row)
            for y in (x, x if row == "float32" else like(x, x.shape, scale=2 * x.scale)):
                yield Case("LEAKY_RELU", [x], [y], "LeakyReluOptions", {"Alpha": alpha})
