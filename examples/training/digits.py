"""Trains the handwritten-digit network on scikit-learn's bundled 8x8 images.

python digits.py        writes ../models/digits_{float32,int8}.{onnx,npz} and ..._few.npz
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from fit import SEED, export, fit, reproducible
from quantise import quantise, to_int8
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from vectors import report, settled, write_few, write_vectors

MODELS = Path(__file__).parent.parent / "models"
HELD_BACK = 360  # images the training never sees, a fifth of the set
# A pixel of the data set is an integer from 0 to 16 and the float network sees pixel / 16. With
# this scale the int8 network's input is the pixel itself: no preprocessing on the device at all.
PIXEL = (1 / 16, 0)
PROBABILITY = (1 / 256, -128)
ORIGIN = (
    "Handwritten digits 0-9 from 8x8 grey images (UCI Optical Recognition of Handwritten Digits,"
    " as bundled with scikit-learn), trained by examples/training/digits.py of mlftool."
)


class Digits(nn.Module):
    """A residual block of a depthwise and a pointwise convolution between two plain ones."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(16)
        self.stem_act = nn.ReLU6()
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.depthwise_norm = nn.BatchNorm2d(16)
        self.depthwise_act = nn.ReLU6()
        self.pointwise = nn.Conv2d(16, 16, 1, bias=False)
        self.pointwise_norm = nn.BatchNorm2d(16)
        self.skip_act = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.wide = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.wide_norm = nn.BatchNorm2d(32)
        self.wide_act = nn.ReLU()
        self.average = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classes = nn.Linear(32, 10)

    def logits(self, x: Tensor) -> Tensor:
        x = self.stem_act(self.stem_norm(self.stem(x)))
        y = self.depthwise_act(self.depthwise_norm(self.depthwise(x)))
        x = self.skip_act(x + self.pointwise_norm(self.pointwise(y)))
        x = self.wide_act(self.wide_norm(self.wide(self.pool(x))))
        return self.classes(self.flatten(self.average(x)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.logits(x)
        return x if self.training else torch.softmax(x, dim=1)


def shifted(batch: Tensor) -> Tensor:
    """The images moved by up to one pixel and drawn with a stronger or weaker pen."""
    dy, dx = torch.randint(-1, 2, (2,)).tolist()
    pen = 0.8 + 0.4 * torch.rand(len(batch), 1, 1, 1)
    return (torch.roll(batch, (dy, dx), dims=(2, 3)) * pen).clamp(0, 1)


def main() -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    seen, held_back, seen_labels, held_back_labels = train_test_split(
        images, labels, test_size=HELD_BACK, stratify=labels, random_state=SEED
    )
    reproducible()
    net = Digits()
    fit(
        net,
        nn.CrossEntropyLoss(label_smoothing=0.05),
        seen,
        seen_labels,
        epochs=40,
        augment=shifted,
    )

    float32, int8 = MODELS / "digits_float32.onnx", MODELS / "digits_int8.onnx"
    export(
        net,
        float32,
        input_name="image",
        output_name="probability",
        shape=(1, 1, 8, 8),
        opset=17,
        origin=ORIGIN,
    )
    quantise(float32, int8, seen[:300], {"image": PIXEL, "probability": PROBABILITY})
    assert settled(int8, to_int8(held_back, PIXEL)).all()
    for model, samples in ((float32, held_back), (int8, to_int8(held_back, PIXEL))):
        outputs = write_vectors(model, samples, labels=held_back_labels.astype(np.uint8))
        write_few(model)
        accuracy = np.mean(outputs.argmax(axis=1) == held_back_labels)
        report(model, f"accuracy {accuracy:.4f} on {len(samples)} held-back images")


if __name__ == "__main__":
    main()
