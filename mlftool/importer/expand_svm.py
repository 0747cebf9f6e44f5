"""SVMClassifier in terms of other operators: kernels of the input with all support vectors, a score
for each pair of classes, a vote for one of each pair. Numbers follow onnxruntime."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from mlftool.importer.expand_ml import (
    FLOAT,
    INT64,
    floats,
    kernels,
    labels_of,
    ml,
    numbers,
    transformed,
)
from mlftool.ir.graph import Array
from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops import UnsupportedError


@ml("SVMClassifier")
def _svm_classifier(s: Steps) -> None:
    labels = labels_of(s, "classlabels_ints")
    if not s.attrs.get("vectors_per_class"):
        _linear(s, labels)
        return
    classes = len(labels)
    if len(s.attrs["vectors_per_class"]) != classes:
        counts = f"{len(s.attrs['vectors_per_class'])} classes with vectors, {classes} labels"
        raise UnsupportedError(f"{counts}; supported: as many")
    pairs = list(combinations(range(classes), 2))
    scores = _pair_scores(s, pairs)
    won = s("Cast", s("Greater", scores, s.const(0.0)), to=FLOAT)
    votes = np.zeros((len(pairs), classes), np.float32)
    lost = np.zeros(classes, np.float32)
    for k, (i, j) in enumerate(pairs):
        votes[k, [i, j]] = 1, -1
        lost[j] += 1
    place = s("ArgMax", s("Gemm", won, s.const(votes), s.const(lost)), axis=1, keepdims=0)
    _label(s, labels, place)
    if s.attrs.get("prob_a"):
        transformed(s, _probabilities(s, scores, classes), 1)
    elif classes == 2:
        _two(s, scores)
    else:
        transformed(s, scores, 1)


def _pair_scores(s: Steps, pairs: list[tuple[int, int]]) -> str:
    """[N, pairs]: the vectors of either class times the coefficients it has against the other."""
    ends = np.cumsum(s.attrs["vectors_per_class"])
    total, classes = int(ends[-1]), len(ends)
    short = len(s.attrs["coefficients"]) < (classes - 1) * total
    if short or min(s.attrs["vectors_per_class"]) < 0:
        raise Refuse("MLF0303", f"'coefficients' has no {classes - 1} rows of {total} numbers")
    spans = [slice(e - n, e) for e, n in zip(ends, s.attrs["vectors_per_class"], strict=True)]
    given = numbers(s, "coefficients", total).reshape(-1, total)
    weights = np.zeros((len(pairs), total), np.float32)
    for k, (i, j) in enumerate(pairs):
        weights[k, spans[i]] = given[j - 1, spans[i]]
        weights[k, spans[j]] = given[i, spans[j]]
    vectors = numbers(s, "support_vectors", total)
    made = kernels(s, floats(s), vectors)
    rho = np.array(s.attrs["rho"], np.float32)[: len(pairs)]
    return s("Gemm", made, s.const(weights), s.const(rho), transB=1)


def _probabilities(s: Steps, scores: str, classes: int) -> str:
    """What the classes' probabilities are, from those of one of each pair: 1 - sigmoid(a s + b)."""
    a, b = (s.const(s.attrs[f"prob_{name}"]) for name in "ab")
    raised = s("Add", s("Mul", scores, a), b)
    wins = s("Sub", s.const(1.0), s("Sigmoid", raised))
    least = np.float32(1e-7)
    wins = s("Clip", wins, s.const(least), s.const(np.float32(1) - least))
    return s("mlf.Coupling", wins, classes=classes)


def _two(s: Steps, scores: str) -> None:
    """One score becomes two columns."""
    how = s.attrs.get("post_transform", "NONE")
    if how == "PROBIT":
        raise UnsupportedError("post_transform PROBIT of one score; supported: of several")
    if how in ("NONE", "LOGISTIC"):
        both = s("Concat", s("Neg", scores), scores, axis=1)
        s("Sigmoid" if how == "LOGISTIC" else "Identity", both, out=1)
    else:
        s("Concat", s("Sub", s.const(1.0), scores), scores, out=1, axis=1)


def _linear(s: Steps, labels: Array) -> None:
    """A score for each class. Of two classes, as onnxruntime has it, the second is chosen when the
    larger score is high enough, whichever score that is."""
    weights = numbers(s, "coefficients", len(labels))
    bias = np.full(len(labels), numbers(s, "rho", 1)[0, 0], np.float32)
    scores = s("Gemm", floats(s), s.const(weights), s.const(bias), transB=1)
    place = s("ArgMax", scores, axis=1, keepdims=0)
    if len(labels) == 2:
        top = s("ReduceMax", scores, s.const([1], np.int64), keepdims=0)
        if weights.min() >= 0:
            high = s("GreaterOrEqual", top, s.const(0.5))
        else:
            high = s("Greater", top, s.const(0.0))
        place = s("Max", place, s("Cast", high, to=INT64))
    _label(s, labels, place)
    if len(labels) == 1:
        s.attrs["post_transform"] = "NONE"
    transformed(s, scores, 1)


def _label(s: Steps, labels: Array, place: str) -> None:
    if s.wants(0):
        s("Gather", s.const(labels, labels.dtype), place, out=0, axis=0)
