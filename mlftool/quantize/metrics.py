"""What accuracy means: one number of a model's outputs, and when it is enough."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.quantize.samples import Samples
from mlftool.runtime import vectors

Outputs = Mapping[str, Array]  # [samples, ...] of each output

EXACT = 200.0  # dB, instead of infinitely many
SHARES = ("top1", "agreement", "auc")  # of samples, or of pairs of them
DROP = 0.003  # what may be lost of a share if nothing is asked for


@frozen
class Goal:
    """A metric and the value that is enough: at least `enough`, of mse at most."""

    metric: str
    enough: float

    def met(self, value: float) -> bool:
        return value <= self.enough if self.metric == "mse" else value >= self.enough

    @property
    def counts(self) -> bool:
        """Whether it counts samples, or pairs of them: with few it may be met by chance."""
        return self.metric in SHARES

    def merit(self, value: float) -> float:
        """Larger is better."""
        return -value if self.metric == "mse" else value

    @property
    def text(self) -> str:
        most = "at most" if self.metric == "mse" else "at least"
        return f"{self.metric} {most} {shown(self.metric, self.enough)}"


def metric_for(
    name: str | None, samples: Samples, file: str, shape: tuple[int, ...] = (1, 2)
) -> str:
    """The metric that is asked for, or the best that the data and an output of `shape` allow.
    Raises MlfError."""
    if name is None and samples.labels is None:
        return "agreement" if has_classes(shape, samples) else "sqnr"
    if name is None:
        return "top1"
    if name in ("top1", "auc") and samples.labels is None:
        text = f"metric {name} needs an array 'labels' of integers, one for each sample"
        raise MlfError(Problem("MLF0601", text, file, help="or use metric agreement"))
    return name


def check_metric(
    metric: str, given: Samples, judged: Samples, file: str, shape: tuple[int, ...]
) -> None:
    """Raises MlfError for a metric that outputs of the shape have no value of, for labels in
    `given` that no score is for, and if the metric says nothing of those of `judged`, which are
    some of them or all."""
    elements = math.prod(shape)
    if metric in ("top1", "agreement") and elements < 2:
        text = f"metric {metric} needs a score for each class; got an output of {list(shape)}"
        raise MlfError(Problem("MLF0405", text, file, help="or use metric sqnr or auc"))
    if given.labels is None or judged.labels is None:
        return  # metric_for has refused a metric that needs them
    if metric == "top1":
        vectors.check_classes(given.labels, elements, file)
    if metric == "auc" and not set(given.labels) <= {0, 1} == set(judged.labels):
        found = sorted({*map(int, given.labels)})
        said = ", ".join(map(str, found[:4])) + ", ..." * (len(found) > 4)
        text = f"metric auc needs labels 0 and 1, several of both; got {said}"
        help = "give more samples of each, or use metric top1"
        raise MlfError(Problem("MLF0602", text, file, path="labels", help=help))
    if metric == "auc" and elements > 2 and elements != _elements(judged):
        text = f"metric auc needs one or two outputs, or as many as inputs; got {list(shape)}"
        raise MlfError(Problem("MLF0405", text, file, help="or use metric top1"))


def _elements(samples: Samples) -> int:
    """Of one sample of the first input."""
    return math.prod(next(iter(samples.inputs.values())).shape[1:])


def has_classes(shape: tuple[int, ...], samples: Samples) -> bool:
    """Whether an output of the shape is a score for each class: no image, no single number, and no
    signal as long as one that the model reads, such as that of a denoiser."""
    row = math.prod(shape) == max(shape, default=0) > 1
    return row and all(math.prod(a.shape[1:]) != math.prod(shape) for a in samples.inputs.values())


def changed_classes(outputs: Outputs, reference: Outputs) -> int:
    """How many samples have their largest score elsewhere."""
    first = next(iter(outputs))
    return int(np.count_nonzero(_classes(outputs[first]) != _classes(reference[first])))


def largest_error(outputs: Outputs, wanted: Outputs) -> float:
    """The largest difference of any output, as a share of that output's largest absolute value."""
    return max(
        float(np.abs(_gap(outputs[n], right)).max() / (np.abs(right).max() or 1.0))
        for n, right in wanted.items()
    )


def value_of(metric: str, outputs: Outputs, reference: Outputs, samples: Samples) -> float:
    """The metric of `outputs`; `reference` are the float model's."""
    first = next(iter(outputs))
    if metric == "top1":
        return float(np.mean(_classes(outputs[first]) == samples.labels))
    if metric == "agreement":
        return float(np.mean(_classes(outputs[first]) == _classes(reference[first])))
    if metric == "auc":
        assert samples.labels is not None
        return auc(_scores(outputs[first], samples), samples.labels)
    wanted = {name: samples.expected.get(name, reference[name]) for name in outputs}
    if metric == "sqnr":
        return sqnr(outputs, wanted)
    error = sum(float(np.sum(_gap(outputs[n], wanted[n]) ** 2)) for n in outputs)
    return error / sum(a.size for a in wanted.values())


def sqnr(outputs: Outputs, wanted: Outputs) -> float:
    """Decibels, 200 where there is no error; outputs count alike whatever their size."""
    ratios = []
    for name, right in wanted.items():
        power = float(np.sum(np.square(right, dtype=np.float64)))
        error = float(np.sum(_gap(outputs[name], right) ** 2))
        ratios.append(error / power if power else math.inf if error else 0.0)
    mean = float(np.mean(ratios)) if ratios else 0.0
    return EXACT if mean <= 1e-20 else -200.0 if math.isinf(mean) else -10 * math.log10(mean)


def auc(scores: Array, labels: Array) -> float:
    """By ranks; ties count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    positive = labels == 1
    n, others = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * others))


def _gap(a: Array, b: Array) -> Array:
    gap: Array = a.astype(np.float64) - b.astype(np.float64)
    return gap


def _classes(output: Array) -> Array:
    found: Array = output.reshape(len(output), -1).argmax(axis=1)
    return found


def _scores(output: Array, samples: Samples) -> Array:
    """How much a sample looks like class 1: the last output, or the error of an autoencoder, whose
    output has as many elements as its input (`check_metric`)."""
    flat = output.reshape(len(output), -1).astype(np.float64)
    if flat.shape[1] <= 2:
        last: Array = flat[:, -1]
        return last
    given = next(iter(samples.inputs.values()))
    error: Array = np.mean((flat - given.reshape(flat.shape)) ** 2, axis=1)
    return error


def shown(metric: str, value: float) -> str:
    """For people: 97.2 %, 31.5 dB, 0.0012."""
    if metric in ("top1", "agreement"):
        return f"{100 * value:.2f} %"
    if metric == "sqnr":
        return "exact" if value == EXACT else f"{value:.2f} dB"
    return f"{value:.4g}"
