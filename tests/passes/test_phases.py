"""Transposed convolutions as convolutions: the bits of integers, the values of floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs, run_jobs
from builders import Net, random_feeds
from oracle import onnxruntime_float, relative_error

from mlftool.compile import ModuleSpec, compile_module

OFF = ("split_transposed",)
# Input and kernel with their axes, attributes, and whether it becomes a convolution.
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], bool]
CASES: dict[str, Case] = {
    "no_overlap": ((1, 5, 4, 3), (5, 6, 2, 2), {"strides": [2, 2]}, True),
    "overlap": ((2, 5, 4, 3), (5, 6, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}, True),
    "stride_1": ((1, 3, 4, 5), (3, 2, 3, 3), {"pads": [1, 1, 1, 1]}, True),
    "one_axis": ((1, 3, 7), (3, 4, 6), {"strides": [3], "pads": [1, 2]}, True),
    "unequal": ((1, 3, 4, 5), (3, 2, 2, 3), {"strides": [1, 3]}, True),
    "one_lead": ((1, 3, 4, 5), (3, 2, 4, 2), {"strides": [2, 2], "pads": [1, 0, 1, 0]}, True),
    "dilated": ((1, 3, 4, 5), (3, 2, 2, 2), {"strides": [2, 2], "dilations": [3, 3]}, False),
    "groups": ((1, 4, 4, 5), (4, 2, 2, 2), {"strides": [2, 2], "group": 2}, True),
    "depthwise": ((2, 9, 4, 5), (9, 1, 3, 4), {"strides": [2, 2], "group": 9}, True),
    "depthwise_pads": (
        (1, 8, 6, 5),
        (8, 1, 4, 4),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 8},
        True,
    ),
    "depthwise_axis": ((1, 3, 7), (3, 1, 5), {"strides": [2], "pads": [1, 2], "group": 3}, True),
    "depthwise_1": ((1, 4, 5, 5), (4, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 4}, True),
    "no_taps": ((1, 4, 4, 5), (4, 1, 1, 2), {"strides": [2, 2], "group": 4}, False),
    "cut_short": ((1, 3, 6, 6), (3, 2, 2, 2), {"strides": [2, 2], "pads": [2, 2, 2, 2]}, False),
    "volumes": ((1, 2, 2, 3, 2), (2, 3, 2, 2, 2), {"strides": [2, 2, 2]}, False),
}
# 9 taps fill 16 places: integers only.
PADDED = {"strides": [2, 2], "pads": [1, 1, 0, 0]}
INTEGERS: dict[str, Case] = {
    **CASES,
    "indivisible": ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2]}, True),
    "taps_missing": ((1, 5, 4, 3), (5, 6, 3, 3), PADDED, True),
    "mostly_missing": (
        (1, 5, 4, 3),
        (5, 6, 1, 1),
        {"strides": [2, 2], "output_padding": [1, 1]},
        False,
    ),
}


def quantised(case: Case, seed: int) -> onnx.ModelProto:
    (x_shape, w_shape, attrs, _), rng, net = case, np.random.default_rng(seed), Net()
    oc = w_shape[1] * attrs.get("group", 1)
    x = net.dq(net.input("x", np.int8, x_shape), 0.05, np.int8(-100))
    w = rng.integers(-127, 128, size=w_shape).astype(np.int8)
    w.flat[0] = -128
    scale = rng.uniform(0.002, 0.01, oc).astype(np.float32)
    if attrs.get("group", 1) > 1:
        scale = np.float32(0.005)
    zero = rng.integers(-90, 90, np.shape(scale)).astype(np.int8)
    b = rng.integers(-9000, 9000, oc).astype(np.int32)
    b_scale = np.broadcast_to(scale * np.float32(0.05), (oc,)).copy()
    args = (
        x,
        net.dq(net.const(w), scale, zero, 1),
        net.dq(net.const(b), b_scale, np.zeros(oc, np.int32), 0),
    )
    return net.model(net.q(net.node("ConvTranspose", *args, **attrs), 0.1, np.int8(-20)))


def floats(case: Case, seed: int) -> onnx.ModelProto:
    (x_shape, w_shape, attrs, _), rng, net = case, np.random.default_rng(seed), Net()
    w = net.const(rng.standard_normal(w_shape).astype(np.float32))
    b = net.const(rng.standard_normal(w_shape[1] * attrs.get("group", 1)).astype(np.float32))
    x = net.input("x", np.float32, x_shape)
    return net.model(net.node("ConvTranspose", x, w, b, **attrs))


Key = tuple[str, str, bool]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[Key, Job]:
    made: dict[Key, Job] = {}
    for kind, cases, build in (("int8", INTEGERS, quantised), ("float", CASES, floats)):
        for k, (name, case) in enumerate(cases.items()):
            model = build(case, k)
            for off in (False, True):
                job = Job(model, random_feeds(model, 5), name=f"m{len(made)}")
                spec = ModuleSpec(model, job.name, disabled_pass=OFF if off else ())
                job.module = compile_module(spec)
                made[kind, name, off] = job
    build_jobs(list(made.values()), tmp_path_factory.mktemp("phases"))
    return made


def transposed(job: Job) -> bool:
    assert job.module is not None
    return any("conv_transpose" in c.kernel.name for c in job.module.program.calls)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_keep_their_bits(name: str, jobs: dict[Key, Job]) -> None:
    split, whole = jobs["int8", name, False], jobs["int8", name, True]
    assert not split.failure, split.failure
    assert transposed(whole)
    assert transposed(split) is not INTEGERS[name][-1]
    assert split.output == whole.output
    assert len(set(split.output)) > 10


@pytest.mark.parametrize("name", CASES)
def test_floats_keep_their_values(name: str, jobs: dict[Key, Job]) -> None:
    split = jobs["float", name, False]
    assert not split.failure, split.failure
    assert transposed(split) is not CASES[name][-1]
    (want,) = onnxruntime_float(split.model, split.feeds[:1])
    (got,) = (next(iter(r.values())) for r in split.results[:1])
    assert relative_error(got, next(iter(want.values()))) < 1e-5


@pytest.mark.parametrize("zero", [5047, -32768, 32767])
def test_places_without_a_tap_have_the_zero_point(zero: int, tmp_path: Path) -> None:
    """One of 16 bits stays with the weights: they have no room for what is left without it."""
    net, rng = Net(), np.random.default_rng(5)
    x = net.dq(net.input("x", np.uint8, (1, 3, 7, 5)), 0.05, np.uint8(100))
    stored = net.const(rng.integers(-32768, 32768, size=(3, 8, 5, 1)).astype(np.int16))
    w = net.dq(stored, np.float32(2e-5), np.int16(zero))
    y = net.node("ConvTranspose", x, w, strides=[2, 1])
    model = net.model(net.q(y, 2 / 3, np.uint8(120)))
    job = Job(model, random_feeds(model, 3))
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    assert any(call.node.op == "QLinearConv" for call in job.compiled.program.calls)
    for got, want in zip(job.results, onnxruntime_float(model, job.feeds), strict=True):
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value)
