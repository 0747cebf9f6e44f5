"""Support vector machines: SVMClassifier in terms of others, which are kernels of the input with
all support vectors, a score for each pair of classes and a vote for one of each pair; and what it
needs besides, probabilities from those of pairs. Numbers follow onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from mlftool.ir.graph import Array, TensorType, View
from mlftool.ir.operations import PRODUCT, times
from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op
from mlftool.ops.ml import (
    FLOAT,
    INT64,
    SVM_KERNELS,
    TRANSFORMS,
    floats,
    kernels,
    labelled,
    labels_of,
    ml,
    numbers,
    transformed,
)
from mlftool.ops.plain import plain_kernel

FEWEST_ROUNDS = 100


def _result(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    pairs, n = types[0], int(attrs["classes"])
    if pairs is None or pairs.shape[-1] != math.comb(n, 2):
        raise UnsupportedError(f"{pairs} for {n} classes; expected a probability for each pair")
    return TensorType(pairs.dtype, (*pairs.shape[:-1], n))


@op("mlf.Coupling", result=_result)
def coupling(v: View) -> Kernel:
    """Of x[row, pair], how probable the first class of each pair is in it, the probability of each
    class: the second method of Wu, Lin and Weng, 2004, with libsvm's bounds on rounds and error."""
    n = v.attr("classes")
    rows = v.y.elements // n
    params = {"rows": rows, "n": n, "pairs": math.comb(n, 2), "most": max(FEWEST_ROUNDS, n)}
    q, qp = (Operand(k, "float", "scratch", bytes=4 * m) for k, m in (("q", n * n), ("qp", n)))
    operations = rows * n * n * 25 * (PRODUCT + times(load=2, loop=1))
    return plain_kernel(v, "svm_coupling", params, q, qp, operations=operations)


@ml("SVMClassifier", post_transform=TRANSFORMS, kernel_type=SVM_KERNELS)
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
    labelled(s, labels, place)
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
    labelled(s, labels, place)
    if len(labels) == 1:
        s.attrs["post_transform"] = "NONE"
    transformed(s, scores, 1)
