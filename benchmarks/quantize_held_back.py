"""Whether `mlftool quantize` is as close to the float model as onnxruntime's best, on many samples.

    python benchmarks/quantize_held_back.py [--seeds N] [NAME ...]

The networks of quantize.py are judged by a few hundred samples, where one more or less is chance.
Those here are trained on 8,000 digits of scikit-learn that were turned, scaled, sheared and made
noisy at random, and judged by 6,000 made from other digits. onnxruntime's best is taken column by
column from its six settings; all layers of ours are int8, without a search.

Two models judged by the same samples differ only by those that one of them alone gets right. Their
numbers b and c give the difference of the accuracies, its 95 % interval, and by McNemar's exact
test how often chance makes such a difference of models that are equally good. With N seeds, N
networks are trained and each is judged by other samples; the table has all together.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import quantize
from quantize import Array, Network

from mlftool.quantize.improve import improved
from mlftool.quantize.metrics import changed_classes, sqnr
from mlftool.quantize.network import network
from mlftool.quantize.prepare import prepared
from mlftool.quantize.samples import samples_of
from mlftool.quantize.studio import Studio

TRAINED, HELD_BACK = 8000, 6000


def augmented(images: Array, labels: Array, count: int, seed: int) -> tuple[Array, Array]:
    """[count, 1, 16, 16] in 0 ... 1, and their labels, from images of 8x8."""
    from scipy import ndimage

    draw = np.random.default_rng(seed)
    made, classes = [], []
    for _ in range(count):
        k, angle = int(draw.integers(len(images))), draw.normal(0, 0.2)
        (width, height), shear = np.exp(draw.normal(0, 0.12, 2)), draw.normal(0, 0.15)
        turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        matrix = np.array(turn) @ np.array([[width, shear], [0, height]]) / 2
        start = 3.5 + draw.normal(0, 0.5, 2) - matrix @ np.array([7.5, 7.5])
        image = ndimage.affine_transform(images[k], matrix, start, output_shape=(16, 16), order=1)
        image = image * draw.uniform(0.7, 1.1) + draw.normal(0, 0.05, image.shape)
        made.append(np.clip(image, 0, 1))
        classes.append(labels[k])
    return np.stack(made)[:, None].astype(np.float32), np.array(classes, np.int64)


@dataclass(frozen=True)
class Paired:
    """Of `count` samples `first` and `second` are those that one of two models alone gets right."""

    count: int
    first: int
    second: int

    @classmethod
    def of(cls, a: Array, b: Array) -> Paired:
        """Of two models' booleans, True where a sample is right."""
        return cls(len(a), int(np.count_nonzero(a & ~b)), int(np.count_nonzero(b & ~a)))

    @property
    def interval(self) -> tuple[float, float]:
        """The difference of the accuracies, and half the width of its 95 % interval, in points."""
        gap, apart = self.first - self.second, self.first + self.second
        deviation = math.sqrt(max(apart - gap * gap / self.count, 0.0))
        return 100 * gap / self.count, 196 * deviation / self.count

    @property
    def chance(self) -> float:
        """The two-sided p of McNemar's exact test."""
        n = self.first + self.second
        tail = sum(math.comb(n, k) for k in range(min(self.first, self.second) + 1))
        return min(1.0, 2 * tail / 2**n)

    def __str__(self) -> str:
        gap, half = self.interval
        return f"{gap:+.2f} ± {half:.2f} (p {self.chance:.2f})"


def trained(make: Callable[[], Any], seed: int = 0) -> Network:
    import torch
    from fit import fit, reproducible
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found = load_digits()
    parts = train_test_split(
        found.images / 16, found.target, test_size=0.3, stratify=found.target, random_state=1 + seed
    )
    x, y = augmented(parts[0], parts[2], TRAINED, 1 + 2 * seed)
    held, labels = augmented(parts[1], parts[3], HELD_BACK, 2 + 2 * seed)
    reproducible()
    torch.manual_seed(torch.initial_seed() + seed)
    net = make()
    fit(net, torch.nn.functional.cross_entropy, x, y, epochs=4, batch=64)
    model = quantize._exported(net, (1, 1, 16, 16))
    return Network(model, x[:, None], held[:, None], labels)


def _layer(
    inputs: int, outputs: int, kernel: int, act: str, stride: int = 1, group: int = 1
) -> Any:
    from torch import nn

    pad = (kernel - 1) // 2
    conv = nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=group, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), getattr(nn, act)())


def _separable(inputs: int, outputs: int, stride: int = 1) -> Sequence[Any]:
    depthwise = _layer(inputs, inputs, 3, "ReLU", stride, inputs)
    return depthwise, _layer(inputs, outputs, 1, "ReLU")


def _head(channels: int) -> Sequence[Any]:
    from torch import nn

    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)


def _inverted() -> Any:
    """MobileNetV2's blocks."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            wide = 4 * inputs
            self.wide = _layer(inputs, wide, 1, "ReLU6")
            self.deep = _layer(wide, wide, 3, "ReLU6", stride, wide)
            self.narrow = _layer(wide, outputs, 1, "Identity")
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            y = self.narrow(self.deep(self.wide(x)))
            return x + y if self.adds else y

    blocks = ((8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2), (24, 24, 1))
    middle = [Block(*b) for b in blocks]
    return nn.Sequential(_layer(1, 8, 3, "ReLU6"), *middle, _layer(24, 64, 1, "ReLU6"), *_head(64))


def _shuffled() -> Any:
    """ShuffleNetV2's blocks: half of the channels pass, and both halves are mixed."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            half = channels // 2
            deep = _layer(half, half, 3, "Identity", 1, half)
            parts = _layer(half, half, 1, "ReLU"), deep, _layer(half, half, 1, "ReLU")
            self.body = nn.Sequential(*parts)

        def forward(self, x: Any) -> Any:
            a, b = x.chunk(2, 1)
            y = torch.cat([a, self.body(b)], 1)
            n, c, h, w = y.shape
            return y.reshape(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    first, second = _layer(1, 16, 3, "ReLU"), _layer(16, 32, 3, "ReLU", 2)
    return nn.Sequential(first, Block(16), Block(16), second, Block(32), Block(32), *_head(32))


def _ds_cnn() -> Any:
    from torch import nn

    blocks = [part for _ in range(4) for part in _separable(32, 32)]
    return nn.Sequential(_layer(1, 32, 4, "ReLU", 2), *blocks, *_head(32))


def _eight_blocks() -> Any:
    from torch import nn

    sizes = ((8, 16, 1), (16, 24, 2), (24, 24, 1), (24, 32, 2), *((32, 32, 1),) * 3, (32, 64, 1))
    blocks = [part for size in sizes for part in _separable(*size)]
    return nn.Sequential(_layer(1, 8, 3, "ReLU"), *blocks, *_head(64))


NETWORKS: Mapping[str, Callable[[], Any]] = {
    "mobile": quantize._mobile,
    "mobile relu6": lambda: quantize._mobile("ReLU6"),
    "mobile hardswish": lambda: quantize._mobile("Hardswish"),
    "inverted residuals": _inverted,
    "shuffled halves": _shuffled,
    "DS-CNN": _ds_cnn,
    "mobile of 8 blocks": _eight_blocks,
}


@dataclass(frozen=True)
class Result:
    """Of a quantised model on the samples that judge: which are right, and what differs from the
    float model."""

    right: Array
    changed: int
    signal: float


def results(name: str, net: Network) -> tuple[Result, Result, list[Result]]:
    """The float model's, ours, and those of onnxruntime's settings."""
    count = quantize.CALIBRATION
    train = net.train[np.arange(count) * len(net.train) // count]
    held = {net.input: net.test}
    reference = quantize._outputs(net.model, held)
    theirs = [quantize._outputs(m, held) for m in quantize._theirs(net, train, True)]
    plain = prepared(net.model, name)
    made = improved(network(plain, name), samples_of({net.input: train}, plain, name))
    studio = Studio(made.net, samples_of(held, plain, name))
    names = list(reference)
    ours, exact = studio.run(made.plan, names), studio.run(None, names)

    def result(outputs: Mapping[str, Array], wanted: Mapping[str, Array]) -> Result:
        (scores,) = outputs.values()
        right = scores.reshape(len(scores), -1).argmax(1) == net.labels
        return Result(right, changed_classes(outputs, wanted), sqnr(outputs, wanted))

    floats, mine = result(reference, reference), result(ours, exact)
    return floats, mine, [result(t, reference) for t in theirs]


def measured(name: str, seeds: int) -> tuple[str, ...]:
    """A line of the table."""
    found = [results(name, trained(NETWORKS[name], seed)) for seed in range(seeds)]
    settings = [[theirs[k] for _, _, theirs in found] for k in range(len(found[0][2]))]
    floats, ours = ([f[k] for f in found] for k in range(2))

    def right(each: Sequence[Result]) -> Array:
        return np.concatenate([r.right for r in each])

    best = max((right(s) for s in settings), key=np.count_nonzero)
    shares = (100 * float(a.mean()) for a in (right(floats), best, right(ours)))
    changed = min(sum(r.changed for r in s) for s in settings), sum(r.changed for r in ours)
    signals = max(_mean(s) for s in settings), _mean(ours)
    return (
        *(name, *(f"{v:.2f} %" for v in shares)),
        *(str(Paired.of(right(ours), a)) for a in (right(floats), best)),
        *(*map(str, changed), *(f"{v:.1f}" for v in signals)),
    )


def _mean(each: Sequence[Result]) -> float:
    return float(np.mean([r.signal for r in each]))


HEADS = (
    *("network", "top1: float", "onnxruntime's best", "mlftool"),
    *("mlftool - float, points", "mlftool - onnxruntime's best, points"),
    *("other class than float: onnxruntime's best", "mlftool"),
    *("SQNR dB: onnxruntime's best", "mlftool"),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="how many of each are trained (1)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    args = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    print("| " + " | ".join(HEADS) + " |")
    print("|" + "---|" * len(HEADS))
    for name in args.names or NETWORKS:
        print("| " + " | ".join(measured(name, args.seeds)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
