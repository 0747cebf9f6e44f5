"""Layers whose scales are at the borders of what kernels take for granted, against exact sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from batch import Job, run_jobs
from builders import Net

Array = np.ndarray[Any, Any]
SCALE = np.float32(-1000)  # sums of 2^14 reach 2^24, around which a sign bit would be lost
X_ZERO, Y_ZERO = 3, -5
CORES = ("armv7-a", "host", "cortex-m4", "cortex-m55", "cortex-m0", "rv32imc")


def stored(sums: Array, scale: np.float32) -> Array:
    """int8: sums times a scale as ONNX rounds them."""
    value = np.rint(sums.astype(np.float32) * scale) + Y_ZERO
    return np.asarray(np.clip(value, -128, 127).astype(np.int8))


def quantised(net: Net, op: str, x: str, w: str, **attrs: Any) -> str:
    """A product of x by SCALE and w by 1, to int8 by 1."""
    given = (net.const(SCALE), net.const(np.int8(X_ZERO)))
    ones = (net.const(np.float32(1)), net.const(np.int8(0)))
    made = (net.const(np.float32(1)), net.const(np.int8(Y_ZERO)))
    return net.node(op, x, *given, w, *ones, *made, **attrs)


def test_negative_scales(tmp_path: Path) -> None:
    """What is far below the least value is not taken for a number above the greatest."""
    rng, net = np.random.default_rng(1), Net()
    x, rows = (net.input(n, np.int8, s) for n, s in (("x", (1, 8, 4, 4)), ("rows", (4, 16))))
    matrix = net.input("matrix", np.int8, (16, 8))
    w = rng.integers(-128, 128, (9, 8, 3, 3)).astype(np.int8)
    attrs = {"kernel_shape": [3, 3]}
    dense = quantised(net, "QLinearConv", x, net.const(w), **attrs)
    depthwise = quantised(net, "QLinearConv", x, net.const(w[:8, :1]), group=8, **attrs)
    product = quantised(net, "QLinearMatMul", rows, matrix)
    types = (("x", (1, 8, 4, 4)), ("rows", (4, 16)), ("matrix", (16, 8)))
    feeds = [{n: rng.integers(-128, 128, s).astype(np.int8) for n, s in types} for _ in range(4)]
    model = net.model(dense, depthwise, product)
    jobs = [Job(model, feeds, core, f"m{k}") for k, core in enumerate(CORES)]
    run_jobs(jobs, tmp_path)
    assert [job.failure for job in jobs] == [""] * len(jobs)
    for k, feed in enumerate(feeds):
        windows = np.lib.stride_tricks.sliding_window_view(
            feed["x"][0] - np.int64(X_ZERO), (3, 3), (1, 2)
        )
        sums = [
            np.einsum("cyxij,ocij->oyx", windows, w.astype(np.int64))[None],
            np.einsum("cyxij,cij->cyx", windows, w[:8, 0].astype(np.int64))[None],
            (feed["rows"] - np.int64(X_ZERO)) @ feed["matrix"].astype(np.int64),
        ]
        assert any(np.any((s > 12_600) & (s < 25_000)) for s in sums)
        for job in jobs:
            for name, exact in zip((dense, depthwise, product), sums, strict=True):
                np.testing.assert_array_equal(job.results[k][name], stored(exact, SCALE))


def test_weights_of_the_least_value(tmp_path: Path) -> None:
    """Two channels share a halfword: with the least weight above there is room for one that is 128
    more, which a byte does not hold."""
    rng, net, cases = np.random.default_rng(2), Net(), []
    for k, (channels, pixels, kernel) in enumerate(((4, 5, 1), (3, 1, 1), (8, 6, 3), (24, 1, 1))):
        w = rng.integers(0, 256, (channels, 8, kernel, kernel)).astype(np.uint8)
        w[::2] //= 2  # of all pairs the first channel is never above the middle
        w[:, 0], w[1::2, 1] = 0, 255
        size = (1, pixels) if kernel == 1 else (pixels, pixels)
        x = net.input(f"x{k}", np.int8, (1, 8, *size))
        given = net.const(np.float32(0.01)), net.const(np.int8(X_ZERO))
        of_w = net.const(np.float32(1)), net.const(np.uint8(k and 7))
        of_y = net.const(np.float32(40)), net.const(np.int8(Y_ZERO))
        y = net.node("QLinearConv", x, *given, net.const(w), *of_w, *of_y)
        cases.append((x, y, w.astype(np.int64) - (k and 7), (1, 8, *size)))
    feeds = [{x: rng.choice([-128, 127], shape).astype(np.int8) for x, _, _, shape in cases}]
    model = net.model(*(y for _, y, _, _ in cases))
    jobs = [Job(model, feeds, core, f"m{k}") for k, core in enumerate(CORES)]
    run_jobs(jobs, tmp_path)
    assert [job.failure for job in jobs] == [""] * len(jobs)
    for x, y, w, _ in cases:
        windows = np.lib.stride_tricks.sliding_window_view(
            feeds[0][x][0] - np.int64(X_ZERO), w.shape[2:], (1, 2)
        )
        sums = np.einsum("cyxij,ocij->oyx", windows, w)[None]
        for job in jobs:
            want = stored(sums, np.float32(0.01) / np.float32(40))
            np.testing.assert_array_equal(job.results[0][y], want, f"{job.target} {y}")
