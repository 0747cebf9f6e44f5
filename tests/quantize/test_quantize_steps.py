"""Each step from the plainest int8 plan on: what it may change, and where it has to help."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from float_nets import mobile, residual, samples
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from mlftool.quantize.device import device_outputs
from mlftool.quantize.equalise import equalised, pairs, reached
from mlftool.quantize.improve import FOLDS, _Course, improved, plainest, ranges_of
from mlftool.quantize.metrics import Goal, auc, sqnr
from mlftool.quantize.network import Network, network
from mlftool.quantize.plan import Plan, Precision, Resolved, scale_of
from mlftool.quantize.prepare import prepared
from mlftool.quantize.quantizer import Request, _Parts
from mlftool.quantize.ranges import candidates, error
from mlftool.quantize.runtime import Session
from mlftool.quantize.samples import Samples, samples_of
from mlftool.quantize.studio import Studio, input_of
from mlftool.quantize.weights import adaptive, nearest, patches
from mlftool.quantize.write import written

Make = Callable[[], onnx.ModelProto]


def opened(model: onnx.ModelProto, seed: int = 1) -> tuple[Network, Samples]:
    plain = prepared(model, "net.onnx")
    return network(plain, "net.onnx"), samples_of({"x": samples(seed)}, plain, "data.npz")


@pytest.mark.parametrize("apart", [False, True])
def test_normalisations_are_folded_behind_depthwise_layers(apart: bool) -> None:
    model = mobile(apart=apart)
    net, given = opened(model)
    kinds = {n.op_type for n in net.model.graph.node}
    assert not kinds & {"Mul", "Add", "BatchNormalization"}
    name = model.graph.output[0].name
    for x in given.inputs["x"]:
        right = Session(model)([name], {"x": x})[name]
        assert np.abs(Session(net.model)([name], {"x": x})[name] - right).max() < 1e-5


@pytest.mark.parametrize("make", [mobile, residual])
@pytest.mark.parametrize("precision", list(Precision))
def test_the_simulation_is_the_written_model(make: Make, precision: Precision) -> None:
    net, given = opened(make())
    studio = Studio(net, given)
    plan = plainest(net, ranges_of(studio)).uniform(precision)
    model = written(net, plan, "test")
    onnx.checker.check_model(model, full_check=True)
    names = [o.name for o in model.graph.output]
    session, simulated = Session(model), studio.run(plan, names)
    for k, x in enumerate(given.inputs["x"]):
        made = session(names, {"x": x})
        for name in names:
            assert np.abs(made[name] - simulated[name][k]).max() < 1e-6


def test_sums_of_integers_are_exact() -> None:
    """So no order of additions, which processors choose, changes them."""
    net, given = opened(residual())
    studio = Studio(net, given)
    plan = plainest(net, ranges_of(studio))
    resolved = Resolved(net, plan)
    for layer in net.layers[1:]:
        scale, w = resolved.read(layer), resolved.weights(layer)
        assert scale is not None
        assert w is not None
        x = np.rint(studio.read_by(layer, plan) / float(scale.scale))
        windows = patches(layer, w.stored.shape, x)
        assert windows is not None
        rows = w.stored.reshape(len(w.stored), -1).T if layer.windowed else w.stored
        bias = resolved.bias(layer)
        sums = windows[0].astype(np.int64) @ rows.astype(np.int64) + (bias[0] if bias else 0)
        wanted = sums.astype(np.float32) * (scale.scale * w.scales).astype(np.float32)
        made = studio.run(plan, [layer.y])[layer.y]
        made = np.moveaxis(made, 2, -1) if layer.windowed else made
        assert np.array_equal(made.reshape(-1, len(w.scales)), wanted)


@pytest.mark.parametrize("make", [lambda: mobile(spread=1.0), residual])
def test_last_bits_of_the_float_model_change_no_byte(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processors add floats in other orders."""
    net, given = opened(make())
    found = improved(net, given)
    plain = Studio.run

    def other(studio: Studio, plan: Plan | None, names: Sequence[str]) -> dict[str, np.ndarray]:
        made = plain(studio, plan, names)
        draw = np.random.default_rng(len(names))
        bits = {n: draw.integers(-2, 3, a.shape) * 2.0**-24 for n, a in made.items()}
        return (
            {n: (a * (1 + bits[n])).astype(a.dtype) for n, a in made.items()} if not plan else made
        )

    monkeypatch.setattr(Studio, "run", other)
    again = improved(net, given)
    first, second = (written(f.net, f.plan, "test").SerializeToString() for f in (found, again))
    assert first == second


@pytest.mark.sampled(4)
@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("precision", list(Precision))
def test_the_device_computes_the_written_model(opset: int, precision: Precision) -> None:
    # No sum of these samples is beside a tie, where one multiplication (the device) and two
    # (onnxruntime's floats) may round to other steps.
    net, given = opened(residual(opset=opset), seed=2)
    plan = plainest(net, ranges_of(Studio(net, given))).uniform(precision)
    # onnxruntime adds in float32, in which sums of 16-bit activations are not exact: a result may
    # be a step of 16 bits off, beside a tie.
    most = 5e-5 if precision is Precision.INT16 else 1e-5
    # Beside other layers, too: a tensor is then read in two precisions.
    mixed = plan.with_precision(net.layers[0].name, Precision.INT8)
    for chosen in (plan, mixed):
        model = written(net, chosen, "test")
        made = device_outputs(model, given)
        names = list(made)
        for k, x in enumerate(given.inputs["x"]):
            right = Session(model)(names, {"x": x})
            for name in names:
                gap = np.abs(made[name][k] - right[name]).max()
                assert gap <= most * np.abs(right[name]).max()


def test_equalisation_keeps_the_function_and_helps_unequal_channels() -> None:
    net, given = opened(mobile(spread=1.0))
    studio = Studio(net, given)
    found = pairs(net)
    assert len(found) == 5  # all but the last block's, whose pool and Flatten stand between
    other = equalised(net, reached(net, studio), 1.0)
    right, made = studio.judged(None), Studio(other, given).judged(None)
    assert sqnr(made, right) > 90
    again = Studio(other, given)
    before = sqnr(studio.judged(plainest(net, ranges_of(studio))), right)
    after = sqnr(again.judged(plainest(other, ranges_of(again))), right)
    assert after > before + 6


def rarely_active(seed: int) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """A network of which two channels of eight let one of the first samples through, a little, and
    those that it calibrates on and others."""
    draw = np.random.default_rng(seed)
    w = draw.normal(0, 0.5, (8, 4)).astype(np.float32)
    first, later = (draw.normal(size=(n, 1, 4)).astype(np.float32) for n in (64, 256))
    bias = np.zeros(8, np.float32)
    bias[:2] = 0.01 - (first[:, 0] @ w[:2].T).max(axis=0)  # of the largest 0.01 is left
    net = Net(opset=17)
    operands = net.input("x", np.float32, (1, 4)), net.const(w), net.const(bias)
    h = net.node("Relu", net.node("Gemm", *operands, transB=1))
    out = net.const(draw.normal(0, 0.5, (3, 8)).astype(np.float32)), net.const(np.zeros(3, "f"))
    return net.model(net.node("Gemm", h, *out, transB=1)), first, later


@pytest.mark.parametrize("seed", range(6))
def test_channels_that_are_hardly_ever_positive_are_not_taken_for_small_ones(seed: int) -> None:
    """Other samples let them through as much as their neighbours: scaled up by what was seen, they
    would be cut off, which costs 0.5 to 14 dB on samples that did not calibrate."""
    model, first, later = rarely_active(seed)
    plain = prepared(model, "net.onnx")
    net = network(plain, "net.onnx")
    given, others = (samples_of({"x": x}, plain, "data") for x in (first, later))
    studio = Studio(net, given)

    def held_back(made: Network) -> float:
        plan = plainest(made, ranges_of(Studio(made, given)))
        judge = Studio(made, others)
        return sqnr(judge.judged(plan), judge.judged(None))

    assert held_back(equalised(net, reached(net, studio), 1.0)) > held_back(net) - 0.4


@pytest.mark.parametrize("make", [lambda: mobile(spread=1.0), residual])
def test_no_step_loses(make: Make) -> None:
    net, given = opened(make())
    found = improved(net, given)
    values = [s.sqnr for s in found.steps]
    assert values == sorted(values)
    assert values[-1] > values[0] + 1
    studio = Studio(found.net, given)
    assert sqnr(studio.judged(found.plan), studio.judged(None)) == pytest.approx(values[-1])


def test_16_bits_cut_nothing_off_that_is_a_little_larger() -> None:
    """As samples are on which a network was not trained."""
    net, given = opened(mobile())
    found = improved(net, given)
    plan = found.plan.uniform(Precision.INT16)
    values = []
    for times in (1.0, 1.5):
        others = samples_of({"x": times * samples(seed=5)}, net.model, "data")
        studio = Studio(found.net, others)
        values.append(sqnr(studio.judged(plan), studio.judged(None)))
    assert values[1] > values[0] - 2


def test_ranges_are_judged_on_samples_that_they_were_not_taken_from() -> None:
    net, given = opened(mobile())
    course = _Course(net, given, None, given)
    assert len(course.folds) == FOLDS
    assert sum(len(f.studio.samples) for f in course.folds) == len(given)
    (group,) = {net.group[x] for x in net.model_inputs}
    for fold in course.folds:
        mine = {x.tobytes() for x in fold.studio.samples.inputs["x"]}
        others = np.stack([x for x in given.inputs["x"] if x.tobytes() not in mine])
        assert fold.found[group] == candidates(others)


def test_other_samples_widen_ranges_where_a_file_of_its_own_judges() -> None:
    """Calibration has 8 of 64 samples; the largest values are in one of the others."""
    x = samples(1, 64)
    x[2] *= 4
    arrays, judges = {"x": x}, {"x": samples(5, 8)}
    plain = prepared(residual(), "net")
    net, request = network(plain, "net"), Request("net", "data.npz", samples=8)
    seen, inputs = [], {net.group[n] for n in net.model_inputs}
    for test in (None, (judges, "test.npz")):
        parts = _Parts.of(arrays, plain, request, test)
        course = _Course(net, parts.samples, None, parts.ranging)
        assert len(course.studio.samples) == 8
        seen.append(max(np.abs(course.plan.ranges[g]).max() for g in inputs))
        assert (parts.ranging is parts.samples) == (test is None)
    assert seen[0] < np.abs(x).max() / 2
    assert seen[1] == pytest.approx(np.abs(x).max(), rel=0.01)


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, given: Samples) -> None:
        self.left: Iterator[np.ndarray] = iter(given.inputs["x"])

    def get_next(self) -> dict[str, np.ndarray] | None:
        sample = next(self.left, None)
        return None if sample is None else {"x": sample}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_badly_scaled_channels_never_lose_to_onnxruntime(seed: int) -> None:
    model = mobile(seed, spread=1.0)
    net, given = opened(model)
    found = improved(net, given)
    ours = written(found.net, found.plan, "test")
    logits = net.judged[0]
    right = Studio(net, given).judged(None)

    def value(session: Session, name: str) -> float:
        made = [session([name], {"x": x})[name] for x in given.inputs["x"]]
        return sqnr({logits: np.stack(made)}, right)

    ours.graph.output.append(onnx.helper.make_empty_tensor_value_info(logits))
    best = value(Session(ours), logits)
    for method in (CalibrationMethod.MinMax, CalibrationMethod.Percentile):
        for per_channel in (False, True):
            theirs, name = _onnxruntime(model, given, method, per_channel)
            assert best >= value(Session(theirs), name)


def _onnxruntime(
    model: onnx.ModelProto, given: Samples, method: CalibrationMethod, per_channel: bool
) -> tuple[onnx.ModelProto, str]:
    """Its static quantisation, and what it calls the input of Softmax."""
    with tempfile.TemporaryDirectory() as folder:
        source, plain, target = (Path(folder, n) for n in ("a.onnx", "b.onnx", "c.onnx"))
        onnx.save(model, source)
        quant_pre_process(str(source), str(plain), skip_symbolic_shape=True)
        quantize_static(
            *(str(plain), str(target), _Reader(given)),
            per_channel=per_channel,
            calibrate_method=method,
            extra_options={"WeightSymmetric": True},
        )
        made = onnx.load(target)
    name = next(n.input[0] for n in made.graph.node if n.op_type == "Softmax")
    made.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return made, name


def test_the_windows_of_a_convolution_are_what_it_multiplies() -> None:
    net, given = opened(residual())
    for layer in net.layers:
        if layer.op != "Conv":
            continue
        x = input_of(layer, Studio(net, given))
        w = net.constants[layer.weight]
        windows = patches(layer, w.shape, x)
        assert windows is not None
        made = windows[0] @ w.reshape(len(w), -1).T.astype(np.float64)
        right = Studio(net, given).run(None, [layer.y])[layer.y]  # [samples, 1, channels, h, w]
        rows = np.moveaxis(right, 2, -1).reshape(-1, len(w)) - net.constants[layer.bias]
        rows = rows[np.arange(len(made)) * len(rows) // len(made)]
        assert np.allclose(made, rows, atol=1e-4)


def test_adaptive_rounding_changes_results_less_than_rounding_to_the_nearest() -> None:
    net, given = opened(residual())
    layer = net.layers[1]
    x = input_of(layer, Studio(net, given))
    start = nearest(net, layer, 4)
    made = adaptive(net, layer, start, x, 4)
    assert made is not None
    windows = patches(layer, start.stored.shape, x)
    assert windows is not None

    def off(real: np.ndarray) -> float:
        gap = (real - net.constants[layer.weight]).reshape(len(real), -1).astype(np.float64)
        return float(np.sum((windows[0] @ gap.T) ** 2))

    assert off(made.real(layer.axis)) < 0.7 * off(start.real(layer.axis))
    assert np.abs(made.stored).max() <= 7


def test_ranges_are_chosen_between_outliers_and_roundings() -> None:
    draw = np.random.default_rng(0)
    values = np.append(draw.normal(size=5000), 100.0)
    found = candidates(values)
    assert found["minmax"][1] == 100.0
    assert found["99.9 %"][1] < 5
    least = found["least error"]
    assert all(error(values, least) <= error(values, other) for other in found.values())


@pytest.mark.parametrize("limits", [(0.0, 0.0), (1.0, 2.0), (-3.0, -1.0), (-1e-30, 1e30), (-1, 3)])
@pytest.mark.parametrize("bits", [8, 16])
def test_zero_is_stored_exactly(limits: tuple[float, float], bits: int) -> None:
    made = scale_of(limits, bits)
    assert np.isfinite(made.scale)
    assert made.scale > 0
    assert made.limits[0] <= made.zero <= made.limits[1]


def test_auc_counts_pairs() -> None:
    draw = np.random.default_rng(0)
    scores, labels = draw.integers(0, 5, 40).astype(float), draw.integers(0, 2, 40)
    ones, zeros = scores[labels == 1], scores[labels == 0]
    wins = (ones[:, None] > zeros).mean() + (ones[:, None] == zeros).mean() / 2
    assert auc(scores, labels) == pytest.approx(wins)
    assert Goal("mse", 0.5).met(0.4)
    assert not Goal("auc", 0.5).met(0.4)


def test_onnxruntime_reports_nothing_and_writes_nothing(tmp_path: Path) -> None:
    """From version 1.32 on it would, as soon as it has a session."""
    program = """
from mlftool.quantize.runtime import Session
from onnx.parser import parse_model
Session(parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) '
                    '{ y = Relu(x) }'))
"""
    line = [sys.executable, "-c", program]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "ORT_"))}
    said = subprocess.run(
        line, env={**environment, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert (said.stdout, said.stderr) == ("", "")
    assert not list(tmp_path.rglob("*"))
