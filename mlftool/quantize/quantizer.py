"""The whole way: a float model and samples to a quantised model and what is to be said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import ModelProto

from mlftool.errors import MlfError, Problem, one_line
from mlftool.frozen import field, frozen, replace
from mlftool.ir.graph import Array
from mlftool.progress import step
from mlftool.quantize.device import PRODUCER, Cost, Device, Prices, device_outputs, total
from mlftool.quantize.improve import Improved, bias_corrections, improved
from mlftool.quantize.metrics import (
    DROP,
    SHARES,
    Goal,
    changed_classes,
    check_metric,
    has_classes,
    largest_error,
    metric_for,
    shown,
    sqnr,
    value_of,
)
from mlftool.quantize.network import Network, float_outputs, network
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.prepare import prepared
from mlftool.quantize.samples import Samples, samples_of
from mlftool.quantize.search import Found, paying_tables, search
from mlftool.quantize.studio import Studio
from mlftool.quantize.trials import Point
from mlftool.quantize.write import written

MOST_SAMPLES = 64  # that ranges and rounding are chosen on; accuracy is of others
RANGING = 4  # times as many give ranges where other samples judge


@frozen
class Request:
    """What is asked for. `file` and `data_file` are what messages call the model and the samples;
    `samples` is the most of them that calibrate. Without `enough` a share may lose `metrics.DROP`
    of the float model's, and any other metric is only reported."""

    file: str
    data_file: str
    target: str = "cortex-m4"
    metric: str | None = None
    enough: float | None = None
    flash: int | None = None
    optimize: str = "speed"
    samples: int = MOST_SAMPLES
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    on_device: bool = True  # whether the result's accuracy is that of compiled C


@frozen
class LayerReport:
    """What became of a layer, why, and how far its results are from the float model's in dB."""

    name: str
    op: str
    precision: Precision
    why: str
    range_by: str
    sqnr: float
    cost: Cost


@frozen
class Judged:
    """How far a model is from the float model on the samples that judge it, which are `unseen` if
    none of them calibrated. SQNRs in dB are those before outputs become probabilities; `error` is
    the largest difference of an output, of the output's largest value; `changed` counts samples of
    another class, None where there are no classes."""

    count: int
    unseen: bool
    sqnr: float
    calibration_count: int
    calibration_sqnr: float
    error: float
    changed: int | None


@frozen
class Quantized:
    """The result. `before` is the float model's accuracy, `after` that of `model`; workspaces are
    bytes of RAM without inputs and outputs."""

    model: ModelProto
    request: Request
    metric: str
    goal: Goal | None
    judged: Judged
    before: float
    after: float
    output_sqnr: float
    on_device: bool
    cost: Cost
    float_cost: Cost
    workspace: int
    float_workspace: int
    improved: Improved
    layers: tuple[LayerReport, ...]
    found: Found


def quantized(
    model: ModelProto,
    arrays: Mapping[str, Array],
    request: Request,
    test: tuple[Mapping[str, Array], str] | None = None,
) -> Quantized:
    """`test` are other samples that judge, and what messages call them; without them some of
    `arrays` do not calibrate but judge. Raises MlfError for data that do not fit, and for accuracy
    that cannot be reached, of which it says what can be."""
    plain = prepared(model, request.file, request.shapes)
    parts = _Parts.of(arrays, plain, request, test)
    samples, judged = parts.samples, parts.judged
    net = network(plain, request.file)
    with step("running the float model"):
        parts.check(net, request.data_file)
    first = float_outputs(plain)[0].type.tensor_type.shape
    shape = tuple(d.dim_value for d in first.dim)
    metric = metric_for(request.metric, parts.judges, parts.file, shape)
    check_metric(metric, parts.judges, judged, parts.file, shape)
    with step("calibrating and rounding"):
        bench = _Bench.of(
            improved(net, samples, None, parts.ranging), samples, judged, metric, request
        )
        before = value_of(metric, bench.reference, bench.reference, judged)
        goal, wish = _goals(metric, request.enough, before)
        tables = paying_tables(*bench.tools, (goal, wish), request.flash)
        if tables != bench.best.plan.tables:
            best = improved(net, samples, tables, parts.ranging)
            bench = _Bench.of(best, samples, judged, metric, request)
    best, studio, others, judge = bench.best, bench.studio, bench.others, bench.judge
    device, reference = bench.device, bench.reference
    prices = Prices(device, best.plan)
    with step("choosing precisions"):
        found = search(studio, best.plan, prices, judge, goal, request.flash, wish)
    if not found.fits:
        raise _out_of_reach(request, metric, goal, found, before)
    with step("correcting biases"):
        found = _polished(studio, found, metric, judge)
    made = written(best.net, found.plan, PRODUCER)
    after = found.chosen.accuracy
    with step("measuring the quantised model"):
        outputs = others.run(found.plan, others.outputs)
    if request.on_device:
        outputs = device_outputs(made, judged)
        after = value_of(metric, outputs, reference, judged)
        if goal and not goal.met(after):
            raise _out_of_reach(request, metric, goal, found, before)
    distance = sqnr(outputs, reference)
    costs = device.costs(found.plan)
    verdict = Judged(
        *(len(judged), judged is not samples, sqnr(others.judged(found.plan), others.judged(None))),
        *(len(samples), found.chosen.sqnr, largest_error(outputs, reference)),
        changed_classes(outputs, reference) if has_classes(shape, judged) else None,
    )
    rooms = [device.workspace_bytes(p) for p in (found.plan, best.plan.uniform(Precision.FLOAT))]
    return Quantized(
        *(made, request, metric, goal, verdict, before, after, distance, request.on_device),
        *(total(costs.values()), found.curve[0].cost, rooms[0], rooms[1], best),
        *(tuple(_layers(studio, best, found, costs)), found),
    )


@frozen
class _Bench:
    """What measures plans: samples that calibrate and others that judge, and a target. `reference`
    are the float model's outputs of those that judge."""

    best: Improved
    studio: Studio
    others: Studio
    device: Device
    metric: str
    reference: Mapping[str, Array]

    @staticmethod
    def of(
        best: Improved, samples: Samples, judged: Samples, metric: str, request: Request
    ) -> _Bench:
        others = Studio(best.net, judged)
        device = Device(best.net, request.target, request.optimize)
        reference = others.run(None, others.outputs)
        return _Bench(best, Studio(best.net, samples), others, device, metric, reference)

    def judge(self, plan: Plan) -> float:
        made = self.others.run(plan, self.others.outputs)
        return value_of(self.metric, made, self.reference, self.others.samples)

    @property
    def tools(self) -> tuple[Plan, Device, Studio, Callable[[Plan], float]]:
        return self.best.plan, self.device, self.studio, self.judge


@frozen
class _Parts:
    """Samples: all that are given, those that calibrate and give ranges, all of the file that has
    those that judge, these, and what messages call the file."""

    given: Samples
    samples: Samples
    ranging: Samples
    judges: Samples
    judged: Samples
    file: str

    @staticmethod
    def of(
        arrays: Mapping[str, Array],
        model: ModelProto,
        request: Request,
        test: tuple[Mapping[str, Array], str] | None,
    ) -> _Parts:
        given = samples_of(arrays, model, request.data_file)
        if test is None:
            samples, judged = given.parted(request.samples)
            return _Parts(given, samples, samples, given, judged, request.data_file)
        judges = samples_of(test[0], model, test[1])
        samples, ranging = (given.part(n * request.samples) for n in (1, RANGING))
        return _Parts(given, samples, ranging, judges, judges, test[1])

    def check(self, net: Network, file: str) -> None:
        """Raises MlfError if the float model stops with some, or has no number; `file` gave all."""
        _check_runs(Studio(net, self.given), file)
        if self.judges is not self.given:
            _check_runs(Studio(net, self.judges), self.file)
        _check_finite(Studio(net, self.samples), file)


def _check_finite(studio: Studio, file: str) -> None:
    """Raises MlfError for samples so large that the float model's own sums have no number."""
    for name, values in studio.with_layers(None).items():
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        if bad.size:
            text = (
                f"the float model's '{name}' is not finite for {bad.size} of {len(values)} samples"
            )
            raise MlfError(Problem("MLF0617", text, file, help="scale them as in training"))


def _check_runs(studio: Studio, file: str) -> None:
    """Raises MlfError for samples with which the float model stops, as with an index that its table
    does not have."""
    said = _stopped(studio)
    if not said:
        return
    count = len(studio.samples)
    bad = [k for k in range(count) if _stopped(studio.part(np.array([k])))]
    first = f", the first at {bad[0]}" if bad else ""
    text = f"the float model stops with {len(bad)} of {count} samples{first}: {said}"
    help = "leave such samples out, or correct them"
    raise MlfError(Problem("MLF0617", text, file, help=help))


def _stopped(studio: Studio) -> str:
    """What onnxruntime says of the samples, "" if the model runs with all."""
    try:
        studio.run(None, studio.outputs)
    except Exception as error:  # its exceptions have no common base
        *_, said = str(error).partition("Status Message: ")
        return one_line(said or str(error))[:200]
    return ""


def _polished(studio: Studio, found: Found, metric: str, judge: Callable[[Plan], float]) -> Found:
    """With biases corrected for the precisions that were chosen, if that helps."""
    if set(found.plan.precisions.values()) == {Precision.INT8}:
        return found  # they are
    wanted, chosen = studio.judged(None), found.chosen
    for plan in bias_corrections(studio, found.plan):
        distance, accuracy = sqnr(studio.judged(plan), wanted), judge(plan)
        if distance > chosen.sqnr and Goal(metric, chosen.accuracy).met(accuracy):
            made = Point("biases corrected again", chosen.cost, accuracy, distance)
            return replace(found, plan=plan, chosen=made, curve=(*found.curve, made))
    return found


def _goals(metric: str, enough: float | None, before: float) -> tuple[Goal | None, Goal | None]:
    """What has to be reached, and what is wished for where little more reaches it."""
    if enough is not None:
        return Goal(metric, enough), None
    if metric not in SHARES:
        return None, None
    return Goal(metric, before - DROP), Goal(metric, before)


def _layers(
    studio: Studio, best: Improved, found: Found, costs: Mapping[str, Cost]
) -> list[LayerReport]:
    right, made = studio.with_layers(None), studio.with_layers(found.plan)
    made_by = []
    for layer in best.net.layers:
        precision = found.plan.precisions[layer.name]
        why = found.why.get(layer.name, "cheapest that is accurate enough")
        group = best.net.group.get(layer.x)
        way = best.ways.get(group, "") if group else ""
        distance = sqnr({"": made[layer.y]}, {"": right[layer.y]})
        cost = costs.get(layer.name, Cost(0.0, 0))
        made_by.append(LayerReport(layer.name, layer.op, precision, why, way, distance, cost))
    return made_by


def _out_of_reach(
    request: Request, metric: str, goal: Goal | None, found: Found, before: float
) -> MlfError:
    """In one line what was asked for, and what can be had instead."""
    holds = [p for p in found.curve if request.flash is None or p.cost.flash <= request.flash]
    asked = [goal.text] if goal else []
    asked += [f"{request.flash:,} bytes of flash"] if request.flash is not None else []
    text = f"cannot be reached: {' in '.join(asked)}"
    if not holds:
        least = min(found.curve, key=lambda p: (p.cost.flash, p.cost.instructions))
        text += f"; the smallest is {_point(metric, least)}"
    elif goal:
        best = max(holds, key=lambda p: (goal.merit(p.accuracy), -p.cost.instructions))
        text += f"; {_point(metric, best)} can"
    met = [p for p in found.curve if goal is None or goal.met(p.accuracy)]
    if holds and met and request.flash is not None:
        least = min(met, key=lambda p: (p.cost.flash, p.cost.instructions))
        text += f"; the accuracy needs more flash: {_point(metric, least)}"
    if goal:
        text += f"; the float model has {shown(metric, before)}"
    help = "ask for no more than that, calibrate with more samples, or train the model further"
    return MlfError(Problem("MLF0412", text, request.file, help=help))


def _point(metric: str, p: Point) -> str:
    return f"{shown(metric, p.accuracy)} in {p.cost.flash:,} bytes of constants ({p.what})"
