"""Every kernel that a tuning record may choose gives the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs, every
from builders import Net, random_feeds
from kernel_cases import many_layers

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.plan.select import Choose


def floats() -> onnx.ModelProto:
    """A padded, a pointwise and two dense layers with odd extents."""
    rng = np.random.default_rng(6)
    net = Net()

    def weights(*shape: int) -> str:
        return net.const(rng.normal(size=shape), np.float32)

    x = net.input("x", np.float32, (1, 5, 7, 9))
    outputs = [
        net.node("Conv", x, weights(11, 5, 3, 2), weights(11), pads=[1, 0, 2, 1], strides=[2, 1]),
        net.node("Conv", x, weights(6, 5, 1, 1), weights(6)),
    ]
    for rows in (1, 9):
        flat = net.input(f"f{rows}", np.float32, (rows, 300))
        outputs.append(net.node("Gemm", flat, weights(300, 10), weights(10)))
    return net.model(*outputs)


def take(k: int) -> Choose:
    """The k-th kernel of every layer."""

    def choose(v: View, kernels: Sequence[Kernel]) -> Kernel:
        return kernels[k % len(kernels)]

    return choose


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "target", "mode", "family"),
    [
        ("bytes", "cortex-m4", "exact", "dsp.pairs."),
        ("bytes", "cortex-m3", "exact", "integers.portable.blocked."),
        ("bytes", "rv32imafc", "exact", "portable.blocked."),
        ("floats", "cortex-m4", "exact", "fpu.blocked."),
        ("floats", "cortex-m4", "fused", "fused.blocked."),
    ],
)
def test_all_kernels_give_the_same_bits(
    name: str, target: str, mode: str, family: str, tmp_path: Path
) -> None:
    """As plain C, which sanitizers can watch."""
    model = many_layers(11, False, 6) if name == "bytes" else floats()
    feeds = random_feeds(model, 5)
    jobs, used = [], set()
    for k in range(13):
        job = Job(model, feeds, target, name=f"m{k}")
        job.module = compile_module(ModuleSpec(model, job.name, target, float_mode=mode), take(k))
        used |= {c.kernel.name for c in job.module.program.calls}
        jobs.append(job)
    assert len([u for u in used if u.startswith(family)]) >= 6
    build_jobs(jobs, tmp_path, optimised=every)
    for job in jobs:
        assert not job.failure, job.failure
        assert job.output == jobs[0].output, job.name
