"""Softmax between quantised tensors is integers, against onnxruntime and against exact numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from batch import Build, Job, run_jobs
from builders import Net

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ops.softmax_integers import ONE, tables, worths

TARGETS = ("host", "cortex-m0", "cortex-m55")
CASES = [
    # shape, axis, input type, output type, input scale, output scale
    ((3, 32), -1, np.int8, np.int8, 0.1, 1 / 256),
    ((2, 5, 7), 1, np.uint8, np.uint8, 0.02, 1 / 255),
    ((4, 1), -1, np.int8, np.int8, 0.3, 1 / 256),
    ((2, 1000), -1, np.int8, np.int8, 0.05, 0.001),
    ((1, 512), -1, np.int8, np.uint8, 1e-30, 1 / 256),  # ties: half a step for each
    ((3, 40), -1, np.uint8, np.int16, 0.07, 1 / 32768),
    ((3, 9), -1, np.int8, np.uint16, 2.0, 1 / 65535),
    ((2, 20), -1, np.int8, np.int8, 40.0, 0.9),
    ((2, 3000), -1, np.uint8, np.uint8, 0.0001, 0.002),
]


def model() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    net, outs, rng = Net(), [], np.random.default_rng(3)
    feeds: list[dict[str, Any]] = [{} for _ in range(4)]
    for k, (shape, axis, x_type, y_type, x_scale, y_scale) in enumerate(CASES):
        x = net.input(f"x{k}", x_type, shape)
        info, out = np.iinfo(x_type), np.iinfo(y_type)
        y = net.node("Softmax", net.dq(x, x_scale, x_type(k)), axis=axis)
        outs.append(net.q(y, y_scale, y_type(out.min)))
        for n, feed in enumerate(feeds):
            low, high = (info.min, info.max) if n % 2 else (k, k + 30)
            feed[x] = rng.integers(low, high + 1, shape).astype(x_type)
    return net.model(*outs), feeds


def exact(case: Any, x: Any) -> Any:
    """Steps of the output in float64."""
    _, axis, _, _, x_scale, y_scale = case
    scale = float(np.float32(x_scale))
    e = np.exp((x.astype(np.int64) - x.max(axis, keepdims=True)) * scale)
    return e / e.sum(axis, keepdims=True) / float(np.float32(y_scale))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    network, feeds = model()
    jobs = {target: Job(network, feeds, target) for target in TARGETS}
    run_jobs(list(jobs.values()), tmp_path_factory.mktemp("softmax"), Build())
    for job in jobs.values():
        assert not job.failure, job.failure
    return jobs


def test_every_target_has_the_same_bits(results: dict[str, Job]) -> None:
    assert len({job.output for job in results.values()}) == 1


def test_shares_are_exact_but_for_ties(results: dict[str, Job]) -> None:
    network, feeds = model()
    for feed, got in zip(feeds, results["host"].results, strict=True):
        for k, (case, y) in enumerate(zip(CASES, network.graph.output, strict=True)):
            info = np.iinfo(case[3])
            want = exact(case, feed[f"x{k}"])
            off = np.abs(
                got[y.name].astype(np.int64) - info.min - np.minimum(want, info.max - info.min)
            )
            assert off.max() <= 0.5 + 2.0**-14, case


@pytest.mark.parametrize("scale", [*np.geomspace(1e-9, 40, 300), 1e-38, 0.0625, 1.0, 3e38])
def test_all_distances_are_worth_their_exponential(scale: float) -> None:
    coarse, fine = tables(scale)
    found = worths(coarse, fine)
    worth = np.zeros(256, np.uint32)
    worth[: found.size] = found
    with np.errstate(over="ignore", under="ignore"):
        want = np.exp(np.arange(256) * -scale)
    assert np.abs(worth / ONE - want).max() < 2.0**-30
    assert worth[0] == ONE
    assert np.all(np.diff(worth.astype(np.int64)) <= 0)
    assert found[-1] == 0 or found.size == 256
    assert coarse.size + fine.size <= 32


def lines(net: Net, x: str, scale: float, step: float) -> onnx.ModelProto:
    made = net.node("Softmax", net.dq(x, scale, np.int8(0)), axis=-1)
    return net.model(net.q(made, step, np.int16(0)))


@pytest.mark.parametrize("n", [4, 7, 300])
def test_few_elements_have_the_bits_of_many(n: int, tmp_path: Path) -> None:
    """Many read a table of all distances, few multiply entries of two. Each line has its greatest
    element and others at each distance: a sum of equal errors."""
    scale, step = 3 / 128, 1 / 32768
    rows = np.repeat(127 - np.arange(256), n).reshape(256, n).astype(np.int8)
    rows[np.arange(256), np.arange(256) % n] = 127
    many, few = Net(), Net()
    networks = [
        lines(many, many.input("x", np.int8, rows.shape), scale, step),
        lines(few, few.input("x", np.int8, (1, n)), scale, step),
    ]
    jobs = [
        Job(networks[0], [{"x": rows}], name="many"),
        Job(networks[1], [{"x": row[None]} for row in rows], name="few"),
    ]
    kernels = [compile_module(ModuleSpec(m, "m")).program.calls[0].kernel for m in networks]
    assert [k.params["whole"] for k in kernels] == [True, False]
    run_jobs(jobs, tmp_path, Build())
    one, other = (np.concatenate([next(iter(r.values())) for r in job.results]) for job in jobs)
    assert np.array_equal(one, other)
    case = (None, -1, None, None, scale, step)
    off = np.abs(one - np.minimum(exact(case, rows), 32767))
    assert off.max() <= 0.5 + (n + 4) * 2.0**-30 / step


def test_onnxruntime_has_them(results: dict[str, Job]) -> None:
    """Its floats in the order of the model; where an exact share is near a tie it may differ."""
    network, feeds = model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(network.SerializeToString(), options)
    for feed, got in zip(feeds, results["host"].results, strict=True):
        for k, (case, want) in enumerate(zip(CASES, session.run(None, feed), strict=True)):
            ours = got[network.graph.output[k].name]
            near = np.abs(exact(case, feed[f"x{k}"]) % 1 - 0.5) < 2.0**-7
            assert np.all((ours == want) | near), case
            assert np.abs(ours.astype(int) - want.astype(int)).max() <= 1


def test_none_is_left_in_floats() -> None:
    network, _ = model()
    calls = compile_module(ModuleSpec(network, "m", "cortex-m3")).program.calls
    assert {c.kernel.name for c in calls} == {"portable.integer_softmax"}


def test_no_element_is_read_of_an_empty_line() -> None:
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 0)), 0.1, np.int8(3))
    network = net.model(net.q(net.node("Softmax", x), 1 / 256, np.int8(-128)))
    calls = compile_module(ModuleSpec(network, "m", "cortex-m3")).program.calls
    assert "portable.integer_softmax" not in {c.kernel.name for c in calls}


@pytest.mark.parametrize("case", [(np.int16, 0.01, 1 / 256), (np.int8, 0.1, 2.0)])
def test_others_stay_floats(case: Any, tmp_path: Path) -> None:
    """Distances of 16 bits have no table, and steps beyond one are nothing to count."""
    row, x_scale, y_scale = case
    net = Net()
    x = net.dq(net.input("x", row, (2, 6)), x_scale, row(3))
    network = net.model(net.q(net.node("Softmax", x), y_scale, np.int8(-128)))
    job = Job(network, [{"x": np.arange(12).astype(row).reshape(2, 6)}], name="floats")
    run_jobs([job], tmp_path, Build())
    want = onnxruntime.InferenceSession(network.SerializeToString()).run(None, job.feeds[0])[0]
    assert np.array_equal(next(iter(job.results[0].values())), want)


def test_halves_of_whole_steps_are_ties(tmp_path: Path) -> None:
    """Two equal elements are a half each, which is a tie where an odd number of steps is one."""
    net, steps, outs = Net(), [*range(2, 52), 101, 127, 199, 255], []
    x = net.input("x", np.int8, (2,))
    for n in steps:  # a softmax for each: one that many read is computed in float32
        half = net.node("Softmax", net.dq(x, 0.1335, np.int8(3)), axis=-1)
        outs.append(net.q(half, float(np.float32(1 / n)), np.uint8(0)))
    network = net.model(*outs)
    job = Job(network, [{"x": np.full(2, 40, np.int8)}])
    run_jobs([job], tmp_path, Build())
    assert not job.failure, job.failure
    session = onnxruntime.InferenceSession(network.SerializeToString())
    for n, want, y in zip(
        steps, session.run(None, job.feeds[0]), network.graph.output, strict=True
    ):
        got = job.results[0][y.name]
        assert got.tolist() == want.tolist(), n
