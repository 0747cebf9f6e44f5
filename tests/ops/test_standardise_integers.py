"""LayerNormalization between quantised tensors is integers, against onnxruntime and exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from batch import Build, Job, run_jobs
from builders import Net

from mlftool.compile import ModuleSpec, compile_module

TARGETS = ("host", "cortex-m0", "cortex-m55")
CASES = [
    # shape, axis, input type, output type, input scale, output scale, epsilon, has a bias
    ((3, 48), -1, np.int8, np.int8, 0.05, 0.03, 1e-5, True),
    ((2, 5, 7), 1, np.uint8, np.uint8, 0.2, 0.04, 1e-3, False),
    ((40, 2), -1, np.int8, np.int8, 0.3, 0.01, 1e-12, True),
    ((2, 768), -1, np.int8, np.int8, 0.01, 0.05, 1e-5, True),
    ((2, 4096), -1, np.uint8, np.int8, 0.001, 0.06, 1e-5, True),
    ((6, 33), -1, np.int8, np.uint8, 1.7, 0.02, 0.5, True),
    ((4, 10), -1, np.int8, np.int8, 0.001, 0.02, 1e-5, True),
]
Model = tuple[onnx.ModelProto, list[dict[str, Any]], list[Any]]


def model() -> Model:
    net, outs, rng, rows = Net(), [], np.random.default_rng(8), []
    feeds: list[dict[str, Any]] = [{} for _ in range(4)]
    for k, (shape, axis, x_type, y_type, x_scale, y_scale, epsilon, biased) in enumerate(CASES):
        x = net.input(f"x{k}", x_type, shape)
        row = shape[axis % len(shape) :]
        scale, bias = (rng.normal(size=row).astype(np.float32) for _ in range(2))
        args = (net.const(scale), *((net.const(bias),) if biased else ()))
        made = net.node(
            "LayerNormalization", net.dq(x, x_scale, x_type(3)), *args, axis=axis, epsilon=epsilon
        )
        outs.append(net.q(made, y_scale, y_type(5 + k)))
        rows.append((scale, bias if biased else 0 * bias))
        info = np.iinfo(x_type)
        for n, feed in enumerate(feeds):
            low, high = [(info.min, info.max), (9, 12), (7, 7), (info.max - 1, info.max)][n]
            feed[x] = rng.integers(low, high + 1, shape).astype(x_type)
            feed[x].flat[0] = info.min  # alone in its row
    return net.model(*outs), feeds, rows


def exact(k: int, x: Any, rows: Any) -> Any:
    """Steps of the output above its zero point, in float64."""
    shape, axis, _, _, x_scale, y_scale, epsilon, _ = CASES[k]
    axes = tuple(range(axis % len(shape), len(shape)))
    value = x.astype(np.float64) * float(np.float32(x_scale))
    value -= value.mean(axes, keepdims=True)
    root = np.sqrt((value**2).mean(axes, keepdims=True) + float(np.float32(epsilon)))
    return (value / root * rows[0] + rows[1]) / float(np.float32(y_scale))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    network, feeds, _ = model()
    jobs = {target: Job(network, feeds, target) for target in TARGETS}
    run_jobs(list(jobs.values()), tmp_path_factory.mktemp("rows"), Build())
    for job in jobs.values():
        assert not job.failure, job.failure
    return jobs


def test_every_target_has_the_same_bits(results: dict[str, Job]) -> None:
    assert len({job.output for job in results.values()}) == 1


def test_results_are_exact_but_for_ties(results: dict[str, Job]) -> None:
    network, feeds, rows = model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(network.SerializeToString(), options)
    for feed, got in zip(feeds, results["host"].results, strict=True):
        for k, (case, theirs) in enumerate(zip(CASES, session.run(None, feed), strict=True)):
            info, zero = np.iinfo(case[3]), 5 + k
            want = exact(k, feed[f"x{k}"], rows[k])
            ours = got[network.graph.output[k].name].astype(int)
            limited = np.clip(want, info.min - zero, info.max - zero)
            assert np.abs(ours - zero - limited).max() <= 0.5 + 2.0**-7, case
            near = np.abs(want % 1 - 0.5) < 2.0**-6
            assert np.all((ours == theirs) | near), case


def test_none_is_left_in_floats() -> None:
    network, _, _ = model()
    calls = compile_module(ModuleSpec(network, "m", "cortex-m3")).program.calls
    assert {c.kernel.name for c in calls} == {"portable.integer_standardise"}


@pytest.mark.parametrize(
    ("row", "scale", "epsilon"),
    [(np.int16, 1.0, 1e-5), (np.int8, 1e6, 1e-5), (np.int8, 1.0, 0.0)],
    ids=["halfwords", "large", "no_epsilon"],
)
def test_others_stay_floats(row: Any, scale: float, epsilon: float) -> None:
    net = Net()
    x = net.dq(net.input("x", row, (2, 6)), 0.01, row(3))
    args = net.const(np.full(6, scale, np.float32)), net.const(np.zeros(6, np.float32))
    made = net.node("LayerNormalization", x, *args, epsilon=epsilon)
    network = net.model(net.q(made, 0.05, np.int8(0)))
    calls = compile_module(ModuleSpec(network, "m", "cortex-m3")).program.calls
    assert [c.kernel.name for c in calls] == ["portable.standardise"]
