"""What results should be: onnxruntime in its two ways of computing quantised networks, and onnx's
own reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
Feeds = Sequence[dict[str, Array]]


def session(model: onnx.ModelProto | bytes, integer: bool) -> onnxruntime.InferenceSession:
    """One thread; `integer` allows int8 QDQ groups to become integer operators, else every node is
    computed as it stands, in float."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if integer:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    else:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _run(runner: Any, names: list[str], feeds: Feeds) -> list[dict[str, Array]]:
    return [
        {n: np.asarray(v) for n, v in zip(names, runner.run(None, feed), strict=True)}
        for feed in feeds
    ]


def onnxruntime_integer(model: onnx.ModelProto, feeds: Feeds) -> list[dict[str, Array]]:
    return _run(session(model, True), [o.name for o in model.graph.output], feeds)


def onnxruntime_float(model: onnx.ModelProto, feeds: Feeds) -> list[dict[str, Array]]:
    return _run(session(model, False), [o.name for o in model.graph.output], feeds)


def reference(model: onnx.ModelProto, feeds: Feeds) -> list[dict[str, Array]]:
    return _run(ReferenceEvaluator(model), [o.name for o in model.graph.output], feeds)


def relative_error(got: Array, expected: Array) -> float:
    """The largest |got - expected| / max(1, |expected|); nan and infinities must be equal."""
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got.astype(np.float64) - expected))
        error = error / np.maximum(1.0, np.abs(expected))
    return float(np.max(np.where(np.isnan(error), np.inf, error), initial=0.0))
