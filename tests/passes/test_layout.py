"""Transposes between channels first and last: shared where they can be, and few."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs, compile_model
from builders import Net, random_feeds

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ops import Trait
from mlftool.ops.base import is_a


def reparameterised(axes: int, quantised: bool) -> onnx.ModelProto:
    """Two blocks in which the block's input, the model's own in the first, joins its branches."""
    rng = np.random.default_rng(axes)
    net = Net()

    def stored(x: str) -> str:
        return net.dq(net.q(x, 0.05, np.int8(2)), 0.05, np.int8(2)) if quantised else x

    def conv(x: str, size: int) -> str:
        w = rng.integers(-127, 128, size=(6, 6, *[size] * axes))
        pads = [size // 2] * (2 * axes)
        if not quantised:
            return net.node("Conv", x, net.const(w / 900, np.float32), pads=pads)
        weights = net.dq(net.const(w.astype(np.int8)), 0.004, np.int8(0))
        return stored(net.node("Conv", x, weights, pads=pads))

    x = stored(net.input("x", np.float32, (1, 6, *(12, 10)[:axes])))
    for _ in range(2):
        branches = net.node("Add", conv(x, 3), conv(x, 1))
        x = stored(net.node("Relu", net.node("Add", branches, x)))
    return net.model(net.node("MaxPool", x, kernel_shape=[2] * axes, strides=[2] * axes))


def transposes(model: onnx.ModelProto) -> int:
    nodes = compile_model(model).program.graph.nodes
    return sum(is_a(node, Trait.TRANSPOSITION) for node in nodes)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("quantised", [False, True])
def test_a_residual_of_the_input_needs_no_transposes_of_its_own(axes: int, quantised: bool) -> None:
    """One at each end."""
    assert transposes(reparameterised(axes, quantised)) == 2


def test_branches_of_the_input_share_its_transpose() -> None:
    net = Net()
    x = net.input("x", np.float32, (1, 4, 9, 7))
    rng = np.random.default_rng(1)
    made = [
        net.node("Conv", x, net.const(rng.normal(size=(3, 4, k, k)), np.float32), pads=[k // 2] * 4)
        for k in (1, 3, 5)
    ]
    assert transposes(net.model(net.node("Concat", *made, axis=1))) == 2


def woven(seed: int) -> onnx.ModelProto:
    """Convolutions, sums, activations, transposes of the model's own and integers, each of tensors
    made before. Along one axis a transpose is its own inverse."""
    rng = np.random.default_rng(seed)
    net = Net()
    axes = 1 + seed % 2
    made = [net.input("x", np.float32, (1, *[5] * (axes + 1)))]
    for _ in range(14):
        x, y = (made[k] for k in rng.integers(max(0, len(made) - 5), len(made), size=2))
        kind = rng.integers(6)
        if kind < 2:
            w = net.const(rng.normal(size=(5, 5, *[3] * axes)) / 4, np.float32)
            made.append(net.node("Conv", x, w, pads=[1] * (2 * axes)))
        elif kind == 2:
            perm = ([0, 2, 1], [0, 2, 3, 1], [0, 3, 1, 2])[0 if axes == 1 else rng.integers(1, 3)]
            made.append(net.node("Transpose", x, perm=perm))
        elif kind == 3:
            made.append(net.node("Tanh", x))
        elif kind == 4:
            made.append(net.dq(net.q(x, 0.1, np.int8(1)), 0.1, np.int8(1)))
        else:
            made.append(net.node("Add", x, y))
    return net.model(net.node("Mul", made[-1], made[-2]), made[-3])


def test_rewriting_ends_and_changes_no_bit(tmp_path: Path) -> None:
    """A rule that another one takes back would go on for ever; with level 2 none has its turn."""
    jobs: list[Job] = []
    for seed in range(40):
        model = woven(seed)
        for level in (2, 3):
            job = Job(model, random_feeds(model, 1), name=f"m{seed}_{level}")
            job.module = compile_module(ModuleSpec(model, job.name, opt_level=level))
            jobs.append(job)
    build_jobs(jobs, tmp_path)
    for plain, rewritten in zip(jobs[::2], jobs[1::2], strict=True):
        assert not rewritten.failure, rewritten.failure
        assert rewritten.output == plain.output, rewritten.name
