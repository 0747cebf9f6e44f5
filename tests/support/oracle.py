"""What results should be: onnxruntime in its two ways of computing quantised networks, and onnx's
own reference implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from mlftool.quantize.reference import session_of

Array = np.ndarray[Any, Any]
Feeds = Sequence[dict[str, Array]]


def session(model: onnx.ModelProto | bytes, integer: bool = False) -> onnxruntime.InferenceSession:
    """One thread; `integer` allows int8 QDQ groups to become integer operators, else every node is
    computed as it stands, in float."""

    def configure(options: Any) -> None:
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        if not integer:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    return session_of(model, configure)


def _run(runner: Any, names: list[str], feeds: Feeds) -> list[dict[str, Array]]:
    return [
        {n: np.asarray(v) for n, v in zip(names, runner.run(None, feed), strict=True)}
        for feed in feeds
    ]


def onnxruntime_integer(model: onnx.ModelProto, feeds: Feeds) -> list[dict[str, Array]]:
    return _run(session(model, True), [o.name for o in model.graph.output], feeds)


def onnxruntime_float(model: onnx.ModelProto, feeds: Feeds) -> list[dict[str, Array]]:
    return _run(session(model, False), [o.name for o in model.graph.output], feeds)


def assert_equals_onnxruntime(
    model: onnx.ModelProto, feeds: Feeds, results: Sequence[Mapping[str, Array]]
) -> None:
    """Bit by bit; of outputs whose extents are known at run time, what lies within these."""
    for got, want in zip(results, onnxruntime_float(model, feeds), strict=True):
        for name, value in want.items():
            extents = got.get(f"{name}.shape", value.shape)
            box = got[name][tuple(slice(0, n) for n in extents)]
            np.testing.assert_array_equal(box, value, err_msg=name)


def reference(model: onnx.ModelProto, feeds: Feeds) -> list[dict[str, Array]]:
    return _run(ReferenceEvaluator(model), [o.name for o in model.graph.output], feeds)


def relative_error(got: Array, expected: Array) -> float:
    """The largest |got - expected| / max(1, |expected|); nan and infinities must be equal."""
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected) / np.maximum(1.0, np.abs(expected))
    return float(np.where(same, 0.0, np.where(np.isnan(error), np.inf, error)).max(initial=0.0))


def assert_close(got: dict[str, Array], expected: dict[str, Array]) -> None:
    """Fails unless floats are as close as another order of sums leaves them, and the rest equal."""
    for name, value in expected.items():
        if value.dtype.kind == "f":
            assert relative_error(got[name], value) <= 1e-5, name
        else:
            np.testing.assert_array_equal(got[name], value, name)


def is_tie(model: onnx.ModelProto, feed: dict[str, Array], different: Array) -> bool:
    """Whether the values that the model's last QuantizeLinear rounds lie within float rounding of
    half a quantum wherever `different` is true. The scale must be per tensor."""
    quantise = model.graph.node[-1]
    assert quantise.op_type == "QuantizeLinear"
    scale = next(t for t in model.graph.initializer if t.name == quantise.input[1])
    before = onnx.ModelProto()
    before.CopyFrom(model)
    del before.graph.node[-1], before.graph.output[:]
    before.graph.output.append(onnx.helper.make_empty_tensor_value_info(quantise.input[0]))
    (values,) = _run(session(before, False), [quantise.input[0]], [feed])
    ratio = values[quantise.input[0]].astype(np.float64) / onnx.numpy_helper.to_array(scale).item()
    from_tie = np.abs(ratio - np.floor(ratio) - 0.5)
    return bool(np.all(from_tie[different] <= 1e-5 * np.maximum(1.0, np.abs(ratio[different]))))
