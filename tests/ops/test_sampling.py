"""Operators that read images between their elements, and TensorScatter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import Array, Net
from cases import Case, Results


def with_feed(name: str, net: Net, y: str, oracle: str, **feed: Array) -> Case:
    return Case(name, net.model(y), oracle, feeds=[feed])


def grid_sample(seed: int, mode: str, padding: str, align: int) -> Case:
    """Coordinates reach beyond the image on all sides, twice its size in some cases."""
    rng = np.random.default_rng(seed)
    rank = 3 if seed % 3 == 2 and mode != "cubic" else 2
    x = rng.normal(size=(2, 2, *rng.integers(2, 6, rank))).astype(np.float32)
    grid = rng.uniform(-1.9, 1.9, (2, *rng.integers(1, 5, rank), rank)).astype(np.float32)
    net = Net(22)
    names = net.input("x", np.float32, x.shape), net.input("grid", np.float32, grid.shape)
    y = net.node("GridSample", *names, mode=mode, padding_mode=padding, align_corners=align)
    return with_feed(f"grid_{mode}_{padding}_{align}", net, y, "float", x=x, grid=grid)


def affine_grid(size: list[int], align: int) -> Case:
    rank = len(size) - 2
    net = Net(20)
    theta = net.input("theta", np.float32, (size[0], rank, rank + 1))
    y = net.node("AffineGrid", theta, net.const(size, np.int64), align_corners=align)
    return Case(f"affine_{len(size)}_{align}", net.model(y))


def regions(rng: np.random.Generator, n: int, side: float) -> Array:
    corners = np.sort(rng.uniform(-1, side, (n, 2, 2)), axis=1)  # n x (low, high) x (x, y)
    return np.asarray(corners.reshape(n, 4).astype(np.float32))


def roi_align(seed: int, opset: int, **attrs: Any) -> Case:
    rng = np.random.default_rng(seed)
    x, rois = rng.normal(size=(2, 3, 7, 8)).astype(np.float32), regions(rng, 5, 16)
    images = rng.integers(0, 2, 5)
    net = Net(opset)
    names = net.input("x", np.float32, x.shape), net.input("rois", np.float32, rois.shape)
    y = net.node(
        "RoiAlign",
        *(*names, net.input("images", np.int64, (5,))),
        **{"output_height": 2, "output_width": 3, "spatial_scale": 0.5, **attrs},
    )
    return with_feed(f"roi_align_{seed}", net, y, "float", x=x, rois=rois, images=images)


def max_roi_pool(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 3, 7, 8)).astype(np.float32)
    images = rng.integers(0, 2, (4, 1)).astype(np.float32)
    rois = np.concatenate([images, np.abs(regions(rng, 4, 14))], axis=1)
    net = Net(21)
    names = net.input("x", np.float32, x.shape), net.input("rois", np.float32, rois.shape)
    y = net.node("MaxRoiPool", *names, pooled_shape=[2, 3], spatial_scale=0.5)
    return with_feed(f"max_roi_pool_{seed}", net, y, "float", x=x, rois=rois)


def deform_conv(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    group, offsets = (2, 1) if seed % 2 else (1, 2)
    attrs = {"group": group, "offset_group": offsets, "kernel_shape": [2, 3], "pads": [1, 0, 0, 1]}
    net = Net(19)
    x = net.input("x", np.float32, (2, 4, 5, 6))
    w = net.const(rng.normal(size=(4, 4 // group, 2, 3)), np.float32)
    offset = net.input("offset", np.float32, (2, offsets * 12, 5, 5))
    bias = net.const(rng.normal(size=4), np.float32)
    rest = (bias, net.input("mask", np.float32, (2, offsets * 6, 5, 5))) if seed % 3 else ()
    return Case(
        f"deform_conv_{seed}",
        net.model(net.node("DeformConv", x, w, offset, *rest, **attrs)),
        "reference",
        seed=seed,
    )


def tensor_scatter(mode: str, axis: int, indexes: list[int] | None) -> Case:
    net = Net(24)
    shape = (2, 3, 5, 4)
    update = [n if k != axis % 4 else 2 for k, n in enumerate(shape)]
    names = [net.input("x", np.float32, shape), net.input("u", np.float32, tuple(update))]
    if indexes is not None:
        names.append(net.const(indexes, np.int64))
    y = net.node("TensorScatter", *names, mode=mode, axis=axis)
    return Case(f"scatter_{mode}_{axis}_{indexes}", net.model(y), "reference")


def cases() -> Iterator[Case]:
    seed = 0
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                yield grid_sample(seed, mode, padding, align)
                seed += 1
    for align in (0, 1):
        yield affine_grid([2, 3, 4, 5], align)
        yield affine_grid([1, 1, 3, 2, 4], align)
    yield roi_align(0, 16)
    yield roi_align(1, 16, sampling_ratio=2, coordinate_transformation_mode="output_half_pixel")
    yield roi_align(2, 16, mode="max", sampling_ratio=3)
    yield roi_align(3, 10)
    yield from map(max_roi_pool, range(3))
    yield from map(deform_conv, range(4))
    yield tensor_scatter("linear", -2, [1, 3])
    yield tensor_scatter("linear", 1, None)
    yield tensor_scatter("circular", 2, [4, 7])


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("sampling"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_oracle(case: Case, results: Results) -> None:
    results.check(case)
