"""`optimize: size` keeps float weights that a model has as bytes and scales: the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs
from builders import Net, random_feeds

from mlftool.compile import ModuleSpec, compile_module
from mlftool.plan.flash import constants_bytes

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")


def weight_only(scales: int) -> onnx.ModelProto:
    """Convolutions, one padded and dilated, a Gemm of one row and a MatMul of several, whose
    weights are dequantised, by `scales` numbers for each channel or by one for all."""
    rng = np.random.default_rng(scales)
    net = Net()

    def weights(shape: tuple[int, ...], axis: int) -> str:
        numbers = net.const(rng.integers(-128, 128, shape).astype(np.int8))
        count = shape[axis] if scales else ()
        return net.dq(numbers, rng.uniform(0.001, 0.01, count), np.zeros(count, np.int8), axis)

    x = net.input("x", np.float32, (1, 5, 9, 9))
    bias = net.const(rng.normal(size=14), np.float32)
    x = net.node("Conv", x, weights((14, 5, 3, 3), 0), bias, pads=[2] * 4, dilations=[2, 2])
    x = net.node("Relu", net.node("Conv", x, weights((18, 14, 1, 1), 0), strides=[2, 2]))
    rows = net.node("Reshape", x, net.const(np.array([5, 90])))
    y = net.node("MatMul", rows, weights((90, 7), 1))
    z = net.node("Gemm", net.node("Reshape", y, net.const([1, 35])), weights((21, 35), 0), transB=1)
    return net.model(y, z)


@pytest.fixture(scope="module", params=[0, 1], ids=["of all", "of channels"])
def model(request: pytest.FixtureRequest) -> onnx.ModelProto:
    return weight_only(request.param)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["exact", "fused"])
def test_same_bits_in_less_flash(model: onnx.ModelProto, mode: str, tmp_path: Path) -> None:
    """Each core's C, compiled for this computer under sanitizers."""
    feeds, jobs = random_feeds(model, 3), list[Job]()
    cores = [core for core in CORES if mode == "exact" or core not in ("cortex-m0", "cortex-m3")]
    for core in cores:
        for optimize in ("speed", "size"):
            job = Job(model, feeds, core, name=f"m{len(jobs)}")
            options = {"optimize": optimize, "float_mode": mode}
            job.module = compile_module(ModuleSpec(model, job.name, core, **options))
            jobs.append(job)
    build_jobs(jobs, tmp_path)
    assert [job.failure for job in jobs] == [""] * len(jobs)
    assert len({job.output for job in jobs}) == 1
    for fast, small in zip(jobs[::2], jobs[1::2], strict=True):
        most = 0.4 * constants_bytes(fast.compiled.program)  # tiles are padded
        assert constants_bytes(small.compiled.program) < most
