"""Models of uint8, which TensorFlow Lite Micro no longer runs, against LiteRT's reference kernels.

Hashes are of what these gave (TensorFlow 2.21): the interpreter is no package of the tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pytest
from tfl_case_states import detections
from tfl_cases import Case, Family, feeds, ints, like, merged
from tfl_writer import T

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite, imported
from mlftool.runtime.host import load_host

SAME, VALID = 0, 1
IMAGE = (1, 5, 6, 4)


def tensor(rng: np.random.Generator, *shape: int, by: float = 1) -> T:
    zero, scale = int(rng.integers(0, 256)), by * float(rng.uniform(0.01, 0.1))
    return T("", shape, "uint8", scale, zero)


def layer(rng: np.random.Generator, x: T, y: T, *shape: int) -> list[T]:
    """Weights with a zero point, and a bias, for `x`; `y` is what they make."""
    w = T("", shape, "uint8", 0.01, int(rng.integers(100, 150)), data=rng.integers(0, 256, shape))
    units, scale = y.shape[-1], float(np.float32(x.scale) * np.float32(w.scale))
    return [w, T("", (units,), "int32", scale, data=rng.integers(-3000, 3000, units))]


def contractions(rng: np.random.Generator) -> Iterator[Case]:
    x = tensor(rng, *IMAGE)
    window = {"Padding": SAME, "StrideW": 2, "StrideH": 1, "FusedActivationFunction": 1}
    y = tensor(rng, 1, 5, 3, 7, by=9)
    parts = [x, *layer(rng, x, y, 7, 3, 2, 4)]
    yield Case("CONV_2D", parts, [y], "Conv2DOptions", window)
    y = tensor(rng, 1, 5, 3, 8, by=9)
    more = {**window, "DepthMultiplier": 2}
    parts = [x, *layer(rng, x, y, 1, 3, 3, 8)]
    yield Case("DEPTHWISE_CONV_2D", parts, [y], "DepthwiseConv2DOptions", more)
    for kernel in ((2, 2), (3, 2)):  # with taps for each place, and without
        y = tensor(rng, 1, 10, 18, 3, by=9)
        w, bias = layer(rng, x, y, 3, *kernel, 4)
        window = {"Padding": SAME, "StrideW": 3, "StrideH": 2}
        parts = [ints(y.shape), w, x, bias]
        yield Case("TRANSPOSE_CONV", parts, [y], "TransposeConvOptions", window)


def others(rng: np.random.Generator) -> Iterator[Case]:
    x, y = tensor(rng, *IMAGE), tensor(rng, *IMAGE)
    window = {"Padding": VALID, "StrideW": 2, "StrideH": 1, "FilterHeight": 2, "FilterWidth": 2}
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):  # means of four: halves
        yield Case(kind, [x], [like(x, (1, 4, 3, 4))], "Pool2DOptions", window)
    for kind, table in (("ADD", "AddOptions"), ("MUL", "MulOptions")):
        yield Case(kind, [x, y], [tensor(rng, *IMAGE)], table, {"FusedActivationFunction": 1})
    for kind in ("RELU", "RELU6"):
        yield Case(kind, [x], [tensor(rng, *IMAGE)])
    yield Case("LOGISTIC", [x], [T("", IMAGE, "uint8", 2.0**-8, 0)])
    yield Case("SOFTMAX", [x], [T("", IMAGE, "uint8", 2.0**-8, 0)], "SoftmaxOptions", {"Beta": 1.0})
    for options in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True}):
        parts = [x, ints([8, 7])]
        made = [like(x, (1, 8, 7, 4))]
        yield Case("RESIZE_BILINEAR", parts, made, "ResizeBilinearOptions", options)
    borders = ints([[0, 0], [1, 2], [0, 1], [0, 0]])
    yield Case("PAD", [x, borders], [like(x, (1, 8, 7, 4))], "PadOptions")
    yield Case(
        "CONCATENATION", [x, x], [like(x, (1, 5, 6, 8))], "ConcatenationOptions", {"Axis": 3}
    )
    yield Case(
        "ARG_MAX", [x, ints(-1)], [T("", IMAGE[:3], "int32")], "ArgMaxOptions", {"OutputType": 2}
    )
    yield Case("QUANTIZE", [T("", IMAGE, "float32")], [y])
    yield Case("QUANTIZE", [x], [y])
    yield Case("DEQUANTIZE", [x], [T("", IMAGE, "float32")])


def dense(rng: np.random.Generator) -> Iterator[Case]:
    """Sums that are rounded once, near many ties, and rows of length one."""
    for units, by in ((7, 9), (5, 0.3), (3, 2)):
        x, y = tensor(rng, 4000, 20), tensor(rng, 4000, units, by=by)
        parts = [x, *layer(rng, x, y, units, 20)]
        yield Case("FULLY_CONNECTED", parts, [y], "FullyConnectedOptions")
    for depth in (4, 33):
        x, y = tensor(rng, 50, depth), T("", (50, depth), "uint8", 1 / 128, 128)
        yield Case("L2_NORMALIZATION", [x], [y], "L2NormOptions")


def results(cases: list[Case]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The inputs of one model of all, and its outputs."""
    run = load_host(compile_modules([ModuleSpec(TFLite(merged(cases)), "m")]), optimise="-O0")
    given = [x for k, case in enumerate(cases) for x in feeds(np.random.default_rng(k), [case])]
    made = run({t.name: x for t, x in zip(run.interface.inputs, given, strict=True)})
    return given, [np.asarray(y) for y in made.values()]


@pytest.mark.parametrize(
    ("family", "digest"),
    [
        (contractions, "34e9c598f97310c5a271834215f5167e"),
        (others, "5d7f3aed6e6e4f102c5d7a7c711e1238"),
        (dense, "6f5d6f9eeb067cbe8f61c44d86c00b35"),  # of LiteRT 2.3
    ],
)
def test_uint8_has_the_bytes_of_litert(family: Family, digest: str) -> None:
    _, made = results(list(family(np.random.default_rng(3))))
    found = hashlib.sha256(b"".join(y.tobytes() for y in made)).hexdigest()[:32]
    assert found == digest


def test_casts_are_of_what_is_stored() -> None:
    """Whatever the scales say, as a network that takes the bytes of an image has it."""
    rng = np.random.default_rng(2)
    x, y = tensor(rng, *IMAGE), T("", IMAGE, "int16", 0.1)
    pairs = [(x, T("", IMAGE, "float32")), (x, signed(x)), (signed(x), x), (y, x)]
    cases = [Case("CAST", [a], [b], "CastOptions") for a, b in pairs]
    for (_, b), given, made in zip(pairs, *results(cases), strict=True):
        np.testing.assert_array_equal(made, given.astype(b.type))


def test_zeros_are_of_what_is_stored() -> None:
    x = tensor(np.random.default_rng(2), *IMAGE)
    _, (made,) = results([Case("ZEROS_LIKE", [x], [x], "ZerosLikeOptions")])
    np.testing.assert_array_equal(made, np.zeros(IMAGE, np.uint8), strict=True)


def signed(t: T) -> T:
    """The same numbers in int8."""
    data = None if t.data is None else np.asarray(t.data).astype(np.int16) - 128
    return like(t, t.shape, type="int8", zero=int(np.int64(t.zero)) - 128, data=data)


def test_detections_of_bytes() -> None:
    """They are those of the floats that the bytes stand for."""
    rng = np.random.default_rng(2)
    of_floats = next(iter(detections(rng)))
    how = [(0.1, 128), (2.0**-8, 0), (2.0**-8, 10)]
    given = [rng.integers(0, 256, t.shape, endpoint=False) for t in of_floats.inputs if t]
    real = [np.float32(s) * np.float32(g - z) for g, (s, z) in zip(given, how, strict=True)]
    inputs = [t for t in of_floats.inputs if t]
    parts = zip(inputs, how, strict=True)
    bytes_ = [like(t, t.shape, type="uint8", scale=s, zero=z) for t, (s, z) in parts]
    bytes_[2], inputs[2] = (
        like(bytes_[2], (6, 4), data=given[2]),
        like(inputs[2], (6, 4), data=real[2]),
    )
    cases = [
        Case(of_floats.kind, i, of_floats.outputs, custom=of_floats.custom)
        for i in (inputs, bytes_)
    ]
    run = load_host(compile_modules([ModuleSpec(TFLite(merged(cases)), "m")]), optimise="-O0")
    feed = [*real[:2], *(g.astype(np.uint8) for g in given[:2])]
    made = [*run({t.name: v for t, v in zip(run.interface.inputs, feed, strict=True)}).values()]
    for got, want in zip(made[4:], made[:4], strict=True):
        np.testing.assert_array_equal(got, want)
    assert made[3] > 0


def refused(case: Case, match: str) -> None:
    with pytest.raises(MlfError, match=match):
        imported(TFLite(merged([case])), "m")


def test_what_is_refused() -> None:
    rng = np.random.default_rng(1)
    wide, y = T("", (2, 3), "int16", 0.1, 0), T("", (2, 5), "int16", 0.1, 0)
    w, bias = layer(rng, wide, y, 5, 3)
    refused(
        Case("FULLY_CONNECTED", [wide, w, bias], [y], "FullyConnectedOptions"), "uint8 for int16"
    )
    refused(Case("PRELU", [wide, tensor(rng, 3)], [wide]), "slopes of uint8 for int16")
    for kind in ("FLOOR_DIV", "FLOOR_MOD"):  # LiteRT has none of bytes, ours would be 128 less
        x = tensor(rng, 3)
        refused(Case(kind, [x, x], [x]), "uint8; supported")
