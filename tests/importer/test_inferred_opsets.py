"""Models of older opsets that onnx's own inference refuses or leaves open, and onnxruntime runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, compile_model, run_jobs
from builders import Net, random_feeds
from onnx import helper, numpy_helper
from oracle import assert_close, onnxruntime_float

from mlftool.errors import MlfError


def shape_of(model: onnx.ModelProto) -> tuple[int, ...]:
    graph = compile_model(model).imported
    return tuple(graph.types[graph.outputs[0]].shape)


@pytest.mark.parametrize("opset", [7, 8, 9])
def test_a_constant_of_integers(opset: int) -> None:
    """Exporters wrote them before the standard had them."""
    net = Net(opset)
    x = net.input("x", np.float32, (2, 6))
    extents = numpy_helper.from_array(np.array([3, 4], np.int64))
    assert shape_of(net.model(net.node("Reshape", x, net.node("Constant", value=extents)))) == (
        3,
        4,
    )


@pytest.mark.parametrize("opset", [12, 15, 16])
@pytest.mark.parametrize("op", ["GreaterOrEqual", "LessOrEqual"])
def test_a_comparison_without_declared_shapes(op: str, opset: int) -> None:
    net = Net(opset)
    a, b = net.input("a", np.float32, (2, 1, 3)), net.input("b", np.float32, (4, 3))
    assert shape_of(net.model(net.node(op, a, b))) == (2, 4, 3)


@pytest.mark.parametrize("opset", [9, 10])
def test_scatter_among_constants(opset: int) -> None:
    net = Net(opset)
    x = net.input("x", np.float32, (2, 6))
    data, at, values = (net.const(v, np.int64) for v in ([3, 6], [1], [4]))
    extents = net.node("Scatter", data, at, values, axis=0)
    assert shape_of(net.model(net.node("Reshape", x, extents))) == (3, 4)


def test_an_operator_of_a_later_opset_says_which() -> None:
    net = Net(17)
    model = net.model(net.node("Gelu", net.input("x", np.float32, (2,))))
    with pytest.raises(MlfError) as caught:
        compile_model(model)
    (problem,) = caught.value.problems
    assert problem.help == "opset 20 has it"


def test_an_empty_part_that_a_call_reads() -> None:
    """The graph executor has no tensors without elements, and says so."""
    net = Net(13)
    x = net.input("x", np.float32, (2, 3))
    y = net.dq(net.q(x, 0.1, np.int8(3)), 0.1, np.int8(3))
    names = ["empty", "rest"]
    net._nodes.append(helper.make_node("Split", [y, net.const([0, 3], np.int64)], names, axis=1))
    model = net.model(net.node("Neg", "rest"), "empty")
    compile_model(model)
    with pytest.raises(MlfError, match="no elements; the graph executor"):
        compile_model(model, executor="graph")


@pytest.mark.parametrize("opset", [1, 7, 9])
@pytest.mark.parametrize(("start", "end"), [(3, 1), (-1, 0), (2, 2), (9, 12), (1, -1)])
def test_a_slice_that_ends_before_it_starts(opset: int, start: int, end: int) -> None:
    """Its inference leaves the extent open; what follows needs it."""
    net = Net(max(opset, 7))
    x = net.input("x", np.float32, (4, 3))
    y = net.node("Slice", x, starts=[start], ends=[end], axes=[0])
    model = net.model(net.node("Concat", y, x, axis=0), y)
    model.opset_import[0].version = 4 if opset < 4 else opset  # Concat had no axis before
    rows = len(range(4)[start:end])
    graph = compile_model(model).imported
    assert [graph.types[o].shape for o in graph.outputs] == [(4 + rows, 3), (rows, 3)]


def early(op: str, opset: int) -> onnx.ModelProto:
    net = Net(opset)
    x = net.input("x", np.float32, (2, 3, 4, 5))
    more = [net.const(np.linspace(0.5, 2, 5), np.float32)] if op == "LayerNormalization" else []
    return net.model(net.node(op, x, *more))


@pytest.mark.parametrize(
    ("op", "opset"),
    [
        *(("LayerNormalization", opset) for opset in (7, 11, 16, 17)),
        *(("MeanVarianceNormalization", opset) for opset in (7, 8, 9, 13)),
        *(("ThresholdedRelu", opset) for opset in (7, 9, 10)),
    ],
)
def test_operators_before_their_opset(op: str, opset: int, tmp_path: Path) -> None:
    """onnxruntime has these in all opsets, and older exporters wrote them so."""
    model = early(op, opset)
    feeds = random_feeds(model, 2)
    job = Job(model, feeds)
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(model, feeds), strict=True):
        assert_close(got, want)


def test_a_standard_deviation_that_is_small(tmp_path: Path) -> None:
    """The difference of two mean squares would have no correct bit."""
    net = Net(13)
    model = net.model(
        net.node("MeanVarianceNormalization", net.input("x", np.float32, (1, 2, 3, 3)))
    )
    x = np.linspace(1.92, 1.93, 18, dtype=np.float32).reshape(1, 2, 3, 3)
    job = Job(model, [{"x": x}])
    run_jobs([job], tmp_path)
    wide = x.astype(np.float64)
    off = wide - wide.mean((0, 2, 3), keepdims=True)
    (made,) = job.results[0].values()
    np.testing.assert_allclose(made, off / off.std((0, 2, 3), keepdims=True), atol=2e-4)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("known", [False, True])
def test_an_exponential_of_integers_is_refused(dtype: type, known: bool) -> None:
    """onnxruntime cuts each exponential off: of 3 and ten times 2 it makes 3, and not 4.5."""
    net = Net(13)
    x = net.const([[3, 2, 2]], dtype) if known else net.input("x", dtype, (1, 3))
    y = net.node("ReduceLogSumExp", x, axes=[1])
    with pytest.raises(
        MlfError, match="cast to float before and back" if not known else "supported: floats"
    ):
        compile_model(net.model(net.node("Neg", y)))
