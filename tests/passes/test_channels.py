"""Leaving out constant channels changes no bit of a result, and leaves out what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs
from builders import Net, random_feeds

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.passes import channels as channels_pass

OFF = ("drop_constant_channels",)
CHANNELS = 12


class Convolutions(Net):
    """Quantised layers whose channels are alive or constant as asked; all tensors have scale 1."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def conv(
        self,
        x: str,
        zero: int,
        shape: tuple[int, ...],
        dead: Any,
        out: int,
        value: int | None = None,
        **attrs: Any,
    ) -> str:
        """x is quantised with zero point `zero`, the result with `out`; `dead` channels are random
        constants, or `value`."""
        w = self.rng.integers(-127, 128, size=shape).astype(np.int8)
        scale = self.rng.uniform(0.002, 0.01, shape[0])
        scale[dead] = 1e-7
        zeros = np.zeros(shape[0], np.int8)
        wanted = self.rng.integers(-128, 128, shape[0]) if value is None else value
        bias = np.where(np.isin(np.arange(shape[0]), dead), (wanted - out) / scale, 50 / scale)
        args = (
            self.dq(x, 1.0, np.int8(zero)),
            self.dq(self.const(w), scale, zeros, 0),
            self.dq(self.const(np.rint(bias).astype(np.int32)), scale, zeros.astype(np.int32), 0),
        )
        return self.q(self.node("Conv", *args, **attrs), 1.0, np.int8(out))


def pointwise(net: Convolutions) -> str:
    """1x1 after 1x1: constants of any value go into the bias."""
    x = net.input("x", np.int8, (1, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 1, 1), [0, 3, 4, 11], -7)
    return net.conv(y, -7, (4, CHANNELS, 1, 1), [], 2)


def padded_zeros(net: Convolutions) -> str:
    """3x3 with padding: constants that are the zero point go."""
    x = net.input("x", np.int8, (1, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 1, 1), [0, 3, 4, 11], -7, value=-7)
    return net.conv(y, -7, (4, CHANNELS, 3, 3), [], 2, pads=[1, 1, 1, 1])


def padded_others(net: Convolutions) -> str:
    """3x3 with padding: other constants stay."""
    x = net.input("x", np.int8, (1, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 1, 1), [0, 3, 4, 11], -7, value=9)
    return net.conv(y, -7, (4, CHANNELS, 3, 3), [], 2, pads=[1, 1, 1, 1])


def through_depthwise(net: Convolutions) -> str:
    """Zeros stay constant after a depthwise layer, so both go; what dies there goes before it."""
    x = net.input("x", np.int8, (2, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 3, 3), [0, 3, 4, 11], -7, value=-7)
    y = net.conv(
        y, -7, (CHANNELS, 1, 3, 3), [2, 5], 1, group=CHANNELS, pads=[1, 0, 2, 1], strides=[2, 1]
    )
    return net.conv(y, 1, (4, CHANNELS, 1, 1), [], 2)


def before_padding(net: Convolutions) -> str:
    """Behind the depthwise layer these constants meet padding, so they stay on both sides."""
    x = net.input("x", np.int8, (1, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 3, 3), [0, 3], -7, value=-7)
    y = net.conv(y, -7, (CHANNELS, 1, 3, 3), [0, 3], 1, value=4, group=CHANNELS, pads=[1] * 4)
    return net.conv(y, 1, (4, CHANNELS, 3, 3), [], 2, pads=[1] * 4)


def also_added(net: Convolutions) -> str:
    """A residual addition reads the channels, too."""
    x = net.input("x", np.int8, (1, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 1, 1), [0, 3, 4, 11], -7)
    z = net.conv(y, -7, (CHANNELS, CHANNELS, 1, 1), [], 2)
    total = net.node("Add", net.dq(y, 1.0, np.int8(-7)), net.dq(z, 1.0, np.int8(2)))
    return net.q(total, 2.0, np.int8(0))


def all_constant(net: Convolutions) -> str:
    """A tensor keeps one channel."""
    x = net.input("x", np.int8, (1, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 1, 1), list(range(CHANNELS)), -7)
    return net.conv(y, -7, (4, CHANNELS, 1, 1), [1], 2)


def unread(net: Convolutions) -> str:
    """A channel that is read with weights of zero alone is as good as a constant."""
    x = net.input("x", np.int8, (1, 5, 6, 7))
    y = net.conv(x, 3, (CHANNELS, 5, 1, 1), [1], -7)
    w = net.rng.integers(-127, 128, size=(4, CHANNELS, 3, 3)).astype(np.int8)
    w[:, [6, 7]] = 0
    args = net.dq(y, 1.0, np.int8(-7)), net.dq(net.const(w), 0.004, np.int8(0))
    return net.q(net.node("Conv", *args, pads=[1] * 4), 1.0, np.int8(2))


# Model -> the sum over all layers of the output channels that are computed.
Model = Callable[[Convolutions], str]
KEPT: dict[Model, int] = {
    pointwise: CHANNELS - 4 + 4,
    padded_zeros: CHANNELS - 4 + 4,
    padded_others: CHANNELS + 4,
    through_depthwise: 2 * (CHANNELS - 6) + 4,
    before_padding: 2 * CHANNELS + 4,
    also_added: 2 * CHANNELS,
    all_constant: 1 + 4,
    unread: CHANNELS - 2 + 4,
}


def built(model: Model) -> onnx.ModelProto:
    net = Convolutions(7)
    return net.model(model(net))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Model, bool], Job]:
    made: dict[tuple[Model, bool], Job] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channels_pass, "GROUP", 1)  # every channel that can go
        for model in KEPT:
            given = built(model)
            for off in (False, True):
                job = Job(given, random_feeds(given, 5), name=f"m{len(made)}")
                spec = ModuleSpec(given, job.name, disabled_pass=OFF if off else ())
                job.module = compile_module(spec)
                made[model, off] = job
    build_jobs(list(made.values()), tmp_path_factory.mktemp("channels"))
    return made


@pytest.mark.parametrize("model", KEPT, ids=lambda m: m.__name__)
def test_same_bits(model: Model, jobs: dict[tuple[Model, bool], Job]) -> None:
    with_pass, without = jobs[model, False], jobs[model, True]
    assert not with_pass.failure
    assert with_pass.output == without.output
    assert len(set(with_pass.output)) > (10 if model is not all_constant else 2)
    assert channels(with_pass.module) == KEPT[model]
    assert channels(without.module) > KEPT[model] or model in (
        padded_others,
        before_padding,
        also_added,
    )


def channels(module: Module | None) -> int:
    """Output channels of all convolutions."""
    assert module is not None
    types = module.program.graph.types
    calls = [c for c in module.program.calls if c.kernel.macs]
    return sum(types[c.node.outputs[0]].shape[-1] for c in calls)


@pytest.mark.parametrize(
    ("gone", "of", "kept"),
    [(0, 12, 12), (4, 12, 8), (2, 12, 12), (6, 12, 8), (11, 12, 1), (9, 12, 4), (30, 48, 24)],
)
def test_groups_stay_whole(gone: int, of: int, kept: int) -> None:
    dropped = np.zeros(of, bool)
    dropped[np.random.default_rng(gone).permutation(of)[:gone]] = True
    result = channels_pass._in_groups(dropped)
    assert of - result.sum() == kept
    assert not np.any(result & ~dropped)
