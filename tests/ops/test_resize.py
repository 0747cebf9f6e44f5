"""Resize and Upsample in all modes and spellings: onnxruntime, or the standard's reference
where onnxruntime has another opinion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch import Job, run_jobs
from builders import Net
from cases import Case, Results
from oracle import onnxruntime_float, reference

COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def case(
    name: str,
    shape: tuple[int, ...],
    *,
    sizes: Any = None,
    scales: Any = None,
    roi: Any = None,
    opset: int = 19,
    oracle: str = "float",
    dtype: Any = np.float32,
    around: str = "",
    **attrs: Any,
) -> Case:
    """`around`: "conv" puts it between convolutions, "q" between DQ and Q."""
    rng = np.random.default_rng(5)
    net = Net(opset)
    x = net.input("x", np.int8 if around == "q" else dtype, shape)
    w = net.const(rng.normal(size=(shape[1], shape[1], *[1] * (len(shape) - 2))), np.float32)
    if around == "conv":
        x = net.node("Conv", x, w)
    if around == "q":
        x = net.dq(x, 0.05, np.int8(3))
    parts = ((roi, np.float32), (scales, np.float32), (sizes, np.int64))
    given = [net.const(v, t) if v is not None else "" for v, t in parts]
    given = {7: [], 9: given[1:2], 10: given[1:2]}.get(opset, given)
    while given and not given[-1]:
        given.pop()
    if opset == 7:
        attrs["scales"] = [float(s) for s in scales]
    y = net.node("Resize" if opset > 9 else "Upsample", x, *given, **attrs)
    if around == "conv":
        y = net.node("Relu", net.node("Conv", y, w))
    if around == "q":
        y = net.q(y, 0.05, np.int8(3))
    return Case(name, net.model(y), oracle)


def cases() -> Iterator[Case]:
    shape = (1, 2, 5, 4)
    for mode in ("nearest", "linear", "cubic"):
        for way in COORDINATES:
            for k, sizes in enumerate(([9, 7], [3, 2], [10, 4], [1, 1])):
                if way == "align_corners" and mode == "nearest" and k:
                    continue  # exact halves, which float32 rounds either way
                full = {"sizes": [1, 2, *sizes], "coordinate_transformation_mode": way}
                yield case(f"{mode}_{way}_{k}", shape, mode=mode, **full)
    for rounding in ROUNDINGS:
        attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
        yield case(f"nearest_{rounding}", shape, scales=[1, 1, 2.0, 3.0], mode="nearest", **attrs)
    for mode, scales in (("linear", [0.6, 0.4]), ("cubic", [0.6, 0.7]), ("linear", [0.5, 2])):
        name = f"antialias_{mode}_{scales}"
        yield case(
            name, (1, 1, 8, 9), scales=[1, 1, *scales], mode=mode, antialias=1, oracle="reference"
        )
    yield case(
        "axes", shape, sizes=[8, 10], axes=[3, 2], mode="linear", opset=18, oracle="reference"
    )
    yield case("axes_negative", shape, scales=[2.0], axes=[-1], mode="cubic", opset=18)
    for policy in ("not_larger", "not_smaller"):
        yield case(
            policy, shape, sizes=[9, 9], axes=[2, 3], mode="linear", keep_aspect_ratio_policy=policy
        )
        for mode in ("linear", "cubic"):  # 28 / 25 of 4 is 4 again, which onnxruntime copies
            stays = {"sizes": [28, 4], "axes": [2, 3], "mode": mode, "antialias": 1}
            stays |= {"keep_aspect_ratio_policy": policy, "oracle": "reference"}
            yield case(f"stays_{policy}_{mode}", (1, 1, 25, 4), **stays)
    crop = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "roi": [0, 0, 0.2, 0.4, 1, 1, 0.9, 1.2],
    }
    for mode in ("nearest", "linear"):
        yield case(
            f"crop_{mode}", shape, sizes=[1, 2, 4, 5], mode=mode, extrapolation_value=7.0, **crop
        )
    yield case(
        "exclude_outside",
        shape,
        scales=[1, 1, 1.7, 2.3],
        mode="cubic",
        exclude_outside=1,
        cubic_coeff_a=-0.5,
    )
    yield case("signal", (2, 3, 7), sizes=[2, 3, 12], mode="linear")
    yield case("volume", (1, 2, 3, 4, 3), sizes=[1, 2, 5, 3, 6], mode="linear")
    yield case("channels", (2, 3, 4), sizes=[4, 6, 4], mode="linear")
    yield case("nothing", shape, scales=[1, 1, 1, 1], mode="linear")
    for mode in ("linear", "cubic"):
        for antialias in (0, 1):
            full: dict[str, Any] = {"axes": [1], "mode": mode, "antialias": antialias}
            yield case(f"nothing_{mode}_{antialias}", shape, scales=[1], **full)
    for n, scale, extent in ((10, 0.7, 7), (5, 1.4, 7), (10, 1.3, 13), (20, 0.9, 18), (10, 0.6, 6)):
        for mode in ("nearest", "linear"):
            yield case(f"product_{mode}_{n}_{extent}", (1, 1, n), scales=[1, 1, scale], mode=mode)
    for way in COORDINATES:
        full = {"coordinate_transformation_mode": way, "mode": "linear", "dtype": np.int32}
        yield case(f"int32_{way}", shape, sizes=[1, 2, 9, 7], **full)
    for dtype in (np.float16, np.uint16, np.uint64, np.float64):
        oracle = "float" if dtype == np.float16 else "reference"
        full = {"sizes": [1, 2, 3, 7], "mode": "nearest", "dtype": dtype, "oracle": oracle}
        yield case(f"nearest_{np.dtype(dtype)}", shape, **full)
    yield case(
        "double", shape, scales=[1, 1, 2, 2], mode="nearest", dtype=np.int64, oracle="reference"
    )
    for opset in (7, 9):
        yield case(f"upsample_{opset}", shape, mode="nearest", opset=opset, scales=[1, 1, 2, 3])
    for k, scales in enumerate(([1, 1, 2, 3], [1, 1, 0.6, 0.5])):
        yield case(f"ten_nearest_{k}", shape, mode="nearest", opset=10, scales=scales)
        yield case(f"ten_linear_{k}", shape, mode="linear", opset=10, scales=scales)
    for mode in ("nearest", "linear", "cubic"):
        for name, shape_of in (("batch", (3, 2, 4, 5)), ("volumes", (2, 3, 2, 4, 3))):
            full = {"scales": [1, 1, *[1.75] * (len(shape_of) - 2)], "around": "conv"}
            if (mode, name) != ("cubic", "volumes"):  # which onnxruntime has not
                yield case(f"{name}_{mode}", shape_of, mode=mode, **full)
    for mode in ("nearest", "linear"):
        yield case(f"between_convs_{mode}", shape, mode=mode, scales=[1, 1, 2, 2], around="conv")
        yield case(f"quantised_{mode}", shape, mode=mode, scales=[1, 1, 2, 2], around="q")


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("resize"), selected)


def test_what_is_beyond_is_cut_off(tmp_path: Path) -> None:
    """A value that the type does not have is the next one that it has; onnxruntime leaves it to
    C++, which leaves it undefined."""
    jobs, wanted = [], []
    for dtype in (np.uint8, np.int8, np.int32):
        info = np.iinfo(dtype)
        values = {-1e30: info.min, 1e30: info.max, -np.inf: info.min, np.inf: info.max, np.nan: 0}
        for mode in ("nearest", "linear") if dtype != np.int32 else ("nearest",):
            for value, end in values.items():
                full: dict[str, Any] = {"roi": [0, 0, -0.2, -0.4, 1, 1, 0.9, 1.2], "mode": mode}
                full |= {"coordinate_transformation_mode": "tf_crop_and_resize", "dtype": dtype}
                sizes = [1, 2, 4, 7]
                odd = case("", (1, 2, 5, 4), sizes=sizes, extrapolation_value=value, **full)
                jobs.append(Job(odd.model, odd.inputs()))
                # 7 stands for it where float32 does not have it either
                plain = case("", (1, 2, 5, 4), sizes=sizes, extrapolation_value=7.0, **full)
                wanted.append((onnxruntime_float(plain.model, odd.inputs()), end))
    run_jobs(jobs, tmp_path)
    for job, (samples, end) in zip(jobs, wanted, strict=True):
        assert not job.failure, job.failure
        for got, want in zip(job.results, samples, strict=True):
            (found,), (value,) = got.values(), want.values()
            beyond = found != value
            assert beyond.any()
            assert np.all(found[beyond] == end)
            assert np.all(value[beyond] == 7)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_oracle(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize("way", ["asymmetric", "tf_crop_and_resize"])
def test_bytes_of_a_batch_that_changes(way: str, tmp_path: Path) -> None:
    """onnxruntime has no such Resize. Its fixed point is for two axes: three were beyond int32."""
    crop = [0, 0.1, 0, 0, 1, 1.2, 1, 1] if way == "tf_crop_and_resize" else None
    full = {"sizes": [1, 9, 6, 3], "coordinate_transformation_mode": way, "mode": "linear"}
    ours, exact = (
        case(str(dtype), (2, 5, 6, 3), roi=crop, dtype=dtype, **full).model
        for dtype in (np.int8, np.float32)
    )
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 6, 3))
    job = Job(ours, [{"x": x.astype(np.int8)}])
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    (got,), (want,) = (
        found[0].values()
        for found in (job.results, reference(exact, [{"x": x.astype(np.float32)}]))
    )
    assert np.abs(got.astype(np.float32) - want).max() < 1.001
