"""Whether `mlftool quantize` is as close to the float model as onnxruntime's best, on many samples.

    python benchmarks/quantize_held_back.py [NAME ...]

The networks of quantize.py are judged by a few hundred samples, where one more or less is chance.
Those here are trained on 8,000 digits of scikit-learn that were turned, scaled, sheared and made
noisy at random, and judged by 6,000 made from other digits. onnxruntime's best is taken column by
column from its six settings; all layers of ours are int8, without a search.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
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


def trained(make: Callable[[], Any]) -> Network:
    import torch
    from fit import fit, reproducible
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found = load_digits()
    parts = train_test_split(
        found.images / 16, found.target, test_size=0.3, stratify=found.target, random_state=1
    )
    x, y = augmented(parts[0], parts[2], TRAINED, 1)
    held, labels = augmented(parts[1], parts[3], HELD_BACK, 2)
    reproducible()
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
    "DS-CNN": _ds_cnn,
    "mobile of 8 blocks": _eight_blocks,
}


def measured(name: str, net: Network) -> tuple[str, ...]:
    """A line of the table."""
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

    def top1(outputs: Mapping[str, Array]) -> float:
        assert net.labels is not None
        (scores,) = outputs.values()
        return 100 * float((scores.reshape(len(scores), -1).argmax(1) == net.labels).mean())

    right = top1(reference), max(map(top1, theirs)), top1(ours)
    changed = min(changed_classes(t, reference) for t in theirs), changed_classes(ours, exact)
    signal = max(sqnr(t, reference) for t in theirs), sqnr(ours, exact)
    return name, *(f"{v:.2f} %" for v in right), *map(str, changed), *(f"{v:.1f}" for v in signal)


HEADS = (
    *("network", "top1: float", "onnxruntime's best", "mlftool"),
    *("other class than float: onnxruntime's best", "mlftool"),
    *("SQNR dB: onnxruntime's best", "mlftool"),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    args = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    print("| " + " | ".join(HEADS) + " |")
    print("|" + "---|" * len(HEADS))
    for name in args.names or NETWORKS:
        print("| " + " | ".join(measured(name, trained(NETWORKS[name]))) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
