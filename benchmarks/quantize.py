"""What quantising costs in accuracy: mlftool quantize beside onnxruntime's static quantiser.

    python benchmarks/quantize.py [--models DIR] [NAME ...]

Networks are trained here from fixed seeds on data of scikit-learn and of synthesise.py (which takes
torch and scikit-learn, as examples/training); those of MLPerf Tiny are float files in DIR, without
labels: what counts is agreement with the float model on the noise that they are given.
Calibration has training samples, accuracy is of others; by it the search for mixed precision ends,
so where single layers are not int8 it was searched for, as onnxruntime's best was. Its defaults are
quantize_static as it is called without options; its best is the best on these test samples of
per-tensor and per-channel weights, with its preparation, calibrated by MinMax, Percentile and
Entropy.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

REPO = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPO), str(REPO / "examples" / "training"), str(REPO / "tests" / "support")]

from mlftool.quantize.metrics import metric_for, shown, value_of  # noqa: E402
from mlftool.quantize.prepare import prepared  # noqa: E402
from mlftool.quantize.quantizer import Request, quantized  # noqa: E402
from mlftool.quantize.runtime import Session  # noqa: E402
from mlftool.quantize.samples import samples_of  # noqa: E402

Array = np.ndarray[Any, Any]
CALIBRATION = 128  # training samples


@dataclass(frozen=True)
class Network:
    """A float model, training samples [n, ...], others, and labels of those if there are any."""

    model: onnx.ModelProto
    train: Array
    test: Array
    labels: Array | None
    metric: str | None = None

    @property
    def input(self) -> str:
        stored = {t.name for t in self.model.graph.initializer}
        return next(i.name for i in self.model.graph.input if i.name not in stored)


def _exported(net: Any, shape: tuple[int, ...]) -> onnx.ModelProto:
    from fit import export

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        names = {"input_name": "x", "output_name": "y"}
        export(net, path, shape=shape, opset=17, origin="", **names)
        return onnx.load(path)


def _as_torch_writes(net: Any, shape: tuple[int, ...]) -> onnx.ModelProto:
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(
            net.eval(), (torch.zeros(shape),), path, opset_version=17, dynamo=False, **names
        )
        return onnx.load(path)


def _classifier(
    make: Callable[[], Any], x: Array, y: Array, epochs: int, export: Any = _exported
) -> Network:
    """Trained on four fifths; the output is logits."""
    import torch
    from fit import SEED, fit, reproducible
    from sklearn.model_selection import train_test_split

    reproducible()
    x = x.astype(np.float32)
    a, b, c, d = train_test_split(x, y, test_size=0.2, stratify=y, random_state=SEED)
    net = make()
    fit(net, torch.nn.functional.cross_entropy, a, c.astype(np.int64), epochs=epochs)
    model = export(net, (1, *x.shape[1:]))
    return Network(model, a[:, None], b[:, None], d.astype(np.int64))


def _digits(size: int = 8) -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    found = load_digits()
    x = found.images[:, None] / 16
    times = size // 8
    return x.repeat(times, axis=2).repeat(times, axis=3), found.target


def _mobile(act: str = "ReLU", width: int = 16) -> Any:
    """Depthwise-separable blocks, as MobileNet has them."""
    from torch import nn

    def block(i: int, o: int, stride: int) -> Any:
        return [
            *(nn.Conv2d(i, i, 3, stride, 1, groups=i, bias=False), nn.BatchNorm2d(i)),
            *(getattr(nn, act)(), nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o)),
            getattr(nn, act)(),
        ]

    return nn.Sequential(
        *(nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), getattr(nn, act)()),
        *(*block(width, 24, 2), *block(24, 32, 1), *block(32, 48, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10)),
    )


def _uneven(net: Network) -> Network:
    """The same function with channels between layers that differ a hundredfold."""
    from mlftool.quantize.equalise import pairs
    from mlftool.quantize.network import network, with_weights

    found = network(prepared(net.model, "net"), "net")
    draw, values = np.random.default_rng(0), dict(found.constants)
    for pair in pairs(found):
        first, second = pair.first, pair.second
        w, v = values[first.weight], values[second.weight]
        factor = 10 ** draw.uniform(-1, 1, w.shape[0])
        values[first.weight] = w * factor.reshape(-1, *(1,) * (w.ndim - 1))
        values[first.bias] = values[first.bias] * factor
        axis = 0 if v.shape[1] == 1 else 1
        values[second.weight] = v / factor.reshape([-1 if k == axis else 1 for k in range(v.ndim)])
    return Network(with_weights(found.model, values), net.train, net.test, net.labels)


def _residual() -> Any:
    """Two residual blocks with SiLU."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parts = [nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU()]
            self.body = nn.Sequential(*parts, nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16))

        def forward(self, x: Any) -> Any:
            return nn.functional.silu(x + self.body(x))

    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, 1, 1), nn.SiLU(), Block(), nn.MaxPool2d(2), Block()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
    )


def _dense(inputs: int, classes: int) -> Any:
    from torch import nn

    return nn.Sequential(
        *(nn.Linear(inputs, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU()),
        nn.Linear(16, classes),
    )


def _sequence() -> Any:
    """Dilated convolutions over rows of pixels."""
    from torch import nn

    return nn.Sequential(
        *(nn.Conv1d(8, 24, 3, padding=1), nn.BatchNorm1d(24), nn.ReLU()),
        *(nn.Conv1d(24, 24, 3, padding=2, dilation=2), nn.BatchNorm1d(24), nn.ReLU6()),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 10)),
    )


def _recurrent(kind: str) -> Any:
    """Rows of pixels one after the other, of which the last state is classified."""
    from torch import nn

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = getattr(nn, kind)(8, 32, batch_first=True)
            self.classes = nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            return self.classes(self.rows(x)[0][:, -1])

    return Rows()


def _table(name: str) -> tuple[Array, Array]:
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    x = (found.data - found.data.mean(axis=0)) / found.data.std(axis=0)
    return x, found.target


def _example(name: str) -> Network:
    """A committed float model with samples that it was not trained on, and others like those that
    it was."""
    folder = REPO / "examples" / "models"
    model = onnx.load(folder / f"{name}_float32.onnx")
    held = np.load(folder / f"{name}_float32.npz")
    x = held[model.graph.input[0].name]
    if name == "digits":
        every = _digits()[0][:, None].astype(np.float32)
        shown = {image.tobytes() for image in x}
        others = np.stack([image for image in every if image.tobytes() not in shown])
        return Network(model, others, x, held["labels"])
    import synthesise

    if name == "gesture":
        made = synthesise.gestures(99, CALIBRATION)[0].reshape(-1, *x.shape[1:])
        return Network(model, made.astype(np.float32), x, held["labels"])
    made = synthesise.vibration(99, CALIBRATION, 0)[0].reshape(-1, *x.shape[1:])
    return Network(model, made.astype(np.float32), x, held["faulty"].astype(np.int64), "auc")


def _mlperf(name: str, folder: Path) -> Network:
    """Noise around the samples that the file comes with."""
    model = onnx.load(folder / f"{name}_fp32.onnx")
    given = np.load(folder / f"{name}_fp32.npz")["input"]
    draw = np.random.default_rng(0)
    size = np.abs(given).max() * 0.1
    made = given[np.arange(CALIBRATION + 200) % len(given)]
    made = (made + draw.normal(0, size, made.shape)).astype(np.float32)
    metric = "sqnr" if name == "ad" else None
    return Network(model, made[:CALIBRATION], made[CALIBRATION:], None, metric)


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "digits": lambda: _example("digits"),
    "gesture": lambda: _example("gesture"),
    "vibration": lambda: _example("vibration"),
    "mobile": lambda: _classifier(_mobile, *_digits(16), 12),
    "mobile uneven": lambda: _uneven(_classifier(_mobile, *_digits(16), 12)),
    "mobile relu6": lambda: _classifier(lambda: _mobile("ReLU6"), *_digits(16), 12),
    "residual silu": lambda: _classifier(_residual, *_digits(), 15),
    "sequence": lambda: _classifier(_sequence, _digits()[0][:, 0], _digits()[1], 20),
    **{
        kind: lambda kind=kind: _classifier(
            *(lambda: _recurrent(kind), _digits()[0][:, 0], _digits()[1], 30, _as_torch_writes)
        )
        for kind in ("LSTM", "GRU")
    },
    "wine": lambda: _classifier(lambda: _dense(13, 3), *_table("wine"), 30),
    "cancer": lambda: _classifier(lambda: _dense(30, 2), *_table("breast_cancer"), 30),
}
MLPERF = ("kws", "vww", "ic", "ad")


class _Reader:
    """What onnxruntime's calibration asks for samples."""

    def __init__(self, name: str, samples: Array) -> None:
        self.left: Iterator[dict[str, Array]] = iter([{name: x} for x in samples])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.left, None)


def _theirs(net: Network, train: Array, best: bool) -> Iterator[onnx.ModelProto]:
    """onnxruntime's static quantisation, as it is called without options or in all its forms."""
    from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        source, plain, target = (str(Path(folder) / n) for n in ("a.onnx", "b.onnx", "c.onnx"))
        onnx.save(net.model, source)
        if not best:
            quantize_static(source, target, _Reader(net.input, train))
            yield onnx.load(target)
            return
        quant_pre_process(source, plain, skip_symbolic_shape=True)
        for method in (
            CalibrationMethod.MinMax,
            CalibrationMethod.Percentile,
            CalibrationMethod.Entropy,
        ):
            for per_channel in (False, True):
                quantize_static(
                    *(plain, target, _Reader(net.input, train)),
                    per_channel=per_channel,
                    activation_type=QuantType.QInt8,
                    weight_type=QuantType.QInt8,
                    calibrate_method=method,
                    extra_options={"WeightSymmetric": True},
                )
                yield onnx.load(target)


def measured(name: str, net: Network) -> tuple[str, ...]:
    """A line of the table."""
    train = net.train[np.arange(min(CALIBRATION, len(net.train))) * len(net.train) // CALIBRATION]
    data = {net.input: train}
    test = {net.input: net.test} | ({} if net.labels is None else {"labels": net.labels})
    judged = samples_of(test, prepared(net.model, name), name)
    metric = metric_for(net.metric, judged, name)
    request = Request(name, name, metric=metric, samples=CALIBRATION)
    made = quantized(net.model, data, request, (test, name))
    reference = _outputs(net.model, judged.inputs)

    def value(model: onnx.ModelProto) -> float:
        return value_of(metric, _outputs(model, judged.inputs), reference, judged)

    default = value(next(_theirs(net, train, False)))
    best = max(map(value, _theirs(net, train, True)))
    kinds = [str(layer.precision) for layer in made.layers]
    mixed = ", ".join(f"{kinds.count(k)} {k}" for k in dict.fromkeys(kinds))
    steps = made.improved.steps
    return (
        *(name, metric, str(made.judged.count), shown(metric, made.before), shown(metric, default)),
        *(shown(metric, best), shown(metric, made.after), mixed),
        f"{steps[0].sqnr:.1f} -> {steps[-1].sqnr:.1f}",
    )


def _outputs(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    session, names = Session(model), [o.name for o in model.graph.output]
    ((name, samples),) = inputs.items()
    made = [session(names, {name: x}) for x in samples]
    return {n: np.stack([m[n] for m in made]) for n in names}


HEADS = (
    *("network", "metric", "samples", "float", "onnxruntime's defaults", "its best setting"),
    *("mlftool quantize", "layers", "SQNR dB, plain -> best"),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    every = dict(NETWORKS)
    if args.models:
        every |= {n: (lambda n=n: _mlperf(n, args.models)) for n in MLPERF}  # type: ignore[misc]
    print("| " + " | ".join(HEADS) + " |")
    print("|" + "---|" * len(HEADS))
    for name in args.names or every:
        print("| " + " | ".join(measured(name, every[name]())) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
