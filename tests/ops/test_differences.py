"""Where onnxruntime computes something else than the standard says: what docs/operators.md decides.

Resize with align_corners is decided by a case of the standard's own suite, which is run there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch import Job, run_jobs
from builders import Net, random_feeds
from oracle import onnxruntime_float


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
