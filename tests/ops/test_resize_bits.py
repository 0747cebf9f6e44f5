"""Resize to the last bit: onnxruntime's own order of products and sums, its halves at the ends of
an image, its fixed point for bytes, and what it takes for the nearest element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import Net
from cases import Case, Results
from oracle import onnxruntime_float

IMAGES = {  # shape and sizes: both axes, one axis, none but one element; 2, 3, 4 and 5 dimensions
    "twice": ((1, 3, 7, 9), (1, 3, 14, 18)),
    "odd": ((2, 2, 8, 8), (2, 2, 17, 23)),
    "less": ((1, 3, 7, 9), (1, 3, 5, 4)),
    "rows": ((1, 2, 6, 7), (1, 2, 11, 7)),
    "columns": ((1, 2, 6, 6), (1, 2, 6, 11)),
    "point": ((1, 1, 5, 5), (1, 1, 1, 1)),
    "from_point": ((1, 2, 1, 1), (1, 2, 4, 3)),
    "long": ((1, 1, 41, 3), (1, 1, 97, 100)),
    "matrix": ((5, 7), (11, 13)),
    "signal": ((2, 3, 7), (2, 3, 12)),
    "cube": ((3, 4, 5), (7, 5, 9)),
    "volume": ((1, 2, 3, 4, 5), (1, 2, 6, 8, 10)),
    "volume_depth": ((1, 2, 3, 4, 5), (1, 2, 5, 4, 5)),
    "channels_last": ((1, 5, 6, 3), (1, 10, 13, 3)),
    "channels_last_rows": ((1, 5, 6, 3), (1, 9, 6, 3)),
}
WAYS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")


def case(
    name: str, shape: tuple[int, ...], sizes: tuple[int, ...], dtype: Any, **attrs: Any
) -> Case:
    """A crop is of the axes that change: onnxruntime crops no other."""
    net = Net(18)
    x = net.input("x", dtype, shape)
    stays = [a == b for a, b in zip(shape, sizes, strict=True)]
    crop_of = [0.0 if s else 0.1 for s in stays] + [1.0 if s else 1.2 for s in stays]
    roi = net.const(crop_of, np.float32)
    crop = attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
    sizes_name = net.const(sizes, np.int64)
    y = net.node("Resize", x, roi if crop else "", "", sizes_name, **attrs)
    return Case(name, net.model(y))


def quantised(name: str, shape: tuple[int, ...], sizes: tuple[int, ...], way: str) -> Case:
    """Between DequantizeLinear and QuantizeLinear, with scales whose quotients are no powers of two
    and where halves are common."""
    net = Net(18)
    x = net.dq(net.input("x", np.int8, shape), 0.037, np.int8(3))
    attrs = {"mode": "linear", "coordinate_transformation_mode": way}
    y = net.node("Resize", x, "", "", net.const(sizes, np.int64), **attrs)
    return Case(name, net.model(net.q(y, 0.037, np.int8(3))))


def antialiased(image: str, way: str) -> Iterator[Case]:
    """onnxruntime cuts int8 off below 0, and beyond 127 it wraps; so these are not negative."""
    shape, sizes = IMAGES[image]
    rng = np.random.default_rng(len(image))
    for mode in ("linear", "cubic"):
        for row, most in ((np.float32, 1), (np.uint8, 255), (np.int8, 96), (np.int32, 1000)):
            attrs: dict[str, Any] = {"coordinate_transformation_mode": way, "mode": mode}
            attrs["exclude_outside"] = len(image) % 2
            name = f"{image}_{way}_{mode}_{row.__name__}_antialiased"
            made = case(name, shape, sizes, row, antialias=1, **attrs)
            images = [rng.integers(0, most + 1, size=shape).astype(row) for _ in range(2)]
            if row == np.float32:
                images = [rng.normal(size=shape).astype(row) for _ in range(2)]
            if not (mode == "cubic" and row == np.int8):
                yield Case(name, made.model, feeds=[{"x": x} for x in images])


def cases() -> Iterator[Case]:
    for image, (shape, sizes) in IMAGES.items():
        for way in WAYS:
            attrs: dict[str, Any] = {"coordinate_transformation_mode": way}
            if way == "tf_crop_and_resize":
                attrs["extrapolation_value"] = 2.5
            yield case(f"{image}_{way}", shape, sizes, np.float32, mode="linear", **attrs)
            if image in ("twice", "columns", "less", "channels_last", "channels_last_rows"):
                for row in (np.int8, np.uint8):
                    name = f"{image}_{way}_{row.__name__}"
                    yield case(name, shape, sizes, row, mode="linear", **attrs)
            if len(shape) in (2, 4) and "last" not in image and way != "tf_crop_and_resize":
                yield case(f"{image}_{way}_cubic", shape, sizes, np.float32, mode="cubic", **attrs)
            if len(shape) == 4 and "last" not in image and way != "tf_crop_and_resize":
                yield from antialiased(image, way)
        if image != "point":
            for way in WAYS[:4]:
                yield quantised(f"{image}_{way}_quantised", shape, sizes, way)


def ties(way: str, rounding: str) -> Case:
    """Coordinates that are a half or a whole number but for rounding."""
    net, outputs = Net(18), []
    attrs = {"coordinate_transformation_mode": way, "nearest_mode": rounding, "mode": "nearest"}
    for n in (3, 5, 7, 9, 10, 12, 14, 16, 17, 32):
        x = net.input(f"x{n}", np.float32, (1, 1, n))
        for scale in (1 / 3, 0.6, 0.7, 1.2, 1.3, 1.4, 1.6, 2.5, 4 / 3):
            if way != "align_corners" and _near(n, scale, int(np.float32(n) * np.float32(scale))):
                scales = net.const([1, 1, scale], np.float32)
                outputs.append(net.node("Resize", x, "", scales, **attrs))
        for size in (1, 2, 4, 8, 16, 19, 31):
            if size != n and _near(n, size / n, size):
                sizes = net.const([1, 1, size], np.int64)
                outputs.append(net.node("Resize", x, "", "", sizes, **attrs))
    return Case(f"ties_{way}_{rounding}", net.model(*outputs[:60]))


def _near(n: int, scale: float, out: int) -> bool:
    """Whether a float32 is next to a half or a whole number, and not that number."""
    by, i = np.float32(scale), np.arange(out, dtype=np.float32)
    half = np.float32(0.5)
    found = np.concatenate([(i + half) / by - half, i / by]) * 2
    off = np.abs(found - np.round(found))
    return bool(np.any((off > 0) & (off < 4e-6)))


CASES = (
    *cases(),
    *(
        ties(way, rounding)
        for way in (*WAYS[:4], "half_pixel_symmetric")
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("resize_bits"), selected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_has_the_bits_of_onnxruntime(case: Case, results: Results) -> None:
    job = results.job(case)
    assert not job.failure, job.failure
    expected = onnxruntime_float(case.model, case.inputs())
    for got, want in zip(job.results, expected, strict=True):
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value, name)
