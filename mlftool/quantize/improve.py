"""The steps from the plainest int8 plan to the best: each is kept where it measurably helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from mlftool.ir.graph import Array
from mlftool.quantize.equalise import STRENGTHS, equalised, pairs
from mlftool.quantize.metrics import sqnr
from mlftool.quantize.network import Layer, Network
from mlftool.quantize.plan import Plan, Precision, Range
from mlftool.quantize.ranges import WAYS, by_way, candidates
from mlftool.quantize.samples import Samples
from mlftool.quantize.studio import Studio, input_of
from mlftool.quantize.weights import adaptive, corrected, nearest

MOST_CHOICES = 80  # tensors whose ranges are chosen one by one
MOST_LAYERS = 80  # layers whose rounding and bias are judged one by one


@dataclass(frozen=True)
class Step:
    """What a step did, and the SQNR of the outputs after it in dB; `kept` if it helped."""

    name: str
    detail: str
    sqnr: float
    kept: bool


@dataclass(frozen=True)
class Improved:
    """A network, whose weights equalisation may have changed, its plan, and the way there."""

    net: Network
    plan: Plan
    steps: tuple[Step, ...]
    ways: Mapping[str, str]  # group -> how its range was chosen


class _Course:
    """Where the steps are: the best plan so far."""

    def __init__(self, net: Network, samples: Samples) -> None:
        self.samples = samples
        self.steps: list[Step] = []
        self.move(net)
        self.plan = plainest(net, self.found)
        self.sqnr = self.measured(self.plan)
        self.ways = dict.fromkeys(net.groups, "minmax")

    def move(self, net: Network) -> None:
        """To a network of other weights."""
        self.net, self.studio = net, Studio(net, self.samples)
        self.wanted = self.studio.judged(None)
        self.found = ranges_of(self.studio)

    def measured(self, plan: Plan) -> float:
        return sqnr(self.studio.judged(plan), self.wanted)

    def offer(self, plan: Plan) -> bool:
        """Takes a plan if it is better."""
        value = self.measured(plan)
        if value <= self.sqnr:
            return False
        self.plan, self.sqnr = plan, value
        return True

    def note(self, name: str, detail: str, before: float) -> None:
        self.steps.append(Step(name, detail, self.sqnr, self.sqnr > before))


def plainest(net: Network, found: Mapping[str, Mapping[str, Range]]) -> Plan:
    """int8 by the least and the largest value, weights to the nearest integer."""
    seen = by_way(found, "minmax")
    weights = {x.name: {bits: nearest(net, x, bits) for bits in (8, 4)} for x in net.layers}
    return Plan({x.name: Precision.INT8 for x in net.layers}, seen, seen, weights)


def ranges_of(studio: Studio) -> dict[str, dict[str, Range]]:
    """Candidates for each group's range, from all tensors of the group."""
    net = studio.net
    found = {}
    for group in net.groups:
        names = [n for n in net.group if net.group[n] == group]
        given = [studio.samples.inputs[n] for n in names if n in net.model_inputs]
        made = studio.run(None, [n for n in names if n not in net.model_inputs])
        values = [a.reshape(-1) for a in (*given, *made.values())]
        found[group] = candidates(np.concatenate(values))
    return found


def improved(net: Network, samples: Samples) -> Improved:
    """Steps by measured SQNR on `samples`."""
    course = _Course(net, samples)
    course.steps.append(Step("int8", "by minimum and maximum, to nearest", course.sqnr, True))
    _equalise(course)
    _choose_ranges(course)
    _round(course)
    _correct(course)
    return Improved(course.net, course.plan, tuple(course.steps), course.ways)


def _equalise(course: _Course) -> None:
    found = pairs(course.net)
    before, start = course.sqnr, (course.net, course.plan)
    if not found:
        return
    read = {p.second.name: input_of(p.second, course.studio) for p in found}
    best = (before, *start)
    for strength in STRENGTHS:
        course.move(equalised(start[0], read, strength))
        plan = plainest(course.net, course.found)
        best = max(best, (course.measured(plan), course.net, plan), key=lambda b: b[0])
    if course.net is not best[1]:
        course.move(best[1])
    course.sqnr, _, course.plan = best
    course.note(
        "equalisation", f"{len(found)} {'pair' if len(found) == 1 else 'pairs'} of layers", before
    )


def _choose_ranges(course: _Course) -> None:
    before = course.sqnr
    for way in WAYS[1:]:
        if course.offer(replace(course.plan, ranges=by_way(course.found, way))):
            course.ways = dict.fromkeys(course.net.groups, way)
    groups = course.net.groups if len(course.net.groups) <= MOST_CHOICES else ()
    for group in groups:
        for way in WAYS:
            limits = course.found[group][way]
            if limits == course.plan.ranges[group]:
                continue
            if course.offer(course.plan.with_range(group, limits)):
                course.ways[group] = way
    counts = {w: list(course.ways.values()).count(w) for w in WAYS}
    detail = ", ".join(f"{n} by {w}" for w, n in counts.items() if n)
    course.note("calibration", detail, before)


def _round(course: _Course) -> None:
    """Adaptive rounding in 8 and 4 bits; in 8 it is judged layer by layer."""
    before, taken = course.sqnr, 0
    single = len(course.net.layers) <= MOST_LAYERS
    whole = course.plan
    for layer in course.net.layers:
        x = input_of(layer, course.studio)
        for bits in (4, 8):
            start = course.plan.weights[layer.name][bits]
            made = adaptive(course.net, layer, start, x, bits)
            if made is None:
                continue
            if bits == 4:
                made = corrected(course.net, layer, made, x)
                course.plan = course.plan.with_weights(layer.name, bits, made)
                whole = whole.with_weights(layer.name, bits, made)
            elif single:
                taken += course.offer(course.plan.with_weights(layer.name, bits, made))
            else:
                whole = whole.with_weights(layer.name, bits, made)
    if not single and course.offer(whole):
        taken = len(course.net.layers)
    course.note("adaptive rounding", f"{taken} of {len(course.net.layers)} layers", before)


def _correct(course: _Course) -> None:
    before = course.sqnr
    taken = 0
    for plan in bias_corrections(course.studio, course.plan):
        taken += course.offer(plan) if isinstance(plan, Plan) else 0
    course.note("bias correction", f"{taken} of {len(course.net.layers)} layers", before)


def bias_corrections(studio: Studio, plan: Plan) -> list[Plan]:
    """One plan: each layer's bias less what it is off by on average, layer after layer."""
    if len(studio.net.layers) > MOST_LAYERS:
        return []
    wanted = studio.with_layers(None)
    for layer in studio.net.layers:
        bits = plan.precisions[layer.name].weight_bits
        if not layer.bias or not bits:
            continue
        weights = plan.weights[layer.name][bits]
        gap = _mean(wanted[layer.y] - studio.run(plan, [layer.y])[layer.y], layer)
        assert weights.bias is not None
        bias = (weights.bias.astype(np.float64) + gap).astype(np.float32)
        plan = plan.with_weights(layer.name, bits, replace(weights, bias=bias))
    return [plan]


def _mean(gap: Array, layer: Layer) -> Array:
    """By output channel of [samples, batch, channels, ...], or of rows."""
    own = gap.ndim - 1 if layer.in_rows else 2
    axes = tuple(k for k in range(gap.ndim) if k != own)
    mean: Array = gap.mean(axis=axes, dtype=np.float64)
    return mean
