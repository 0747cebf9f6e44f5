"""Trains the motion-gesture network on synthesised windows of a three-axis accelerometer.

python gesture.py       writes ../models/gesture_{float32,int8}.{onnx,npz}
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from fit import SEED, export, fit, reproducible
from quantise import quantise, to_float, to_int8
from synthesise import GESTURE_WINDOW, GESTURES, gestures
from torch import Tensor, nn
from vectors import report, settled, write_vectors

MODELS = Path(__file__).parent.parent / "models"
# An 8-bit accelerometer with a range of 4 g counts in 1/32 g: its readings are the int8 input.
GRAVITY = (1 / 32, 0)
PROBABILITY = (1 / 256, -128)
ORIGIN = (
    f"Hand gestures ({', '.join(GESTURES)}) from 2.56 s of a three-axis accelerometer at 50 Hz, in"
    " g, learnt from synthesised motion by examples/training/gesture.py of mlftool."
)


class Gesture(nn.Module):
    """Three 1-D convolutions over time, the middle one split into depthwise and pointwise."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(3, 16, 5, stride=2, padding=2, bias=False)
        self.stem_norm = nn.BatchNorm1d(16)
        self.stem_act = nn.ReLU()
        self.pool = nn.MaxPool1d(2)
        self.depthwise = nn.Conv1d(16, 16, 5, padding=2, groups=16, bias=False)
        self.depthwise_norm = nn.BatchNorm1d(16)
        self.depthwise_act = nn.ReLU6()
        self.pointwise = nn.Conv1d(16, 24, 1, bias=False)
        self.pointwise_norm = nn.BatchNorm1d(24)
        self.pointwise_act = nn.ReLU6()
        # Dilated: every second step, so that one kernel spans most of a second.
        self.wide = nn.Conv1d(24, 24, 3, padding=2, dilation=2, bias=False)
        self.wide_norm = nn.BatchNorm1d(24)
        self.wide_act = nn.ReLU()
        self.average = nn.AdaptiveAvgPool1d(1)
        self.classes = nn.Linear(24, len(GESTURES))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stem_act(self.stem_norm(self.stem(x))))
        x = self.depthwise_act(self.depthwise_norm(self.depthwise(x)))
        x = self.pointwise_act(self.pointwise_norm(self.pointwise(x)))
        x = self.average(self.wide_act(self.wide_norm(self.wide(x))))
        x = self.classes(x.reshape(-1, 24))
        return x if self.training else torch.softmax(x, dim=1)


def main() -> None:
    seen, seen_labels = gestures(SEED, 2000)
    # What the sensor delivers is a whole count; the float network is judged on the same readings.
    held_back, labels = gestures(SEED + 1, 160)
    held_back = to_float(to_int8(held_back, GRAVITY), GRAVITY)
    reproducible()
    net = Gesture()
    fit(net, nn.CrossEntropyLoss(label_smoothing=0.05), seen, seen_labels, epochs=8)

    float32, int8 = MODELS / "gesture_float32.onnx", MODELS / "gesture_int8.onnx"
    export(
        net,
        float32,
        input_name="acceleration",
        output_name="probability",
        shape=(1, 3, GESTURE_WINDOW),
        opset=18,
        origin=ORIGIN,
    )
    quantise(float32, int8, seen[:300], {"acceleration": GRAVITY, "probability": PROBABILITY})
    assert settled(int8, to_int8(held_back, GRAVITY)).all()
    for model, samples in ((float32, held_back), (int8, to_int8(held_back, GRAVITY))):
        outputs = write_vectors(model, samples, labels=labels.astype(np.uint8))
        accuracy = np.mean(outputs.argmax(axis=1) == labels)
        report(model, f"accuracy {accuracy:.4f} on {len(samples)} held-back windows")


if __name__ == "__main__":
    main()
