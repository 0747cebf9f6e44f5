"""Trains the vibration autoencoder, which learns sound motors and fails to redraw broken ones.

python vibration.py     writes ../models/vibration_{float32,int8}.{onnx,npz}
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import numpy as np
from fit import SEED, export, fit, reproducible
from numpy.typing import NDArray
from quantise import quantise, to_float, to_int8
from sklearn.metrics import roc_auc_score
from synthesise import BANDS, vibration
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_linear_bn_eval
from vectors import answers, report, settled, write_vectors

MODELS = Path(__file__).parent.parent / "models"
# log2(mg) in sixteenths around 2**2 mg. Entry and exit share it, so that a device computes the
# error of a reconstruction by subtracting integers.
LEVEL = (1 / 16, -32)
FALSE_ALARMS = 0.01  # share of sound windows above the threshold that the examples use
ORIGIN = (
    "Autoencoder of vibration spectra: log2 of the RMS acceleration in mg in 64 bands of 32 Hz,"
    " learnt from synthesised sound motors by examples/training/vibration.py of mlftool."
    " A large squared error of the reconstruction means a worn bearing."
)


class Layer(nn.Module):
    """Dense, batch normalisation, Relu."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, outputs)
        self.norm = nn.BatchNorm1d(outputs)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(self.dense(x)))


class Autoencoder(nn.Module):
    """64 bands through a waist of 6 numbers and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encode1, self.encode2 = Layer(BANDS, 48), Layer(48, 24)
        self.waist = nn.Linear(24, 6)
        self.decode1, self.decode2 = Layer(6, 24), Layer(24, 48)
        self.redraw = nn.Linear(48, BANDS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.waist(self.encode2(self.encode1(x)))
        return self.redraw(self.decode2(self.decode1(x)))


def folded(net: Autoencoder) -> Autoencoder:
    """A copy without batch normalisations: onnxruntime's quantiser folds them only after Conv."""
    net = copy.deepcopy(net)
    for layer in net.children():
        if isinstance(layer, Layer):
            layer.dense = fuse_linear_bn_eval(layer.dense, layer.norm)
            layer.norm = nn.Identity()
    return net


def score(levels: NDArray[np.int8], redrawn: NDArray[np.int8]) -> NDArray[np.int32]:
    """How badly each window was redrawn: the sum of squared differences, in counts of LEVEL."""
    return ((levels.astype(np.int32) - redrawn) ** 2).sum(axis=1)


def main() -> None:
    learnt, _ = vibration(SEED, healthy=6000, faulty=0)
    reproducible()
    net = Autoencoder()
    fit(net, nn.functional.mse_loss, learnt, learnt, epochs=40)

    float32, int8 = MODELS / "vibration_float32.onnx", MODELS / "vibration_int8.onnx"
    names = {"input_name": "levels", "output_name": "reconstruction"}
    export(net, float32, shape=(1, BANDS), opset=13, origin=ORIGIN, **names)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "folded.onnx")
        export(folded(net), plain, shape=(1, BANDS), opset=13, origin=ORIGIN, **names)
        quantise(plain, int8, learnt[:300], {"levels": LEVEL, "reconstruction": LEVEL})

    levels, faulty = vibration(SEED + 1, healthy=164, faulty=82)
    readings = to_int8(levels, LEVEL)
    kept = np.flatnonzero(settled(int8, readings))[:240]
    readings, faulty = readings[kept], faulty[kept]
    redrawn = write_vectors(float32, to_float(readings, LEVEL), faulty=faulty)
    error = score(readings, to_int8(redrawn, LEVEL))
    report(float32, f"ROC AUC {roc_auc_score(faulty, error):.4f} on {len(readings)} windows")
    error = score(readings, write_vectors(int8, readings, faulty=faulty))
    # The threshold comes from motors the network learnt, never from those it is judged on.
    known = to_int8(learnt[:1000], LEVEL)
    threshold = int(np.quantile(score(known, answers(int8, known)), 1 - FALSE_ALARMS))
    report(
        int8,
        f"ROC AUC {roc_auc_score(faulty, error):.4f} on {len(readings)} windows",
        f"threshold {threshold} finds {np.mean(error[faulty] > threshold):.1%}"
        f" with {np.mean(error[~faulty] > threshold):.1%} false alarms",
    )


if __name__ == "__main__":
    main()
