"""Where onnxruntime computes something else than the standard says: what docs/operators.md decides.

Resize with align_corners is decided by a case of the standard's own suite, which is run there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import Net, random_feeds
from oracle import assert_close, onnxruntime_float, reference, relative_error


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_padding_is_never_negative(op: str, tmp_path: Path) -> None:
    """A pool whose window is one element picks what a convolution by 1 picks."""
    jobs, wanted = [], []
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        for n in (4, 5, 6, 7, 8):
            attrs: dict[str, Any] = {"auto_pad": pad, "strides": [3], "kernel_shape": [1]}
            nets = Net(), Net()
            pool = nets[0].node(op, nets[0].input("x", np.float32, (1, 1, n)), **attrs)
            x, one = nets[1].input("x", np.float32, (1, 1, n)), nets[1].const([[[1]]], np.float32)
            conv = nets[1].model(nets[1].node("Conv", x, one, **attrs))
            feeds = random_feeds(conv, n)
            jobs.append(Job(nets[0].model(pool), feeds))
            found = onnxruntime_float(conv, feeds)
            wanted.append([next(iter(f.values())) for f in found])
    run_jobs(jobs, tmp_path)
    for job, samples in zip(jobs, wanted, strict=True):
        assert not job.failure
        for got, want in zip(job.results, samples, strict=True):
            value = np.abs(want) if op == "LpPool" else want
            np.testing.assert_array_equal(next(iter(got.values())), value)


def test_maxima_of_nan(tmp_path: Path) -> None:
    """Elements, reductions and windows, as numpy has them."""
    rng = np.random.default_rng(4)
    net = Net()
    a, b = (net.input(name, np.float32, (2, 3, 8)) for name in "ab")
    one, three = net.const(np.float32(-1)), net.const(np.float32(3))
    last = net.const(np.array([2]))
    outs = [
        *(net.node("Max", a, b), net.node("Min", a, b), net.node("Relu", a)),
        *(net.node("Clip", a, one, three), net.node("Clip", a, one)),
        *(net.node("ReduceMax", a, last), net.node("ReduceMin", a, last)),
        *(net.node("ArgMax", a, axis=2), net.node("ArgMin", a, axis=2)),
        net.node("MaxPool", a, kernel_shape=[2], strides=[2]),
    ]
    x, y = rng.normal(size=(2, 2, 3, 8)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = np.nan
    y[rng.random(y.shape) < 0.3] = np.nan
    x[0, 0, :2] = np.nan
    x[1, 0, 0] = np.inf
    first, second = x[..., 0::2], x[..., 1::2]
    wanted = [
        *(np.maximum(x, y), np.minimum(x, y), np.maximum(x, 0), np.clip(x, -1, 3)),
        *(np.maximum(x, -1), x.max(2, keepdims=True), x.min(2, keepdims=True)),
        *(x.argmax(2)[..., None], x.argmin(2)[..., None]),
        np.maximum(first, second),
    ]
    job = Job(net.model(*outs), [{"a": x, "b": y}])
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results[0].values(), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_an_axis_that_keeps_its_extent_is_resized(mode: str, tmp_path: Path) -> None:
    """A crop of all axes that stay, of one beside an axis that changes, and a scale that gives the
    same extent."""
    jobs, wanted = [], []
    crop = "tf_crop_and_resize"
    for sizes, scales, way in (
        ([1, 1, 6, 8], None, crop),
        ([1, 1, 6, 5], None, crop),
        (None, [1, 1, 1, 1.12], "half_pixel"),
    ):
        net = Net()
        x, roi = net.input("x", np.float32, (1, 1, 6, 8)), ""
        if way == crop:
            roi = net.const([0, 0, 0.07, 0.2, 1, 1, 0.9, 0.81], np.float32)
        given = (
            net.const(scales, np.float32) if scales else "",
            net.const(sizes, np.int64) if sizes else "",
        )
        attrs = {"coordinate_transformation_mode": way, "mode": mode}
        model = net.model(net.node("Resize", x, roi, *given, **attrs))
        feeds = random_feeds(model, 3)
        jobs.append(Job(model, feeds))
        wanted.append(reference(model, feeds))
        copied = onnxruntime_float(model, feeds)
        assert any(
            relative_error(a, b) > 1e-3
            for got, want in zip(copied, wanted[-1], strict=True)
            for a, b in zip(got.values(), want.values(), strict=True)
        )
    run_jobs(jobs, tmp_path)
    for job, samples in zip(jobs, wanted, strict=True):
        assert not job.failure, job.failure
        for got, want in zip(job.results, samples, strict=True):
            assert_close(got, want)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiased_int8_keeps_its_range(mode: str, tmp_path: Path) -> None:
    """The standard's values but for rounding, which is after each axis here: a half, times what the
    weights' sizes add up to, and another half."""
    net = Net()
    x, sizes = net.input("x", np.int8, (1, 2, 6, 8)), net.const([1, 2, 9, 5], np.int64)
    model = net.model(net.node("Resize", x, "", "", sizes, mode=mode, antialias=1))
    feeds = random_feeds(model, 3)
    feeds[0]["x"][..., :4], feeds[0]["x"][..., 4:] = -128, 127
    job = Job(model, feeds)
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    wide.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    floats = [{"x": feed["x"].astype(np.float32)} for feed in feeds]
    for got, want in zip(job.results, reference(wide, floats), strict=True):
        (found,), (value,) = got.values(), want.values()
        assert np.abs(found - np.clip(value, -128, 127)).max() <= 0.5 + 0.5 * 1.375 + 0.01
    assert min(sample[model.graph.output[0].name].min() for sample in job.results) == -128


def test_antialiased_crops_with_channels_last(tmp_path: Path) -> None:
    """What onnxruntime computes of the same image with its channels first, which is right."""
    net, roi, sizes = Net(), [(0.0, 1.0), (-0.2, 0.8), (-0.2, 1.3), (0.0, 1.0)], [1, 6, 4, 3]
    attrs: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    attrs |= {"mode": "linear", "antialias": 1, "extrapolation_value": 2.5}
    x = net.input("x", np.float32, (1, 2, 2, 3))

    def resized(x: str, *axes: int) -> str:
        crop = net.const([roi[axis][side] for side in (0, 1) for axis in axes], np.float32)
        extents = net.const([sizes[axis] for axis in axes], np.int64)
        return net.node("Resize", x, crop, "", extents, **attrs)

    last = net.model(resized(x, 0, 1, 2, 3))
    planes = resized(net.node("Transpose", x, perm=[0, 3, 1, 2]), 0, 3, 1, 2)
    first = net.model(net.node("Transpose", planes, perm=[0, 2, 3, 1]))
    feeds = random_feeds(last, 3)
    job = Job(last, feeds)
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    wrong = [[*sample.values()] for sample in onnxruntime_float(last, feeds)]
    right = [[*sample.values()] for sample in onnxruntime_float(first, feeds)]
    assert any(relative_error(a, b) > 1e-3 for [a], [b] in zip(wrong, right, strict=True))
    for got, [want] in zip(job.results, right, strict=True):
        [value] = got.values()
        np.testing.assert_allclose(value, want, atol=1e-5)


def test_one_element_is_its_own_mean(tmp_path: Path) -> None:
    net, bias = Net(), np.float32([0.1, -3, 1e-6])
    parameters = [net.const(a, np.float32) for a in ([1e3, -2, 5], bias)]
    y = net.node("InstanceNormalization", net.input("x", np.float32, (2, 3, 1, 1)), *parameters)
    model = net.model(y)
    job = Job(model, random_feeds(model, 1))
    run_jobs([job], tmp_path)
    for sample in job.results:
        np.testing.assert_array_equal(sample[y][..., 0, 0], np.broadcast_to(bias, (2, 3)))
    assert len(job.results) == 2, job.failure


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_sequence_of_no_steps_keeps_its_state(op: str, gates: int, tmp_path: Path) -> None:
    """Others of the batch are what onnxruntime gives."""
    states = "h, c" if op == "LSTM" else "h"
    given = "float[1,3,2] h" + (", float[1,3,2] c" if op == "LSTM" else "")
    text = (
        f'<ir_version: 8, opset_import: ["": 14]> g (float[4,3,2] x, float[1,{2 * gates},2] w, '
        f"float[1,{2 * gates},2] r, int32[3] l, {given}) => (float[1,3,2] y) "
        f"{{ a, y = {op} <hidden_size = 2> (x, w, r, , l, {states}) }}"
    )
    model = onnx.parser.parse_model(text)
    (feed,) = random_feeds(model, 1, samples=1)
    feed["l"] = np.array([2, 0, 4], np.int32)
    job = Job(model, [feed])
    run_jobs([job], tmp_path)
    assert not job.failure
    want = np.array(onnxruntime_float(model, [feed])[0]["y"])
    np.testing.assert_array_equal(want[0, 1], 0)
    want[0, 1] = feed["h"][0, 1]
    np.testing.assert_allclose(job.results[0]["y"], want, rtol=1e-5)
